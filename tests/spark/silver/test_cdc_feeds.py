"""Feeds of changes as CDC tools write them: deletes of keys alone, a full load before the first change, failures."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluicegate.errors import QueryError
from sluicegate.monitor import status
from sluicegate.silver import verify_silver
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RULES = """
    expectations:
      sane: {expect_or_quarantine: v > 0}
      named: {expect_or_drop: name IS NOT NULL}
      stopped: {expect_or_fail: "coalesce(v, 0) < 1000"}
      known: {expect_or_quarantine: id <> 99}
      ordered: {expect_or_quarantine: seq < 1000}
"""
DEFINITION = f"""
name: heart_rate
bronze:
  b: {{path: "${{landing}}/b", format: json, schemaHints: "id INT, seq INT, v INT"}}
silver:
  latest:
    from: b
    apply_changes: {{keys: [id], sequence_by: seq, apply_as_deletes: "op = 'D'", except_column_list: [op]}}
    schema: "id INT, seq INT, v INT, name STRING, age INT"{RULES}
  versions:
    from: b
    apply_changes: {{keys: [id], sequence_by: seq, stored_as_scd_type: 2, apply_as_deletes: "op = 'D'"}}{RULES}
  united:
    apply_changes: {{keys: [id], sequence_by: seq, apply_as_deletes: "op = 'D'"}}
    flows:
      one: {{sql: "SELECT * EXCEPT (age), CAST(age AS INT) AS age FROM STREAM(b)"}}
"""

KINDS = """
name: heart_rate
bronze:
  b: {path: "${landing}/b", format: json, allowOverwrites: true, schemaHints: "id INT, seq INT, v INT, op STRING"}
silver:
  latest:
    from: b
    apply_changes: {keys: [id], sequence_by: seq, apply_as_deletes: "op = 'D'"}
  versions:
    from: b
    apply_changes:
      keys: [id]
      sequence_by: seq
      stored_as_scd_type: 2
      apply_as_deletes: "op = 'D'"
      track_history_column_list: [v, name]
  filled:
    from: b
    apply_changes: {keys: [id], sequence_by: seq, apply_as_deletes: "op = 'D'", ignore_null_updates: true}
  snapshots:
    from: b
    apply_changes_from_snapshot: {keys: [id], sequence_by: seq, stored_as_scd_type: 2}
"""


def change(id_: int | None, seq: int | None, op: str | None = None, **values: Any) -> dict[str, Any]:
    made = {"id": id_, "seq": seq, "op": op, "v": None, "name": None, "age": None} | values
    return {name: value for name, value in made.items() if name != "op" or value is not None}


def land(workspace: Workspace, file: str, *records: dict[str, Any] | str) -> None:
    workspace.land(file, "\n".join(one if isinstance(one, str) else json.dumps(one) for one in records))


def test_rules_on_values_do_not_turn_deletes_away(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    full = {"v": 1, "name": "n", "age": "40"}
    # A full load: no record has the operation, which nothing says the type of.
    land(workspace, "b/1.json", *[change(id_, 1, **full) for id_ in (1, 2, 3, 4, 99)], change(5, 1, v=-1, name="n"))
    reports = workspace.run(spark, "bronze", "silver")
    assert any("b has no column op yet" in warning for warning in reports["latest"].warnings)
    assert sorted(workspace.rows("latest", "id")) == [(1,), (2,), (3,), (4,)]

    land(
        workspace,
        "b/2.json",
        change(1, 2, "D"),
        change(2, 2, "D", v=5000, age="of an age"),  # an image of before that broke rules, and does not cast
        change(99, 2, "D"),  # a rule on the key holds for deletes, too
        change(3, 2000, "D"),  # and so does one on the sequence
        change(3, None, "D", **full),
        change(4, 3, "U", v=None, name="n"),
        '{"id": 4, "seq": 4, "op": "D", "v":',
    )
    reports = workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("latest", "id", "v")) == [(3, 1), (4, 1)]
    assert sorted(workspace.rows("versions", "id", "__END_AT"), key=str) == [(1, 2), (2, 2), (3, None), (4, None)]
    broken = {(id_, seq): set(rules) for id_, seq, rules in
              workspace.rows("latest_quarantine", "id", "seq", "_failed_expectations")}  # fmt: skip
    assert broken[99, 2] == {"known"}
    assert broken[3, 2000] == {"ordered"}
    assert {*broken} == {(99, 1), (5, 1), (99, 2), (3, 2000), (3, None), (4, 3), (None, None)}
    assert "sane" in broken[4, 3]
    # Without rules, and with a cast of a value in a query.
    assert sorted(id_ for (id_,) in workspace.rows("united", "id")) == [4, 5]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_a_key_is_as_its_other_records_make_it_once_one_that_was_set_aside_leaves(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(KINDS)
    land(workspace, "b/1.json", change(1, 1, v=1, name="n"), change(3, 1, v=3, name="n"))
    land(workspace, "b/2.json", change(2, 1, v=2, name="n"))
    land(workspace, "b/3.json", change(2, 2, v=None, name="m"))
    land(workspace, "b/4.json", change(1, 2, "D"), change(3, 3, v=3, name="n"))
    workspace.run(spark, "bronze", "silver")
    assert sorted(workspace.rows("latest", "id", "v")) == [(2, None), (3, 3)]
    assert sorted(workspace.rows("filled", "id", "v")) == [(2, 2), (3, 3)]
    assert sorted(workspace.rows("versions", "id", "seq", "__END_AT")) == [
        (1, 1, 2), (2, 1, 2), (2, 2, None), (3, 3, None),
    ]  # fmt: skip
    assert sorted(workspace.rows("snapshots", "id", "__START_AT", "__END_AT")) == [
        (1, 1, 2), (1, 2, 3), (2, 1, 2), (2, 2, 3), (3, 1, 2), (3, 3, None),
    ]  # fmt: skip

    # The record that another one took a value from is gone, the delete, and one that only moved the sequence.
    land(workspace, "b/2.json", change(4, 1, v=4, name="n"))
    land(workspace, "b/4.json", change(5, 1, v=5, name="n"))
    workspace.run(spark, "bronze", "silver")
    rows = [(1, 1), (2, None), (3, 3), (4, 4), (5, 5)]
    assert sorted(workspace.rows("latest", "id", "v")) == rows
    assert sorted(workspace.rows("filled", "id", "v")) == rows
    assert sorted(workspace.rows("versions", "id", "seq", "__END_AT")) == [
        (1, 1, None), (2, 2, None), (3, 1, None), (4, 1, None), (5, 1, None),
    ]  # fmt: skip
    assert sorted(workspace.rows("snapshots", "id", "__START_AT", "__END_AT")) == [
        (1, 1, 2), (2, 2, None), (3, 1, 2), (4, 1, 2), (5, 1, 2),
    ]  # fmt: skip
    assert wrong(spark, workspace) == []


def wrong(spark: SparkSession, workspace: Workspace) -> list[str]:
    """What a verification finds wrong in silver."""
    findings = verify_silver.prove(spark, workspace.definition, workspace.lake)
    return [str(finding) for finding in findings if finding.kind != "proved"]


def test_each_table_that_fails_says_why(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define("""
name: heart_rate
bronze:
  b: {path: "${landing}/b", format: parquet}
silver:
  one: {from: b, apply_changes: {keys: [id], sequence_by: att}}
  two: {sql: "SELECT id, nme FROM STREAM(b)"}
  three: {from: b, apply_changes: {keys: [id], sequence_by: at, apply_as_deletes: "Opp = 'D'"}}
""")
    rows = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "at": [1], "name": ["n"], "Op": ["I"]}), rows)
    workspace.land("b/1.parquet", rows.getvalue())
    workspace.run(spark, "bronze")
    with pytest.raises(QueryError) as caught:
        workspace.run(spark, "silver")
    told = {one.where.table: one for one in (caught.value, *caught.value.others)}
    assert {*told} == {"one", "two"}
    assert "did you mean at?" in told["one"].hint
    assert "schemaHints of b" in told["one"].hint
    assert "nme" in told["two"].cause
    text = caught.value.for_people()
    assert all(one.message in text for one in told.values())
    [other] = caught.value.as_dict()["others"]
    assert other["table"] in told
    assert workspace.rows("three", "id") == [(1,)]  # a full load, or a name that is wrong: it is told, and goes on
