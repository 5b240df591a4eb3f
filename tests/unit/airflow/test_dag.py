"""The DAGs, the sensor and the operator, with no Airflow running: what they are made of, and what they do in a task."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from sluicegate.dashboard.runs import TASKS
from sluicegate.definition import LAYERS, load, names
from sluicegate.errors import DefinitionError, JavaMissing, PipelineMissing
from sluicegate.flow.report import ERROR, REPORT, UNREPORTED
from sluicegate.spark import configuration, java
from tests.conftest import ROOT, Workspace
from tests.support.airflow_runs import context_of
from tests.support.by_hand import records
from tests.support.channel import sent, sent_as_it_is

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from sluicegate.airflow.operators.submit import SluicegateJob

pytestmark = pytest.mark.unit

# What Airflow's own import brings is not ours to answer for; these are what our DAG file could drag in.
HEAVY = {"pyspark", "py4j", "pyarrow", "deltalake", "duckdb", "pandas", "numpy"}

PARSE = f"""
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(sys.argv[1], bundle_path=sys.argv[1])
began = time.process_time()
DagBag(sys.argv[1], bundle_path=sys.argv[1])
print("FACTS" + json.dumps({{
    "errors": bag.import_errors,
    "seconds": time.process_time() - began,
    "heavy": sorted({HEAVY} & set(sys.modules)),
    "dags": {{name: DagSerialization.to_dict(dag) for name, dag in bag.dags.items()}},
}}))
"""


@pytest.fixture(scope="module", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of its own for Airflow, which reads it at its first import: hence the imports inside of functions."""
    home = tmp_path_factory.mktemp("airflow")
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith("AIRFLOW")]:
            patch.delenv(key)
        patch.setenv("AIRFLOW_HOME", str(home))
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        yield home


def dag_of(workspace: Workspace) -> DAG:
    from sluicegate.airflow.dag import medallion_dag

    return medallion_dag(workspace.pipeline, workspace.settings)


def task_of(workspace: Workspace, name: str) -> Any:
    return dag_of(workspace).task_dict[name]


def job_of(workspace: Workspace, layer: str = "bronze") -> SluicegateJob:
    job: SluicegateJob = task_of(workspace, layer)
    return job


# --- the DAG file ----------------------------------------------------------------------------------------------------


def parse(cwd: Path, hash_seed: str) -> Any:
    """Parses the DAG folder as Airflow does, on a machine with neither Java nor jars."""
    places = {"SLUICEGATE_JARS": str(cwd / "none"), "PATH": str(cwd / "none"), "PYTHONHASHSEED": hash_seed}
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | places
    command = [sys.executable, "-c", PARSE, str(ROOT / "dags")]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("FACTS"))[5:])


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process of its own finds in the folder of DAGs."""
    return parse(tmp_path_factory.mktemp("parsed"), "1")


def test_parsing_needs_no_spark_and_gives_the_same_each_time(parsed: Any, tmp_path: Path) -> None:
    one, other = parsed, parse(tmp_path, "2")
    assert one["errors"] == {}
    assert one["heavy"] == []
    assert one["seconds"] < 1  # of CPU, all modules imported: 0.04 for each pipeline on a quiet machine
    assert set(one["dags"]) == {*names(ROOT / "pipelines"), "example_downstream", "example_sequence"}
    triggers = one["dags"]["example_downstream"]["dag"]["timetable"]["__var"]["asset_condition"]
    assert triggers["objects"][0]["name"] == "heart_rate.daily_patient_avg"
    assert one["dags"] == other["dags"]  # else Airflow makes a new version of the DAG at each parse


def test_the_example_is_a_sensor_and_three_jobs(parsed: Any) -> None:
    dag = parsed["dags"]["example_sequence"]["dag"]
    tasks = {task["__var"]["task_id"]: task["__var"] for task in dag["tasks"]}
    order = ["wait_for_files", "bronze", "silver", "gold"]
    assert {name: task.get("downstream_task_ids", []) for name, task in tasks.items()} == {
        name: [follows] for name, follows in pairwise(order)
    } | {"gold": []}
    assert [tasks[name]["task_type"] for name in order] == ["LandedFilesSensor", *["SluicegateJob"] * 3]


def test_a_job_in_a_dag_of_ones_own_has_the_tables_and_the_pool_of_the_generated_one(workspace: Workspace) -> None:
    """A task may look up the last event of declared inlets alone, and publishes what changed since."""
    from airflow.sdk import DAG

    from sluicegate.airflow.operators.submit import SluicegateJob

    with DAG("mine"):
        for layer in LAYERS:
            generated = job_of(workspace, layer)
            written = SluicegateJob(task_id=layer, layer=layer, pipeline="heart_rate", settings=workspace.settings)
            assert (written.inlets, written.outlets) == (generated.inlets, generated.outlets)
            assert written.outlets
            assert all(table in written.inlets for table in written.outlets)
            assert written.pool == generated.pool
            mine = SluicegateJob(task_id=f"{layer}2", layer=layer, pipeline="heart_rate", settings=workspace.settings,
                                 inlets=[], pool="p")  # fmt: skip
            assert (mine.inlets, mine.pool) == ([], "p")
        absent = SluicegateJob(task_id="x", layer="bronze", pipeline="absent", settings=workspace.settings)
        assert absent.inlets == []


def test_verification_in_a_dag_of_ones_own_needs_no_param(workspace: Workspace) -> None:
    from airflow.sdk import DAG

    from sluicegate.airflow.operators.maintenance import Verification

    with DAG("mine") as dag:
        verify = Verification(task_id="verify", pipeline="heart_rate", settings=workspace.settings)
    environment = dag.get_template_env()
    for params, chosen in (({}, "--since-last"), ({"whole": False}, "--since-last"), ({"whole": True}, "--sample=100")):
        rendered = [
            environment.from_string(text).render(params=params) for text in (verify.application_args or ())[-1:]
        ]
        assert rendered == [chosen]


def test_a_dag_has_a_sensor_and_then_the_layers(workspace: Workspace) -> None:
    dag = dag_of(workspace)
    after = {task.task_id: task.downstream_task_ids for task in dag.tasks}
    order = ["check_request", "wait_for_files", "bronze", "silver", "gold", "account"]
    assert after == {name: {follows} for name, follows in pairwise(order)} | {order[-1]: set()}
    assert [job_of(workspace, layer).name for layer in ("bronze", "gold")] == ["heart_rate.bronze", "heart_rate.gold"]


def test_a_dag_runs_as_its_definition_says(workspace: Workspace) -> None:
    from sluicegate.airflow.timetable import PipelineTimetable

    dag = dag_of(workspace)
    assert dag.timetable == PipelineTimetable("*/15 * * * *")
    assert (dag.catchup, dag.max_active_runs, dag.tags) == (False, 3, {"healthcare"})
    assert task_of(workspace, "wait_for_files").timeout == 15 * 60  # then the next run waits
    assert {task.owner for task in dag.tasks} == {"sluicegate"}


@pytest.mark.parametrize(
    ("schedule", "minutes"),
    [("0 6,12,13,14,15,16 * * *", 60), ("0 8,9,17 * * mon-fri", 60), ("0 0,23 * * *", 60), ("0 3 * * mon", 24 * 60)],
)
def test_no_run_of_an_uneven_schedule_waits_beside_others(workspace: Workspace, schedule: str, minutes: int) -> None:
    """Three that wait are as many as may be active, and one by hand would queue behind them."""
    workspace.edit("pipeline.yaml", "*/15 * * * *", schedule)
    assert task_of(workspace, "wait_for_files").timeout == minutes * 60


@pytest.mark.parametrize(("wait", "seconds"), [("0 minutes", 0), ("5 minutes", 300)])
def test_a_run_of_a_schedule_waits_as_long_as_its_definition_says(
    workspace: Workspace, wait: str, seconds: int
) -> None:
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\nairflow: {{wait: {wait}}}\ndatabase:")
    assert task_of(workspace, "wait_for_files").timeout == seconds
    workspace.edit("pipeline.yaml", "\ndatabase:", "\ntrigger: file_arrival\ndatabase:")
    assert task_of(workspace, "wait_for_files").timeout == 0


def test_pages_show_the_tasks_of_a_run_in_the_order_of_the_dag(workspace: Workspace) -> None:
    ordered = [task.task_id for task in dag_of(workspace).topological_sort()]
    assert [name for name in TASKS if name in ordered] == ordered


def test_a_dag_and_its_tasks_are_explained_from_the_definition(workspace: Workspace) -> None:
    dag = dag_of(workspace)
    told = {task.task_id: str(task.doc_md) for task in dag.tasks}
    enriched = (
        "- `recordings_enriched`: from `recordings_bronze`, joined with `patients`; "
        "one row for each `device_id`, `time`; rules: `valid_heartrate`, `known_patient`"
    )
    assert f"- `recordings_bronze`: json of `{workspace.folder}/landing/recordings`" in told["bronze"].splitlines()
    assert enriched in told["silver"].splitlines()
    assert "- `daily_patient_avg`: from `recordings_enriched`" in told["gold"].splitlines()
    assert dag.doc_md is not None
    assert dag.doc_md.startswith(workspace.definition.description)
    assert enriched in dag.doc_md.splitlines()
    assert all(len(told[task]) > 80 for task in ("check_request", "wait_for_files", "account"))


def test_a_definition_without_a_schedule_runs_by_hand(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", 'schedule: "*/15 * * * *"\n', "")
    assert dag_of(workspace).schedule is None


def in_one_task(workspace: Workspace) -> None:
    """Lets one task run all layers."""
    workspace.edit("pipeline.yaml", "\nbronze:\n", "\ntasks: run\nbronze:\n")


def test_one_task_runs_all_layers_where_the_definition_says_so(workspace: Workspace) -> None:
    from datetime import timedelta

    layers = [job_of(workspace, layer) for layer in ("bronze", "silver", "gold")]
    in_one_task(workspace)
    dag = dag_of(workspace)
    after = {task.task_id: task.downstream_task_ids for task in dag.tasks}
    order = ["check_request", "wait_for_files", "run", "account"]
    assert after == {name: {follows} for name, follows in pairwise(order)} | {order[-1]: set()}
    job = job_of(workspace, "run")
    assert (job.name, Path(str(job.application)).name) == ("heart_rate", "run.py")
    assert [one.name for one in job.outlets] == [one.name for layer in layers for one in layer.outlets]
    assert [one.name for one in job.inlets] == [one.name for one in job.outlets]
    assert (job.retries, job.execution_timeout) == (layers[0].retries, timedelta(hours=6))
    assert all(str(layer.doc_md) in str(job.doc_md) for layer in layers)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({}, ""),
        ({"tables": ["daily_patient_avg"]}, ""),
        ({"tables": ["patients"]}, "has nothing to do"),
        ({"mode": "full-refresh", "tables": ["patients"]}, ""),
        ({"mode": "interval", "since": "2024-03-01", "until": "2024-03-02"}, ""),
    ],
)
def test_a_task_for_all_layers_has_work_if_one_has(workspace: Workspace, wish: dict[str, Any], why: str) -> None:
    from sluicegate.launch.request import Request

    in_one_task(workspace)
    records(workspace, "recordings_enriched", [1])  # gold is behind; silver has no source yet
    pipeline = workspace.definition
    assert job_of(workspace, "run")._idle_reason(pipeline, Request.from_arguments(pipeline, **wish)) == why


def test_a_layer_without_tables_has_no_task(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "gold:\n  daily_patient_avg: {sql: daily_patient_avg.sql}\n", "")
    assert [task.task_id for task in dag_of(workspace).tasks][2:] == ["bronze", "silver", "account"]


# --- mistakes in definitions -----------------------------------------------------------------------------------------


@pytest.fixture
def one_of_two_is_wrong(workspace: Workspace) -> Workspace:
    """heart_rate has a mistake, and beside it is ``other``, which has none."""
    other = workspace.folder / "pipelines" / "other"
    shutil.copytree(workspace.folder / "pipelines" / "heart_rate", other)
    text = (other / "pipeline.yaml").read_text()
    (other / "pipeline.yaml").write_text(text.replace("name: heart_rate", "name: other"))
    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    return workspace


def test_a_mistake_stops_only_its_own_pipeline(one_of_two_is_wrong: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluicegate.airflow.dag import medallion_dags

    dags = medallion_dags(one_of_two_is_wrong.settings)
    assert [task.task_id for task in dags["other"].tasks][2:] == ["bronze", "silver", "gold", "account"]
    assert dags["heart_rate"].timetable == dags["other"].timetable  # so that its runs fail where runs are watched
    task: Any = dags["heart_rate"].tasks[0]
    with pytest.raises(AirflowFailException, match="field event_tiem") as raised:
        task.execute({})
    assert "pipeline.yaml:" in str(raised.value)
    assert "event_time" in str(raised.value)
    assert dags["heart_rate"].doc_md is not None
    assert "event_tiem" in dags["heart_rate"].doc_md


def test_whatever_airflow_has_against_a_pipeline_the_others_have_their_dags(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of a DAG file ends the runs of all its DAGs."""
    from sluicegate.airflow.dag import medallion_dags

    shutil.copytree(workspace.folder / "pipelines" / "heart_rate", workspace.folder / "pipelines" / "other")
    other = workspace.folder / "pipelines" / "other" / "pipeline.yaml"
    other.write_text(other.read_text().replace("name: heart_rate", "name: other"))
    code = workspace.folder / "code"
    code.mkdir()
    (code / "ours.py").write_text("raise RuntimeError('no network')")
    monkeypatch.syspath_prepend(code)
    workspace.edit("pipeline.yaml", "\ndatabase:", "\nnotify: [{notifier: ours.Notifier}]\ndatabase:")
    (workspace.folder / "pipelines" / "third" / "pipeline.yaml").mkdir(parents=True)
    dags = medallion_dags(workspace.settings)
    assert len(dags["other"].tasks) == 6
    for name, said in {
        "heart_rate": "ours.Notifier cannot be used: no network",
        "third": "pipeline",
    }.items():
        assert {task.task_type for task in dags[name].tasks} == {"DefinitionMistakes"}
        assert said in str(dags[name].doc_md)


def test_what_no_check_of_ours_foresees_stops_only_its_own_pipeline(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.airflow import dag

    def refused(*_: Any) -> None:
        raise ValueError("tag cannot be longer than 100 characters")

    monkeypatch.setattr(dag, "PipelineDags", refused)
    [found] = dag.medallion_dags(workspace.settings).values()
    assert "its DAGs: ValueError: tag cannot be longer" in str(found.doc_md)


def test_mistakes_are_the_same_at_each_parse(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else Airflow makes a new version of the DAG each time."""
    from airflow.serialization.serialized_objects import DagSerialization

    from sluicegate.airflow.dag import medallion_dags

    code = workspace.folder / "code"
    code.mkdir()
    (code / "theirs.py").write_text(
        "from airflow.sdk.bases.notifier import BaseNotifier\n"
        "class Notifier(BaseNotifier):\n"
        "    def __init__(self):\n        raise RuntimeError(f'no network: {object()}')\n"
        "    def notify(self, context):\n        pass\n"
    )
    monkeypatch.syspath_prepend(code)
    workspace.edit("pipeline.yaml", "\ndatabase:", "\nnotify: [{notifier: theirs.Notifier}]\ndatabase:")
    found, kept = [], []
    for _ in range(2):
        found.append(DagSerialization.to_dict(medallion_dags(workspace.settings)["heart_rate"]))
        kept.append(object())  # at the address of the one before
    assert found[0] == found[1]
    assert "no network: <object object>" in str(found[0]["dag"]["doc_md"])


def test_a_tag_that_airflow_does_not_take_is_a_mistake(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "tags: [healthcare]", f"tags: [{'x' * 101}]")
    with pytest.raises(DefinitionError, match="at most 100 characters"):
        _ = workspace.definition


def test_a_dag_of_mistakes_is_as_the_dag_file_says(workspace: Workspace) -> None:
    """Else nobody is told of it, nobody may see it, and its tasks wait for a worker that there is not."""
    from sluicegate.airflow.dag import medallion_dags

    def told(_: Any) -> None:
        """A callback."""

    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    dag = medallion_dags(
        workspace.settings,
        task_args={"queue": "data", "pool": "shared", "conn_id": "cluster", "execution_timeout": None},
        dag_args={"on_failure_callback": told, "tags": ["ours"], "access_control": {"data": {"DAGs": {"can_read"}}}},
    )["heart_rate"]
    assert {task.task_type for task in dag.tasks} == {"DefinitionMistakes"}
    assert {(task.queue, task.pool) for task in dag.tasks} == {("data", "shared")}
    assert [task.retries for task in dag.tasks] == [0, 3, 3, 3, 3, 3]
    assert (dag.on_failure_callback, dag.tags) == ([told], {"ours", "mistakes"})
    assert dag.access_control == {"data": {"DAGs": {"can_read"}}}


def test_a_typo_stops_no_watch_of_files(workspace: Workspace) -> None:
    """Its trigger tells of the mistakes, by a run that fails with them; without it nobody would be told."""
    from airflow.serialization.serialized_objects import DagSerialization

    from sluicegate.airflow.dag import medallion_dags

    def watched() -> Any:
        dag = medallion_dags(workspace.settings)["heart_rate"]
        return DagSerialization.to_dict(dag)["dag"]["timetable"]

    workspace.edit("pipeline.yaml", 'schedule: "*/15 * * * *"\n', "trigger: file_arrival\n")
    before = watched()
    assert "landing-files" in json.dumps(before)
    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    assert watched() == before


TYPOS = {
    "a field": ("event_time: time", "event_tiem: time"),
    "a layer": ("\nsilver:\n", "\nsliver:\n"),
    "no YAML": ('schedule: "*/15 * * * *"', 'schedule: "*/15 * * * *"\ndescription: "never ends'),
    "no text": ("description:", "description: *"),
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_typo_that_is_saved_takes_no_task_from_runs_under_way(workspace: Workspace, typo: str) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from sluicegate.airflow.dag import medallion_dags

    workspace.edit(
        "pipeline.yaml", "\ndatabase:", "\nmaintenance: {schedule: 5 5 * * *}\nverify: {schedule: 6 5 * * *}\ndatabase:"
    )
    before = medallion_dags(workspace.settings)
    workspace.edit("pipeline.yaml", *TYPOS[typo])
    after = medallion_dags(workspace.settings)
    assert {name: dag.task_ids for name, dag in after.items()} == {name: dag.task_ids for name, dag in before.items()}
    assert {name: dag.timetable for name, dag in after.items()} == {name: dag.timetable for name, dag in before.items()}
    tasks: Any = after["heart_rate"].tasks
    for task in tasks:
        with pytest.raises(AirflowException) as raised:
            # A task that waited for files goes on by another method.
            task.resume_execution("resume", {}, {}) if task.task_id == "wait_for_files" else task.execute({})
        assert isinstance(raised.value, AirflowFailException) is (task.task_id == "check_request")
        assert (task.retries > 0) is (task.task_id != "check_request")


def test_a_typo_keeps_the_one_task_of_all_layers(workspace: Workspace) -> None:
    from sluicegate.airflow.dag import medallion_dags

    in_one_task(workspace)
    before = medallion_dags(workspace.settings)["heart_rate"].task_ids
    workspace.edit("pipeline.yaml", *TYPOS["a field"])
    assert medallion_dags(workspace.settings)["heart_rate"].task_ids == before


@pytest.mark.parametrize("text", ["schedule: every now and then", "[", "", "schedule: [1]", "schedule: 0 0 30 2 *"])
def test_a_schedule_that_cannot_be_read_is_left_out(workspace: Workspace, text: str) -> None:
    from sluicegate.airflow.dag import medallion_dags

    workspace.define(text)
    dags = medallion_dags(workspace.settings)
    assert dags["heart_rate"].schedule is None


def test_no_definitions_at_all_is_an_import_error(tmp_path: Path, workspace: Workspace) -> None:
    from sluicegate.airflow.dag import medallion_dags

    with pytest.raises(PipelineMissing, match="no pipeline definition"):
        medallion_dags(replace(workspace.settings, pipelines=tmp_path / "none"))


def test_assets_have_what_the_definition_says_of_their_tables(workspace: Workspace) -> None:
    said = "comment: all readings, column_comments: {mrn: the patient}, tags: {domain: health}"
    old = "daily_patient_avg: {sql: daily_patient_avg.sql"
    workspace.edit("pipeline.yaml", old, f"{old}, {said}")
    dag = dag_of(workspace)
    [found] = [one for one in dag.task_dict["gold"].outlets if one.name == "heart_rate.daily_patient_avg"]
    assert found.extra == {"comment": "all readings", "column_comments": {"mrn": "the patient"},
                           "tags": {"domain": "health"}}  # fmt: skip
    assert all(one.extra == {} for one in dag.task_dict["silver"].outlets)
    assert dag.doc_md is not None
    assert "`daily_patient_avg`: from `recordings_enriched`. all readings" in dag.doc_md


TARGETS = """
targets:
  dev: {lake: "HERE/lake_of_dev", schedule: null}
  prod: {lake: "HERE/lake_of_prod", landing: "HERE/landing", schedule: "5 5 * * *"}
"""


def test_a_dag_is_of_the_target_that_airflow_has(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.airflow.dag import medallion_dags, settings_below

    shutil.copytree(workspace.folder / "pipelines" / "heart_rate", workspace.folder / "pipelines" / "other")
    other = workspace.folder / "pipelines" / "other" / "pipeline.yaml"
    other.write_text(other.read_text().replace("name: heart_rate", "name: other", 1))
    file = workspace.folder / "pipelines" / "heart_rate" / "pipeline.yaml"
    file.write_text(file.read_text() + TARGETS.replace("HERE", str(workspace.folder)))
    monkeypatch.setenv("SLUICEGATE_LAKE", str(workspace.folder / "lake_of_no_target"))

    for_one = medallion_dags(settings_below(workspace.folder, "dev"))
    monkeypatch.setenv("SLUICEGATE_TARGET", "prod")
    for_all = medallion_dags(settings_below(workspace.folder))
    assert for_one["heart_rate"].schedule is None
    assert for_all["heart_rate"].timetable != for_all["other"].timetable
    job: Any = for_one["heart_rate"].task_dict["silver"]
    places = [str(workspace.folder / name) for name in ("lake_of_dev", "landing", "pipelines")]
    assert job.settings.arguments == dict(
        zip(("lake", "landing", "pipelines"), places, strict=True), master="local[*]", target="dev"
    )
    assert job.application_args[job.application_args.index("--target") + 1] == "dev"
    job = for_one["other"].task_dict["silver"]  # which has none, and whose tasks read its definition by itself
    assert (job.settings.target, "--target" in job.application_args) == ("", False)
    job = for_all["heart_rate"].task_dict["silver"]
    assert job.settings.lake == str(workspace.folder / "lake_of_prod")
    job = for_all["other"].task_dict["silver"]
    assert (job.settings.lake, job.settings.target) == (str(workspace.folder / "lake_of_no_target"), "")

    monkeypatch.setenv("SLUICEGATE_TARGET", "prd")
    wrong = medallion_dags(settings_below(workspace.folder))["heart_rate"]
    assert {task.task_type for task in wrong.tasks} == {"DefinitionMistakes"}


# --- the sensor ------------------------------------------------------------------------------------------------------


def look(workspace: Workspace, kind: str = "scheduled", form: Any = None) -> Any:
    """Does the sensor's own look in a run of some kind."""
    sensor = task_of(workspace, "wait_for_files")
    return sensor.execute(context_of(sensor, kind, form))


def deferred(workspace: Workspace, form: Any = None) -> Any:
    """The wait that the sensor hands over to the triggerer, its trigger made again there, to look often."""
    from airflow.sdk.exceptions import TaskDeferred
    from airflow.sdk.module_loading import import_string

    with pytest.raises(TaskDeferred) as raised:
        look(workspace, "manual", form)
    path, arguments = raised.value.trigger.serialize()
    trigger = import_string(path)(**json.loads(json.dumps(arguments)) | {"every": 0.01})
    return raised.value, trigger


def resumed(workspace: Workspace, event: Any) -> Any:
    sensor = task_of(workspace, "wait_for_files")
    return sensor.resume_execution("resume", {"event": event}, context_of(sensor))


def test_the_sensor_tells_what_has_landed(heartbeats: Workspace) -> None:
    size = sum(file.stat().st_size for file in (heartbeats.folder / "landing").rglob("*.*"))
    assert look(heartbeats) == {"files": 4, "bytes": size}
    assert look(heartbeats, form={"tables": ["patients_bronze"]})["files"] == 1


def test_the_sensor_waits_in_the_triggerer(workspace: Workspace) -> None:
    workspace.land("recordings/half.json", "[]", age=0)  # may still be being written
    workspace.land("recordings/.hidden.json", "[]")
    wait, trigger = deferred(workspace)
    assert wait.timeout.total_seconds() == 15 * 60

    async def files_land_while_it_waits() -> Any:
        events = trigger.run()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not first.done()
        workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n")
        return await asyncio.wait_for(first, 60)

    event = asyncio.run(files_land_while_it_waits())
    assert event.payload == {"found": {"files": 1, "bytes": 15}}
    assert resumed(workspace, event.payload) == {"files": 1, "bytes": 15}


def test_the_triggerer_is_not_held_up_by_a_look(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.airflow.sensors.check import FilesWaiting

    _, trigger = deferred(workspace)
    looking, go_on = threading.Event(), threading.Event()

    def slow(_: Any) -> Any:
        looking.set()
        assert go_on.wait(60)
        return FilesWaiting({"files": 1, "bytes": 1}, "a look at a very large folder", None)

    monkeypatch.setattr(trigger, "_find", slow)

    async def other_work_goes_on() -> Any:
        first = asyncio.ensure_future(anext(trigger.run()))
        while not looking.is_set():
            await asyncio.sleep(0.01)
        go_on.set()  # reached only if the loop is free during the look
        return await asyncio.wait_for(first, 60)

    assert asyncio.run(other_work_goes_on()).payload["found"] == {"files": 1, "bytes": 1}


def test_looks_of_one_wait_read_the_definition_once_until_it_is_edited(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.definition.reading import reloaded

    loaded: list[str] = []

    def counted(name: str, *of: Any) -> Any:
        loaded.append(name)
        return load(name, *of)

    monkeypatch.setattr(reloaded, "load", counted)
    _, trigger = deferred(workspace)
    for _ in range(3):
        assert trigger._find({}).waiting is None
    assert loaded == ["heart_rate"]
    # A wait goes by the definition of now: by this one it is for the files of another folder.
    (workspace.folder / "landing" / "people").mkdir()
    workspace.edit("pipeline.yaml", "${landing}/patients", "${landing}/people")
    workspace.land("people/people.csv", "mrn,name\n1,Ada\n")
    assert trigger._find({}).waiting == {"files": 1, "bytes": 15}
    assert loaded == ["heart_rate"] * 2


def test_the_sensor_waits_only_for_the_chosen_tables(heartbeats: Workspace) -> None:
    shutil.rmtree(heartbeats.folder / "landing" / "patients")
    (heartbeats.folder / "landing" / "patients").mkdir()
    _, trigger = deferred(heartbeats, {"tables": ["patients_bronze"]})
    assert trigger.tables == ["patients_bronze"]


def test_the_sensor_skips_a_run_without_files(workspace: Workspace) -> None:
    from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
    from airflow.sdk.exceptions import AirflowSkipException, TaskDeferralError

    sensor = task_of(workspace, "wait_for_files")
    for reason, raised in [(TriggerFailureReason.TRIGGER_TIMEOUT, AirflowSkipException), ("x", TaskDeferralError)]:
        with pytest.raises(raised):
            sensor.resume_execution(TRIGGER_FAIL_REPR, {"error": reason}, context_of(sensor))


def test_a_run_without_files_fails_where_files_are_late(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    more = "    format: json\n    expect_files_within: 24 hours\n"
    workspace.edit("pipeline.yaml", "    format: json\n", more)
    with pytest.raises(AirflowFailException, match=r"SG304.*within 1 day, and none has arrived yet"):
        timed_out(workspace)
    workspace.edit("pipeline.yaml", "\ndatabase:", "\ntrigger: file_arrival\ndatabase:")  # which waits for nothing
    with pytest.raises(AirflowFailException, match=r"SG304"):
        look(workspace)
    with pytest.raises(AirflowSkipException):
        look(workspace, form={"tables": ["patients_bronze"]})


def timed_out(workspace: Workspace) -> Any:
    """What the sensor does when Airflow ends its wait: the triggerer has said nothing."""
    from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason

    sensor = task_of(workspace, "wait_for_files")
    kwargs = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    return sensor.resume_execution(TRIGGER_FAIL_REPR, kwargs, context_of(sensor))


def test_a_dead_triggerer_does_not_look_like_a_quiet_day(
    heartbeats: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    found = timed_out(heartbeats)
    assert (found["files"], found["unreported"]) == (4, 4)
    assert "check that it is running" in capsys.readouterr().out
    shutil.rmtree(heartbeats.folder / "landing" / "recordings")
    with pytest.raises(AirflowFailException, match=r"landing/recordings does not exist"):
        timed_out(heartbeats)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("backfill", {}),
        ("manual", {"from": "2024-03-01T00:00:00Z", "to": "2024-03-02T00:00:00Z"}),
        ("manual", {"mode": "full-refresh"}),
    ],
)
def test_a_run_that_makes_something_again_waits_for_no_files(workspace: Workspace, kind: str, form: Any) -> None:
    assert look(workspace, kind, form) is None


def test_a_missing_landing_folder_is_no_quiet_day(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    _, trigger = deferred(workspace)
    shutil.rmtree(workspace.folder / "landing" / "recordings")
    with pytest.raises(AirflowFailException, match=r"landing/recordings does not exist(.|\n)*help:"):
        look(workspace)
    event = asyncio.run(anext(trigger.run()))
    with pytest.raises(AirflowFailException, match=r"landing/recordings does not exist(.|\n)*help:"):
        resumed(workspace, event.payload)


# --- a job -----------------------------------------------------------------------------------------------------------

FAILED = {
    "code": "SG207", "exit_code": 2, "message": "a.json is not JSON",
    "table": "recordings_bronze", "file": "/in/a.json", "line": 3, "cause": "it begins with a comma",
    "hint": "repair it",
}  # fmt: skip


def run(job: SluicegateJob, kind: str = "scheduled", form: Any = None) -> Any:
    """What the task returns in a run of some kind."""
    return job.execute(context_of(job, kind, form))


@pytest.fixture
def submit(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SluicegateJob]:
    """Makes a job, by default bronze's, for which there is work, and whose spark-submit is a shell script."""

    def make(script: str, task: str = "bronze") -> SluicegateJob:
        monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
        monkeypatch.setattr(java, "java_version", lambda _: "17")
        monkeypatch.setattr(configuration, "spark_conf", lambda _, **__: {"spark.app.id": "fake"})
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        program = heartbeats.folder / "spark-submit"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        job = job_of(heartbeats, task)
        job.spark_binary = str(program)
        job.application_args = ["--pipeline", "heart_rate"]
        return job

    return make


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The XComs that a task asks its supervisor to store."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import SetXCom

    asked: list[tuple[str, Any]] = []

    class Supervisor:
        def send(self, message: Any) -> None:
            if isinstance(message, SetXCom):
                asked.append((message.key, message.value))

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)
    return asked


def test_a_jobs_report_is_what_the_task_returns(submit: Callable[[str], SluicegateJob]) -> None:
    report = {"pipeline": "heart_rate", "layer": "bronze", "tables": []}
    assert run(submit(f"echo working\n{sent(REPORT, report)}")) == report


def report_of(layer: str) -> dict[str, Any]:
    return {"pipeline": "heart_rate", "layer": layer, "tables": []}


def reported(layer: str) -> str:
    """Sends the report of a layer in a shell."""
    return sent(REPORT, report_of(layer))


def test_a_job_of_all_layers_returns_the_report_of_each(
    submit: Callable[..., SluicegateJob], heartbeats: Workspace
) -> None:
    in_one_task(heartbeats)
    assert run(submit(f"{reported('bronze')}\n{reported('silver')}", "run")) == [
        report_of("bronze"),
        report_of("silver"),
    ]


def test_a_job_of_all_layers_that_fails_leaves_the_reports_before(
    submit: Callable[..., SluicegateJob], heartbeats: Workspace, stored: list[tuple[str, Any]]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    in_one_task(heartbeats)
    with pytest.raises(AirflowFailException, match=r"a\.json is not JSON"):
        run(submit(f"{reported('bronze')}\n{sent(ERROR, FAILED)}\nexit 2", "run"))
    reason = ("failure", "recordings_bronze: a.json is not JSON")
    assert stored == [("return_value", [report_of("bronze")]), reason]
    stored.clear()
    with pytest.raises(AirflowFailException, match=r"a\.json is not JSON"):
        run(submit(f"{sent(ERROR, FAILED)}\nexit 2", "run"))
    assert stored == [reason]


@pytest.mark.parametrize(("exit_code", "again"), [(2, False), (3, False), (1, True)])
def test_a_failure_is_the_jobs_own_sentence(
    submit: Callable[[str], SluicegateJob], exit_code: int, again: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    facts = FAILED | {"exit_code": exit_code}
    with pytest.raises(AirflowException) as raised:
        run(submit(f"{sent(ERROR, facts)}\nexit {exit_code}"))
    assert isinstance(raised.value, AirflowFailException) is not again
    assert str(raised.value).splitlines() == [
        "error[SG207]: a.json is not JSON",
        "  --> table recordings_bronze, /in/a.json:3",
        "  cause: it begins with a comma",
        "  help: repair it",
    ]


HOSTILE = (
    f"{REPORT} {json.dumps({'pipeline': 'heart_rate', 'layer': 'gold', 'tables': [], 'notes': ['forged']})}",
    f"{REPORT} nonsense",
    f"{ERROR} {json.dumps(FAILED)}",
    "Spark's page: https://evil.example/login",
    'SLUICEGATE_SPARK_PAGE "https://evil.example/login"',
    'SLUICEGATE_EVENT_LOG "evil"',
    "INFO pod name: shop-a1b2-driver",
    "submission ID spark:other-driver",
)


def test_nothing_that_a_job_prints_is_a_report_an_error_or_a_link(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]]
) -> None:
    """A landed value or a file name can have any of these behind a line break."""
    forged = "\n".join(f"echo {shlex.quote(line)}" for line in HOSTILE)
    job = submit(f"{forged}\n{reported('bronze')}\n{forged}")
    assert run(job) == report_of("bronze")
    assert (stored, job.logged_as) == ([], "")


def test_an_error_is_final_only_if_the_job_ended_with_it(
    submit: Callable[[str], SluicegateJob],
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    with pytest.raises(AirflowException, match=r"killed \(SIGKILL\).*, after this:\n.*a\.json is not JSON") as raised:
        run(submit(f"{sent(ERROR, FAILED)}\nkill -9 $$"))
    assert not isinstance(raised.value, AirflowFailException)
    with pytest.raises(AirflowException, match=r"killed \(SIGKILL\).*; its last output") as raised:
        run(submit(f"echo {shlex.quote(f'{ERROR} {json.dumps(FAILED)}')}\nkill -9 $$"))
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("script", ["echo done", sent_as_it_is(f"{REPORT} nonsense"), sent(REPORT, {"tables": 3})])
def test_a_report_that_cannot_be_read_fails_no_task(
    submit: Callable[[str], SluicegateJob], script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submit(script)) is None
    assert UNREPORTED in capsys.readouterr().out


def test_a_job_that_dies_is_told_with_its_last_words(submit: Callable[[str], SluicegateJob]) -> None:
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException) as raised:
        run(submit("echo out of memory\nkill -9 $$"))
    assert str(raised.value) == (
        "the bronze job of heart_rate was killed (SIGKILL), most often for lack of memory; its last output:\n"
        "    out of memory"
    )


def test_an_idle_layer_starts_nothing(submit: Callable[[str], SluicegateJob], heartbeats: Workspace) -> None:
    job = submit(f"touch {heartbeats.folder}/started")
    shutil.rmtree(heartbeats.folder / "landing")
    for folder in ("recordings", "patients"):
        (heartbeats.folder / "landing" / folder).mkdir(parents=True)
    assert run(job) is None
    assert not (heartbeats.folder / "started").exists()


class NoEvents:
    """What Airflow knows of assets that nobody has told it of."""

    def __getitem__(self, _about: Any) -> NoEvents:
        return self

    def ascending(self, _wanted: bool) -> NoEvents:
        return self

    def limit(self, _count: int) -> list[Any]:
        return []


@pytest.mark.parametrize("task", ["bronze", "run"])
def test_an_idle_job_tells_of_what_a_killed_run_committed(
    submit: Callable[..., SluicegateJob], workspace: Workspace, task: str
) -> None:
    if task == "run":
        in_one_task(workspace)
    records(workspace, "recordings_bronze", [1, 2], run_id="killed")
    job = submit(f"touch {workspace.folder}/started", task)
    for file in workspace.folder.glob("landing/*/*"):
        file.unlink()
    context = context_of(job)
    context["inlet_events"] = NoEvents()
    assert job.execute(context) is None
    assert not (workspace.folder / "started").exists()
    assert [about.name for about in job.outlets] == ["heart_rate.recordings_bronze"]
    (told,) = (context["outlet_events"][about].extra for about in job.outlets)
    assert (told["rows"], told["run_id"]) == (2, "killed")


def test_no_java_is_a_sentence_and_final(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    def none() -> str:
        raise JavaMissing("Spark needs Java 17 or newer, and there is none", hint="install one")

    monkeypatch.setattr(java, "java", none)
    with pytest.raises(AirflowFailException, match="needs Java 17"):
        run(job_of(heartbeats))


def test_killing_a_task_ends_all_that_it_started(submit: Callable[[str], SluicegateJob], heartbeats: Workspace) -> None:
    said = heartbeats.folder / "child"
    job = submit(f"sleep 60 &\necho $! > {said}.tmp; mv {said}.tmp {said}\nwait")
    failed: list[BaseException] = []

    def execute() -> None:
        try:
            run(job)
        except Exception as error:
            failed.append(error)

    thread = Thread(target=execute)
    thread.start()
    until = time.monotonic() + 30
    while not said.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    child = psutil.Process(int(said.read_text()))
    job.on_kill()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert failed
    with contextlib.suppress(psutil.NoSuchProcess):
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, "the program that the job started is still there"
            time.sleep(0.05)


# --- retries and notifiers -------------------------------------------------------------------------------------------

NOTIFY = """
notify:
  - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    arguments: {to: [data@example.org], smtp_conn_id: mail, subject: "{{ dag.dag_id }} failed"}
  - {when: success, notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier, arguments: {to: a@example.org}}
database:"""


def test_a_job_is_tried_again_ever_later_and_ends_some_time(workspace: Workspace) -> None:
    from datetime import timedelta

    for layer in ("bronze", "silver", "gold"):
        job = job_of(workspace, layer)
        assert (job.retries, job.retry_delay, job.retry_exponential_backoff) == (3, timedelta(seconds=30), 3.0)
        assert job.max_retry_delay == timedelta(minutes=10)
    ends = {task.task_id: task.execution_timeout for task in dag_of(workspace).tasks}
    # The first two may wait for long, for a person and for files, and have limits of their own for that.
    assert [name for name, limit in ends.items() if limit != timedelta(hours=2)] == ["check_request", "wait_for_files"]


def test_a_run_that_failed_is_not_green(workspace: Workspace) -> None:
    """With fail_fast Airflow skips what follows a failed task, and a run whose last task is skipped counts as good."""
    assert dag_of(workspace).fail_fast is False


def test_the_definition_says_who_is_told(workspace: Workspace) -> None:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    assert (dag_of(workspace).on_failure_callback, dag_of(workspace).on_success_callback) == (None, None)
    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    failed: Any = dag_of(workspace).on_failure_callback
    succeeded: Any = dag_of(workspace).on_success_callback
    assert [type(one) for one in (*failed, *succeeded)] == [SmtpNotifier, SmtpNotifier]
    assert (failed[0].to, failed[0].smtp_conn_id) == (["data@example.org"], "mail")
    assert succeeded[0].to == "a@example.org"


@pytest.mark.parametrize(
    ("notify", "told"),
    [
        ("{notifier: no.such.Notifier}", "No module named 'no'"),
        ("{notifier: airflow.sdk.DAG}", "it is not an Airflow notifier"),
        ("{notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier}", "missing 1 required .* 'to'"),
        ("{notifier: SmtpNotifier}", "SmtpNotifier"),
        ("{notifier: a.B, arguments: {smtp: {password: x}}}", "password"),
        ("{notifier: a.B, arguments: {slack_token: x}}", "slack_token"),
        ("{notifier: a.B, on: failure}", "field"),
        ("{notifier: a.B, when: late}", "failure, success, task_failure and warning"),
    ],
)
def test_a_notifier_that_cannot_be_used_is_a_mistake(workspace: Workspace, notify: str, told: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluicegate.airflow.dag import medallion_dags

    workspace.edit("pipeline.yaml", "\ndatabase:", f"\nnotify: [{notify}]\ndatabase:")
    task: Any = medallion_dags(workspace.settings)["heart_rate"].tasks[0]
    with pytest.raises(AirflowFailException, match=told):
        task.execute({})


@pytest.mark.parametrize(("old", "told"), [("event_time: time", 1), ("smtp_conn_id: mail", 0)])
def test_whoever_is_told_of_failures_is_told_of_mistakes(workspace: Workspace, old: str, told: int) -> None:
    from sluicegate.airflow.dag import medallion_dags

    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    workspace.edit("pipeline.yaml", old, old.replace("time:", "tiem:").replace("smtp_conn_id", "smtp"))
    dag = medallion_dags(workspace.settings)["heart_rate"]
    assert {task.task_type for task in dag.tasks} == {"DefinitionMistakes"}
    failed: Any = dag.on_failure_callback
    assert len(failed or ()) == told
