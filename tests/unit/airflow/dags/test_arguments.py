"""What a definition and a DAG file say of tasks and DAGs, and which of them comes first."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.errors import DefinitionError, UserError
from tests.conftest import Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import in_one_task

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

READERS = ("check_request", "wait_for_files", "account")
JOBS = ("bronze", "silver", "gold")
SAID = """
airflow:
  conn_id: cluster
  pool: heavy
  pool_slots: 2
  queue: java
  executor_config: {labels: {team: health}}
  execution_timeout: 6 hours
  retries: 0
  retry_delay: 1 minute
  max_retry_delay: 1 hour
  priority_weight: 7
  max_active_runs: 1
  approvers: [ada, grace]
maintenance: {schedule: 5 5 * * *}
database:"""


def says(workspace: Workspace, text: str = SAID) -> None:
    workspace.edit("pipeline.yaml", "\ndatabase:", text)


def dags_of(workspace: Workspace, **arguments: Any) -> Any:
    from sluicegate.airflow.dag import medallion_dags

    return medallion_dags(workspace.settings, **arguments)


def of(tasks: Any, names: tuple[str, ...], *fields: str) -> set[tuple[Any, ...]]:
    return {tuple(getattr(tasks[name], field) for field in fields) for name in names}


def test_jobs_are_in_a_pool_of_their_own(workspace: Workspace) -> None:
    tasks = dags_of(workspace)["heart_rate"].task_dict
    assert of(tasks, JOBS, "pool", "conn_id", "queue") == {("spark", "spark_default", "default")}
    assert of(tasks, READERS, "pool", "retries") == {("default_pool", 2)}
    assert tasks["check_request"].assigned_users is None


def test_a_definition_says_what_its_tasks_are_like(workspace: Workspace) -> None:
    says(workspace)
    dags = dags_of(workspace)
    dag, tasks = dags["heart_rate"], dags["heart_rate"].task_dict | dags["heart_rate_maintenance"].task_dict
    jobs = (*JOBS, "maintain")
    assert of(tasks, jobs, "conn_id", "pool", "pool_slots", "queue") == {("cluster", "heavy", 2, "java")}
    assert of(tasks, jobs, "execution_timeout", "retries") == {(timedelta(hours=6), 0)}
    assert of(tasks, jobs, "retry_delay", "max_retry_delay") == {(timedelta(minutes=1), timedelta(hours=1))}
    assert all(tasks[job].executor_config == {"labels": {"team": "health"}} for job in jobs)
    assert of(tasks, READERS, "pool", "queue", "retries") == {("default_pool", "default", 2)}
    assert of(tasks, (*READERS, *jobs), "priority_weight") == {(7,)}
    # A wait for a person or for files has a limit of its own.
    assert of(tasks, READERS[:2], "execution_timeout") == {(None,)}
    assert tasks["account"].execution_timeout == timedelta(hours=6)
    assert tasks["check_request"].assigned_users == [{"id": "ada", "name": "ada"}, {"id": "grace", "name": "grace"}]
    assert dag.max_active_runs == 1


@pytest.mark.parametrize(("said", "longest"), [("1 hour", 60), ("1 minute", 10)])
def test_a_delay_that_is_given_is_not_cut_by_our_longest(workspace: Workspace, said: str, longest: int) -> None:
    first, of_file = (timedelta(hours=1) if said == "1 hour" else timedelta(minutes=1)), timedelta(minutes=5)
    says(workspace, f"\nairflow: {{retry_delay: {said}}}\ndatabase:")
    both = {(first, timedelta(minutes=longest))}
    for given in ({}, {"retry_delay": of_file}):
        tasks = dags_of(workspace, task_args=given)["heart_rate"].task_dict
        assert of(tasks, JOBS, "retry_delay", "max_retry_delay") == both


def test_one_task_for_all_layers_has_the_time_of_each(workspace: Workspace) -> None:
    says(workspace)
    in_one_task(workspace)
    assert dags_of(workspace)["heart_rate"].task_dict["run"].execution_timeout == timedelta(hours=18)


def test_a_dag_file_says_it_for_all_and_a_definition_comes_before_it(workspace: Workspace) -> None:
    given = {"queue": "all", "retries": 5, "conn_id": "server", "conf": {"spark.executor.cores": "2"},
             "pool": "shared", "execution_timeout": None, "priority_weight": 3}  # fmt: skip
    tasks = dags_of(workspace, task_args=given)["heart_rate"].task_dict
    assert of(tasks, (*READERS, *JOBS), "queue", "retries", "priority_weight", "pool") == {("all", 5, 3, "shared")}
    assert of(tasks, JOBS, "conn_id", "execution_timeout") == {("server", None)}
    assert all(tasks[job].conf == {"spark.executor.cores": "2"} for job in JOBS)
    says(workspace)
    tasks = dags_of(workspace, task_args=given)["heart_rate"].task_dict
    assert of(tasks, JOBS, "queue", "retries", "conn_id", "pool") == {("java", 0, "cluster", "heavy")}
    assert of(tasks, READERS, "queue", "retries", "pool") == {("all", 5, "shared")}
    assert of(tasks, (*READERS, *JOBS), "priority_weight") == {(7,)}


def test_a_dag_file_says_what_all_dags_are_like(workspace: Workspace) -> None:
    def told(_: Any) -> None:
        """A callback."""

    notify = "{notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier, arguments: {to: a@example.org}}"
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\nnotify: [{notify}]\ndatabase:")
    given = {
        "max_active_runs": 2,
        "tags": ["ours"],
        "on_failure_callback": told,
        "default_args": {"depends_on_past": True},
    }
    dag = dags_of(workspace, dag_args=given)["heart_rate"]
    assert (dag.max_active_runs, dag.tags) == (2, {"ours", "healthcare"})
    assert [one is told for one in dag.on_failure_callback] == [True, False]
    assert dag.default_args == {"depends_on_past": True, "owner": "sluicegate"}
    says(workspace)
    assert dags_of(workspace, dag_args=given)["heart_rate"].max_active_runs == 1


def test_defaults_of_a_dag_file_come_before_ours(workspace: Workspace) -> None:
    """Arguments of a task come before defaults of its DAG, and ours are arguments."""
    defaults = {"retries": 5, "pool": "shared", "execution_timeout": timedelta(hours=9), "owner": "data"}
    given = {"dag_args": {"default_args": defaults}, "task_args": {"retries": 6}}
    tasks = dags_of(workspace, **given)["heart_rate"].task_dict
    assert of(tasks, JOBS, "retries", "pool", "execution_timeout") == {(6, "shared", timedelta(hours=9))}
    assert of(tasks, (*READERS, *JOBS), "pool", "owner") == {("shared", "sluicegate")}
    assert of(tasks, READERS[:2], "execution_timeout") == {(None,)}  # of waits for a person and for files


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"task_args": {"que": "x"}}, "task_args sets que(.|\n)*queue"),
        ({"task_args": {"zzz": "x"}}, "task_args sets zzz(.|\n)*SparkSubmission, BaseOperator and DAG"),
        ({"task_args": {"java_class": "x"}}, "java_class, which Sluicegate's tasks and DAGs do not accept"),
        ({"task_args": {"task_id": "x"}}, "task_args sets task_id, which Sluicegate sets for each pipeline"),
        ({"task_args": {"application": "x"}}, "task_args sets application, which Sluicegate sets for each pipeline"),
        ({"dag_args": {"schedule": "x"}}, "dag_args sets schedule, which Sluicegate sets for each pipeline"),
        ({"dag_args": {"max_runs": 1}}, "dag_args sets max_runs(.|\n)*max_active_runs"),
    ],
)
def test_what_a_dag_file_cannot_give_is_refused(workspace: Workspace, arguments: Any, why: str) -> None:
    with pytest.raises(UserError) as raised:
        dags_of(workspace, **arguments)
    assert re.search(why, raised.value.for_people())


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("pol: spark", "unknown-field", "did you mean pool"),
        ("pool_slots: 0", "out-of-range", "greater than or equal to 1"),
        ("pool: ''", "empty", "pool is empty"),
        ("retries: -1", "out-of-range", "greater than or equal to 0"),
        ("retries: two", "wrong-type", "integer"),
        ("execution_timeout: soon", "wrong-type", "duration"),
        ("execution_timeout: 0 seconds", "time-span", "at once"),
        ("max_active_runs: 0", "out-of-range", "greater than or equal to 1"),
        ("approvers: ['']", "name", "user id"),
        ("approvers: [ada, ada]", "duplicate-name", "ada"),
        ("executor_config: {env: {API_KEY: x}}", "secret", "API_KEY"),
    ],
)
def test_a_mistake_in_them_has_its_line(workspace: Workspace, text: str, code: str, why: str) -> None:
    says(workspace, f"\nairflow:\n  queue: java\n  {text}\ndatabase:")
    with pytest.raises(DefinitionError) as raised:
        _ = workspace.definition
    [mistake] = raised.value.mistakes
    lines = (workspace.folder / "pipelines" / "heart_rate" / "pipeline.yaml").read_text().splitlines()
    assert (mistake.code, why in f"{mistake.message} {mistake.hint}") == (code, True)
    assert mistake.line is not None
    assert text[:4] in lines[mistake.line - 1]


def test_what_a_column_of_airflows_database_does_not_hold_is_a_mistake(workspace: Workspace) -> None:
    """It would end the scheduler, and so the runs of all: names of more than LONGEST, and numbers above MOST."""
    from sluicegate.definition.pipeline.airflow import LONGEST, MOST

    names = ("conn_id", "pool", "queue")
    numbers = ("pool_slots", "retries", "priority_weight", "max_active_runs")
    said = {**dict.fromkeys(names, "x" * LONGEST), **dict.fromkeys(numbers, MOST)}
    says(workspace, f"\nairflow: {said}\ndatabase:")
    assert dags_of(workspace)["heart_rate"].task_dict["bronze"].retries == MOST
    more = {**dict.fromkeys(names, "x" * (LONGEST + 1)), **dict.fromkeys(numbers, MOST + 1)}
    workspace.edit("pipeline.yaml", str(said), str(more))
    with pytest.raises(DefinitionError) as raised:
        _ = workspace.definition
    assert {mistake.path for mistake in raised.value.mistakes} == {f"airflow.{name}" for name in (*names, *numbers)}


def test_a_pod_without_its_provider_is_a_mistake(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it were not installed, where it is.
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf.kubernetes.pod_generator", None)
    says(workspace, "\nairflow: {executor_config: {pod_override: {spec: {containers: []}}}}\ndatabase:")
    dag = dags_of(workspace)["heart_rate"]
    assert {task.task_type for task in dag.tasks} == {"DefinitionMistakes"}
    assert "apache-airflow-providers-cncf-kubernetes" in str(dag.doc_md)


def test_airflow_finds_no_dag_that_failed_in_the_making(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the tasks before the first job, and would end well without one."""
    from airflow.dag_processing.dagbag import DagBag

    found: list[tuple[str, int, bool]] = []

    class Bag(DagBag):
        """All that Airflow finds in a file, of which it would have one for each id."""

        def bag_dag(self, dag: Any) -> None:
            found.append((dag.dag_id, len(dag.tasks), "mistakes" in dag.tags))

    folder, places = workspace.folder / "pipelines", workspace.settings
    shutil.copytree(folder / "heart_rate", folder / "other")
    other = folder / "other" / "pipeline.yaml"
    other.write_text(other.read_text().replace("name: heart_rate", "name: other"))
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf.kubernetes.pod_generator", None)
    says(workspace, "\nairflow: {executor_config: {pod_override: {spec: {containers: []}}}}\ndatabase:")
    file = workspace.folder / "dags" / "medallion.py"
    file.parent.mkdir()
    file.write_text(
        "from sluicegate.airflow.dag import medallion_dags\nfrom sluicegate.settings import Settings\n"
        f"dags = medallion_dags(Settings.of(lake={str(places.lake)!r}, landing={str(places.landing)!r},"
        f" pipelines={str(folder)!r}))\n"
    )
    assert Bag(str(file.parent), bundle_path=file.parent).import_errors == {}
    assert sorted(found) == [("heart_rate", 6, True), ("other", 6, False)]


def test_a_dag_file_may_have_some_of_the_pipelines(workspace: Workspace) -> None:
    folder = workspace.folder / "pipelines"
    shutil.copytree(folder / "heart_rate", folder / "other")
    assert set(dags_of(workspace, only=["heart_rate"])) == {"heart_rate"}
    assert set(dags_of(workspace, only=[])) == set()
    dags = dags_of(workspace, only=["hart_rate", "heart_rate"])  # or one that was deleted
    assert len(dags["heart_rate"].tasks) == 6
    assert {task.task_type for task in dags["hart_rate"].tasks} == {"DefinitionMistakes"}
    assert "pipeline hart_rate" in dags["hart_rate"].description
    with pytest.raises(UserError, match="the string heart_rate") as raised:
        dags_of(workspace, only="heart_rate")
    assert raised.value.hint == 'write only=["heart_rate"]'


def test_a_folder_whose_name_is_none_stops_no_other_pipeline(workspace: Workspace) -> None:
    """As a copy beside it, that somebody keeps for a while."""
    workspace.edit(
        "pipeline.yaml", 'schedule: "*/15 * * * *"\n', "trigger: file_arrival\nalerts: {schedule: 5 5 * * *}\n"
    )
    folder = workspace.folder / "pipelines"
    shutil.copytree(folder / "heart_rate", folder / "heart_rate (copy)")
    dags = dags_of(workspace)
    assert len(dags["heart_rate"].tasks) == 6
    assert {"heart_rate--copy-", "heart_rate--copy-_alerts"} < set(dags)
    assert "heart_rate (copy)" in str(dags["heart_rate--copy-"].doc_md)


def test_a_task_that_starts_reads_the_definition_of_its_pipeline_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.folder / "pipelines"
    for name in ("other", "wrong"):
        shutil.copytree(folder / "heart_rate", folder / name)
    text = (folder / "other" / "pipeline.yaml").read_text()
    (folder / "other" / "pipeline.yaml").write_text(text.replace("name: heart_rate", "name: other", 1))
    says(workspace)
    found = {}
    for wanted in ("heart_rate", "heart_rate_maintenance", "other", "wrong", "of_another_file"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
        found[wanted] = set(dags_of(workspace))
    both = {"heart_rate", "heart_rate_maintenance"}
    assert found == {"heart_rate": both, "heart_rate_maintenance": both, "other": {"other"}, "wrong": {"wrong"},
                     "of_another_file": set()}  # fmt: skip
