"""RESTORE of a table, by Spark or by delta-rs: the next run brings back exactly what is missing."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sluicegate import _faults
from sluicegate.lake import offsets
from sluicegate.landing import file_status
from sluicegate.monitor import plan, status
from tests.conftest import Workspace, beat
from tests.spark.landing.test_file_status import define, ids, states, verified
from tests.spark.test_medallion import assert_right
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.prepared import Prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def chunks(spark: SparkSession, workspace: Workspace, first: int, last: int) -> None:
    """Lands and reads files that hold one number each, a chunk a file."""
    for number in range(first, last + 1):
        workspace.land(f"things/{number}.json", json.dumps({"id": number}), age=1000 - number)
    workspace.run(spark, "bronze")


def things(workspace: Workspace) -> DeltaTable:
    return DeltaTable(workspace.uri("things"))


@pytest.fixture
def five(spark: SparkSession, prepared: Prepared) -> Workspace:
    """Five chunks in five commits, versions 0 to 4."""

    def fill(workspace: Workspace) -> None:
        define(workspace, "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1")
        chunks(spark, workspace, 1, 5)

    return prepared.workspace("five chunks", fill)


def assert_whole(workspace: Workspace, last: int) -> None:
    assert ids(workspace) == list(range(1, last + 1))
    assert {state for _, state in states(workspace)} == {"ingested"}
    assert verified(workspace)
    assert plan.pending(workspace.definition, workspace.settings).nothing
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]


def test_restored_by_delta_rs(spark: SparkSession, five: Workspace) -> None:
    things(five).restore(1)
    assert ids(five) == [1, 2]
    assert [state for _, state in states(five)] == ["ingested", "ingested", "waiting", "waiting", "waiting"]
    assert plan.pending(five.definition, five.settings).layers == ["bronze"]
    assert verified(five)
    report = five.run(spark, "bronze")["things"]
    assert (report.read, report.why.split(":")[0]) == (3, "it was restored in version 5")
    assert_whole(five, 5)
    chunks(spark, five, 6, 7)
    assert_whole(five, 7)


@pytest.mark.release
def test_restored_by_spark_twice_and_forward_again(spark: SparkSession, five: Workspace) -> None:
    table = f"delta.`{five.uri('things')}`"
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 2")  # version 5
    chunks(spark, five, 6, 6)  # versions 6 to 8: chunks 4, 5 and 6
    assert_whole(five, 6)
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 6")  # version 9, within the second epoch
    five.run(spark, "bronze")
    assert_whole(five, 6)
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 3")  # of the first epoch
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 8")  # and on to where all six were there
    assert verified(five)
    assert five.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    assert_whole(five, 6)
    chunks(spark, five, 7, 7)
    assert_whole(five, 7)


def test_restored_to_a_time(spark: SparkSession, five: Workspace) -> None:
    """The log tells the time as it was written, in a zone that only the writer knows; the files tell the version."""
    today = datetime.now(UTC).replace(microsecond=0)  # Delta cleans away what is older than a month
    hours = {version: today - timedelta(hours=5 - version) for version in range(5)}
    for version, hour in hours.items():
        at = hour.timestamp()
        os.utime(Path(five.uri("things")) / "_delta_log" / f"{version:020}.json", (at, at))
    then = (hours[3] - timedelta(milliseconds=1)).strftime("%Y-%m-%d %H:%M:%S.%f")
    spark.sql(f"RESTORE TABLE delta.`{five.uri('things')}` TO TIMESTAMP AS OF '{then}'")
    assert offsets.restore_history(things(five)).restores == (offsets.Restore(2, 5),)
    assert five.run(spark, "bronze")["things"].read == 2
    assert_whole(five, 5)


@pytest.mark.parametrize("name", ["bronze.before_commit", pytest.param("bronze.after_commit", marks=pytest.mark.more)])
def test_a_kill_during_the_repair(
    spark: SparkSession, five: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    things(five).restore(1)
    for times in (1, 2):
        stop_at(monkeypatch, name, times)
        with pytest.raises(Stopped):
            five.run(spark, "bronze")
        monkeypatch.undo()
    five.run(spark, "bronze")
    assert_whole(five, 5)


def test_a_kill_before_the_outcome_then_a_restore(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the commits that nobody has told of, some stand and some are undone."""
    define(workspace, "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1")
    with monkeypatch.context() as patch:
        patch.setattr(file_status, "copy", lambda _at, _name, _opened: file_status.Taken(0, 0, 0, {}))
        chunks(spark, workspace, 1, 4)
    things(workspace).restore(1)
    workspace.run(spark, "bronze")
    assert_whole(workspace, 4)


def test_a_restore_while_a_run_writes(spark: SparkSession, five: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops, and what it had written on top of the restored rows is not there twice after the next run."""
    for number in (6, 7):
        five.land(f"things/{number}.json", json.dumps({"id": number}), age=1000 - number)
    points: list[str] = []

    def point(name: str) -> None:
        points.append(name)
        if points == ["bronze.before_commit"]:  # the latest moment: the target has just been looked at
            things(five).restore(1)

    monkeypatch.setattr(_faults, "point", lambda name: point(name) if name == "bronze.before_commit" else None)
    with pytest.raises(Exception, match="restored while it was being filled"):
        five.run(spark, "bronze")
    monkeypatch.undo()
    assert ids(five) == [1, 2, 6]
    five.run(spark, "bronze")
    assert_whole(five, 7)


@pytest.mark.more
def test_a_file_that_is_gone_is_said_to_be(spark: SparkSession, five: Workspace) -> None:
    (five.folder / "landing/things/4.json").unlink()
    things(five).restore(1)
    report = five.run(spark, "bronze")["things"]
    assert (report.read, [path.rsplit("/", 1)[-1] for path in report.failed]) == (2, ["4.json"])
    assert "FileNotFoundError" in next(iter(report.failed.values()))
    assert ids(five) == [1, 2, 3, 5]
    assert Counter(states(five))["4.json", "failed"] == 1
    assert "1 file could not be read" in plan.pending(five.definition, five.settings).sentence()
    assert verified(five)
    spark.sql(f"RESTORE TABLE delta.`{five.uri('things')}` TO VERSION AS OF 4")  # back to where its rows were
    assert_whole(five, 5)


def test_a_log_that_forgot_the_restore(spark: SparkSession, five: Workspace) -> None:
    """Delta cleans its history; commits of ours that are left know of it, and without any the rows tell enough."""
    things(five).restore(1)
    chunks(spark, five, 6, 6)
    table = things(five)
    for _ in range(2):
        spark.sql(f"ALTER TABLE delta.`{five.uri('things')}` SET TBLPROPERTIES ('steward' = 'me')")
    forget(five, table.version())  # but its newest commit of ours
    assert_whole(five, 6)
    forget(five, table.version() + 1)
    chunks(spark, five, 7, 8)
    assert_whole(five, 8)


def forget(workspace: Workspace, before: int) -> None:
    things(workspace).create_checkpoint()
    log = workspace.folder / "lake/heart_rate/bronze/things/_delta_log"
    for version in range(before):
        (log / f"{version:020}.json").unlink(missing_ok=True)


@pytest.mark.ran
def test_all_layers_follow(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(7, 9, 1, 50.0)], age=60)
    heartbeats.run(spark)
    before = heartbeats.content()
    DeltaTable(heartbeats.uri("recordings_bronze")).restore(0)
    reports = heartbeats.run(spark)
    assert reports["recordings_bronze"].read == 2
    assert "RESTORE" in reports["recordings_enriched"].why
    assert heartbeats.content() == before
    for table in ("recordings_enriched", "daily_patient_avg"):
        DeltaTable(heartbeats.uri(table)).restore(0)
        reports = heartbeats.run(spark)
        assert (reports[table].state, reports[table].why.split(" in ")[0]) == ("rebuilt", "it was restored")
        assert heartbeats.content() == before
        assert {r.state for r in heartbeats.run(None).values()} == {"idle"}  # type: ignore[arg-type]
    assert_right(heartbeats)
    assert status.verify(heartbeats.definition, heartbeats.settings) == []
