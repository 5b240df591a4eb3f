"""A replay and a discard as runs of the pipeline's DAG, in a real Airflow with real Spark."""

from __future__ import annotations

import pytest

from sluicegate.launch.discard import Discard, find_records
from sluicegate.monitor import status
from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, ended, run, until

pytestmark = [pytest.mark.e2e, pytest.mark.release]

SILVER, QUARANTINE = "recordings_enriched", "recordings_enriched_quarantine"


def counts(workspace: Workspace) -> tuple[int, int, int]:
    """Rows in bronze, silver and quarantine."""
    names = ("recordings_bronze", SILVER, QUARANTINE)
    return tuple(len(workspace.rows(name, "_chunk", "_pos")) for name in names)  # type: ignore[return-value]


def standing(workspace: Workspace) -> tuple[int, int]:
    """Rows of the quarantine that wait, and that are discarded."""
    found = status.status(workspace.definition, workspace.settings).tables
    table = next(one for one in found if one.table == SILVER)
    return table.quarantined, table.discarded


def test_a_replay_evaluates_the_quarantine_and_takes_in_no_new_file(workspace: Workspace) -> None:
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n", age=100)
    workspace.land("recordings/a.json", [beat(1, 1, hour * 3600, rate) for hour, rate in enumerate([60.0, -1.0, -2.0])])
    workspace.edit("pipeline.yaml", "*/15 * * * *", "0 0 29 2 *")
    with LocalAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as airflow:
        airflow.wait(DAG)
        assert ended(airflow, run(airflow)) == "success"
        assert counts(workspace) == (3, 1, 2)

        workspace.edit("pipeline.yaml", "heartrate > 0", "heartrate > -2")
        workspace.land("recordings/b.json", [beat(1, 1, 9 * 3600, 70.0)], age=100)
        replay = run(airflow, mode="replay", tables=[SILVER], rules=["valid_heartrate"])
        assert ended(airflow, replay) == "success"
        assert counts(workspace) == (3, 2, 1)
        assert len(workspace.rows("daily_patient_avg", "mrn")) == 1
        said = until(lambda: airflow.call("GET", f"{DAGS}/dagRuns/{replay}")["note"])
        assert "replay" in said.lower()

        discard = run(airflow, mode="discard", tables=[SILVER], note="a sensor test")
        assert ended(airflow, discard) == "success"
        assert counts(workspace) == (3, 2, 1)  # it stays in the quarantine
        assert standing(workspace) == (0, 1)
        [made] = find_records(workspace.definition, Discard(SILVER, undo=True)).discards
        assert (made.id, made.note) == (discard, "a sensor test")
        assert made.by

        assert ended(airflow, run(airflow)) == "success"
        assert counts(workspace) == (4, 3, 1)
        assert ended(airflow, run(airflow, mode="undo-discard", tables=[SILVER], discard=discard)) == "success"
        assert standing(workspace) == (1, 0)
        assert status.verify(workspace.definition, workspace.settings) == []
