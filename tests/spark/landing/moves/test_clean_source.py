"""Landed files that go once their rows are committed: none too soon, none lost, and read again from where they went."""

from __future__ import annotations

import gzip
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sluicegate import _faults
from sluicegate.landing import intake
from sluicegate.landing.chosen import reread
from sluicegate.landing.moves import clean_source
from sluicegate.launch import pipeline
from sluicegate.monitor import plan, status
from tests.conftest import Workspace
from tests.spark.jobs.test_reload import again, assert_idle
from tests.spark.landing.test_file_status import define, ids, states, verified
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

POINTS = [point for point in _faults.POINTS if point.startswith("clean.")]


def moving(workspace: Workspace, more: str = "", retention: str = "0 seconds") -> None:
    away = workspace.folder / "away"
    define(
        workspace,
        f"format: json, schemaHints: id BIGINT, cleanSource: MOVE, cleanSourceRetentionDuration: {retention}, "
        f"cleanSourceMoveDestination: '{away}'{more}",
    )


def deleting(workspace: Workspace) -> None:
    hints = "schemaHints: id BIGINT, cleanSourceRetentionDuration: 7 days"
    define(workspace, f"format: json, {hints}, cleanSource: DELETE")


def landed(workspace: Workspace) -> list[str]:
    return below(workspace.folder / "landing" / "things")


def away(workspace: Workspace) -> list[str]:
    return below(workspace.folder / "away")


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def clean(workspace: Workspace, days: float = 0) -> clean_source.Cleaned:
    now = datetime.now(UTC) + timedelta(days=days)
    return clean_source.clean("things", workspace.definition.bronze["things"], workspace.lake, now)


def test_only_files_whose_rows_are_committed_go(spark: SparkSession, workspace: Workspace) -> None:
    moving(workspace, ", settleSeconds: 80, pathGlobFilter: '*.json*'")
    workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.land("things/sub/deep/b c%.json", '{"id": 2}', age=98)
    workspace.land("things/bad.json.gz", b"?", age=97)
    workspace.land("things/other.txt", "?", age=96)
    workspace.land("things/young.json", '{"id": 3}', age=0)
    workspace.run(spark, "bronze")
    assert away(workspace) == ["a.json", "sub/deep/b c%.json"]
    assert landed(workspace) == ["bad.json.gz", "other.txt", "young.json"]
    assert dict(states(workspace)) == {
        "a.json": "archived", "b c%.json": "archived", "bad.json.gz": "failed", "young.json": "settling",
    }  # fmt: skip
    entry = status.files("things", workspace.definition, workspace.settings).to_pylist()[0]
    assert (entry["place"], entry["archived"].date()) == (
        str(workspace.folder / "away/a.json"),
        datetime.now(UTC).date(),
    )
    assert verified(workspace)
    assert plan.pending(workspace.definition, workspace.settings).nothing


def test_a_changed_file_stays(spark: SparkSession, workspace: Workspace) -> None:
    moving(workspace, retention="1 day")
    workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.land("things/b.json", '{"id": 2}', age=98)
    workspace.run(spark, "bronze")
    assert (clean(workspace, 0.9).removed, away(workspace)) == (0, [])
    workspace.land("things/a.json", '{"id": 7}', age=50)
    assert clean(workspace, 1.1).removed == 1
    assert (landed(workspace), away(workspace)) == (["a.json"], ["b.json"])
    assert states(workspace) == [("a.json", "ingested"), ("b.json", "archived"), ("a.json", "changed")]
    assert verified(workspace)


def test_deleting_and_idle_runs(spark: SparkSession, workspace: Workspace) -> None:
    deleting(workspace)
    workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.run(spark, "bronze")
    assert clean(workspace, 6.9).removed == 0
    assert clean(workspace, 7.1).removed == 1
    assert (landed(workspace), states(workspace)) == ([], [("a.json", "archived")])
    moving(workspace, retention="7 days")
    workspace.land("things/b.json", '{"id": 2}', age=99)
    workspace.run(spark, "bronze")
    assert away(workspace) == []
    moving(workspace)  # the definition as it is now counts
    lines: list[str] = []
    assert pipeline.run(workspace.definition, workspace.settings, None, lines.append) == []  # without a JVM
    assert any("1 file of things moved to" in line for line in lines)
    assert away(workspace) == ["b.json"]
    assert verified(workspace)


@pytest.mark.release
def test_a_name_that_is_used_again(spark: SparkSession, workspace: Workspace) -> None:
    """Each day's export has yesterday's name: all are read, all are kept, and one is read again without the others."""
    moving(workspace)
    for day in (1, 2, 3):
        workspace.land("things/export.json", json.dumps({"id": day}), age=100 - day)
        workspace.run(spark, "bronze")
    assert away(workspace) == ["export.1.json", "export.2.json", "export.json"]
    assert [state for _, state in states(workspace)] == ["archived"] * 3
    assert ids(workspace) == [1, 2, 3]
    again(spark, workspace, reread.Reload(files=("export.json",)))
    assert ids(workspace) == [1, 2, 3]
    assert [state for _, state in states(workspace)] == ["archived", "archived", "replaced", "archived"]
    assert_idle(workspace)
    again(spark, workspace, reread.Reset())
    assert ids(workspace) == [1, 2, 3]
    assert_idle(workspace)
    moving(workspace, ", allowOverwrites: true")  # then a name is one thing, and its last content counts
    workspace.land("things/export.json", json.dumps({"id": 4}), age=50)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [1, 2, 4]
    assert_idle(workspace)


def test_a_file_that_is_put_back(spark: SparkSession, workspace: Workspace) -> None:
    """By size and modification time it is the one that was read: its rows are there, and do not come twice."""
    moving(workspace)
    path = workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.run(spark, "bronze")
    (workspace.folder / "away/a.json").rename(path)
    assert_idle(workspace)
    DeltaTable(workspace.uri("things")).delete()
    again(spark, workspace, reread.Reload(files=("a.json",)))
    assert ids(workspace) == [1]


def test_a_file_of_the_archive_that_no_ledger_knows_is_read(spark: SparkSession, workspace: Workspace) -> None:
    """As after a backup of the lake was put back that is older than the file's way into the archive."""
    moving(workspace)
    workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.run(spark, "bronze")
    (workspace.folder / "away/b.json").write_text('{"id": 2}')
    os.utime(workspace.folder / "away/b.json", (1_700_000_000,) * 2)
    assert not verified(workspace)
    again(spark, workspace, reread.FromArchive())
    assert ids(workspace) == [1, 2]
    assert_idle(workspace)
    again(spark, workspace, reread.Reset())
    assert ids(workspace) == [1, 2]
    assert_idle(workspace)


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("mode", ["MOVE", "DELETE"])
def test_a_kill_at_every_point(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    moving(workspace, retention="7 days")
    if mode == "DELETE":
        deleting(workspace)
        if name == "clean.between_copy_and_removal":
            return  # nothing is copied
    for number in (1, 2):
        workspace.land(f"things/{number}.json", json.dumps({"id": number}), age=99)
    workspace.run(spark, "bronze")
    stop_at(monkeypatch, name)
    with pytest.raises(Stopped):
        clean(workspace, 8)
    monkeypatch.undo()
    clean(workspace, 8)
    assert (landed(workspace), away(workspace)) == ([], ["1.json", "2.json"] if mode == "MOVE" else [])
    assert [state for _, state in states(workspace)] == ["archived"] * 2
    assert clean(workspace, 8).removed == 0
    assert_idle(workspace)


@pytest.mark.more
def test_a_restored_table_reads_what_was_moved(spark: SparkSession, workspace: Workspace) -> None:
    moving(workspace, ", maxFilesPerTrigger: 1, partitionColumns: [day]")
    for number in (1, 2, 3):
        workspace.land(f"things/day={number}/a +b%{{é}}.json", json.dumps({"id": number}), age=100 - number)
    workspace.run(spark, "bronze")
    before = sorted(workspace.rows("things", "id", "day"))
    assert len(away(workspace)) == 3
    (workspace.folder / "away" / away(workspace)[2]).unlink()
    DeltaTable(workspace.uri("things")).restore(0)
    report = workspace.run(spark, "bronze")["things"]
    assert report.read == 1
    assert "is missing there" in next(iter(report.failed.values()))
    assert sorted(workspace.rows("things", "id", "day")) == before[:2]
    assert verified(workspace)
    assert all("/landing/things/" in file for (file,) in workspace.rows("things", "source_file"))
    assert away(workspace)[:2] == ["day=1/a +b%{é}.json", "day=2/a +b%{é}.json"]
    again(spark, workspace, reread.Reset())
    assert sorted(workspace.rows("things", "id", "day")) == before[:2]
    assert verified(workspace)


def test_a_deleted_file_does_not_come_back_as_another(spark: SparkSession, workspace: Workspace) -> None:
    """Under its name another file has landed since: restored, the table must not take that one for it."""
    deleting(workspace)
    workspace.land("things/0.json", '{"id": 0}', age=99)
    workspace.run(spark, "bronze")
    workspace.land("things/a.json", '{"id": 1}', age=99)
    workspace.run(spark, "bronze")
    clean(workspace, 8)
    workspace.land("things/a.json", '{"id": 2}', age=98)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [0, 1, 2]
    DeltaTable(workspace.uri("things")).restore(0)
    report = workspace.run(spark, "bronze")["things"]
    assert "was deleted by cleanSource" in next(iter(report.failed.values()))
    assert ids(workspace) == [0, 2]
    assert_idle(workspace)


def test_two_at_once(spark: SparkSession, workspace: Workspace) -> None:
    """Without the lock, too, each file is in the archive in the end."""
    moving(workspace, retention="1 day")
    for number in range(40):
        workspace.land(f"things/{number}.json", json.dumps({"id": number}), age=99)
    workspace.run(spark, "bronze")
    threads = [threading.Thread(target=clean, args=(workspace, 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clean(workspace, 2)
    contents = {(workspace.folder / "away" / name).read_text() for name in away(workspace)}
    assert contents == {json.dumps({"id": number}) for number in range(40)}
    assert landed(workspace) == []
    assert {state for _, state in states(workspace)} == {"archived"}
    assert_idle(workspace)


def test_waiting_and_skipped_files_stay(spark: SparkSession, workspace: Workspace) -> None:
    moving(workspace, ", includeExistingFiles: false")
    workspace.land("things/old.json", '{"id": 1}', age=99)
    workspace.run(spark, "bronze")
    workspace.land("things/new.json.gz", gzip.compress(b'{"id": 2}'), age=50)
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake)
    assert (clean(workspace, 99).removed, landed(workspace)) == (0, ["new.json.gz", "old.json"])
    workspace.run(spark, "bronze")
    assert (away(workspace), landed(workspace)) == (["new.json.gz"], ["old.json"])
