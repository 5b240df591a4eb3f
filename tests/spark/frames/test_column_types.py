"""Columns of types that keys, rules or Delta cannot have: an error of the definition, before anything is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sluicegate.lake import tables
from tests.conftest import Workspace
from tests.spark.frames.rules.test_failing_rules import RAW, land, line_of, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]

QUERY = "sql: SELECT id, n, m, parse_json('1') AS v, struct(m, n) AS s FROM STREAM(raw)"


@pytest.mark.parametrize(
    ("rule", "what", "column", "kind"),
    [
        ("expectations: {r: {expect_or_quarantine: 'unique(n, m)'}}", "the rule r", "m", "map<string,bigint>"),
        ("expectations: {r: {expect: unique(V)}}", "the rule r", "V", "variant"),
        ("expect_table: {r: {unique: [s]}}", "the rule r", "s", "struct<m:map<string,bigint>,n:int>"),
        ("expect_table: {r: {foreign_key: [v], references: raw (m)}}", "the rule r", "v", "variant"),
        ("keys: [id, m]", "the key", "m", "map<string,bigint>"),
        ("sequence_by: v\n    keys: [id]", "sequence_by", "v", "variant"),
    ],
)
def test_values_that_spark_does_not_compare_are_no_keys(
    spark: SparkSession, workspace: Workspace, rule: str, what: str, column: str, kind: str
) -> None:
    workspace.define(f"{RAW}silver:\n  t:\n    {QUERY}\n    {rule}\n")
    land(workspace, "a", {"id": 1, "n": 1, "xs": [7], "m": {"a": 1}})
    error = refused(spark, workspace)
    assert error.message == f"{what} of t compares {column}, which is {kind}: Spark does not compare such values"
    assert error.where.line == line_of(workspace, rule.split(":")[0])
    assert "to_json" in error.hint
    assert tables.delta_table(workspace.uri("t")) is None


@pytest.mark.parametrize("layer", ["silver", "gold"])
def test_a_part_of_a_column_without_a_type_is_refused(spark: SparkSession, workspace: Workspace, layer: str) -> None:
    """A column that is NULL as a whole is not: it is there without a type until a value comes."""
    workspace.define(f"{RAW}silver:\n  s: {{sql: SELECT id FROM STREAM(raw)}}\n")
    land(workspace, "a", {"id": 1}, age=90)
    workspace.run(spark)
    source = "STREAM(raw)" if layer == "silver" else "s"

    def define(column: str) -> None:
        query = json.dumps(f"SELECT id, {column} FROM {source}")
        own = f"  t:\n    sql: {query}\n"
        others = f"{RAW}silver:\n  s: {{sql: SELECT id FROM STREAM(raw)}}\n"
        workspace.define(others + (own if layer == "silver" else f"gold:\n{own}"))

    for column, kind in (
        ("struct(NULL AS a, id AS b) AS c", "struct<a:void,b:bigint>"),
        ("array() AS c", "array<void>"),
        ("map('k', NULL) AS c", "map<string,void>"),
    ):
        define(column)
        error = refused(spark, workspace)
        assert error.message.startswith(f"column c of t has the type {kind}: a NULL or an empty array or map in it")
        assert (error.where.line, "CAST(NULL AS STRING)" in error.hint) == (
            line_of(workspace, 'sql: "SELECT id, '),
            True,
        )
        assert tables.delta_table(workspace.uri("t")) is None
    define("NULL AS c")
    workspace.run(spark)
    land(workspace, "b", {"id": 2}, age=80)
    workspace.run(spark)
    assert sorted(workspace.rows("t", "id")) == [(1,), (2,)]
    define("struct(CAST(NULL AS INT) AS a, id AS b) AS d")
    land(workspace, "c", {"id": 3}, age=70)
    workspace.run(spark)
    assert (3, {"a": None, "b": 3}) in workspace.rows("t", "id", "d")
