"""Fields that land under names that the engine's own code gives to columns: none is lost, overwritten or in the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.flow.selection import Replay
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables as lakes
from sluicegate.monitor import status
from sluicegate.schema.columns import is_reserved
from sluicegate.spark_sql import engine_columns
from tests.conftest import Workspace
from tests.support import engine_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Names that the engine's columns had before they had a prefix of their own, and some that a user may think of.
FORMER = [
    "_fate", "_source_file", "_arrived", "_rank", "_replaced_chunk", "_held_sequence", "_held_place", "_place",
    "_cast_0", "_cast_unparsed", "_conform_0", "_deletes", "_scd", "_scd_values", "_not_once", "_row", "_sign",
    "_having", "_rows", "_group_0", "_discardedrules",
]  # fmt: skip
OF_ENGINE = ["_Record", "_SEQUENCE", "_Sluicegate_Mine", "_sluicegate_cast_0", "_sluicegate_disposition"]


def distinct(*names: str) -> list[str]:
    return list({name.lower(): name for name in names}.values())


# A field without a name is read as the one that is left out.
RESERVED = [
    name for name in distinct(*engine_columns.RESERVED, *OF_ENGINE, *engine_names.of_code("bronze", "schema"))
    if is_reserved(name) and name != "_sluicegate_unnamed"
]  # fmt: skip
FREE = [name for name in distinct(*FORMER, *engine_names.of_code("silver", "frames")) if not is_reserved(name)]

PIPELINE = """
name: heart_rate
bronze:
  b: {path: "${landing}/b", format: json, schemaHints: "id INT, seq INT"}
"""


def record(id_: int, seq: int, text: str, names: list[str]) -> dict[str, Any]:
    return {"id": id_, "seq": seq, **{name: f"{text} {name}" for name in names}}


def land(workspace: Workspace, file: str, *records: dict[str, Any]) -> None:
    workspace.land(file, "\n".join(json.dumps(one) for one in records))


def columns(workspace: Workspace, table: str) -> list[str]:
    found = lakes.delta_table(workspace.uri(table))
    assert found is not None
    return [str(name) for name in found.schema().to_arrow().names]


def of_user(workspace: Workspace, table: str, id_: int) -> dict[str, Any]:
    """Values of the landed names in the one row of an id."""
    [row] = [r for r in workspace.rows(table, "id", *FREE) if r[0] == id_]
    return dict(zip(FREE, row[1:], strict=True))


def test_a_field_of_a_reserved_name_is_rescued(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(PIPELINE + 'silver:\n  s: {sql: "SELECT * FROM STREAM(b)", keys: [id], sequence_by: seq}\n')
    land(workspace, "b/1.json", record(1, 1, "of", RESERVED))
    workspace.run(spark, "bronze", "silver")
    [(text,)] = workspace.rows("b", "_rescued_data")
    assert {name: json.loads(text).get(name) for name in RESERVED} == {name: f"of {name}" for name in RESERVED}
    assert {name for name in columns(workspace, "b") if name.startswith("_")} == {
        "_rescued_data", "_corrupt_record", "_file_modification_time", "_chunk", "_pos",
    }  # fmt: skip
    assert workspace.rows("s", "id", "_sequence", "_corrupt_record") == [(1, 1, None)]


def test_a_field_of_any_other_name_of_the_code_arrives(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        PIPELINE
        + """
silver:
  newest:
    sql: "SELECT *, CAST(id AS BIGINT) AS big FROM STREAM(b)"
    keys: [id]
    sequence_by: seq
    expectations: {once: {expect_or_quarantine: unique(big)}, even: {expect_or_quarantine: id <> 3}}
  versions:
    from: b
    apply_changes: {keys: [id], sequence_by: seq, stored_as_scd_type: 2, apply_as_deletes: "seq = 9"}
  many: {sql: "SELECT s.*, x FROM STREAM(b) AS s LATERAL VIEW explode(array(1, 2)) l AS x", rows: many, keys: [id, x]}
  both:
    keys: [id]
    sequence_by: seq
    flows: {one: {sql: "SELECT * FROM STREAM(b)"}, two: {sql: "SELECT * FROM STREAM(newest)"}}
"""
    )
    land(workspace, "b/1.json", *[record(id_, 1, "old", FREE) for id_ in (1, 2, 3)])
    workspace.run(spark, "bronze", "silver")
    land(workspace, "b/2.json", record(1, 2, "new", FREE), record(2, 9, "new", FREE))
    workspace.run(spark, "bronze", "silver")

    for table in ("newest", "both"):
        assert of_user(workspace, table, 1) == {name: f"new {name}" for name in FREE}, table
    assert of_user(workspace, "newest_quarantine", 3) == {name: f"old {name}" for name in FREE}
    assert sorted(workspace.rows("versions", "id", "_row", "__END_AT"), key=str) == [
        (1, "new _row", None), (1, "old _row", 2), (2, "old _row", 9), (3, "old _row", None),
    ]  # fmt: skip
    assert {row[:2] for row in workspace.rows("many", "id", "_rank")} == {(n, "old _rank") for n in (1, 2, 3)}
    assert status.verify(workspace.definition, workspace.settings) == []
    before = workspace.content()
    Job(workspace.definition, workspace.lake, "silver", {}, spark, choice=Replay("newest", everything=True)).run()
    assert workspace.content() == before


def test_a_lake_of_before_with_such_columns_goes_on(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        PIPELINE
        + """
silver:
  all: {sql: "SELECT * FROM STREAM(b)", keys: [id], sequence_by: seq}
  named: {sql: "SELECT id, _record AS record, _sequence AS place FROM STREAM(b)", keys: [id]}
"""
    )
    land(workspace, "b/1.json", {"id": 1, "seq": 1})
    workspace.run(spark, "bronze")
    spark.sql(f"ALTER TABLE delta.`{workspace.uri('b')}` ADD COLUMNS (_record STRING, _sequence STRING)")
    land(workspace, "b/2.json", {"id": 2, "seq": 7, "_record": "r", "_sequence": "s"})
    reports = workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("b", "id", "_record", "_sequence")) == [(1, None, None), (2, "r", "s")]
    assert sorted(workspace.rows("all", "id", "_sequence")) == [(1, 1), (2, 7)]
    assert "_record" not in columns(workspace, "all")
    assert sorted(workspace.rows("named", "id", "record", "place")) == [(1, None, None), (2, "r", "s")]
    told = " ".join(reports["all"].warnings)
    assert "_record of b is a name of the engine's own" in told
    assert "_sequence of b is a name of the engine's own" in told
    assert not reports["named"].warnings
