"""A silver definition that changes between runs: whatever applies records, the table is that of today's definition.

The oracle is plain Python over the landed files, see tests/support/changes_world.py. Either a run brings the table
there by itself, or its report or its error names the command that does; nothing is cut to a former type on the way.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import SchemaMismatch, SluicegateError
from sluicegate.flow.selection import Interval, Replay
from sluicegate.lake import tables
from sluicegate.monitor import status
from tests.conftest import Workspace
from tests.support.changes_world import WAYS, ChangesWorld, Today

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# What changes one after another, each with the way in which records are applied then, and the reason of the report.
Steps = tuple[tuple[str, dict[str, Any], str], ...]
OF_KEYS: Steps = (
    ("replay", {"number": "DECIMAL(10,3)"}, "v changes from INT to DECIMAL(10,3)"),
    ("interval", {"keys": ("id",), "sequence": "seq"}, "it now has keys, id"),
    ("new", {"sequence": "seq2"}, "its sequence_by changes from seq to seq2"),
    ("overwritten", {"nested": "int", "of_sequence": "DOUBLE"}, "seq changes from INT to DOUBLE"),
)
OF_PARTS: Steps = (
    ("interval", {"nested": "decimal"}, "s.a changes from INT to DECIMAL(6,2)"),
    ("late lookup", {"nested": "wide map"}, "s changes from "),
    ("replay everything", {"nested": "map"}, "s.value changes from DOUBLE to BIGINT"),
)


def filled(folder: Path, spark: SparkSession, today: Today, lot: Random) -> ChangesWorld:
    """A world after a first run."""
    world = ChangesWorld(folder, today=today)
    world.name("a", "first")
    for _ in range(2):
        world.land_some(lot)
    world.take_in(spark)
    assert world.problems() == ""
    return world


@pytest.mark.parametrize(
    ("start", "steps"),
    [
        pytest.param(Today(), OF_KEYS, id="keys"),
        pytest.param(Today(("id",), "seq", nested="int"), OF_PARTS, id="parts", marks=pytest.mark.more),
    ],
)
def test_each_change_by_another_way_of_applying_records(
    spark: SparkSession, tmp_path: Path, start: Today, steps: Steps
) -> None:
    lot = Random(7)
    world = filled(tmp_path, spark, start, lot)
    for way, change, why in steps:
        world.edit_to(replace(world.today, **change))
        report = world.apply(spark, way, lot)
        assert (report.state, report.why[: len(why)]) == ("rebuilt", why), (way, change)
        assert world.problems() == "", (way, change)
    world.apply(spark, "new", lot)  # and on it goes
    assert world.problems() == ""


@pytest.mark.release
@pytest.mark.parametrize("seed", range(24))
def test_any_changes_by_any_ways(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    lot, start = Random(seed), Today()
    for _ in range(lot.randint(0, 5)):
        start = start.edited(lot)
    world = filled(tmp_path, spark, start, lot)
    for _ in range(6):
        before, way = world.today, lot.choice(WAYS)
        world.edit_to(before.edited(lot))
        world.apply(spark, way, lot)
        assert world.problems() == "", (way, before, world.today)


HISTORY = """
name: heart_rate
bronze: {raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT, seq BIGINT, v STRING"}}
silver:
  t: {from: raw, apply_changes: {keys: [k], sequence_by: seq, stored_as_scd_type: 2}}
"""
RAW = '{"k": 1, "seq": 1, "v": "a"}\n{"k": 1, "seq": 2, "v": "b"}\n{"k": 2, "seq": 1, "v": "x"}'


def test_type_1_in_place_of_type_2_and_back(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(HISTORY)
    workspace.land("raw/1.json", RAW, age=100)
    workspace.run(spark, "bronze", "silver")
    assert len(workspace.rows("t")) == 3
    workspace.edit("pipeline.yaml", "type: 2", "type: 1")
    workspace.land("raw/2.json", '{"k": 1, "seq": 3, "v": "c"}', age=90)
    report = workspace.run(spark, "bronze", "silver")["t"]
    assert (report.state, report.why) == ("rebuilt", "its stored_as_scd_type changes from 2 to 1")
    assert sorted(workspace.rows("t", "k", "seq", "v")) == [(1, 3, "c"), (2, 1, "x")]
    workspace.edit("pipeline.yaml", "type: 1", "type: 2")
    workspace.run(spark, "silver")  # nothing landed: the definition alone calls for it
    versions = sorted(workspace.rows("t", "k", "v", "__START_AT", "__END_AT"), key=str)
    assert versions == [(1, "a", 1, 2), (1, "b", 2, 3), (1, "c", 3, None), (2, "x", 1, None)]
    assert status.verify(workspace.definition, workspace.settings) == []


LOOKED_UP = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "id BIGINT, n STRING, v STRING"}
  names_raw: {path: "${landing}/names", format: json, schemaHints: "n STRING, name STRING, seq BIGINT"}
silver:
  names: {from: names_raw, apply_changes: {keys: [n], sequence_by: seq}}
  t:
    sql: "SELECT r.id, concat('', r.v) AS v, m.name FROM STREAM(raw) AS r LEFT JOIN names AS m ON r.n = m.n"
    lookups: {names: as_of_run}
    keys: [id]
"""


@pytest.mark.more
def test_a_full_refresh_that_would_lose_former_values_is_refused(spark: SparkSession, workspace: Workspace) -> None:
    """Values of a lookup as of former runs are nowhere else. Once the run finds a type, once a key is known before."""
    workspace.define(LOOKED_UP)
    workspace.land("names/1.json", '{"n": "a", "name": "then", "seq": 1}', age=100)
    workspace.land("raw/1.json", '{"id": 1, "n": "a", "v": "12.5"}', age=100)
    workspace.run(spark, "bronze", "silver")
    workspace.land("names/2.json", '{"n": "a", "name": "now", "seq": 2}', age=90)
    workspace.land("raw/2.json", '{"id": 2, "n": "a", "v": "7"}', age=90)
    workspace.edit("pipeline.yaml", "concat('', r.v)", "r.v + 0D")
    versions = [tables.table_at(workspace.uri("t")).version()]
    with pytest.raises(SchemaMismatch, match="v changes from STRING to DOUBLE") as types:
        workspace.run(spark, "bronze", "silver")
    workspace.edit("pipeline.yaml", "keys: [id]", "keys: [id, v]")
    with pytest.raises(SchemaMismatch, match="its keys change from id to id, v") as keys:
        workspace.run(spark, "silver")
    assert types.value.hint == keys.value.hint
    assert "`sluicegate run heart_rate --full-refresh t`" in keys.value.hint
    assert [tables.table_at(workspace.uri("t")).version()] == versions
    assert workspace.rows("t", "id", "name") == [(1, "then")]
    for old, new in (("keys: [id, v]", "keys: [id]"), ("r.v + 0D", "concat('', r.v)")):
        workspace.edit("pipeline.yaml", old, new)  # taken back, the run goes on
    workspace.run(spark, "silver")
    assert sorted(workspace.rows("t", "id", "v", "name")) == [(1, "12.5", "then"), (2, "7", "now")]


@pytest.mark.more
def test_rows_that_others_doubled_are_not_blamed_on_the_query(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(LOOKED_UP.replace("    lookups: {names: as_of_run}\n", ""))
    workspace.land("names/1.json", '{"n": "a", "name": "then", "seq": 1}', age=100)
    workspace.land("raw/1.json", '{"id": 1, "n": "a", "v": "1"}', age=100)
    workspace.run(spark, "bronze", "silver")
    uri = workspace.uri("t")
    held = spark.read.format("delta").load(uri)
    held.withColumn("_pos", held["_pos"] + 99).write.format("delta").mode("append").save(uri)
    workspace.land("raw/2.json", '{"id": 1, "n": "a", "v": "2"}\n{"id": 2, "n": "a", "v": "3"}', age=90)
    with pytest.raises(SluicegateError, match="t has 2 rows with the id of one new record") as refused:
        workspace.run(spark, "bronze", "silver")
    assert "`sluicegate run heart_rate --full-refresh t`" in refused.value.hint


@pytest.mark.more
def test_a_validation_says_that_the_table_would_be_rebuilt(spark: SparkSession, tmp_path: Path) -> None:
    """It compares nothing with rows that another type has cut."""
    lot = Random(3)
    world = filled(tmp_path, spark, Today(nested="int"), lot)
    held = tables.table_at(world.uri("t")).version()
    for change in ({"nested": "decimal"}, {"number": "DECIMAL(10,3)"}):
        world.edit_to(replace(Today(nested="int"), **change))
        with pytest.raises(SluicegateError, match="nothing to compare with"):
            world.take_in(spark, "silver", only="t", choice=Replay("t", everything=True, validate=True))
    assert tables.table_at(world.uri("t")).version() == held
    world.take_in(spark, "silver", choice=Interval.parse("2024-03-01", "2024-03-02"))
    assert world.problems() == ""
