"""What operators meet, in a real Airflow: a typo saved in mid-run, and pools that are missing. No job gets to Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import (
    DAG,
    DAGS,
    asked,
    backfill,
    changed,
    ended,
    failed_with,
    reaches,
    run,
    saved,
    states,
    until,
)
from tests.e2e.test_airflow import airflow as airflow
from tests.support.disturbed_airflow import note

pytestmark = [pytest.mark.e2e, pytest.mark.release]

ORDER = ["check_request", "wait_for_files", "bronze", "silver", "gold", "account"]


def test_runs_outlive_a_typo_and_say_what_they_wait_for(airflow: LocalAirflow, workspace: Workspace) -> None:
    # The package has made the pool of the jobs, which are in it.
    pool = airflow.call("GET", "/api/v2/pools/spark")
    assert (pool["slots"], pool["include_deferred"]) == (4, False)

    # A typo is saved while a run waits for files. Its tasks stay.
    waiting = run(airflow)
    reaches(airflow, waiting, "wait_for_files", "deferred")
    typo = ("event_time: time", "event_tiem: time")
    saved(airflow, workspace, *typo, seen=lambda dag: "DefinitionMistakes" in dag["operators"])
    reaches(airflow, waiting, "wait_for_files", "up_for_retry")
    failed_with(airflow, "unknown field event_tiem", waiting, "wait_for_files", 1)
    assert list(states(airflow, waiting)) == ORDER
    assert "removed" not in states(airflow, waiting).values()

    # A new run fails at once, and its note says why.
    new = run(airflow)
    assert ended(airflow, new) == "failed"
    assert states(airflow, new)["check_request"] == "failed"
    assert "The definition is invalid. Does not run" in until(lambda: note(airflow, new))

    # Mended, the run that waits goes on, with the files that have landed meanwhile.
    workspace.land("recordings/a.json", "[]")
    saved(airflow, workspace, typo[1], typo[0], seen=lambda dag: "DefinitionMistakes" not in dag["operators"])
    assert ended(airflow, waiting) == "failed"
    assert airflow.result(DAG, waiting, "wait_for_files") == {"files": 1, "bytes": 2}
    failed_with(airflow, "there are no Delta jars", waiting, "bronze", 1)

    # A pool that does not exist is noted on the run whose job waits for it, and makes it go on once it is there.
    airflow.call("DELETE", "/api/v2/pools/spark")
    heavy = "\nairflow: {pool: heavy}\ndatabase:"
    saved(airflow, workspace, "\ndatabase:", heavy, seen=lambda dag: "removed" not in states(airflow, waiting).values())
    until(lambda: "heavy" in {task["pool"] for task in airflow.call("GET", f"{DAGS}/tasks")["tasks"]})
    held = run(airflow)
    assert "the pool heavy, in which bronze, silver, gold would start" in until(lambda: note(airflow, held))
    reaches(airflow, held, "wait_for_files", "success")
    reaches(airflow, held, "bronze", "scheduled")
    asked(airflow, "POST", "/api/v2/pools", {"name": "heavy", "slots": 1})
    assert ended(airflow, held) == "failed"
    failed_with(airflow, "there are no Delta jars", held, "bronze", 1)
    assert note(airflow, held).startswith("**This run ")

    # The pool of the jobs comes back with the next run that needs it.
    saved(airflow, workspace, heavy, "\ndatabase:", seen=lambda dag: True)
    until(lambda: "heavy" not in {task["pool"] for task in airflow.call("GET", f"{DAGS}/tasks")["tasks"]})
    assert ended(airflow, run(airflow)) == "failed"
    assert airflow.call("GET", "/api/v2/pools/spark")["slots"] == 4

    # A month of an hourly schedule is one run of a backfill; the same range again finds that it is there.
    changed(airflow, workspace, "0 0 1 1 *", "0 * * * *", due="0 * * * *")
    saved(airflow, workspace, "\ndatabase:", "\nairflow: {max_backfill_runs: 1}\ndatabase:", seen=lambda dag: True)
    month = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-31T23:00:00Z", "run_backwards": False}
    until(lambda: len(dry(airflow, **month)) == 1)
    backfill(airflow, **month)
    [wide] = until(lambda: airflow.call("GET", f"{DAGS}/dagRuns?run_type=backfill")["dag_runs"])
    assert ended(airflow, wide["dag_run_id"]) == "failed"
    done = airflow.result(DAG, wide["dag_run_id"], "check_request")
    assert "reprocesses [2026-01-01 00:00:00, 2026-02-01 00:00:00)" in done
    failed_with(airflow, "there are no Delta jars", wide["dag_run_id"], "bronze", 1)
    assert dry(airflow, **month) == []


def dry(airflow: LocalAirflow, **facts: Any) -> list[Any]:
    """Runs that a backfill would make."""
    body = {"dag_id": DAG, "reprocess_behavior": "none", "max_active_runs": 2, "dag_run_conf": {}, **facts}
    found: list[Any] = asked(airflow, "POST", "/api/v2/backfills/dry_run", body)["backfills"]
    return found
