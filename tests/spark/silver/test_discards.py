"""Quarantined records that a person has discarded: what replays, rebuilds and other runs do with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sluicegate as sg
from sluicegate import _faults
from sluicegate.flow.selection import Interval, Replay
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import discards, tables
from tests.support.silver_oracle import Today
from tests.support.silver_world import World, name, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A record that passes, two that break the rule ``big``, and one of an unknown name; no keys."""
    found = World(tmp_path)
    found.redefine(Today("every"))
    found.put("names/1", name(1, "Ada"))
    found.put("raw/1", record(1), record(2, v="-1"), record(3, v="-2"), record(4, n=7))
    return found


def discard(world: World, *rules: str, **how: bool) -> int:
    return sg.discard(world.definition, "t", note="" if how else "a test", rules=rules, **how)


def standing(world: World) -> tuple[int, int]:
    """Rows of the quarantine that wait, and that are discarded."""
    table = next(one for one in sg.status(world.definition).tables if one.table == "t")
    return table.quarantined, table.discarded


def replay(spark: SparkSession, world: World, *rules: str, **how: bool) -> tuple[int, int]:
    """Records that a replay evaluates, and that it inserts into the table."""
    done = world.take_in(spark, "silver", only="t", choice=Replay("t", rules, **how))["t"]
    made = done.read if done.rows is None else done.rows  # where a record may give many
    assert made == done.written + done.quarantined + done.dropped + done.duplicates
    return done.read, done.inserted


def test_a_discarded_record_is_left_by_replays_until_it_is_taken_back(spark: SparkSession, world: World) -> None:
    world.take_in(spark)
    former = standing(world), world.held()  # as the version before left it: there is no table of discards
    assert former[0] == (3, 0)
    assert replay(spark, world, validate=True) == (3, 0)
    assert discard(world, "big") == 2
    assert (standing(world), world.held()) == ((1, 2), former[1])
    world.assert_right()  # nothing of it is in the way of the equation, nor of a verification

    world.redefine(Today("every", least=-9))
    assert replay(spark, world) == (1, 0)
    assert replay(spark, world, "big") == (0, 0)
    assert (world.ids(), world.ids("t_quarantine")) == ([1], [2, 3, 4])
    assert discard(world, undo=True) == 2
    assert replay(spark, world) == (3, 2)
    assert (world.ids(), world.ids("t_quarantine"), standing(world)) == ([1, 2, 3], [4], (1, 0))
    world.assert_right()


@pytest.mark.more
def test_a_rebuild_finds_its_discards_in_place(spark: SparkSession, world: World) -> None:
    world.take_in(spark)
    assert discard(world) == 3
    before = tables.delta_table(world.lake.discards("t"))
    world.put("raw/2", record(5, v="-3"))
    world.take_in(spark)
    assert standing(world) == (1, 3)  # what comes later waits
    world.take_in(spark, "silver", only="t", choice=Interval.parse("1970-01-01", "1970-01-02"))
    assert standing(world) == (1, 3)
    Job(world.definition, world.lake, "silver", {"run_id": "test"}, spark, only="t", full_refresh=True).run()
    assert standing(world) == (1, 3)
    world.assert_right()

    spark.sql(f"DELETE FROM delta.`{world.uri('raw')}` WHERE id = 2")  # as a person's records are erased
    world.put("names/2", name(7, "Cy"))
    world.take_in(spark)
    assert world.ids("t_quarantine") == [3, 5]
    assert world.ids() == [1, 4]  # its name came late, and it passes, discarded or not
    assert standing(world) == (1, 1)
    assert world.problems() == []
    after = tables.delta_table(world.lake.discards("t"))
    assert before is not None
    assert after is not None
    assert after.version() == before.version()  # no run writes a commit to it
    sg.verify(world.definition, spark=False)


@pytest.mark.more
def test_a_discard_beside_a_replay_loses_nothing(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.take_in(spark)
    world.redefine(Today("every", least=-2))

    def point(here: str) -> None:
        if here == "silver.between_commits":
            assert discard(world) == 3

    monkeypatch.setattr(_faults, "point", point)
    assert replay(spark, world) == (3, 1)
    monkeypatch.undo()
    assert (world.ids(), world.ids("t_quarantine")) == ([1, 2], [3, 4])
    assert standing(world) == (0, 2)
    world.assert_right()
    world.redefine(Today("every"))
    assert replay(spark, world, everything=True) == (4, 0)
    assert standing(world) == (0, 3)  # it breaks the same rule again, and was discarded for that
    world.assert_right()


@pytest.mark.more
def test_rows_of_a_record_are_discarded_one_by_one(spark: SparkSession, world: World) -> None:
    """In Spark and without it the same rows count, whatever makes up the identity of a record."""
    world.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/raw', format: json, schemaHints: 'id BIGINT, k BIGINT'}\n"
        "silver:\n  t:\n    rows: many\n    flows:\n"
        "      one: {sql: 'SELECT id, explode(sequence(1, k)) AS e FROM STREAM(raw)'}\n"
        "      two: {sql: 'SELECT id + 10 AS id, explode(sequence(1, k)) AS e FROM STREAM(raw)'}\n"
        "    expectations:\n      low: {expect_or_quarantine: e < 2}\n      odd: {expect_or_quarantine: e != 4}\n"
    )
    world.put("raw/1", record(1, k=3), record(2, k=4))
    world.take_in(spark)
    assert standing(world) == (10, 0)
    assert discard(world, "odd") == 2
    assert standing(world) == (8, 2)
    assert replay(spark, world, "odd") == (0, 0)
    assert replay(spark, world, validate=True)[0] == 4  # each has another row that waits
    assert discard(world) == 8
    assert replay(spark, world, validate=True) == (0, 0)
    quarantine = tables.delta_table(world.lake.quarantine("t"))
    assert quarantine is not None
    assert discards.discarded_rows(quarantine, tables.delta_table(world.lake.discards("t"))) == 10
