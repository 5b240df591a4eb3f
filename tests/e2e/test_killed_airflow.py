"""Processes of Airflow that are killed or stand still while a run is at work, with real Spark, against plain Python."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import DAG, run, saved
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import (
    ended,
    land,
    mid_run,
    note,
    quick_airflow,
    reaches,
    service,
    until,
)
from tests.support.process_tree import send

pytestmark = [pytest.mark.e2e, pytest.mark.release]


def tries(airflow: LocalAirflow, run_id: str, task: str = "run") -> int:
    return next(int(one["try_number"]) for one in airflow.tasks(DAG, run_id) if one["task_id"] == task)


def task_process(job: list[psutil.Process]) -> psutil.Process:
    """The process of the task that has started a job: the first Python above its JVM."""
    return next(one for one in job[0].parents() if one.name().startswith(("python", "airflow")))


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    with quick_airflow(workspace) as started:
        yield started


def test_a_run_whose_task_or_scheduler_is_killed_in_mid_job_is_tried_again(
    airflow: LocalAirflow, workspace: Workspace
) -> None:
    killed, job = mid_run(airflow, workspace, 1)
    task_process(job).kill()
    send(job, signal.SIGCONT)  # an orphan now
    assert ended(airflow, killed) == "success"
    assert tries(airflow, killed) == 2
    assert_right(workspace)

    # The scheduler, with the workers that are its children. Another takes over what it has left.
    left, job = mid_run(airflow, workspace, 2)
    service("scheduler").kill()
    until(airflow, lambda: "scheduler ended with exit code -9; it is started again" in airflow.log.read_text())
    send(job, signal.SIGCONT)
    assert ended(airflow, left) == "success"
    assert tries(airflow, left) == 2
    assert_right(workspace)


def test_a_triggerer_that_stands_still_is_no_quiet_day(airflow: LocalAirflow, workspace: Workspace) -> None:
    # The run of a minute on New Year's Day waits until that of the next, for a minute.
    schedule = 'tasks: run\nschedule: "1,2 0 1 1 *"\n'
    saved(airflow, workspace, "tasks: run\n", schedule, seen=lambda dag: "1,2 0" in (dag["timetable_summary"] or ""))
    assert ended(airflow, run(airflow)) == "success"
    send([service("triggerer")], signal.SIGSTOP)
    until(airflow, lambda: airflow.call("GET", "/api/v2/monitor/health")["triggerer"]["status"] == "unhealthy")
    waiting = run(airflow)
    reaches(airflow, waiting, "wait_for_files", "deferred")
    land(workspace, 1)
    assert ended(airflow, waiting) == "success"
    found = airflow.result(DAG, waiting, "wait_for_files")
    assert found["unreported"] == found["files"] == 1
    assert "files were waiting, but Airflow's **triggerer** did not report them: check that it is running" in note(
        airflow, waiting
    )
    assert_right(workspace)

    # Killed while another run waits: it is started again, and reports what lands.
    send([service("triggerer")], signal.SIGCONT)
    waiting = run(airflow)
    reaches(airflow, waiting, "wait_for_files", "deferred")
    service("triggerer").kill()
    until(airflow, lambda: "triggerer ended with exit code -9; it is started again" in airflow.log.read_text())
    land(workspace, 2)
    assert ended(airflow, waiting) == "success"
    assert "unreported" not in airflow.result(DAG, waiting, "wait_for_files")
    assert_right(workspace)
