"""The task that proves that a run adds up, over tables as a run leaves them and as it must not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from sluicegate import lake as lakes
from sluicegate import status
from sluicegate.lock import pipeline_lock
from tests.airflow_runs import context_of
from tests.conftest import Workspace
from tests.unit.test_dag import airflow_home as airflow_home
from tests.unit.test_dag import task_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


def records(workspace: Workspace, table: str, positions: list[int], **ours: Any) -> None:
    """Writes records of the first chunk, as a run of ours."""
    rows = pa.table({"_chunk": pa.array([1] * len(positions), pa.int64()), "_pos": pa.array(positions, pa.int64())})
    said = {"userMetadata": json.dumps({lakes.METADATA: ours})}
    write_deltalake(workspace.uri(table), rows, mode="append", commit_properties=CommitProperties(custom_metadata=said))


@pytest.fixture
def three_records(workspace: Workspace) -> Workspace:
    """Of three records of bronze one is in silver and one in quarantine."""
    run_id = context_of(task_of(workspace, "account"))["dag_run"].run_id
    records(workspace, "recordings_bronze", [1, 2, 3])
    failed = {"valid_heartrate": {"passed": 1, "failed": 1}}
    records(workspace, "recordings_enriched", [1], run_id=run_id, expectations=failed)
    records(workspace, "recordings_enriched_quarantine", [2])
    return workspace


def account(workspace: Workspace) -> Any:
    task = task_of(workspace, "account")
    return task.execute(context_of(task))


def test_what_adds_up(three_records: Workspace) -> None:
    records(three_records, "recordings_enriched_set_aside", [3])
    told = {table.pop("table"): table for table in account(three_records)}
    assert told["recordings_enriched"] == {
        "layer": "silver", "rows": 1, "quarantined": 1, "set aside": 1,
        "expectations": {"valid_heartrate": {"passed": 1, "failed": 1}},
    }  # fmt: skip
    assert told["daily_patient_avg"] == {"layer": "gold", "rows": 0, "expectations": {}}


def test_a_record_that_is_nowhere_fails_the_run(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="1 records are in no place, such as 1/3"):
        account(three_records)


@pytest.mark.parametrize(("aside", "told"), [([], "2 are in its tables"), ([3, 3], "4 are in its tables"), ([3], "")])
def test_of_large_tables_the_sums_add_up(three_records: Workspace, aside: list[int], told: str) -> None:
    records(three_records, "recordings_enriched_set_aside", aside)
    found = status.verify(three_records.definition, three_records.settings, 2)
    assert found == ([f"recordings_enriched: 3 records were read, and {told}"] if told else [])


def test_it_does_not_look_while_another_run_writes(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    with pipeline_lock(three_records.lake, "a backfill"), pytest.raises(AirflowRescheduleException):
        account(three_records)
