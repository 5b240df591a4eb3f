"""Kinds of runs in a real Airflow, with scheduler, API server, triggerer and DAG processor. No job gets to Spark."""

from __future__ import annotations

import json
import re
import time
import urllib.error
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from sluicegate.errors import SluicegateError
from sluicegate.tools.demo.local_airflow import LocalAirflow, _is_alive
from tests.conftest import Workspace

pytestmark = [pytest.mark.e2e, pytest.mark.more]

DAG = "heart_rate"
DAGS = f"/api/v2/dags/{DAG}"
FIRST_DONE = {"check_request": "success"}


@pytest.fixture
def airflow(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAirflow]:
    """An Airflow for the workspace, where whatever would start Spark fails with a sentence."""
    monkeypatch.setenv("SLUICEGATE_JARS", str(workspace.folder / "no-jars"))
    text = (workspace.folder / "pipelines" / DAG / "pipeline.yaml").read_text()
    assert 'schedule: "*/15 * * * *"' in text
    workspace.edit("pipeline.yaml", "*/15 * * * *", "0 0 1 1 *")  # no scheduled run gets between
    with LocalAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as started:
        started.wait(DAG)
        yield started


def until(look: Callable[[], Any], tell: Callable[[], Any] = str, seconds: float = 900) -> Any:
    """What a look gives once it gives something. ``tell`` says how things stand where that takes too long.

    The limit is by default beyond all retries of a task that a busy machine failed: 30, 90 and 270 seconds.
    """
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"it took too long: {tell()}"
        time.sleep(0.2)
    return found


def asked(airflow: LocalAirflow, method: str, path: str, body: Any) -> Any:
    """What Airflow answers once it can: 503 and 500 say that another of its processes writes to SQLite, 409 that the
    backfill before this one has not ended yet, and two of 422 that a DAG was given a schedule a moment ago: Airflow's
    server still has the former one.
    """
    outdated = ("non-periodic schedule", "No runs to create")

    def answer() -> Any:
        try:
            return (airflow.call(method, path, body),)
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            if error.code not in (409, 500, 503) and not any(words in said for words in outdated):
                error.add_note(said)
                raise
            return None

    return until(answer)[0]


def run(airflow: LocalAirflow, **form: Any) -> str:
    asked(airflow, "PATCH", DAGS, {"is_paused": False})
    return str(asked(airflow, "POST", f"{DAGS}/dagRuns", {"logical_date": None, "conf": form})["dag_run_id"])


def states(airflow: LocalAirflow, run_id: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in airflow.tasks(DAG, run_id)}


def backfill(airflow: LocalAirflow, **facts: Any) -> None:
    """Makes a backfill of the first days of 2026, as Airflow's page does."""
    body = {
        "dag_id": DAG, "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-03T00:00:00Z", "run_backwards": True,
        "reprocess_behavior": "none", "max_active_runs": 2, "dag_run_conf": {}, **facts,
    }  # fmt: skip
    asked(airflow, "POST", "/api/v2/backfills", body)


def changed(airflow: LocalAirflow, workspace: Workspace, old: str, new: str, due: str) -> None:
    """Changes the definition, and waits until Airflow knows the schedule that is due by it: it looks at a file of DAGs
    every half a minute, and at once where it is asked to.
    """
    workspace.edit("pipeline.yaml", old, new)
    asked(airflow, "PUT", f"/api/v2/parseDagFile/{airflow.call('GET', DAGS)['file_token']}", None)
    until(lambda: due in airflow.call("GET", DAGS)["timetable_summary"])


def saved(
    airflow: LocalAirflow, workspace: Workspace, old: str, new: str, *, seen: Callable[[dict[str, Any]], bool]
) -> None:
    """Changes the definition, and waits until Airflow has a DAG by which that is seen.

    Args:
        airflow: the Airflow.
        workspace: where the definition is.
        old: what is replaced in it.
        new: what stands there then.
        seen: takes the details of the DAG, with the ``operators`` of its tasks. Airflow stores a DAG's description and
            schedule a moment before its tasks.
    """
    workspace.edit("pipeline.yaml", old, new)
    asked(airflow, "PUT", f"/api/v2/parseDagFile/{airflow.call('GET', DAGS)['file_token']}", None)

    def look() -> bool:
        operators = {task["operator_name"] for task in airflow.call("GET", f"{DAGS}/tasks")["tasks"]}
        return seen({**airflow.call("GET", f"{DAGS}/details"), "operators": operators})

    until(look)


def ended(airflow: LocalAirflow, run_id: str) -> str:
    """How a run ended: success or failed."""
    done = ("success", "failed")

    def tell() -> str:
        runs = airflow.call("GET", f"{DAGS}/dagRuns")["dag_runs"]
        others = {one["dag_run_id"]: (one["state"], states(airflow, one["dag_run_id"])) for one in runs}
        said = [line for line in airflow.log.read_text().splitlines() if "[http.access]" not in line]
        return "\n".join([f"{run_id} of {others}", *said[-200:]])

    return str(until(lambda: state if (state := airflow.run_state(DAG, run_id)) in done else None, tell))


def reaches(airflow: LocalAirflow, run_id: str, task: str, state: str) -> None:
    until(lambda: states(airflow, run_id).get(task) == state)


def failed_with(airflow: LocalAirflow, words: str, run_id: str, task: str, attempt: int) -> None:
    """Demands that an attempt failed with some words, or the next one or two: a busy machine may fail one before us."""
    said: list[str] = []

    def found() -> bool:
        said.clear()
        for number in range(attempt, attempt + 3):
            said.append(airflow.failure(DAG, run_id, task, number))
            if words in said[-1]:
                return True
        return False

    until(found, lambda: f"{run_id}, {task} said {said}")


def full_refresh(airflow: LocalAirflow, answer: str) -> dict[str, str]:
    """The states of the tasks of a full refresh, once a person has answered."""
    run_id = run(airflow, mode="full-refresh", tables=["patients_bronze", "patients"])
    reaches(airflow, run_id, "check_request", "awaiting_input")
    question = f"{DAGS}/dagRuns/{run_id}/taskInstances/check_request/-1/hitlDetails"
    assert "patients_bronze: its 0 rows are replaced" in airflow.call("GET", question)["body"]
    # Airflow 3.3.2 takes a task for killed whose answer comes before it has noticed that its process has ended.
    noticed = f"executor event with state success for task instance .*check_request.*{re.escape(run_id)}"
    until(lambda: re.search(noticed, airflow.log.read_text()))
    asked(airflow, "PATCH", question, {"chosen_options": [answer], "params_input": {}})
    ended(airflow, run_id)
    return states(airflow, run_id)


@pytest.mark.release
def test_a_dag_that_is_not_parsed_in_time_is_named(airflow: LocalAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.tools.demo.local_airflow.STARTS_WITHIN", 0.5)
    with pytest.raises(
        SluicegateError, match=r"not ready within 0\.5 s: its dag-processor has not parsed the DAG none"
    ):
        airflow.wait("none")


def test_runs_of_every_kind(airflow: LocalAirflow, workspace: Workspace) -> None:
    # A full refresh waits for a person. Rejected, nothing is done; approved, it goes on.
    assert full_refresh(airflow, "Approve") == FIRST_DONE | {
        "wait_for_files": "success", "bronze": "failed", "silver": "upstream_failed", "gold": "upstream_failed",
        "account": "failed",
    }  # fmt: skip
    others = ("wait_for_files", "bronze", "silver", "gold", "account")
    assert full_refresh(airflow, "Reject") == FIRST_DONE | dict.fromkeys(others, "skipped")

    # Files land while the sensor waits in the triggerer.
    waiting = run(airflow, tables=["recordings_bronze"], max_files=1)
    reaches(airflow, waiting, "wait_for_files", "deferred")
    log = f"{DAGS}/dagRuns/{waiting}/taskInstances/wait_for_files/logs/1?full_content=true"
    until(lambda: "Could not read served logs" not in json.dumps(airflow.call("GET", log)), seconds=90)
    workspace.land("recordings/a.json", "[]")
    assert ended(airflow, waiting) == "failed"
    assert airflow.result(DAG, waiting, "wait_for_files") == {"files": 1, "bytes": 2}
    failed_with(airflow, "there are no Delta jars", waiting, "bronze", 1)
    assert states(airflow, waiting)["account"] == "failed"
    failed_with(airflow, "failed in bronze: there are no Delta jars", waiting, "account", 1)
    said = airflow.call("GET", f"{DAGS}/dagRuns/{waiting}")["note"]
    assert said.startswith("**This run failed in bronze: there are no Delta jars")
    assert "Requested: it ingests new data; only recordings_bronze; at most 1 file for each bronze table" in said

    # A scheduler that fails is started again, and goes on with what waits.
    [scheduler] = [one for one in psutil.Process().children() if "scheduler" in one.cmdline()]
    workers = scheduler.children()
    scheduler.kill()
    until(lambda: "scheduler ended with exit code -9; it is started again" in airflow.log.read_text())
    assert workers
    until(lambda: not any(map(_is_alive, workers)))

    # A backfill gets as far as silver, which it makes again though no record waits.
    changed(airflow, workspace, "0 0 1 1 *", "0 0 * * *", due="0 0 * * *")
    (workspace.folder / "landing" / "recordings" / "a.json").unlink()
    backfill(airflow)
    runs = [f"backfill__2026-01-0{day}T00:00:00+00:00" for day in (2, 3, 4)]  # named by the end of their interval
    for run_id in runs:
        assert airflow.call("GET", f"{DAGS}/dagRuns/{run_id}")["run_type"] == "backfill"
        assert ended(airflow, run_id) == "failed"
        assert states(airflow, run_id)["bronze"] == "success"
        failed_with(airflow, "there are no Delta jars", run_id, "silver", 1)

    # Files that land start a run by themselves.
    changed(airflow, workspace, "schedule:", "trigger: file_arrival\nschedule:", due="Asset")
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n")
    started = until(lambda: airflow.call("GET", f"{DAGS}/dagRuns?run_type=asset_triggered")["dag_runs"])
    assert len(started) == 1
    run_id = started[0]["dag_run_id"]
    until(lambda: states(airflow, run_id).get("wait_for_files") == "success")
    assert airflow.result(DAG, run_id, "wait_for_files") == {"files": 1, "bytes": 15}
    failed_with(airflow, "there are no Delta jars", run_id, "bronze", 1)

    # A backfill without an event time would change nothing, and says so. The one before has been closed meanwhile,
    # which Airflow does every half a minute.
    workspace.edit("pipeline.yaml", "    event_time: time\n", "")
    changed(airflow, workspace, "trigger: file_arrival\n", "", due="0 0 * * *")
    backfill(airflow, reprocess_behavior="failed", to_date="2026-01-01T00:00:00Z")
    until(lambda: states(airflow, runs[0])["check_request"] == "failed")
    failed_with(airflow, "no silver table of heart_rate has an event_time", runs[0], "check_request", 2)
