"""An Airflow with real Spark for tests that disturb its runs: how they take hold of runs, jobs and services."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

from sluicegate.lake import tables as lakes
from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import ROOT, Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, asked, run, states
from tests.e2e.test_airflow import until as until_at_last
from tests.support.process_tree import JVM, descendants, living, named, send

SECONDS = 300
"""Limit of each wait: a run of a few records takes half a minute, and twice that beside other work."""

TABLES = ("recordings_bronze", "patients_bronze", "patients", "recordings_enriched", "daily_patient_avg")


class WatchfulAirflow(LocalAirflow):
    """Airflow that notices within half a minute, not five, that a task's process is gone, or that of its scheduler."""

    def _settings_of_airflow(self, port: int) -> dict[str, str]:
        return super()._settings_of_airflow(port) | {
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        }


@contextmanager
def quick_airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    """Context with an Airflow for a workspace, where one job makes all layers, and is retried soon; no schedule."""
    workspace.edit("pipeline.yaml", 'schedule: "*/15 * * * *"\n', "tasks: run\nairflow: {retry_delay: 5 seconds}\n")
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    with WatchfulAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as started:
        started.wait(DAG)
        yield started


def until(airflow: LocalAirflow, look: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """What a look gives once it gives something; the states of all runs where that takes too long."""
    return until_at_last(look, lambda: standing(airflow), seconds)


def standing(airflow: LocalAirflow) -> str:
    """States of all runs with their tasks, and the end of Airflow's log."""
    runs = airflow.call("GET", f"{DAGS}/dagRuns?limit=100")["dag_runs"]
    lines = [f"{one['dag_run_id']}: {one['state']}, {states(airflow, one['dag_run_id'])}" for one in runs]
    said = [line for line in airflow.log.read_text().splitlines() if "[http.access]" not in line]
    return "\n".join([*lines, *said[-60:]])


def ended(airflow: LocalAirflow, run_id: str) -> str:
    """How a run ended: success or failed."""
    return str(until(airflow, lambda: s if (s := airflow.run_state(DAG, run_id)) in ("success", "failed") else None))


def reaches(airflow: LocalAirflow, run_id: str, task: str, *wanted: str) -> str:
    """Waits for a task's state, one of some; which it is."""
    return str(until(airflow, lambda: s if (s := states(airflow, run_id).get(task)) in wanted else None))


def note(airflow: LocalAirflow, run_id: str) -> str:
    return str(airflow.call("GET", f"{DAGS}/dagRuns/{run_id}")["note"] or "")


def version(workspace: Workspace, table: str) -> int:
    """Version of a table; -1 of one that is not there."""
    found = lakes.delta_table(workspace.uri(table))
    return -1 if found is None else int(found.version())


def versions(workspace: Workspace) -> dict[str, int]:
    return {table: version(workspace, table) for table in TABLES}


def land(workspace: Workspace, number: int) -> None:
    """A file of three readings: of two patients, and one with a rate that no rule lets through."""
    day = number * 86_400
    rates = [beat(1, 1, day, 60.0 + number), beat(2, 2, day, 70.0 + number), beat(2, 2, day + 60, -1.0)]
    workspace.land(f"recordings/{number}.json", rates)


def mid_run(airflow: LocalAirflow, workspace: Workspace, number: int) -> tuple[str, list[psutil.Process]]:
    """A run that has committed one more file to bronze, and stands still before silver.

    Returns:
        its id, and the processes of its job, which are stopped (SIGSTOP).
    """
    before = versions(workspace)
    land(workspace, number)
    run_id = run(airflow)
    until(airflow, lambda: version(workspace, "recordings_bronze") > before["recordings_bronze"])
    job = job_at_work()
    send(job, signal.SIGSTOP)
    assert states(airflow, run_id)["run"] == "running"
    now = versions(workspace)
    assert [now[name] for name in TABLES[3:]] == [before[name] for name in TABLES[3:]], "it was stopped too late"
    return run_id, job


def job_at_work() -> list[psutil.Process]:
    """Processes of the one job that is at work: its JVM first, and the Python that it has started."""
    [jvm] = named(descendants(), JVM)
    return [jvm, *descendants(jvm.pid)]


def service(name: str) -> psutil.Process:
    """A process of the Airflow that this process has started, by its name: scheduler, triggerer."""
    [process] = [child for child in living(psutil.Process().children()) if name in child.cmdline()]
    return process


def command(workspace: Workspace, *words: str, options: Sequence[str] = ("lake", "pipelines")) -> str:
    """What a command prints that a person types.

    Args:
        workspace: where it is about.
        words: the command, its arguments and options.
        options: those of places that the command takes.
    """
    places = workspace.settings.arguments
    told = [part for name in options for part in (f"--{name}", places[name])]
    given = [sys.executable, "-m", "sluicegate.cli", *words, *told]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ingest(workspace: Workspace) -> None:
    """All layers by the command, without Airflow."""
    command(workspace, "run", workspace.pipeline, options=list(workspace.settings.arguments))


def clear(airflow: LocalAirflow, run_id: str, task: str) -> None:
    """Clears a task of a run with those after it, as a person does on its page."""
    body = {
        "dry_run": False, "dag_run_id": run_id, "task_ids": [task], "include_downstream": True, "only_failed": False,
        "reset_dag_runs": True,
    }  # fmt: skip
    asked(airflow, "POST", f"{DAGS}/clearTaskInstances", body)
