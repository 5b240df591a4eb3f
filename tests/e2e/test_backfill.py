"""Backfills in a real Airflow with real Spark: what is in the tables, against a computation of the test's own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from sluicegate.lake import tables as lakes
from sluicegate.monitor import status
from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, ended, run, until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

DAY = 86_400
FIRST = date(2020, 1, 1)


def averages(records: list[dict[str, Any]], counts: Callable[[float, float], bool]) -> dict[tuple[int, date], float]:
    """The gold table, of the readings that count by their seconds since the start of 2020 and their rate."""
    rates = defaultdict(list)
    for record in records:
        at = record["time"] - 1_577_836_800
        if counts(at, record["heartrate"]):
            rates[record["mrn"], FIRST + timedelta(at // DAY)].append(record["heartrate"])
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

    return set(until(look))


def of_command(airflow: LocalAirflow, *options: str) -> None:
    """``airflow backfill create``, as a person types it."""
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", DAG, "--run-backwards",
               "--max-active-runs", "2", *options]  # fmt: skip
    # SQLite may be busy with others, which this command says by failing.
    until(lambda: subprocess.run(command, env=airflow.environment, capture_output=True, check=False).returncode == 0)


def land(workspace: Workspace, number: int) -> list[dict[str, Any]]:
    """A file of readings of ten hours lands."""
    found = [beat(2, 2, (number * 10 + hour) * 3600, rate) for hour, rate in enumerate([55.0, 75.0] * 5)]
    workspace.land(f"recordings/b{number}.json", found)
    return found


def landed_until_it_ends(workspace: Workspace, airflow: LocalAirflow, run_id: str) -> list[dict[str, Any]]:
    """Files land while others run, until a run that waits for files has ended; gives what was in them."""
    until(lambda: run_id in [one["dag_run_id"] for one in airflow.call("GET", f"{DAGS}/dagRuns?limit=100")["dag_runs"]])
    found: list[dict[str, Any]] = []
    for number in range(60):
        if airflow.run_state(DAG, run_id) in ("success", "failed"):
            break
        found += land(workspace, number)
        time.sleep(20)
    return found


def note(airflow: LocalAirflow, run_id: str) -> str:
    return str(airflow.call("GET", f"{DAGS}/dagRuns/{run_id}")["note"])


def test_backfills_rebuild_their_days_whatever_else_runs(workspace: Workspace) -> None:
    records = [beat(1, 1, hours * 3600, rate) for hours, rate in enumerate([60.0, 100.0, 45.0, 70.0, 50.0] * 25)]
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    workspace.land("recordings/a.json", records)
    # The run of the schedule comes while the backfill is at work; so days begin at this minute.
    tick = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=4)
    offset = tick.hour * 3600 + tick.minute * 60
    workspace.edit("pipeline.yaml", "*/15 * * * *", f"{tick.minute} {tick.hour} * * *")
    with LocalAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as airflow:
        airflow.wait(DAG)
        assert ended(airflow, run(airflow)) == "success"
        assert gold(workspace) == pytest.approx(averages(records, lambda _at, rate: rate > 0))

        # A rule is corrected, and three days are made again, in reverse, two at a time; meanwhile files land.
        workspace.edit("pipeline.yaml", "heartrate > 0", "heartrate > 60")
        time.sleep(max(0.0, (tick - datetime.now(UTC)).total_seconds() - 30))
        days = ["--from-date", "2020-01-01", "--to-date", "2020-01-04"]
        of_command(airflow, *days)
        scheduled = f"scheduled__{tick.isoformat()}"
        new = landed_until_it_ends(workspace, airflow, scheduled)
        assert airflow.run_state(DAG, scheduled) == "success"
        assert all_ended(airflow) == {"success"}
        new += land(workspace, 99)  # there may be some left that landed after it looked
        assert ended(airflow, run(airflow)) == "success"
        backfilled = airflow.call("GET", f"{DAGS}/dagRuns?run_type=backfill")["dag_runs"]
        assert len(backfilled) == 3
        began = datetime.fromisoformat(airflow.call("GET", f"{DAGS}/dagRuns/{scheduled}")["start_date"])
        assert any(began < datetime.fromisoformat(one["end_date"]) for one in backfilled)

        def corrected(at: float, rate: float) -> bool:
            return rate > (60 if offset <= at < offset + 3 * DAY else 0)

        expected = averages(records, corrected) | averages(new, lambda _at, rate: rate > 60)
        assert gold(workspace) == pytest.approx(expected)
        for one in backfilled:
            assert f"reprocesses [{one['data_interval_start'][:10]}" in note(airflow, one["dag_run_id"])
        assert "ingests new data" in note(airflow, scheduled)

        # Again: gold is not written, since no row of silver changed.
        before = gold_version(workspace)
        of_command(airflow, *days, "--reprocess-behavior", "completed")
        assert all_ended(airflow) == {"success"}
        assert gold(workspace) == pytest.approx(expected)
        assert gold_version(workspace) == before

        # By hand, an interval of its own, for one table: gold follows with the next run.
        workspace.edit("pipeline.yaml", "heartrate > 60", "heartrate > 0")
        form = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z", "tables": ["recordings_enriched"]}
        assert ended(airflow, run(airflow, **form)) == "success"
        assert gold_version(workspace) == before
        workspace.land("recordings/c.json", [beat(1, 1, 9 * DAY, 61.0)])
        assert ended(airflow, run(airflow)) == "success"

        def of_three(at: float, rate: float) -> bool:
            return rate > (60 if DAY <= at < offset + 3 * DAY else 0)

        expected = averages(records, of_three) | {(1, FIRST + timedelta(9)): 61.0}
        expected |= averages(new, lambda at, rate: rate > (0 if at < DAY else 60))
        assert gold(workspace) == pytest.approx(expected)
        assert status.verify(workspace.definition, workspace.settings) == []
