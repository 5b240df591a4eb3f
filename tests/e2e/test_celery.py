"""Jobs on Celery workers, with landing and lake on S3: two of them, each for a queue, one of them killed in a job.

So no folder is shared by the workers. Celery's broker is a database here. It needs Airflow's provider, which
`make setup` does not bring, and is skipped without it (``pip install apache-airflow-providers-celery 'celery<5.7'``).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, ended, run, until
from tests.e2e.test_s3 import OnS3
from tests.spark.test_medallion import assert_right
from tests.support.process_tree import JVM, descendants, kill_tree, named
from tests.support.s3_server import s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.release]


def is_installed() -> bool:
    try:
        return find_spec("airflow.providers.celery") is not None
    except ModuleNotFoundError:
        return False


if not is_installed():
    pytest.skip("it needs apache-airflow-providers-celery", allow_module_level=True)


class CeleryAirflow(LocalAirflow):
    """Airflow whose tasks are run by Celery workers, which are started beside it."""

    def _settings_of_airflow(self, port: int) -> dict[str, str]:
        return super()._settings_of_airflow(port) | {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": f"sqla+sqlite:///{self.home / 'broker.db'}",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+sqlite:///{self.home / 'results.db'}",
            "AIRFLOW__OPERATORS__DEFAULT_QUEUE": "default",
            # A task whose worker is gone is tried again after half a minute, and not after five.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        }

    @contextmanager
    def worker(self, queue: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker of a queue, which is killed with all that it runs."""
        command = [sys.executable, "-m", "airflow", "celery", "worker", "--queues", queue, "--concurrency", "1",
                   "--celery-hostname", f"{queue}@%h", "--skip-serve-logs",
                   "--pid", str(self.home / f"{queue}.pid")]  # fmt: skip
        with (self.home / f"{queue}.log").open("ab") as log:
            worker = subprocess.Popen(
                command, cwd=self.home, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield worker
        finally:
            kill(worker)
            worker.wait()
            (self.home / f"{queue}.pid").unlink(missing_ok=True)


def kill(worker: subprocess.Popen[bytes]) -> None:
    """Kills a worker and whatever it runs, as the machine's end would."""
    if worker.poll() is None:
        kill_tree(worker.pid)


@pytest.fixture
def bucket(workspace: Workspace) -> Iterator[OnS3]:
    """A workspace in a bucket, where files are read as soon as they have landed."""
    with s3_server():
        made = OnS3(workspace.folder)
        for place in ("recordings", "patients"):
            path = f"path: ${{landing}}/{place}"
            made.edit("pipeline.yaml", path, f"settleSeconds: 0\n    {path}")
        yield made


@pytest.fixture
def airflow(bucket: OnS3) -> Iterator[CeleryAirflow]:
    """An Airflow for the bucket, whose jobs go to the queue ``java``."""
    bucket.edit("pipeline.yaml", 'schedule: "*/15 * * * *"\n', "")
    bucket.edit("pipeline.yaml", "\ndatabase:", "\nairflow: {queue: java, retry_delay: 5 seconds}\ndatabase:")
    with CeleryAirflow(bucket.folder / ".airflow", bucket.settings, lasting=True) as started:
        started.wait(DAG)
        yield started


def tries(airflow: LocalAirflow, run_id: str) -> dict[str, tuple[str, int]]:
    """State and number of tries of each task."""
    return {task["task_id"]: (task["state"], task["try_number"]) for task in airflow.tasks(DAG, run_id)}


def test_two_workers_and_one_that_is_killed_in_a_job(airflow: CeleryAirflow, bucket: OnS3) -> None:
    bucket.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n")
    bucket.land("recordings/a.json", [beat(1, 1, 0, 60.0), beat(2, 2, 900, -1.0)])
    with airflow.worker("default"):
        # Nobody takes the jobs as long as there is no worker of their queue; all other tasks go on.
        first = run(airflow)
        until(lambda: tries(airflow, first).get("bronze", ("", 0))[0] == "queued")
        assert tries(airflow, first)["wait_for_files"][0] == "success"
        with airflow.worker("java") as worker:
            until(lambda: jobs(worker), lambda: str(tries(airflow, first)))
            kill(worker)
        with airflow.worker("java"):
            assert ended(airflow, first) == "success"
            assert tries(airflow, first)["bronze"] == ("success", 2)
            assert {state for state, _ in tries(airflow, first).values()} == {"success"}
            assert_right(bucket)

            # Two runs at a time share the workers, and leave the tables of one after the other.
            bucket.land("recordings/b.json", [beat(1, 1, 3600, 70.0)])
            runs = [run(airflow), run(airflow)]
            assert [ended(airflow, one) for one in runs] == ["success", "success"]
            assert_right(bucket)
            hosts = {task["task_id"]: task["queue"] for task in of_run(airflow, runs[0])}
    assert {name for name, queue in hosts.items() if queue == "java"} == {"bronze", "silver", "gold"}
    assert not (bucket.folder / "lake").exists()  # nobody has written to this machine's disk


def jobs(worker: subprocess.Popen[bytes]) -> list[int]:
    """Processes with a JVM below a worker."""
    return [process.pid for process in named(descendants(worker.pid), JVM)]


def of_run(airflow: LocalAirflow, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.call("GET", f"{DAGS}/dagRuns/{run_id}/taskInstances")["task_instances"]
    return found
