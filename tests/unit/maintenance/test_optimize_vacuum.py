"""The DAG that maintains tables, what its definition says, and what is seen to be due, all without Spark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.definition.pipeline.maintenance import LONGEST, RETENTION
from sluicegate.errors import DefinitionError, JavaMissing
from sluicegate.flow.report import REPORT
from sluicegate.jobs import maintain
from sluicegate.lake import tables
from sluicegate.maintenance import optimize_vacuum
from sluicegate.spark import configuration, java, spark_submit
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.support.channel import sent

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from sluicegate.airflow.operators.maintenance import Maintenance

pytestmark = pytest.mark.unit

LONG_AGO = timedelta(days=8)
WEEKLY = 'maintenance: {schedule: "0 3 * * 0"}'


@pytest.fixture(autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in os.environ if key.startswith("AIRFLOW")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path_factory.getbasetemp() / "airflow"))


@pytest.fixture
def maintained(workspace: Workspace) -> Workspace:
    """A pipeline that asks for maintenance, with an event log of many files."""
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\n{WEEKLY}\ndatabase:")
    for number in range(tables.MANY_FILES):
        write_deltalake(workspace.lake.events, pa.table({"n": [number]}), mode="append")
    return workspace


def age(folder: str, by: timedelta = LONG_AGO) -> None:
    """Makes the files of a table, and what its log says of their removal, older."""
    then = time.time() - by.total_seconds()
    for file in Path(folder).rglob("*.parquet"):
        os.utime(file, (then, then))
    for log in Path(folder, "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] = int(then * 1000)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def events(workspace: Workspace) -> optimize_vacuum.MaintainedTable:
    (found,) = optimize_vacuum.maintained_tables(workspace.definition, workspace.lake)
    return found


def work(workspace: Workspace) -> None:
    maintain.run(workspace.definition, workspace.lake, {}, lambda: pytest.fail("Spark was started"), tell=print)


def test_what_delta_rs_writes_is_maintained_by_it(maintained: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    before = events(maintained)
    assert (before.name, before.files, before.scattered, before.is_vacuum_due) == ("_events", 32, True, False)
    work(maintained)
    after = events(maintained)
    assert (after.files, after.is_due) == (1, False)
    assert "_events" in capsys.readouterr().out
    assert after.bytes > before.bytes  # the former files stay, for those who still read them
    age(maintained.lake.events)
    assert events(maintained).stale == 32
    work(maintained)
    assert (events(maintained).stale, events(maintained).bytes < before.bytes) == (0, True)
    rows = DeltaTable(maintained.lake.events).to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows) == list(range(32))


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_files_below_SMALL_are_put_together_whatever_delta_rs_takes_for_large(
    maintained: Workspace, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """Else maintenance would be due for ever, of tables whose files delta-rs leaves as they are."""
    table = DeltaTable(maintained.lake.events)
    [size] = {*tables.statistics(table, "size_bytes")["size_bytes"].to_pylist()}
    table.alter.set_table_properties({"delta.targetFileSize": f"{size}"})
    monkeypatch.setattr(optimize_vacuum, "SMALL", size - beyond)
    assert events(maintained).scattered == (beyond < 0)
    work(maintained)
    after = events(maintained)
    assert (after.files < tables.MANY_FILES, after.is_due) == (beyond < 0, False)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_files_stay_for_who_follows_a_commit_within_SLACK_of_when_they_may_go(
    maintained: Workspace, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """A file may be as much older than its commit as the job took."""
    work(maintained)
    age(maintained.lake.events)
    now, keeps = datetime.now(UTC).replace(microsecond=0), timedelta(days=7)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(now.timestamp(), tz)

    monkeypatch.setattr(optimize_vacuum, "datetime", Clock)
    commit = now - keeps + optimize_vacuum.SLACK + beyond * timedelta(microseconds=1)
    uri = maintained.lake.events
    seen = optimize_vacuum._state(DeltaTable(uri), uri, maintained.lake, False, keeps, (commit, "a table"))
    assert (seen.stale, bool(seen.hold_reason), seen.is_vacuum_due) == (32, beyond < 0, beyond >= 0)


def test_files_stay_as_long_as_the_definition_says(maintained: Workspace) -> None:
    work(maintained)
    age(maintained.lake.events)
    maintained.edit("pipeline.yaml", WEEKLY, WEEKLY.replace("}", ", retention: 9 days}"))
    assert (events(maintained).retention, events(maintained).stale) == (timedelta(days=9), 0)


def test_or_as_long_as_the_table_itself_says(maintained: Workspace) -> None:
    work(maintained)
    age(maintained.lake.events)
    own = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    DeltaTable(maintained.lake.events).alter.set_table_properties(own)
    assert (events(maintained).retention, events(maintained).stale) == (timedelta(days=30), 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{retention: 6 days 23 hours}", "6 days 23 hours is less than 7 days"),
        ("{retention: 31 days}", "31 days is more than 30 days"),
        ("{retention: a week or so}", "a week or so"),
        ('{schedule: "@weekly"}', "cron expression"),
        ("{vacuum: 7 days}", "field vacuum"),
    ],
)
def test_what_would_break_readers_is_refused(workspace: Workspace, given: str, told: str) -> None:
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\nmaintenance: {given}\ndatabase:")
    with pytest.raises(DefinitionError) as error:
        _ = workspace.definition
    assert told in error.value.for_people()


def asks_for(workspace: Workspace, retention: str) -> None:
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\nmaintenance: {{retention: {retention}}}\ndatabase:")


@pytest.mark.parametrize(
    ("given", "keeps"),
    [
        ("6 days 23 hours 59 minutes 59.999999 seconds", None),
        ("7 days", timedelta(days=7)),
        ("7 days 0.000001 seconds", timedelta(days=7, microseconds=1)),
    ],
)
def test_files_stay_for_RETENTION_or_longer_and_a_table_is_told_only_of_longer(
    workspace: Workspace, given: str, keeps: timedelta | None
) -> None:
    assert optimize_vacuum.retention(workspace.definition) == RETENTION
    asks_for(workspace, given)
    if keeps is None:
        with pytest.raises(DefinitionError, match="is less than 7 days"):
            _ = workspace.definition
        return
    assert optimize_vacuum.retention(workspace.definition) == keeps
    uri = workspace.lake.events
    write_deltalake(uri, pa.table({"n": [1]}))
    seen = optimize_vacuum._state(DeltaTable(uri), uri, workspace.lake, True, keeps, None)
    assert (seen.retention, seen.lengthen) == (keeps, keeps > RETENTION)


@pytest.mark.parametrize(
    ("given", "keeps"),
    [
        ("29 days 23 hours 59 minutes 59.999999 seconds", LONGEST - timedelta(microseconds=1)),
        ("30 days", LONGEST),
        ("30 days 0.000001 seconds", None),
    ],
)
def test_files_stay_no_longer_than_the_LONGEST(workspace: Workspace, given: str, keeps: timedelta | None) -> None:
    asks_for(workspace, given)
    if keeps is None:
        with pytest.raises(DefinitionError, match="is more than 30 days"):
            _ = workspace.definition
    else:
        assert optimize_vacuum.retention(workspace.definition) == keeps


# --- the DAG ---------------------------------------------------------------------------------------------------------


def dags(workspace: Workspace) -> dict[str, DAG]:
    from sluicegate.airflow.dag import medallion_dags

    return medallion_dags(workspace.settings)


@pytest.fixture
def submit(maintained: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Maintenance]:
    """The task, whose spark-submit is a shell script."""

    def make(script: str) -> Maintenance:
        monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
        monkeypatch.setattr(java, "java_version", lambda _: "17")
        monkeypatch.setattr(configuration, "spark_conf", lambda _, **__: {"spark.app.id": "fake"})
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        program = maintained.folder / "spark-submit"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        task: Any = dags(maintained)["heart_rate_maintenance"].task_dict["maintain"]
        task.spark_binary = str(program)
        return task  # type: ignore[no-any-return]

    return make


def test_a_definition_that_asks_for_it_has_a_dag_for_it(maintained: Workspace) -> None:
    from sluicegate.airflow.timetable import PipelineTimetable

    dag = dags(maintained)["heart_rate_maintenance"]
    assert dag.timetable == PipelineTimetable("0 3 * * 0")
    assert (dag.task_ids, dag.tags, dag.catchup) == (["maintain"], {"healthcare"}, False)
    assert dag.task_dict["maintain"].retries == 3
    maintained.edit("pipeline.yaml", WEEKLY, "")
    assert list(dags(maintained)) == ["heart_rate"]


def test_the_task_submits_the_job(submit: Callable[[str], Maintenance], maintained: Workspace) -> None:
    report = {"pipeline": "heart_rate", "layer": "maintain", "tables": [], "notes": ["_events  32 files → 1 file"]}
    task = submit(f'echo "$@" > {maintained.folder}/arguments\n{sent(REPORT, report)}')
    context = context_of(task)
    task.render_template_fields(context)
    assert task.execute(context) == report
    arguments = (maintained.folder / "arguments").read_text()
    assert f"{spark_submit.job_file('maintain')} --pipeline heart_rate --lake {maintained.settings.lake} " in arguments
    assert Path(spark_submit.job_file("maintain")).is_file()
    assert "--mode" not in arguments


def test_where_nothing_is_due_nothing_is_started(submit: Callable[[str], Maintenance], maintained: Workspace) -> None:
    task = submit(f"touch {maintained.folder}/started")
    work(maintained)
    assert task.execute(context_of(task)) is None
    assert not (maintained.folder / "started").exists()


def test_it_does_not_meet_a_run(submit: Callable[[str], Maintenance], maintained: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    from sluicegate.lake.exclusion.lock import pipeline_lock

    task = submit(f"touch {maintained.folder}/started")
    with pipeline_lock(maintained.lake, "a run"), pytest.raises(AirflowRescheduleException):
        task.execute(context_of(task))
    assert not (maintained.folder / "started").exists()


# --- the job and the command -----------------------------------------------------------------------------------------


def places(workspace: Workspace) -> list[str]:
    return ["--lake", workspace.settings.lake, "--pipelines", str(workspace.settings.pipelines)]


def test_the_job_tells_what_it_did(maintained: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert maintain.main(["--pipeline", "heart_rate", *places(maintained)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    (note,) = json.loads(last.removeprefix(REPORT))["notes"]
    assert note.split()[:3] == ["_events", "32", "files,"]
    assert "→ 1 file, " in note


def test_the_command_starts_no_spark_for_nothing(
    maintained: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sluicegate.cli import app

    work(maintained)
    capsys.readouterr()
    monkeypatch.setenv("PATH", str(maintained.folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    app.app(["maintain", "heart_rate", "--json", *places(maintained)], standalone_mode=False)
    (fact,) = json.loads(capsys.readouterr().out)
    assert (fact["table"], fact["files_before"], fact["files_after"]) == ("_events", 1, 1)
    for number in range(tables.MANY_FILES):
        write_deltalake(maintained.lake.events, pa.table({"n": [number]}), mode="append")
    with pytest.raises(JavaMissing):  # now there is something to gain
        app.app(["maintain", "heart_rate", *places(maintained)], standalone_mode=False)
