"""Runs that start when files have landed: what the triggerer tells of, and what the DAG makes of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock
from typing import Any

import pytest

from sluicegate.airflow.sensors import trigger as triggers
from sluicegate.landing import intake
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of, task_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

SCHEDULE = 'schedule: "*/15 * * * *"\n'


@pytest.fixture
def started_by_files(workspace: Workspace) -> Workspace:
    workspace.edit("pipeline.yaml", SCHEDULE, SCHEDULE + "trigger: file_arrival\n")
    return workspace


def trigger_of(workspace: Workspace) -> Any:
    """The trigger that the triggerer makes of the serialized DAG, to look often."""
    from airflow.sdk.module_loading import import_string
    from airflow.serialization.serialized_objects import DagSerialization

    facts = json.loads(json.dumps(DagSerialization.to_dict(dag_of(workspace))))
    condition = facts["dag"]["timetable"]["__var"]["asset_condition"]
    (asset,) = condition.get("objects", [condition])
    (watcher,) = asset["watchers"]
    assert (asset["name"], watcher["name"]) == ("heart_rate.landing-files", "file_arrival")
    path, arguments = watcher["trigger"]["classpath"], watcher["trigger"]["kwargs"]
    arguments["places"] = arguments["places"].get("__var", arguments["places"])
    return import_string(path)(**arguments | {"every": 0.01})


def told(workspace: Workspace, *steps: Callable[[], Any]) -> list[list[dict[str, Any]]]:
    """What the trigger tells of at first, and after each step, which comes between two of its looks."""
    trigger, apart, looks = trigger_of(workspace), Lock(), [0]
    look = trigger._find

    def counted(said: Any) -> Any:
        with apart:
            looks[0] += 1
            return look(said)

    trigger._find = counted

    async def watch() -> list[list[dict[str, Any]]]:
        events: list[list[dict[str, Any]]] = []

        async def listen() -> None:
            async for event in trigger.run():
                events[-1].append(event.payload)

        listening = asyncio.ensure_future(listen())
        for step in (lambda: None, *steps):
            with apart:
                events.append([])
                step()
                before = looks[0]
            while looks[0] < before + 4:  # so three have ended, and been told of
                await asyncio.sleep(0.01)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        return events

    return asyncio.run(watch())


def taken(workspace: Workspace, table: str) -> None:
    """Enters what waits for a table into its ledger, as a run does."""
    intake.enter(table, workspace.definition.bronze[table], workspace.lake)


def names(events: list[list[dict[str, Any]]]) -> list[list[dict[str, int]]]:
    return [[{table: of["files"] for table, of in event.items()} for event in step] for step in events]


def test_each_arrival_is_told_of_once(started_by_files: Workspace) -> None:
    at = started_by_files
    events = told(
        at,
        lambda: at.land("recordings/a.json", "[]"),
        lambda: at.land("patients/p.csv", "mrn,name\n"),
        lambda: taken(at, "recordings_bronze"),
        lambda: at.land("recordings/b.json", "[]"),  # as many and as large as the one before
        lambda: at.land("recordings/.hidden", "[]"),
    )
    assert names(events) == [
        [],
        [{"recordings_bronze": 1}],
        [{"recordings_bronze": 1, "patients_bronze": 1}],
        [],  # what waits has been told of
        [{"recordings_bronze": 1, "patients_bronze": 1}],
        [],
    ]


def test_after_an_outage_of_the_store_no_file_is_told_of_again(
    started_by_files: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, outage = triggers.find_arrived, Event()

    def arrived_unless_out(*of: Any) -> Any:
        if outage.is_set():
            raise OSError("the store does not answer")
        return arrived(*of)

    monkeypatch.setattr(triggers, "find_arrived", arrived_unless_out)
    at = started_by_files
    events = told(
        at,
        lambda: at.land("recordings/a.json", "[]"),
        outage.set,
        outage.clear,
        lambda: at.land("recordings/b.json", "[]"),
    )
    assert names(events) == [[], [{"recordings_bronze": 1}], [], [], [{"recordings_bronze": 2}]]


def test_as_many_other_files_between_two_looks_are_news(started_by_files: Workspace) -> None:
    at = started_by_files
    at.land("recordings/a.json", "[]")

    def taken_and_landed() -> None:
        taken(at, "recordings_bronze")
        at.land("recordings/b.json", "[]")

    assert names(told(at, taken_and_landed)) == [[{"recordings_bronze": 1}], [{"recordings_bronze": 1}]]


def test_a_missing_folder_is_told_of_once_and_then_looked_for(started_by_files: Workspace) -> None:
    folder = started_by_files.folder / "landing" / "patients"
    first, gone, back = told(started_by_files, lambda: shutil.rmtree(folder), folder.mkdir)
    assert (first, back) == ([], [])
    (event,) = gone
    assert "landing/patients does not exist" in event["error"]


def test_a_store_that_is_away_is_waited_for(started_by_files: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.airflow.sensors import trigger

    arrived, away = trigger.find_arrived, [OSError("no route to host")] * 2

    def sometimes(*of: Any) -> Any:
        if away:
            raise away.pop()
        return arrived(*of)

    monkeypatch.setattr(trigger, "find_arrived", sometimes)
    started_by_files.land("recordings/a.json", "[]")
    assert names(told(started_by_files)) == [[{"recordings_bronze": 1}]]
    assert not away


@pytest.mark.parametrize(
    ("settle_in", "took", "seconds"),
    [(None, 2, 30), (5, 0.1, 5), (0, 0.01, 1), (5, 1, 20), (5, 2, 30), (3600, 0.1, 30)],
    ids=["nothing-settles", "once-it-has", "no-busy-loop", "a-folder-of-a-second", "a-large-folder", "an-hour"],
)
def test_files_that_settle_are_checked_for_sooner(settle_in: float | None, took: float, seconds: float) -> None:
    from sluicegate.airflow.sensors.trigger import seconds_to_check

    assert seconds_to_check(30, settle_in, took) == seconds


def test_a_run_begins_when_its_file_has_settled_not_at_the_next_check(started_by_files: Workspace) -> None:
    from sluicegate.airflow.sensors.trigger import LandedFilesTrigger

    at = started_by_files
    at.edit("pipeline.yaml", "    format: json\n", "    format: json\n    settleSeconds: 1\n")
    arguments: dict[str, Any] = {"pipeline": "heart_rate", "places": at.settings.arguments, "every": 3600.0}
    waiting = LandedFilesTrigger(**arguments, tables=[])
    watching = trigger_of(at)
    watching.every = 3600.0

    async def first(events: Any) -> Any:
        return (await asyncio.wait_for(anext(aiter(events)), 60)).payload

    for trigger, told_of in ((waiting, "found"), (watching, "recordings_bronze")):
        at.land("recordings/a.json", "[]", age=0)
        assert asyncio.run(first(trigger.run()))[told_of]["files"] == 1


def test_the_schedule_stays_and_with_it_backfills(started_by_files: Workspace) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    def timetable() -> Any:
        return DagSerialization.from_dict(DagSerialization.to_dict(dag_of(started_by_files))).timetable

    assert timetable().periodic
    assert timetable().timetable.summary == "*/15 * * * *"
    started_by_files.edit("pipeline.yaml", SCHEDULE, "")
    assert not timetable().periodic
    trigger_of(started_by_files)


def test_a_token_in_the_master_is_not_recorded_with_what_starts_no_spark(
    started_by_files: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    master = "sc://spark.example.com:443/;token=c2VjcmV0"
    monkeypatch.setattr(Workspace, "settings", replace(started_by_files.settings, master=master))
    assert trigger_of(started_by_files).places["master"] == "local[*]"
    sensor = task_of(started_by_files, "wait_for_files")
    sensor.timeout = 60.0
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(context_of(sensor, "manual", dated=False))
    assert "c2VjcmV0" not in str(caught.value.trigger.serialize())


def test_no_run_waits_for_what_starts_one(started_by_files: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    sensor = task_of(started_by_files, "wait_for_files")
    for kind in ("scheduled", "asset_triggered", "manual"):
        with pytest.raises(AirflowSkipException, match="nothing to do"):
            sensor.execute(context_of(sensor, kind, dated=kind == "scheduled"))
    started_by_files.land("recordings/a.json", "[]")
    assert sensor.execute(context_of(sensor, "asset_triggered", dated=False)) == {"files": 1, "bytes": 2}
