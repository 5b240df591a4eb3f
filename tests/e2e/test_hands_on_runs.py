"""Runs that people take in hand, in a real Airflow with real Spark, against a computation in plain Python."""

from __future__ import annotations

import signal
import urllib.error
from collections.abc import Iterator

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import DAGS, asked, failed_with, run, saved, states
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import (
    clear,
    ended,
    land,
    mid_run,
    note,
    quick_airflow,
    reaches,
    until,
    versions,
)
from tests.support.process_tree import send

pytestmark = [pytest.mark.e2e, pytest.mark.release]


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    with quick_airflow(workspace) as started:
        yield started


def test_marked_cleared_deleted_and_paused_runs(airflow: LocalAirflow, workspace: Workspace) -> None:
    # Marked as done in mid-run: Airflow ends the job, and the account says what waits.
    marked, job = mid_run(airflow, workspace, 1)
    asked(airflow, "PATCH", f"{DAGS}/dagRuns/{marked}/taskInstances/run", {"new_state": "success"})
    assert reaches(airflow, marked, "account", "up_for_retry", "failed", "success") == "up_for_retry"
    failed_with(airflow, "this run did not process all data that was new when it started", marked, "account", 1)
    assert not any(process.is_running() for process in job)

    # The next run does what is left, by which the account of the marked one is right as well.
    land(workspace, 2)
    assert ended(airflow, run(airflow)) == "success"
    assert_right(workspace)
    assert ended(airflow, marked) == "success"

    # Cleared: the tasks find their work done, the tables stay as they are, and the note keeps what it said.
    land(workspace, 3)
    done = run(airflow)
    assert ended(airflow, done) == "success"
    said = until(airflow, lambda: note(airflow, done))
    before = versions(workspace)
    clear(airflow, done, "run")
    until(airflow, lambda: note(airflow, done) != said)
    assert ended(airflow, done) == "success"
    assert versions(workspace) == before
    now, former = note(airflow, done).split("Before it was cleared:")
    assert "recordings_bronze 3 read = 3 written" in said
    assert "recordings_bronze 3 read = 3 written" in former
    assert "Every file and every record is accounted for." in now

    # Airflow deletes no run that is at work. Failed by hand first: nothing is lost or doubled.
    gone, job = mid_run(airflow, workspace, 4)
    with pytest.raises(urllib.error.HTTPError, match="409"):
        airflow.call("DELETE", f"{DAGS}/dagRuns/{gone}")
    asked(airflow, "PATCH", f"{DAGS}/dagRuns/{gone}", {"state": "failed"})
    asked(airflow, "DELETE", f"{DAGS}/dagRuns/{gone}", None)
    assert gone not in {one["dag_run_id"] for one in airflow.call("GET", f"{DAGS}/dagRuns?limit=100")["dag_runs"]}
    land(workspace, 5)
    assert ended(airflow, run(airflow)) == "success"
    assert not any(process.is_running() for process in job)
    assert_right(workspace)

    # Paused while a run waits: it goes on once the DAG does.
    waiting = run(airflow)
    reaches(airflow, waiting, "wait_for_files", "deferred")
    asked(airflow, "PATCH", DAGS, {"is_paused": True})
    before = versions(workspace)
    land(workspace, 6)
    reaches(airflow, waiting, "wait_for_files", "scheduled")  # the triggerer has told it, and nothing starts it
    assert versions(workspace) == before
    asked(airflow, "PATCH", DAGS, {"is_paused": False})
    assert ended(airflow, waiting) == "success"
    assert_right(workspace)

    # A typo is saved in mid-run: the job goes on, and the account says so until the typo is mended.
    working, job = mid_run(airflow, workspace, 7)
    typo = ("event_time: time", "event_tiem: time")
    saved(airflow, workspace, *typo, seen=lambda dag: "DefinitionMistakes" in dag["operators"])
    send(job, signal.SIGCONT)
    assert reaches(airflow, working, "account", "up_for_retry", "failed", "success") == "up_for_retry"
    failed_with(airflow, "unknown field event_tiem", working, "account", 1)
    assert states(airflow, working) == {
        "check_request": "success", "wait_for_files": "success", "run": "success", "account": "up_for_retry",
    }  # fmt: skip
    saved(airflow, workspace, *reversed(typo), seen=lambda dag: "DefinitionMistakes" not in dag["operators"])
    assert ended(airflow, working) == "success"
    assert_right(workspace)
    assert airflow.call("GET", f"{DAGS}/dagRuns/{marked}")["state"] == "success"  # the history is there
    assert states(airflow, marked)["run"] == "success"
