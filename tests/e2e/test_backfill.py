"""Backfills in a real Airflow with real Spark: what is in the tables, against a computation of the test's own."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import pytest

from sluicegate import lake as lakes
from sluicegate import status
from sluicegate.airflow.local import LocalAirflow
from tests.conftest import Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, backfill, ended, run, until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

DAY = 86_400
FIRST = date(2020, 1, 1)


def averages(records: list[dict[str, Any]], above: dict[int, float]) -> dict[tuple[int, date], float]:
    """The gold table, where readings of each day count that are above some rate."""
    rates = defaultdict(list)
    for record in records:
        day = int(record["time"] - 1_577_836_800) // DAY
        if record["heartrate"] > above[day]:
            rates[record["mrn"], FIRST + timedelta(day)].append(record["heartrate"])
    return {key: sum(values) / len(values) for key, values in rates.items()}


def gold(workspace: Workspace) -> dict[tuple[int, date], float]:
    rows = workspace.rows("daily_patient_avg", "mrn", "date", "avg_heartrate")
    assert len({row[:2] for row in rows}) == len(rows)
    return {(mrn, day.date()): rate for mrn, day, rate in rows}


def gold_version(workspace: Workspace) -> int:
    table = lakes.delta_table(workspace.uri("daily_patient_avg"))
    assert table is not None
    return table.version()


def all_ended(airflow: LocalAirflow) -> set[str]:
    """How the runs of a backfill ended, once none is left."""
    runs = f"{DAGS}/dagRuns?run_type=backfill"

    def look() -> Any:
        found = {one["state"] for one in airflow.call("GET", runs)["dag_runs"]}
        return found if found <= {"success", "failed"} else None

    return set(until(look, 500))


def test_a_backfill_rebuilds_its_days_and_twice_is_once(workspace: Workspace) -> None:
    records = [beat(1, 1, 0, 60.0), beat(1, 1, 900, 100.0), beat(1, 1, DAY, 70.0), beat(2, 2, DAY, 50.0),
               beat(2, 2, 2 * DAY, 55.0), beat(1, 1, 2 * DAY, 90.0)]  # fmt: skip
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    workspace.land("recordings/a.json", records)
    workspace.edit("pipeline.yaml", "*/15 * * * *", "0 0 * * *")
    with LocalAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as airflow:
        airflow.wait(DAG)
        assert ended(airflow, run(airflow), 300) == "success"
        assert gold(workspace) == pytest.approx(averages(records, {0: 0, 1: 0, 2: 0}))

        # A rule is corrected, and two of the three days are made again, in reverse, two at a time.
        workspace.edit("pipeline.yaml", "heartrate > 0", "heartrate > 60")
        two_days = {"from_date": "2020-01-01T00:00:00Z", "to_date": "2020-01-02T00:00:00Z"}
        backfill(airflow, **two_days)
        assert all_ended(airflow) == {"success"}
        assert gold(workspace) == pytest.approx(averages(records, {0: 60, 1: 60, 2: 0}))

        # Again: gold is not written, since no row of silver changed.
        before = gold_version(workspace)
        backfill(airflow, **two_days, reprocess_behavior="completed", run_backwards=False)
        assert all_ended(airflow) == {"success"}
        assert gold(workspace) == pytest.approx(averages(records, {0: 60, 1: 60, 2: 0}))
        assert gold_version(workspace) == before
        assert status.verify(workspace.definition, workspace.settings) == []
