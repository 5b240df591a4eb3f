"""A month's backfill after a transform was corrected, in a real Airflow with real Spark, against plain Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import ROOT, Workspace
from tests.e2e.test_airflow import DAG, DAGS, asked, backfill
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import land, note, quick_airflow, saved, until, versions

pytestmark = [pytest.mark.e2e, pytest.mark.release]

MONTH = {"from_date": "2020-01-01T00:00:00Z", "to_date": "2020-01-31T00:00:00Z", "run_backwards": False}


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    """An Airflow whose pipeline has ingested three days of a month."""
    with quick_airflow(workspace) as started:
        for day in (1, 14, 29):
            land(workspace, day)
        ingest(workspace)
        assert_right(workspace)
        yield started


def ingest(workspace: Workspace) -> None:
    """All layers by the command, without Airflow."""
    options = [part for name, value in workspace.settings.arguments.items() for part in (f"--{name}", value)]
    given = [sys.executable, "-m", "sluicegate.cli", "run", DAG, *options]
    done = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def monthly_with_corrected_transform(airflow: LocalAirflow, workspace: Workspace) -> None:
    """By the corrected transform the trackers count two beats too few; a run of the schedule is a month."""
    workspace.edit("recordings_enriched.sql", "r.heartrate", "r.heartrate + 2 AS heartrate")
    monthly = 'tasks: run\nschedule: "0 0 1 * *"\n'
    saved(airflow, workspace, "tasks: run\n", monthly, seen=lambda dag: "0 0 1 * *" in (dag["timetable_summary"] or ""))
    asked(airflow, "PATCH", DAGS, {"is_paused": False})


def backfilled(airflow: LocalAirflow, before: str = "") -> tuple[str, str]:
    """The run of the month's backfill, once it has ended well: its id, and when; after its end of before, if given."""

    def look() -> list[dict[str, Any]]:
        found = airflow.call("GET", f"{DAGS}/dagRuns?run_type=backfill")["dag_runs"]
        return [one for one in found if one["state"] in ("success", "failed") and one["end_date"] > before]

    [done] = until(airflow, look)
    assert done["state"] == "success"
    return str(done["dag_run_id"]), str(done["end_date"])


def test_a_month_again_by_a_corrected_transform_and_once_more(airflow: LocalAirflow, workspace: Workspace) -> None:
    monthly_with_corrected_transform(airflow, workspace)
    backfill(airflow, **MONTH)
    run_id, end = backfilled(airflow)
    assert "reprocesses [2020-01-01" in note(airflow, run_id)
    assert_right(workspace, lambda rate: rate + 2)

    # The same again changes no table.
    before, rows = versions(workspace), workspace.content()
    backfill(airflow, **MONTH, reprocess_behavior="completed")
    backfilled(airflow, end)
    assert workspace.content() == rows
    assert versions(workspace) == before
    assert_right(workspace, lambda rate: rate + 2)
