"""Maintenance takes files away, and nothing else: rows, marks and what is kept of groups are as before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.jobs import maintain
from sluicegate.lake import tables
from sluicegate.maintenance import optimize_vacuum
from sluicegate.monitor import status
from sluicegate.spark import session
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Kept up to date by what is kept of each group; by a streaming aggregation; and made again, ordered and so clustered.
GOLD = """gold:
  kept: {sql: "SELECT mrn, sum(heartrate) AS s FROM recordings_enriched GROUP BY mrn", refresh: incremental}
  streamed: {sql: "SELECT mrn, count(*) AS n FROM recordings_enriched GROUP BY mrn", mode: complete}
  ordered: {sql: "SELECT mrn, max(time) AS t FROM recordings_enriched GROUP BY mrn ORDER BY mrn"}"""

# Files may go at once, and few are many.
AT_ONCE = timedelta(0)


@pytest.fixture
def maintained(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    heartbeats.edit("pipeline.yaml", "gold:", GOLD)
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    # As many tasks as cores list a folder here, of which there are some 200 in a test.
    monkeypatch.setitem(optimize_vacuum.SETTINGS, "spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
    return heartbeats


def land_more(workspace: Workspace, spark: SparkSession, count: int = 3) -> None:
    for number in range(count):
        workspace.land(f"recordings/more-{number}.json", [beat(2, 2, 7200 + number, 70.0 + number)], age=50 - number)
        workspace.run(spark)


def allow_at_once(spark: SparkSession, workspace: Workspace) -> None:
    for table in optimize_vacuum.maintained_tables(workspace.definition, workspace.lake):
        if table.of_spark:
            keeps = "('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
            spark.sql(f"ALTER TABLE delta.`{table.uri}` SET TBLPROPERTIES {keeps}")
    workspace.run(spark)


def done(workspace: Workspace, spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Maintains the tables, and tells by table what was before and is now."""
    subject = (workspace.definition, workspace.lake)
    before = optimize_vacuum.maintained_tables(*subject, AT_ONCE)
    maintain.run(*subject, {"run_id": "test"}, lambda: spark, AT_ONCE, lambda _line: None)
    return {
        fact["table"]: fact
        for fact in optimize_vacuum.compare_tables(before, optimize_vacuum.maintained_tables(*subject, AT_ONCE))
    }


def states(workspace: Workspace) -> set[str]:
    """What each table has to do, by a run that may start no Spark."""
    return {report.state for report in workspace.run(None).values()}  # type: ignore[arg-type]


@pytest.mark.more
def test_files_go_and_all_else_stays(spark: SparkSession, maintained: Workspace) -> None:
    maintained.run(spark)
    land_more(maintained, spark)
    allow_at_once(spark, maintained)
    content = maintained.content()

    first = done(maintained, spark)
    assert {name for name, fact in first.items() if fact["files_before"] > 1} >= {
        "bronze/recordings_bronze", "silver/recordings_enriched", "silver/recordings_enriched_quarantine", "_events",
    }  # fmt: skip
    assert all(fact["files_after"] < fact["files_before"] for fact in first.values() if fact["files_before"] > 3)
    assert (maintained.content(), states(maintained)) == (content, {"idle"})

    second = done(maintained, spark)
    bronze = second["bronze/recordings_bronze"]
    assert bronze["bytes_after"] < bronze["bytes_before"]
    assert len(list((maintained.folder / "lake/heart_rate/bronze/recordings_bronze").glob("*.parquet"))) == 1
    assert (maintained.content(), states(maintained)) == (content, {"idle"})
    assert status.verify(maintained.definition, maintained.settings) == []

    # What comes now is taken in by what changed, and a late patient by her old records.
    maintained.land("patients/late.csv", "mrn,name\n9,Cy\n", age=10)
    maintained.land("recordings/z.json", [beat(2, 2, 90000, 99.0)], age=9)
    reports = maintained.run(spark)
    assert {name: report.why for name, report in reports.items() if report.state == "rebuilt"} == {}
    assert ("Cy",) in maintained.rows("recordings_enriched", "name")
    assert_right(maintained)
    assert dict(maintained.rows("kept", "mrn", "s"))[9] == 70.0
    assert dict(maintained.rows("streamed", "mrn", "n"))[9] == 1


def test_what_is_SMALL_to_who_looks_is_put_together_by_spark(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files each of one byte less, of just as many, and of one more: what is due would else stay due for ever."""
    least = "spark.databricks.delta.optimize.minFileSize"
    assert optimize_vacuum.SETTINGS[least] == str(optimize_vacuum.SMALL)
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    left = {}
    for beyond in (-1, 0, 1):
        uri = str(workspace.folder / f"t{beyond}")
        for number in range(2):
            write_deltalake(uri, pa.table({"n": [number]}), mode="append")
        [size] = {*tables.statistics(DeltaTable(uri), "size_bytes")["size_bytes"].to_pylist()}
        monkeypatch.setattr(optimize_vacuum, "SMALL", size - beyond)
        settings = {**optimize_vacuum.SETTINGS, least: str(optimize_vacuum.SMALL)}
        seen = optimize_vacuum._state(DeltaTable(uri), uri, workspace.lake, True, timedelta(days=7), None)
        assert seen.scattered == (beyond < 0)
        with session.override_settings(spark, settings):
            optimize_vacuum.optimize_by_spark(spark, replace(seen, scattered=True))
        left[beyond] = len(DeltaTable(uri).file_uris())
        assert sorted(DeltaTable(uri).to_pyarrow_table()["n"].to_pylist()) == [0, 1]
    assert left == {-1: 1, 0: 2, 1: 2}


@pytest.mark.release
def test_files_stay_that_another_table_has_yet_to_follow(spark: SparkSession, maintained: Workspace) -> None:
    maintained.run(spark)
    allow_at_once(spark, maintained)
    bronze = maintained.uri("recordings_bronze")
    spark.sql(f"DELETE FROM delta.`{bronze}` WHERE device_id = 1")  # its change data feed has files of its own
    content = {*optimize_vacuum._data_files(f"{maintained.lake.root}/heart_rate/bronze")["path"].to_pylist()}
    facts = done(maintained, spark)["bronze/recordings_bronze"]
    assert facts["held"].startswith("recordings_enriched has not read it since ")
    assert content <= {*optimize_vacuum._data_files(f"{maintained.lake.root}/heart_rate/bronze")["path"].to_pylist()}
    maintained.run(spark)
    assert {device for (device,) in maintained.rows("recordings_enriched", "device_id")} == {2}
    assert optimize_vacuum.unread_sources(maintained.definition, maintained.lake) == {}


@pytest.mark.release
@pytest.mark.ran
def test_a_longer_retention_is_said_to_the_tables(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.edit("pipeline.yaml", "\ndatabase:", "\nmaintenance: {retention: 14 days}\ndatabase:")
    content = heartbeats.content()
    assert {table.name for table in look(heartbeats) if table.is_due} == {
        t.name for t in look(heartbeats) if t.of_spark
    }
    maintain.run(heartbeats.definition, heartbeats.lake, {"run_id": "test"}, lambda: spark)
    bronze = DeltaTable(heartbeats.uri("recordings_bronze"))
    assert bronze.metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 336 hours"
    assert not any(table.is_due for table in look(heartbeats))
    assert (heartbeats.content(), states(heartbeats)) == (content, {"idle"})


@pytest.mark.ran
def test_where_nothing_is_due_spark_is_not_started(spark: SparkSession, heartbeats: Workspace) -> None:
    versions = {table.uri: DeltaTable(table.uri).version() for table in look(heartbeats)}
    assert not any(table.is_due for table in look(heartbeats))
    maintain.run(heartbeats.definition, heartbeats.lake, {}, lambda: pytest.fail("it was"))
    assert versions == {table.uri: DeltaTable(table.uri).version() for table in look(heartbeats)}


def look(workspace: Workspace) -> list[optimize_vacuum.MaintainedTable]:
    return optimize_vacuum.maintained_tables(workspace.definition, workspace.lake)
