"""The task that proves that a run adds up, over tables as a run leaves them and as it must not."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import sluicegate as sg
from sluicegate.lake.exclusion.lock import pipeline_lock
from sluicegate.landing import file_status, intake
from sluicegate.monitor import status
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.support.by_hand import records, taken_in
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import task_of
from tests.unit.monitor.test_status import committed

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture(autouse=True)
def states(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """States of the tasks of the run, as Airflow's server would give them."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    of_tasks: dict[str, str] = {}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda *_, run_ids, **__: {run_ids[0]: of_tasks})
    return of_tasks


@pytest.fixture
def three_records(workspace: Workspace) -> Workspace:
    """Of three records of bronze one is in silver and one in quarantine; gold has followed."""
    run_id = context_of(task_of(workspace, "account"))["dag_run"].run_id
    records(workspace, "patients_bronze", [1])
    taken_in(workspace, "patients", [1])
    records(workspace, "recordings_bronze", [1, 2, 3], run_id=run_id)
    failed = {"valid_heartrate": {"passed": 1, "failed": 1}}
    taken_in(workspace, "recordings_enriched", [1], run_id=run_id, expectations=failed)
    records(workspace, "recordings_enriched_quarantine", [2])
    taken_in(workspace, "daily_patient_avg", [], run_id=run_id)
    return workspace


def account(workspace: Workspace, **form: Any) -> Any:
    task = task_of(workspace, "account")
    context = context_of(task, form=form or None)
    return task.execute(context)


def test_what_adds_up_is_told_by_table(three_records: Workspace) -> None:
    records(three_records, "recordings_enriched_set_aside", [3])
    told = {table.pop("table"): table for table in account(three_records)}
    assert told["recordings_enriched"] == {
        "layer": "silver", "rows": 1, "quarantined": 1, "set aside": 1,
        "expectations": {"valid_heartrate": {"passed": 1, "failed": 1}},
    }  # fmt: skip
    assert told["daily_patient_avg"] == {"layer": "gold", "rows": 0, "expectations": {}}


def test_a_discarded_record_adds_up_and_does_not_wait(three_records: Workspace) -> None:
    records(three_records, "recordings_enriched_set_aside", [3])
    assert sg.discard(three_records.definition, "recordings_enriched", note="a test") == 1
    told = {table.pop("table"): table for table in account(three_records)}
    found = told["recordings_enriched"]
    assert (found["quarantined"], found["discarded"], found["set aside"]) == (0, 1, 1)


def test_a_record_that_is_nowhere_fails_the_run(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="1 records are missing, such as 1/3"):
        account(three_records)


@pytest.mark.parametrize(("aside", "told"), [([], "its tables have 2"), ([3, 3], "its tables have 4"), ([3], "")])
def test_of_large_tables_the_sums_add_up(three_records: Workspace, aside: list[int], told: str) -> None:
    records(three_records, "recordings_enriched_set_aside", aside)
    found = status.verify(three_records.definition, three_records.settings, 2)
    assert found == ([f"recordings_enriched: 3 records were read, but {told}"] if told else [])


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_up_to_a_limit_each_record_is_looked_for(
    three_records: Workspace, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluicegate.airflow.operators import reconcile as of

    monkeypatch.setattr(of, "RECORDS", limit)  # bronze has three
    told = "1 records are missing" if limit >= 3 else "3 records were read, but its tables have 2"
    with pytest.raises(AirflowFailException, match=told):
        account(three_records)


def test_it_does_not_look_while_another_run_writes(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    with pipeline_lock(three_records.lake, "a backfill"), pytest.raises(AirflowRescheduleException):
        account(three_records)


def gone(workspace: Workspace, *tables: str) -> None:
    for table in tables:
        shutil.rmtree(workspace.uri(table))


def test_a_run_whose_silver_never_ran_fails_and_says_what_waits(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    gone(three_records, "recordings_enriched", "recordings_enriched_quarantine", "daily_patient_avg")
    with pytest.raises(AirflowException, match="recordings_enriched: it does not exist, and 3 rows of") as raised:
        account(three_records)
    assert not isinstance(raised.value, AirflowFailException)  # another run may bring it up to date meanwhile
    assert "or run: sluicegate run heart_rate" in str(raised.value)


def test_a_run_whose_gold_never_ran_fails(three_records: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowException

    records(three_records, "recordings_enriched_set_aside", [3])
    gone(three_records, "daily_patient_avg")
    with pytest.raises(AirflowException, match="daily_patient_avg: it does not exist, and 1 row of"):
        account(three_records)


@pytest.mark.parametrize("form", [{}, {"max_files": 1}])
def test_a_job_that_was_ended_right_after_its_commit_fails_the_run_until_another_run(
    three_records: Workspace, form: dict[str, Any]
) -> None:
    """No record is lost by that, so it is no verdict that stands for good."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    gone(three_records, "recordings_bronze", "recordings_enriched", "recordings_enriched_quarantine")
    path = str(three_records.land("recordings/a.json", "[]"))
    intake.enter("recordings_bronze", three_records.definition.bronze["recordings_bronze"], three_records.lake)
    committed(three_records, "recordings_bronze", path, {"manifest": {path: 1}})
    taken_in(three_records, "recordings_enriched", [0])
    with pytest.raises(AirflowException, match="recordings_bronze: the status of 1 file is not") as raised:
        account(three_records, **form)
    assert not isinstance(raised.value, AirflowFailException)
    file_status.copy(three_records.lake, "recordings_bronze")
    account(three_records, **form)


@pytest.mark.parametrize("form", [{"tables": ["recordings_bronze"]}, {"max_files": 1}])
def test_a_run_for_a_part_only_tells_what_waits(three_records: Workspace, form: dict[str, Any]) -> None:
    gone(three_records, "recordings_enriched", "recordings_enriched_quarantine", "daily_patient_avg")
    told = {table["table"]: table for table in account(three_records, **form)}
    assert told["recordings_enriched"]["waits"] == "it does not exist, and 3 rows of recordings_bronze wait"


def test_what_other_runs_brought_meanwhile_is_told_and_does_not_fail_it(three_records: Workspace) -> None:
    records(three_records, "recordings_enriched_set_aside", [3])
    records(three_records, "recordings_bronze", [4, 5], run_id="another")
    told = {table["table"]: table for table in account(three_records)}
    assert told["recordings_enriched"]["waits"] == "2 rows of recordings_bronze wait"


@pytest.mark.parametrize("reason", ["recordings_enriched: 12 rows broke known_patient", None])
def test_after_a_task_that_failed_it_says_so_first_and_what_the_tables_have(
    three_records: Workspace, states: dict[str, str], reason: str | None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from airflow.sdk.exceptions import AirflowFailException
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from sluicegate.airflow.reporting.failure_reason import REASON
    from sluicegate.airflow.reporting.task_alerts import LOST

    records(three_records, "recordings_enriched_set_aside", [3])
    gone(three_records, "daily_patient_avg")  # which no retry of this task brings up to date
    states |= {"gold": "upstream_failed", "silver": "failed", "bronze": "success", "account": "failed"}
    pushed: dict[str, Any] = {}
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", lambda _, key, value: pushed.update({key: value}))
    monkeypatch.setattr(
        RuntimeTaskInstance, "xcom_pull", lambda _, task_ids, key: {("silver", REASON): reason}[task_ids, key]
    )
    outcome = f"failed in silver: {reason or LOST}"
    with pytest.raises(AirflowFailException) as raised:
        account(three_records)
    assert str(raised.value) == pushed[REASON] == outcome
    assert {table["table"]: table["rows"] for table in pushed["return_value"]}["recordings_enriched"] == 1
    shown = capsys.readouterr().out
    assert 0 < shown.index(outcome) < shown.index("recordings_enriched  ")

    from sluicegate.airflow.dag import medallion_dags

    sent: list[Any] = []
    dag_args = {"default_args": {"on_failure_callback": sent.append}}
    dag: Any = medallion_dags(three_records.settings, dag_args=dag_args)["heart_rate"]
    (callback,) = dag.task_dict["account"].on_failure_callback
    callback({"exception": raised.value})
    assert sent == [], "the alert of silver is the one to read"
    callback({"exception": AirflowFailException("reconciliation failed")})
    assert len(sent) == 1


def test_after_a_task_that_failed_tables_that_cannot_be_read_do_not_hide_why(
    three_records: Workspace, states: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states |= {"bronze": "failed"}
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", lambda *_, **__: None)
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", lambda *_, **__: "the store does not respond")
    task = task_of(three_records, "account")
    three_records.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    with pytest.raises(AirflowFailException, match=r"^failed in bronze: the store does not respond$"):
        task.execute(context_of(task))


def test_files_that_are_in_no_table_are_counted_and_said(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "recordings_bronze"
    read, unread = (str(workspace.land(f"recordings/{one}.json", "[]")) for one in ("a", "b"))
    source = workspace.definition.bronze[name].model_copy(update={"includeExistingFiles": False})
    intake.enter(name, source, workspace.lake)
    told = {table["table"]: table for table in account(workspace, tables=[name])}
    assert told[name]["skipped files"] == 2
    assert "every file and every record is accounted for" in capsys.readouterr().out
    for path in (read, unread):
        workspace.land(path, "[ ]")
    intake.enter(name, workspace.definition.bronze[name], workspace.lake)
    committed(workspace, name, read, {"failed": {unread: ["it is no JSON", False]}, "files": 2})
    file_status.copy(workspace.lake, name)
    told = {table["table"]: table for table in account(workspace, tables=[name])}
    assert told[name]["failed files"] == 1
    shown = capsys.readouterr().out
    assert "every record that was read is accounted for, but 1 file could not be read, first: b.json" in shown
    assert "every file" not in shown
    assert "1 failed files" in shown


@pytest.mark.parametrize("seen", [{"files": 1, "bytes": 2}, None])
def test_a_run_that_read_none_of_the_files_it_was_begun_for_fails(
    workspace: Workspace, seen: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowException
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    # What the sensor returned is in Airflow's database, and none is running.
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", lambda *_, **__: seen)
    workspace.land("recordings/a.json", "[]", age=365 * 86400 * 5)
    if seen is None:
        account(workspace)
        return
    with pytest.raises(AirflowException, match="recordings_bronze: 1 file that landed before it"):
        account(workspace)
    intake.enter("recordings_bronze", workspace.definition.bronze["recordings_bronze"], workspace.lake)
    with pytest.raises(AirflowException, match="recordings_bronze: 1 file of its ledger waits"):
        account(workspace)


@pytest.mark.parametrize(
    ("gold", "runs", "becomes"),
    [("success", True, []), ("failed", True, []), ("upstream_failed", True, []), ("skipped", False, ["skipped"])],
)
def test_it_runs_after_a_failure_and_not_where_the_run_was_skipped(
    workspace: Workspace, gold: str, runs: bool, becomes: list[str]
) -> None:
    """As Airflow's scheduler decides: a rejected request, or no new file, skips every task."""
    from types import SimpleNamespace

    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.ti_deps.dep_context import DepContext
    from airflow.ti_deps.deps.trigger_rule_dep import TriggerRuleDep

    dag = task_of(workspace, "account").dag
    tasks = DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_dict
    states: list[str] = []
    finished = SimpleNamespace(task_id="gold", task=tasks["gold"], state=gold, map_index=-1)
    instance = SimpleNamespace(
        task=tasks["account"], map_index=-1, run_id="r", get_dagrun=lambda **_: None, start_date=None, end_date=None,
        set_state=lambda state, *_, **__: states.append(state),
    )  # fmt: skip
    context: Any = DepContext(flag_upstream_failed=True, finished_tis=[finished])  # type: ignore[list-item]
    statuses = TriggerRuleDep()._evaluate_trigger_rule(ti=instance, dep_context=context, session=None)  # type: ignore[arg-type]
    passed = [status.passed for status in statuses]
    assert (all(passed), states) == (runs, becomes)
