"""A month's backfill after a transform was corrected, in a real Airflow with real Spark, against plain Python.

The schedule is quarter-hourly: 2,976 intervals, of which the pipeline's limit makes one run, and four the next time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import DAGS, asked, backfill, run, saved, states
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import (
    ended,
    ingest,
    job_at_work,
    land,
    note,
    quick_airflow,
    until,
    versions,
)
from tests.support.process_tree import JVM, descendants, named, send

pytestmark = [pytest.mark.e2e, pytest.mark.release]

MONTH = {"from_date": "2020-01-01T00:00:00Z", "to_date": "2020-01-31T23:45:00Z", "run_backwards": False}


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    """An Airflow whose pipeline has ingested three days of a month."""
    with quick_airflow(workspace) as started:
        for day in (1, 14, 29):
            land(workspace, day)
        ingest(workspace)
        assert_right(workspace)
        yield started


def backfills(airflow: LocalAirflow, since: str = "") -> list[dict[str, Any]]:
    """The runs of a backfill, once all have ended well, by the beginning of their intervals.

    Args:
        airflow: the Airflow.
        since: only runs that began after it, ISO 8601: those of a backfill before have the same ids.
    """

    def look() -> list[dict[str, Any]]:
        found = airflow.call("GET", f"{DAGS}/dagRuns?run_type=backfill&limit=100")["dag_runs"]
        there = [one for one in found if (one["start_date"] or "~") > since]
        return there if all(one["state"] in ("success", "failed") for one in there) else []

    found = until(airflow, look)
    assert {one["state"] for one in found} == {"success"}
    return sorted(found, key=lambda one: str(one["data_interval_start"]))


def waiting(airflow: LocalAirflow) -> str | None:
    """The run of the schedule, once it waits for files."""
    found = airflow.call("GET", f"{DAGS}/dagRuns?run_type=scheduled&state=running")["dag_runs"]
    runs = [one["dag_run_id"] for one in found]
    return next((one for one in runs if states(airflow, one).get("wait_for_files") == "deferred"), None)


def at_work(airflow: LocalAirflow) -> list[str]:
    """Runs that have begun and not ended, by their kinds, in order."""
    found = airflow.call("GET", f"{DAGS}/dagRuns?state=running")["dag_runs"]
    return sorted(one["run_type"] for one in found)


def test_a_month_again_beside_other_runs_and_once_more_in_reverse(airflow: LocalAirflow, workspace: Workspace) -> None:
    # By the corrected transform the trackers count two beats too few.
    workspace.edit("recordings_enriched.sql", "r.heartrate", "r.heartrate + 2 AS heartrate")
    schedule = '\nschedule: "*/15 * * * *"\nairflow: {max_backfill_runs: 1, max_active_runs: 4, '
    saved(airflow, workspace, "\nairflow: {", schedule, seen=lambda dag: "*/15" in (dag["timetable_summary"] or ""))
    asked(airflow, "PATCH", DAGS, {"is_paused": False})
    scheduled = until(airflow, lambda: waiting(airflow))

    # Three kinds of runs at once: one of the schedule, for which a file lands, the month's, and a replay by hand.
    # The job of the first stands still until the others are under way.
    land(workspace, 45)
    until(airflow, lambda: named(descendants(), JVM))
    job = job_at_work()
    send(job, signal.SIGSTOP)
    backfill(airflow, **MONTH)
    replay = run(airflow, mode="replay", tables=["recordings_enriched"])
    until(airflow, lambda: at_work(airflow) == ["backfill", "manual", "scheduled"])
    send(job, signal.SIGCONT)
    assert ended(airflow, replay) == "success"
    assert ended(airflow, scheduled) == "success"
    [month] = backfills(airflow)
    assert "reprocesses [2020-01-01 00:00:00, 2020-02-01 00:00:00)" in note(airflow, month["dag_run_id"])
    assert_right(workspace, lambda rate: rate + 2)

    # The same again, a week in a run, the last one first: no table changes.
    before, rows = versions(workspace), workspace.content()
    limits = ("max_backfill_runs: 1, max_active_runs: 4", "max_backfill_runs: 4, max_active_runs: 5")
    saved(airflow, workspace, *limits, seen=lambda dag: dag["max_active_runs"] == 5)
    reverse = {"run_backwards": True, "reprocess_behavior": "completed", "max_active_runs": 1}
    backfill(airflow, **MONTH | reverse)
    weeks = backfills(airflow, month["end_date"])
    assert len(weeks) == 4
    assert weeks == sorted(weeks, key=lambda one: str(one["start_date"]), reverse=True)
    assert workspace.content() == rows
    assert versions(workspace) == before
    assert_right(workspace, lambda rate: rate + 2)
