"""Processes of Airflow that are killed while a run is at work, with real Spark, against plain Python."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import DAG
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import ended, mid_run, quick_airflow, tell

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


def test_a_task_killed_in_mid_job_is_tried_again(airflow: LocalAirflow, workspace: Workspace) -> None:
    killed, job = mid_run(airflow, workspace, 1)
    task_process(job).kill()
    tell(job, signal.SIGCONT)  # an orphan now
    assert ended(airflow, killed) == "success"
    assert tries(airflow, killed) == 2
    assert_right(workspace)
