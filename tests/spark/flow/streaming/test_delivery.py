"""Each batch holds all rows between mark and end, or is refused: at Delta's limits, and if Spark were to lose some."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import AccountingError
from sluicegate.flow import loop, source_changes
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.streaming import delivery, source_stream
from sluicegate.lake.table import Tables
from tests.conftest import Workspace
from tests.support.delivery_world import WORLDS, Streaming, World, without_streams
from tests.support.stream_listener import streams_started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Files that a batch may have in these tests; Delta's own limit is 1,000.
LIMIT = 2
LIMITED = {"maxFilesPerTrigger": str(LIMIT)}

WAY = Flow("silver", "s", "/things", "/s")


def one_more(patch: pytest.MonkeyPatch) -> None:
    """The source has a row that Spark does not deliver, and nothing but the number of rows tells of it."""
    told = delivery.expected_rows

    def of(uri: str, since: int, until: int, *, feed: bool) -> delivery.ExpectedRows:
        found = told(uri, since, until, feed=feed)
        rows = {version: (count or 0) + (version == until) for version, count in found.rows.items()}
        return replace(found, rows=rows)

    patch.setattr(delivery, "expected_rows", of)


def refuses(world: World, why: str) -> None:
    """A run fails, and writes nothing."""
    before = world.taken, world.version
    with pytest.raises(AccountingError, match=why):
        world.run()
    assert (world.taken, world.version) == before


@pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.__name__)
def test_a_batch_holds_all_rows_or_nothing_of_it_is_written(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: type[World]
) -> None:
    world = kind(spark, workspace)
    world.run()
    with monkeypatch.context() as patch:
        patch.setattr(source_changes, "STREAM", LIMITED)
        world.grow(LIMIT)
        world.run()
        assert world.taken == world.rows
        world.grow(LIMIT + 1)
        refuses(world, "in one batch: ")
    if kind is Streaming:  # its checkpoint is of no use any more, and is thrown away
        world.run()
        world.grow(1)
    with monkeypatch.context() as patch:
        one_more(patch)
        refuses(world, "the log of its source has")
    world.run()
    assert world.taken == world.rows
    assert world.run().state == "idle"


@pytest.mark.in_the_jvm
def test_first_load_and_changes_are_read_by_a_stream_each(spark: SparkSession, workspace: Workspace) -> None:
    world = World(spark, workspace)
    with streams_started(spark) as started:
        for number, grown in enumerate((0, 1, 3), 1):
            world.grow(grown) if grown else None
            assert world.run().trigger == "availableNow"
            assert world.taken == world.rows
            assert started() == number
        assert world.run().state == "idle"
        assert started() == 3


@pytest.mark.parametrize("queries", [False, True], ids=["by a stream", "by a query"])
def test_what_came_after_the_marks_were_read_is_the_next_runs(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, queries: bool
) -> None:
    if queries:
        without_streams(monkeypatch)
    world = World(spark, workspace)
    world.run()
    world.grow(1)
    looks: list[Progress] = []

    def progress(way: Flow, opened: Tables, told: Any = loop.progress) -> Progress:
        looks.append(told(way, opened))
        if len(looks) == 1:
            world.grow(1)
        return looks[-1]

    with monkeypatch.context() as patch:
        patch.setattr(loop, "progress", progress)
        assert world.run().read == 1
    assert (world.taken, world.rows) == (2, 3)
    assert world.run().read == 1
    assert world.taken == 3


@pytest.mark.in_the_jvm
def test_spark_takes_the_prepared_checkpoint_and_writes_its_batch_alone(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "source"))
    names: set[str] = set()

    def take(rows: DataFrame, checkpoint: Path) -> bool:
        names.update(str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*"))
        return rows.count() == 3

    stream = spark.readStream.format("delta").load(str(tmp_path / "source"))
    assert source_stream.take_first_batch(stream, WAY, take)
    assert names == {"metadata", "offsets", "commits", "offsets/0", "offsets/.0.crc"}


@pytest.mark.in_the_jvm
def test_rows_are_counted_in_the_job_that_reads_them(spark: SparkSession) -> None:
    def given(rows: int | None) -> delivery.Delivery:
        return delivery.Delivery(spark.range(10), WAY, delivery.ExpectedRows({1: 4, 2: rows}, {1: 1, 2: 1}))

    def jobs(work: Callable[[], Any]) -> int:
        spark.sparkContext.setJobGroup(group := uuid.uuid4().hex, "a test")
        work()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    for told in (5, 7):
        batch = given(told)
        batch.prove()  # nobody looked at its rows: they are in no table
        batch.rows.collect()
        with pytest.raises(AccountingError, match=f"10 rows .* {4 + told}"):
            batch.prove()
    right = given(6)
    assert right.read == 10
    assert jobs(lambda: right.rows.collect()) > 0
    assert jobs(right.prove) == 0
    unseen, partly = given(6), given(6)
    assert unseen.rows is not None
    assert jobs(unseen.prove) > 0  # to be written without any look at them before
    partly.rows.limit(1).collect()
    partly.prove()
    empty = given(-4)
    assert empty.rows is not None
    with pytest.raises(AccountingError, match="10 rows"):
        empty.prove()


def test_a_second_batch_is_refused(spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were Spark to begin one, after a first that seemed to be whole."""
    world = World(spark, workspace)
    world.run()
    version = world.version
    run_available = source_stream.run_available

    def twice(writer: Any, take: Callable[[DataFrame, int], None], *about: Any, **more: Any) -> Any:
        def both(rows: DataFrame, number: int) -> None:
            take(rows, number)
            take(rows, number + 1)

        return run_available(writer, both, *about, **more)

    monkeypatch.setattr(source_stream, "run_available", twice)
    world.grow(1)
    with pytest.raises(AccountingError, match="batch 1 arrived although"):
        world.run()
    assert (world.taken, world.version) == (2, version + 1)
