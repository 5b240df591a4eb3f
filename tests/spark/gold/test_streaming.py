"""Gold tables with a mode: what a notebook's streaming aggregation gives, batch by batch, and what heals them."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import QueryError
from sluicegate.jobs.continuous import Continuous
from sluicegate.lake import tables
from sluicegate.monitor import streams
from sluicegate.monitor.streams import Registration, Stream
from sluicegate.spark.session import SharedSpark
from tests.conftest import Workspace
from tests.spark.test_medallion import assert_right
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.gold_world import GoldWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

QUERY = "SELECT window.start AS w, g, count(*) AS n, sum(k) AS s FROM t GROUP BY window(t, '5 minutes'), g"
WIDTH, DELAY = 5, 10  # minutes


def table(mode: str) -> str:
    watermark = f", withWatermark: {{t: {DELAY} minutes}}" if mode != "complete" else ""
    return f'{{sql: "{QUERY}", mode: {mode}{watermark}}}'


class Notebook:
    """The same, in plain Python: groups by the documented rules of watermarks. Times are minutes."""

    def __init__(self, mode: str) -> None:
        self.mode, self.late = mode, 0
        self.watermark = -(10**9)
        self.groups: dict[tuple[int, str | None], list[int]] = {}
        self.written: Counter[Any] = Counter()

    def batch(self, rows: list[tuple[int, str | None, int]]) -> None:
        for minute, g, k in rows:
            window = minute // WIDTH * WIDTH
            if self.mode != "complete" and window + WIDTH <= self.watermark:
                self.late += 1
            else:
                self.groups.setdefault((window, g), []).append(k)
        self.watermark = max([self.watermark, *(minute - DELAY for minute, _, _ in rows)])

    def table(self) -> Counter[Any]:
        closed = {key for key in self.groups if key[0] + WIDTH <= self.watermark or self.mode != "append"}
        return Counter((time(w), g, len(ks), sum(ks)) for (w, g), ks in self.groups.items() if (w, g) in closed)


def time(minute: int) -> dt.datetime:
    return dt.datetime(2024, 5, 1) + dt.timedelta(minutes=minute)


class World:
    """A silver table, one gold table over it, and what that should have."""

    def __init__(self, folder: Path, spark: SparkSession, mode: str) -> None:
        self.gold = GoldWorld(folder, {mode: table(mode)}, spark)
        self.mode, self.notebook, self.rows = mode, Notebook(mode), []
        self.uri = self.gold.at.table("gold", mode)
        self.checkpoint = Path(self.gold.at.checkpoint(mode))

    rows: list[tuple[int, str | None, int]]

    def add(self, *rows: tuple[int, str | None, int]) -> None:
        self.rows += rows
        self.notebook.batch([*rows])
        self.gold.add((0, g, k, None, None, None, None, time(minute), None) for minute, g, k in rows)

    def anew(self) -> None:
        """The table is made again of all rows that there are."""
        self.notebook = Notebook(self.mode)
        self.notebook.batch(self.rows)

    def run(self) -> Any:
        return self.gold.run()[self.mode]

    def assert_right(self) -> None:
        found = Counter(tuple(row) for row in self.gold.spark.read.format("delta").load(self.uri).collect())
        assert found == self.notebook.table()


def world(folder: Path, spark: SparkSession, mode: str) -> World:
    made = World(folder, spark, mode)
    made.add((0, "a", 1), (3, "a", 2), (12, "b", 1), (13, None, 4))
    made.run()
    made.assert_right()
    return made


@pytest.mark.parametrize("mode", [pytest.param("complete", marks=pytest.mark.release), "update", "append"])
def test_a_mode_gives_what_a_notebook_gives(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    made = world(tmp_path, spark, mode)
    for rows in ([(40, "a", 5), (1, "b", 1)], [(61, "a", 5), (1, "b", 9), (2, "b", 1), (42, None, 1)]):
        before = made.notebook.late
        made.add(*rows)
        done = made.run()
        made.assert_right()
        assert (done.state, done.read) == ("written", len(rows))
        late = made.notebook.late - before
        assert bool(done.late) == bool(late)
        assert done.late <= late  # Spark counts what is left of them when it has grouped the rows of each task
    assert made.run().state == "idle"
    if mode == "append":
        made.gold.sql("OPTIMIZE {t}")  # a commit without news moves the mark, and changes nothing
        assert made.run().state == "written"
        assert made.run().state == "idle"
        made.assert_right()
    versions = range(1 + (tables.delta_table(made.uri) or pytest.fail("no table")).version())
    if mode != "append":  # which begins with windows that are not over
        assert all(tables.rows(tables.delta_table(made.uri, version)) for version in versions)


BEFORE, AFTER = "gold.before_commit", "gold.after_commit"


@pytest.mark.parametrize(
    ("mode", "stops"),
    [
        pytest.param("update", [(AFTER, 1)], marks=pytest.mark.release),
        ("append", [(AFTER, 1), (BEFORE, 2)]),  # its second commit is that of the batch without data
        pytest.param("complete", [(BEFORE, 1), (AFTER, 1)], marks=pytest.mark.chaos),
        pytest.param("update", [(BEFORE, 1)], marks=pytest.mark.chaos),
        pytest.param("append", [(BEFORE, 1), (AFTER, 2)], marks=pytest.mark.chaos),
    ],
)
def test_a_run_that_was_stopped_between_table_and_checkpoint_heals(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, stops: list[tuple[str, int]]
) -> None:
    made = world(tmp_path, spark, mode)
    for number, (point, times) in enumerate(stops):
        made.add((40 + 20 * number, "a", 5), (41 + 20 * number, None, 1))
        with monkeypatch.context() as patch:
            stop_at(patch, point, times)
            with pytest.raises(Stopped):
                made.run()
        made.add((42 + 20 * number, "b", 3))
        assert made.run().state == "written", (point, times)
        made.assert_right()


@pytest.mark.release
@pytest.mark.parametrize("mode", ["update", pytest.param("append", marks=pytest.mark.chaos)])
def test_what_its_checkpoint_cannot_follow_is_made_again_whole(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    made = world(tmp_path, spark, mode)
    copy = tmp_path / "copy"
    shutil.copytree(made.checkpoint, copy)

    def deleted() -> None:
        shutil.rmtree(made.checkpoint)

    def put_back() -> None:
        shutil.rmtree(made.checkpoint)
        shutil.copytree(copy, made.checkpoint)

    def without_state() -> None:
        shutil.rmtree(made.checkpoint / "state")

    def rows_deleted() -> None:
        made.gold.sql("DELETE FROM {t} WHERE g = 'b'")
        made.rows = [row for row in made.rows if row[1] != "b"]

    def table_put_back() -> None:
        made.gold.spark.sql(f"RESTORE TABLE delta.`{made.uri}` TO VERSION AS OF 0")

    changes: list[tuple[Callable[[], None], str]] = [
        (put_back, "older than the table"), (deleted, "checkpoint is missing"), (put_back, "not the one"),
        (without_state, "cannot be read"), (rows_deleted, "was changed by DELETE"), (table_put_back, "was restored"),
    ]  # fmt: skip
    changes = changes if mode == "append" else changes[:2] + changes[3:5]
    for number, (change, why) in enumerate(changes):
        made.add((40 + 20 * number, "a", 5), (0, "b", 3))
        if number == 0:
            made.run()  # so that the copy is an older one
            made.add((45, "a", 1))
        change()
        done = made.run()
        made.anew()
        assert (done.state, why in done.why) == ("rebuilt", True), (why, done.why)
        made.assert_right()
    made.add((300, "a", 1))
    assert made.run().state == "written"
    made.assert_right()


@pytest.mark.chaos
def test_a_stopped_rebuild_is_begun_again(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, spark, "append")
    for point in ("gold.before_commit", "gold.after_commit"):
        made.add((40, "a", 5), (41, "b", 1))
        shutil.rmtree(made.checkpoint)
        with monkeypatch.context() as patch:
            stop_at(patch, point)
            with pytest.raises(Stopped):
                made.run()
        made.run()
        made.anew()
        made.assert_right()


def test_spark_refuses_a_mode_that_does_not_fit_the_query(spark: SparkSession, tmp_path: Path) -> None:
    fields = "mode: append, withWatermark: {t: 1 hour}}"
    made = GoldWorld(tmp_path, {"never_over": f'{{sql: "SELECT g, count(*) AS n FROM t GROUP BY g", {fields}'}, spark)
    made.add([(0, "a", 1, None, None, None, None, time(0), None)])
    with pytest.raises(QueryError, match="Spark rejects the query of never_over"):
        made.run()


def test_a_continuous_run_tries_again_what_may_be_gone_and_tells_each_batch(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Stream("heart_rate", streams.new_id(), "1s")
    with Registration(heartbeats.lake, stream) as known:
        shared = SharedSpark("continuous", heartbeats.lake, private=True, opened=spark)
        loop = Continuous(heartbeats.settings, heartbeats.lake, stream, {}, known, shared)
        with monkeypatch.context() as patch:

            def broken(name: str) -> None:
                if name == "silver.before_commit":
                    raise RuntimeError("an executor was lost")

            patch.setattr("sluicegate._faults.point", broken)
            loop.tick()
        assert (loop.failures, loop.batches) == (1, 0)
        loop.tick()
        assert (loop.failures, loop.batches, streams.list_streams(heartbeats.lake.root)[0].batches) == (0, 1, 1)
        loop.tick()
        assert loop.batches == 1
    assert_right(heartbeats)
    said = capsys.readouterr().out
    assert "retrying at the next tick (1 of 3)" in said
    assert "RuntimeError" in said
    assert "an executor was lost" not in said  # the pipeline has personal data, which such words may quote
    assert "batch 1: silver 9 read = 6 written + 2 quarantined + 1 duplicates" in said
