"""Rules that Spark cannot evaluate: an error of the definition that names them, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import QueryError
from sluicegate.lake import tables
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]

RAW = """name: heart_rate
bronze:
  raw:
    path: ${landing}/raw
    format: json
    schemaHints: id BIGINT, n INT, xs ARRAY<BIGINT>, m MAP<STRING, BIGINT>
"""
ZERO = "element_at(xs, n) > 0"  # of 0 there is no element, in any mode
OF_SILVER = """silver:
  t:
    sql: SELECT id, n, xs FROM STREAM(raw)
    expectations:
      fine: {expect: 1 / n > 0}
"""
OF_GOLD = """silver:
  s: {sql: "SELECT id, n, xs FROM STREAM(raw)"}
gold:
  t:
    sql: SELECT id, n, xs FROM s
    expect_all:
      fine: 1 / n > 0
"""
RULES = {
    "raw": f"{RAW}    expectations:\n      fine: {{expect: 1 / n > 0}}\n      first: {{expect: '{ZERO}'}}\n",
    "t": f"{RAW}{OF_SILVER}      first: {{expect_or_quarantine: '{ZERO}'}}\n",
    "g": f"{RAW}{OF_GOLD}      first: {ZERO}\n",
}


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(f"raw/{name}.json", [*records], age=age)


def refused(spark: SparkSession, workspace: Workspace) -> QueryError:
    with pytest.raises(QueryError) as raised:
        workspace.run(spark)
    assert (raised.value.code, raised.value.exit_code) == ("SG206", 2)
    return raised.value


def line_of(workspace: Workspace, text: str) -> int:
    lines = (workspace.folder / "pipelines/heart_rate/pipeline.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("table", ["raw", "t", "g"])
def test_a_rule_that_a_value_stops_is_named_with_its_line(
    spark: SparkSession, workspace: Workspace, table: str
) -> None:
    """Others, which give NULL for such a value, are not; corrected, the same records go in."""
    workspace.define(RULES[table])
    name = "raw" if table == "raw" else "t"
    land(workspace, "a", {"id": 1, "n": 1, "xs": [7]}, age=90)
    workspace.run(spark)
    before = tables.table_at(workspace.uri(name)).version()
    land(workspace, "b", {"id": 2, "n": 0, "xs": [7]}, {"id": 3, "n": 1, "xs": [7]}, age=80)
    error = refused(spark, workspace)
    assert error.message == f"the rule first of {name} cannot be evaluated: {ZERO}"
    assert "INVALID_INDEX_OF_ZERO" in error.cause
    assert "return NULL" in error.hint
    assert (error.where.table, error.where.line) == (name, line_of(workspace, "first:"))
    assert str(error.where.file).endswith("pipeline.yaml")
    assert tables.table_at(workspace.uri(name)).version() == before
    workspace.edit("pipeline.yaml", "element_at(xs, n)", "get(xs, n - 1)")
    workspace.run(spark)
    held = sorted(workspace.rows(name, "id"))
    held += workspace.rows("t_quarantine", "id") if table == "t" else []
    assert sorted(held) == [(1,), (2,), (3,)]


def test_a_query_that_a_value_stops_blames_no_rule(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(RULES["t"].replace("SELECT id, n, xs", "SELECT id, CAST(element_at(xs, n) AS INT) AS n, xs"))
    land(workspace, "a", {"id": 1, "n": 0, "xs": [7]})
    error = refused(spark, workspace)
    assert (error.message, "INVALID_INDEX_OF_ZERO" in error.cause) == ("a value makes the query of t fail", True)


def test_a_condition_for_deletes_that_a_value_stops_is_named(spark: SparkSession, workspace: Workspace) -> None:
    changes = f"apply_changes: {{keys: [id], sequence_by: n, apply_as_deletes: '{ZERO}'}}"
    workspace.define(f"{RAW}silver:\n  t:\n    from: raw\n    {changes}\n")
    land(workspace, "a", {"id": 1, "n": 0, "xs": [7]})
    error = refused(spark, workspace)
    assert error.message == f"apply_as_deletes of t cannot be evaluated: {ZERO}"
    assert error.where.line == line_of(workspace, "apply_changes")
