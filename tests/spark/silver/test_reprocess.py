"""Records that are applied again: what changed, went, was looked up anew, or was chosen by a person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.errors import SluicegateError
from sluicegate.flow.definitions.definition_changes import StoredRows
from sluicegate.flow.selection import Interval, Replay
from sluicegate.frames import data_skipping
from sluicegate.lake import tables
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.silver_oracle import Today
from tests.support.silver_world import World, name, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SILVER_POINTS = [point for point in _faults.POINTS if point.startswith("silver.")]
HOUR = 3600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_HOUR = Interval.parse("1970-01-01", "1970-01-01T01:00")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Names 1 and 2, and nothing else landed."""
    found = World(tmp_path)
    found.put("names/1", name(1, "Ada"), name(2, "Bo"))
    return found


def delete(spark: SparkSession, world: World, table: str, condition: str) -> None:
    spark.sql(f"DELETE FROM delta.`{world.uri(table)}` WHERE {condition}")


# --- lookups ---------------------------------------------------------------------------------------------------------


@pytest.mark.chaos
def test_lookup_rows_come_change_and_go(spark: SparkSession, world: World) -> None:
    world.put("raw/1", record(1), record(2, k=2, n=3), record(3, k=3, n=2), record(4, k=3, n=1))
    world.take_in(spark)
    world.assert_right()
    world.put("names/2", name(3, "Cy"), name(1, "Ada B.", seq=2))
    report = world.take_in(spark)["t"]
    assert (report.state, report.inserted, report.updated, report.deleted) == ("again", 1, 1, 0)
    world.assert_right()
    delete(spark, world, "names_raw", "n = 2")
    (world.folder / "landing/names/1.json").write_text("")  # for the oracle: its other record was superseded
    report = world.take_in(spark, "silver")["t"]
    assert (report.inserted, report.deleted) == (1, 1)  # record 4 takes the place of 3, whose name is gone
    assert world.held()["t"] == {
        (1, 1, "Ada B.", EPOCH, 5): 1,
        (2, 2, "Cy", EPOCH, 5): 1,
        (4, 3, "Ada B.", EPOCH, 5): 1,
    }
    assert world.ids("t_quarantine") == [3]
    assert world.problems() == []


@pytest.mark.more
def test_lookup_that_was_only_moved_changes_no_row(spark: SparkSession, world: World) -> None:
    world.put("raw/1", record(1), record(2, k=2, n=3))
    world.take_in(spark)
    world.put("names/2", name(4, "Di"))  # a second file, so that there is something to put together
    world.take_in(spark)
    spark.sql(f"OPTIMIZE delta.`{world.uri('names')}`")
    before = world.held()
    report = world.take_in(spark, "silver")["t"]
    assert (report.inserted, report.updated, report.deleted, report.read) == (0, 0, 0, 0)
    assert world.held() == before
    assert {one.state for one in world.take_in(None, "silver").values()} == {"idle"}
    world.assert_right()


@pytest.mark.chaos
def test_restored_lookup_is_followed(spark: SparkSession, world: World) -> None:
    world.put("raw/1", record(1), record(2, k=2, n=3))
    world.take_in(spark)
    first = tables.delta_table(world.uri("names"))
    assert first is not None
    world.put("names/2", name(3, "Cy"), name(1, "Ada B.", seq=2))
    world.take_in(spark)
    spark.sql(f"RESTORE TABLE delta.`{world.uri('names')}` TO VERSION AS OF {first.version()}")
    assert {row for row in world.rows("names", "n", "name")} == {(1, "Ada"), (2, "Bo")}
    world.take_in(spark, "silver", only="t")  # as of the restored lookup, which does not add up itself now
    assert world.ids() == [1]
    assert [one for one in world.problems() if one.startswith("t:")] == []
    world.take_in(spark, "silver")  # which is made again from its own source
    world.assert_right()


@pytest.mark.more
def test_lookup_that_cannot_be_tied_makes_the_table_again(spark: SparkSession, world: World) -> None:
    path = world.folder / "pipelines/heart_rate/pipeline.yaml"
    path.write_text(path.read_text().replace("ON r.n = m.n", "ON r.n < m.n + 1 AND r.n > m.n - 1"))
    world.put("raw/1", record(1), record(2, k=2, n=3))
    world.take_in(spark)
    world.put("names/2", name(3, "Cy"))
    report = world.take_in(spark)["t"]
    assert (report.state, report.why) == ("rebuilt", "names changed")
    world.assert_right()


# --- the source ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["first", pytest.param("latest", marks=pytest.mark.chaos)])
def test_loser_takes_over_when_the_winner_goes(spark: SparkSession, world: World, order: str) -> None:
    """Cases 3.7 and 8.3: by DELETE in bronze, by a replaced file, and by a name that is gone."""
    world.redefine(Today(order))  # type: ignore[arg-type]
    world.put("raw/1", record(1, seq=9), record(2, k=2), record(3, k=3, seq=9, n=2))
    world.take_in(spark)
    world.put("raw/2", record(11, seq=5), record(12, k=2, seq=5), record(13, k=3, seq=5), record(14, seq=4))
    world.put("raw/3", record(21, seq=5), record(22, k=2, seq=5))
    world.take_in(spark)
    world.assert_right()
    world.put("raw/1", record(1, seq=9, v="-1"), record(4, k=4))  # 1 is bad now, 2 and 3 are gone
    report = world.take_in(spark)["t"]
    assert report.state == "again"
    world.assert_right()
    delete(spark, world, "raw", "id IN (11, 22)")
    world.take_in(spark, "silver")
    assert world.ids() == ([4, 12, 13, 14] if order == "first" else [4, 12, 13, 21])
    assert world.problems() == []


@pytest.mark.more
def test_replaced_file_without_keys(spark: SparkSession, world: World) -> None:
    """Case 3.7."""
    world.redefine(Today("every"))
    world.put("raw/1", record(1), record(2), record(3, v="-1"))
    world.put("raw/2", record(4))
    world.take_in(spark)
    world.put("raw/1", record(1, v="7"), record(5), record(6, v="500"))
    world.take_in(spark)
    world.assert_right()


@pytest.mark.more
def test_key_of_two_dates_is_one_row(spark: SparkSession, world: World) -> None:
    """Case 3.4, and 3.5: NULL as key or event time is quarantined, and no replay doubles it."""
    world.put("raw/1", record(1, s=0), record(2, k=None), record(3, k=3, s=None))
    world.take_in(spark)
    world.put("raw/2", record(4, s=10**8), record(5, k=None), record(6, k=3, s=None))
    world.take_in(spark)
    world.assert_right()
    for _ in range(2):
        world.take_in(spark, "silver", choice=Replay("t", everything=True))
        world.assert_right()
    assert world.ids() == [1]


MORE = """
  u:
    sql: SELECT k, upper(name) AS name, v FROM STREAM(t) AS t WHERE v <> 13
    keys: [name]
    expectations: {few: {expect_or_quarantine: v < 50}}
"""


@pytest.mark.more
def test_silver_reads_silver(spark: SparkSession, world: World) -> None:
    world.more = MORE
    world.redefine(Today())
    world.put("raw/1", record(1), record(2, k=2), record(3, k=3, n=2, v="60"), record(4, k=4, n=3))
    world.take_in(spark)
    assert sorted(world.rows("u", "k", "name")) == [(1, "ADA")]
    world.put("names/2", name(3, "ada"), name(2, "Bob", seq=2))
    world.put("raw/1", record(1, v="13"), record(2, k=2), record(3, k=3, n=2, v="61"), record(5, k=5, n=2))
    world.put("raw/2", record(4, k=4, n=3))
    world.take_in(spark)
    world.assert_right()
    assert sorted(world.rows("u", "k", "name")) == [(2, "ADA"), (5, "BOB")]
    assert world.rows("u_quarantine", "k", "v") == [(3, 61)]
    spark.sql(f"RESTORE TABLE delta.`{world.uri('t')}` TO VERSION AS OF 0")
    world.take_in(spark)
    world.assert_right()
    assert sorted(world.rows("u", "k", "name")) == [(2, "ADA"), (5, "BOB")]
    assert world.rows("u_quarantine", "k", "v") == [(3, 61)]


WIDE = """
  w: {sql: "SELECT r.* EXCEPT (k, v, s, seq), m.name FROM STREAM(raw) AS r LEFT JOIN names AS m ON r.n = m.n"}
"""


@pytest.mark.release
def test_columns_and_fields_that_come_with_records_that_are_applied_again(spark: SparkSession, world: World) -> None:
    """A struct that has more fields now than in the table is compared with what it was."""
    world.more = WIDE
    world.redefine(Today())
    world.put("raw/1", record(1, o={"a": 1}), record(2, n=3, o={"a": 2}))
    world.take_in(spark)
    world.put("raw/1", record(1, o={"a": 1, "b": 5}), record(2, n=3, o={"a": 2}))
    world.put("raw/2", record(3, n=3, more="m", o={"c": 7}))
    world.put("names/2", name(3, "Cy"))
    world.take_in(spark)
    world.put("raw/2", record(3, n=3, more="n", o={"c": 8}))
    world.take_in(spark)
    rows = {id_: (name, more, o) for id_, name, more, o in world.rows("w", "id", "name", "more", "o")}
    assert rows == {
        1: ("Ada", None, {"a": "1", "b": "5", "c": None}),
        2: ("Cy", None, {"a": "2", "b": None, "c": None}),
        3: ("Cy", "n", {"a": None, "b": None, "c": "8"}),
    }
    assert world.problems() == []
    assert world.take_in(spark, "silver", choice=Replay("w", everything=True))["w"].unchanged


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point", [p if p == "silver.between_commits" else pytest.param(p, marks=pytest.mark.chaos) for p in SILVER_POINTS]
)
def test_stop_while_records_are_applied_again(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Case 3.1: at every point; before the next run names come and go, a file comes, and the rule is edited.

    The run that is stopped has rows to write, to change and to take away in each of the three tables.
    """
    world.put("raw/1", record(1), record(2, n=2), record(3, k=2, n=3), record(4, k=3, n=2), record(5, k=4, v="500"))
    world.put("raw/2", record(6, k=4), record(7, k=3), record(8, k=5), record(9, k=6, v="1"))
    world.take_in(spark)
    world.put("raw/1", record(1, v="-1"), record(2, k=2, n=2), record(3, k=2, n=3), record(5, k=4, v="5"))
    world.put("names/2", name(3, "Cy"), name(2, None, seq=2))
    world.put("raw/3", record(10, k=7, n=8), record(11, k=5))
    world.take_in(spark, "bronze")
    world.take_in(spark, "silver", only="names")
    stop_at(monkeypatch, point)
    with pytest.raises(Stopped):
        world.take_in(spark, "silver", only="t")
    monkeypatch.undo()

    world.put("names/3", name(2, "Bob", seq=3), name(8, "Hu"), name(3, None, seq=2))
    world.put("raw/4", record(12, k=1, v="4"), record(13, k=8, v="3"))
    world.redefine(Today(least=3))
    world.take_in(spark)
    assert world.problems() == []
    world.take_in(spark, "silver", choice=Replay("t", everything=True))
    world.assert_right()


def test_a_record_that_left_the_quarantine_when_a_run_was_stopped_is_in_one_table(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has committed the table, and not what leaves the quarantine; nothing else is new to the next one."""
    world.put("raw/1", record(1), record(2, k=3, n=3))
    world.take_in(spark)
    assert (world.ids(), world.ids("t_quarantine")) == ([1], [2])
    world.put("names/2", name(3, "Cy"))
    world.take_in(spark, "bronze")
    world.take_in(spark, "silver", only="names")
    stop_at(monkeypatch, "silver.after_commit")
    with pytest.raises(Stopped):
        world.take_in(spark, "silver", only="t")
    monkeypatch.undo()
    assert (world.ids(), world.ids("t_quarantine")) == ([1, 2], [2])
    world.take_in(spark, "silver")
    assert (world.ids(), world.ids("t_quarantine")) == ([1, 2], [])
    assert world.problems() == []


@pytest.mark.chaos
def test_stop_again_and_again(spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recoveries that are stopped themselves, while a name comes and goes, and a file that was replaced is gone."""
    world.put("raw/1", record(1), record(2), record(3, k=2, n=3))
    world.take_in(spark)
    world.put("raw/1", record(1, v="-1"), record(2), record(3, k=2, n=3))
    world.put("names/2", name(3, "Cy"))
    world.take_in(spark, "bronze")
    world.take_in(spark, "silver", only="names")
    for point in ("silver.between_commits", "silver.after_commit", "silver.before_commit", "silver.between_commits"):
        stop_at(monkeypatch, point)
        with pytest.raises(Stopped):
            world.take_in(spark, "silver", only="t")
        monkeypatch.undo()
        world.put("names/2", name(3, "Cy" if point == "silver.after_commit" else None))
        world.take_in(spark, "bronze")
        world.take_in(spark, "silver", only="names")
    world.take_in(spark)
    world.assert_right()


@pytest.mark.more
def test_a_record_that_its_source_lost_leaves_quarantine_though_the_run_was_stopped_before_that(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in one place alone, and the mark is past its going: nothing but the look for what was left finds it."""
    world.put("raw/1", record(1), record(2, k=2, v="-1"))
    world.take_in(spark)
    world.put("raw/1", record(1))
    world.take_in(spark, "bronze")
    stop_at(monkeypatch, "silver.after_commit")
    with pytest.raises(Stopped):
        world.take_in(spark, "silver", only="t")
    monkeypatch.undo()
    assert world.ids("t_quarantine") == [2]

    world.take_in(spark, "silver")
    assert world.ids("t_quarantine") == []
    world.assert_right()


def test_records_are_the_same_whether_others_of_their_keys_are_looked_for_nearby_or_everywhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of three, four and five rows, of which more than four are many; one day is made again by edited SQL.

    A record moves to where another one, of a day that is not selected, has its key: that one loses its row. The key
    that is free again goes to a record that had lost it.
    """
    table = """
  {}: {{sql: "SELECT r.k, {} AS at, r.w FROM STREAM(raw) AS r WHERE r.k <= {}", keys: [k, at], event_time: at}}"""
    sizes = {"below": 2, "exactly": 3, "above": 4}
    world = World(tmp_path)

    def define(time: str) -> None:
        tables = [table.format(its, time, most) for its, most in sizes.items()]
        world.define(
            'name: heart_rate\nbronze:\n  raw: {path: "${landing}/raw", format: json, '
            'schemaHints: "k BIGINT, at TIMESTAMP"}\nsilver:' + "".join(tables)
        )

    define("r.at")
    at = "2024-01-0{}T10:59:59.999999Z"
    first = [{"k": k, "at": at.format(k), "w": "first"} for k in (1, 2, 3, 4)]
    world.put("raw/1", *first)
    world.put("raw/2", *[one | {"w": "again"} for one in first[:3]], {"k": 2, "at": at.format(3), "w": "other"})
    world.take_in(spark)
    nearby: list[str] = []

    def same_hours(*given: Any) -> Any:
        nearby.append(given[-1])
        return real(*given)

    real = data_skipping.hour_predicate
    monkeypatch.setattr(data_skipping, "MANY_ROWS", 4)
    monkeypatch.setattr(data_skipping, "hour_predicate", same_hours)
    # Else a key that is made by another expression gives the tables a full refresh.
    monkeypatch.setattr(StoredRows, "why_incomparable", lambda *_: "")
    define("CASE WHEN r.w = 'first' AND r.k = 2 THEN r.at + INTERVAL 1 DAY ELSE r.at END")
    world.take_in(spark, "silver", choice=Interval.parse("2024-01-02", "2024-01-03"))
    assert {*nearby} == {"at"}
    for its, most in sizes.items():
        rows = [(1, 1, "first"), (2, 2, "again"), (2, 3, "first"), (3, 3, "first"), (4, 4, "first")]
        found = [(k, moment.day, w) for k, moment, w in world.rows(its, "k", "at", "w")]
        assert sorted(found) == [row for row in rows if row[0] <= most], its
        lost = [reason for (reason,) in world.rows(f"{its}_set_aside", "reason")]
        assert (lost.count("duplicate"), len(lost)) == (min(most, 3), 8 - len(found)), its
    assert world.problems() == []


# --- intervals -------------------------------------------------------------------------------------------------------


def test_interval_applies_the_edited_rule_to_itself_alone(spark: SparkSession, world: World) -> None:
    """Case 4.2: twice is the same as once, and the second time writes nothing."""
    world.put("raw/1", record(1, v="2"), record(2, k=2, v="7"), record(3, k=3, v="2", s=HOUR), record(4, k=1, s=60))
    world.take_in(spark)
    world.redefine(Today(least=3))
    world.take_in(spark, "silver", choice=FIRST_HOUR)
    assert world.ids() == [2, 3, 4]
    assert world.ids("t_quarantine") == [1]
    assert world.problems() == []
    before = world.versions()
    report = world.take_in(spark, "silver", choice=FIRST_HOUR)["t"]
    assert report.unchanged
    assert world.versions() == before
    world.redefine(Today(least=1))
    report = world.take_in(spark, "silver", choice=FIRST_HOUR)["t"]
    assert not report.unchanged
    assert world.ids() == [1, 2, 3]
    world.assert_right()


@pytest.mark.more
def test_rows_move_in_and_out_of_an_interval(spark: SparkSession, world: World) -> None:
    """Cases 4.1, 4.4: rows of which the edited transform makes another time, and files that wait are taken in once."""
    world.redefine(Today("every"))
    world.put("raw/1", record(1, s=0), record(2, s=HOUR), record(3, s=-HOUR), record(4, s=None), record(5, s=-1, v="x"))
    world.take_in(spark)
    world.redefine(Today("every", shift=HOUR))
    world.put("raw/2", record(6, s=5 * HOUR), record(7, s=0, v="-1"))
    world.take_in(spark, "bronze")
    world.take_in(spark, "silver", choice=FIRST_HOUR)
    times = dict(world.rows("t", "id", "at"))
    assert {id_: time.hour for id_, time in times.items()} == {1: 1, 2: 1, 3: 0, 6: 6}
    assert (times[2], times[1]) == (times[1], times[2])  # 2 was not in the interval, by the old or the new transform
    assert world.ids("t_quarantine") == [4, 5, 7]
    assert world.problems() == []
    world.take_in(spark, "silver", choice=Interval.parse("1970-01-01T01:00", "1970-01-01T02:00"))
    world.assert_right()
    before = world.versions()
    world.take_in(None, "silver")
    assert world.versions() == before


@pytest.mark.more
def test_winner_that_leaves_the_interval_gives_its_place(spark: SparkSession, world: World) -> None:
    """The loser is found by its key although neither its old nor its new time is in the interval."""
    world.put("raw/1", record(1, v="2"), record(2, v="7", s=9 * HOUR), record(3, k=2, v="7"))
    world.take_in(spark)
    world.redefine(Today(least=3, shift=2 * HOUR))
    world.take_in(spark, "silver", choice=FIRST_HOUR)
    world.assert_right()


@pytest.mark.more
def test_interval_whose_records_are_gone_is_cleared(spark: SparkSession, world: World) -> None:
    world.put("raw/1", record(1), record(2, k=2, v="-1"), record(3, k=3, s=HOUR))
    world.put("raw/2", record(4, k=4), record(5, k=5, v="500"))
    world.take_in(spark)
    assert world.take_in(None, "bronze", choice=FIRST_HOUR)["raw"].state == "idle"  # bronze has no intervals
    world.put("raw/1", record(3, k=3, s=HOUR))
    delete(spark, world, "raw", "id IN (4, 5)")
    (world.folder / "landing/raw/2.json").unlink()
    world.take_in(spark, "bronze")
    world.take_in(spark, "silver", choice=FIRST_HOUR)
    assert world.ids() == [3]
    assert world.held()["quarantine"] == world.held()["aside"] == {}


@pytest.mark.chaos
@pytest.mark.parametrize(("order", "point"), [("first", "silver.before_commit"), ("every", "silver.between_commits")])
def test_files_and_runs_that_come_while_an_interval_is_applied(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, order: str, point: str
) -> None:
    """Case 4.3: of a run that is overtaken by another, without the lock, nothing is lost or doubled."""
    world.redefine(Today(order))  # type: ignore[arg-type]
    world.put("raw/1", record(1, v="2"), record(2, k=2, v="7"))
    world.take_in(spark)
    world.redefine(Today(order, least=3))  # type: ignore[arg-type]
    world.put("raw/2", record(3, k=3, v="2"), record(4, k=4, v="7"))
    world.take_in(spark, "bronze")

    def overtake() -> None:
        world.put("raw/3", record(5, k=1, v="8"), record(6, k=6, v="9"), record(7, k=7, v="1"))
        world.take_in(spark)

    _once_at(monkeypatch, point, overtake)
    with pytest.raises(SluicegateError, match="t was changed by another run"):
        world.take_in(spark, "silver", choice=FIRST_HOUR)
    monkeypatch.undo()
    world.take_in(spark)
    assert world.problems() == []
    world.take_in(spark, "silver", choice=FIRST_HOUR)
    world.assert_right()


def _once_at(monkeypatch: pytest.MonkeyPatch, point: str, work: Callable[[], None]) -> None:
    done: list[str] = []

    def at(here: str) -> None:
        if here == point and not done:
            done.append(here)
            work()

    monkeypatch.setattr(_faults, "point", at)


# --- replays ---------------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_replay_of_a_rule_of_dropped_ones_and_of_everything(spark: SparkSession, world: World) -> None:
    world.redefine(Today(least=3))
    world.put("raw/1", record(1, v="2"), record(2, k=2, v="7", n=3), record(3, k=3, v="500"), record(4, k=4, v="x"))
    world.put("raw/2", record(5, v="6"), record(6, k=6, v="8", s=HOUR))
    world.take_in(spark)
    world.assert_right()
    world.redefine(Today(least=0))
    world.edit("pipeline.yaml", "v < 100", "v < 1000")
    before = world.versions()
    assert world.take_in(spark, "silver", choice=Replay("t", rules=("known",)))["t"].unchanged
    assert world.versions() == before
    world.take_in(spark, "silver", choice=Replay("t", rules=("big",)))
    assert world.ids() == [1, 6]  # 1 came first: 5 is set aside
    assert world.ids("t_quarantine") == [2, 4]
    world.take_in(spark, "silver", choice=Replay("t", rules=("big",), dropped=True))
    assert world.ids() == [1, 6]
    world.take_in(spark, "silver", choice=Replay("t", dropped=True))
    assert world.ids() == [1, 3, 6]
    assert world.problems() == []
    world.redefine(Today(least=7, shift=7))
    world.take_in(spark, "silver", choice=Replay("t", everything=True))
    world.assert_right()
    assert world.ids() == [6]


@pytest.mark.more
def test_retried_rule(spark: SparkSession, world: World) -> None:
    """Of a lookup as of the run, only rows that a rule with ``retry`` quarantined see what changed."""
    world.edit("pipeline.yaml", "event_time: at", "event_time: at\n    lookups: {names: as_of_run}")
    world.put("raw/1", record(1), record(2, k=2, n=3), record(3, k=2, n=4), record(4, k=3, n=3, v="-1"))
    world.take_in(spark)
    assert world.ids() == [1]
    world.put("names/2", name(1, "Ada B.", seq=2), name(4, "Di"))
    world.take_in(spark)
    assert sorted(world.rows("t", "id", "name")) == [(1, "Ada"), (3, "Di")]
    world.put("names/3", name(3, "Cy"))
    world.take_in(spark)
    assert sorted(world.rows("t", "id", "name")) == [(1, "Ada"), (2, "Cy")]  # 2 came first: 3 is set aside
    assert world.rows("t_quarantine", "id", "_failed_expectations") == [(4, ["big"])]
    assert world.problems() == []
