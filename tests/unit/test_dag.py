"""The DAGs, the sensor and the operator, with no Airflow running: what they are made of, and what they do in a task."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from sluicegate import session
from sluicegate.errors import JavaMissing, PipelineMissing
from sluicegate.report import ERROR, REPORT
from tests.conftest import ROOT, Workspace

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from sluicegate.airflow.operator import SluicegateJob

pytestmark = pytest.mark.unit

# What Airflow's own import brings is not ours to answer for; these are what our DAG file could drag in.
HEAVY = {"pyspark", "py4j", "pyarrow", "deltalake", "duckdb", "pandas", "numpy"}

PARSE = f"""
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
bag = DagBag(sys.argv[1], bundle_path=sys.argv[1])
print("FACTS" + json.dumps({{
    "errors": bag.import_errors,
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


def test_parsing_needs_no_spark_and_gives_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one, other = parse(tmp_path, "1"), parse(tmp_path / "elsewhere", "2")
    assert one["errors"] == {}
    assert one["heavy"] == []
    assert "heart_rate" in one["dags"]
    assert one["dags"] == other["dags"]  # else Airflow makes a new version of the DAG at each parse


def test_a_dag_has_a_sensor_and_then_the_layers(workspace: Workspace) -> None:
    dag = dag_of(workspace)
    after = {task.task_id: task.downstream_task_ids for task in dag.tasks}
    assert after == {"wait_for_files": {"bronze"}, "bronze": {"silver"}, "silver": {"gold"}, "gold": set()}
    assert [job_of(workspace, layer).name for layer in ("bronze", "gold")] == ["heart_rate.bronze", "heart_rate.gold"]


def test_a_dag_runs_as_its_definition_says(workspace: Workspace) -> None:
    from airflow.sdk import CronDataIntervalTimetable

    dag = dag_of(workspace)
    assert dag.timetable == CronDataIntervalTimetable("*/15 * * * *", timezone="UTC")
    assert (dag.catchup, dag.max_active_runs, dag.tags) == (False, 1, {"healthcare"})
    assert task_of(workspace, "wait_for_files").timeout == 15 * 60  # then the next run waits
    assert dag.doc_md is not None
    assert "recordings_enriched" in dag.doc_md


def test_a_definition_without_a_schedule_runs_by_hand(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", 'schedule: "*/15 * * * *"\n', "")
    assert dag_of(workspace).schedule is None


def test_a_layer_without_tables_has_no_task(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "gold:\n  daily_patient_avg: {sql: daily_patient_avg.sql}\n", "")
    assert [task.task_id for task in dag_of(workspace).tasks] == ["wait_for_files", "bronze", "silver"]


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
    assert [task.task_id for task in dags["other"].tasks] == ["wait_for_files", "bronze", "silver", "gold"]
    assert dags["heart_rate"].timetable == dags["other"].timetable  # so that its runs fail where runs are watched
    task: Any
    (task,) = dags["heart_rate"].tasks
    with pytest.raises(AirflowFailException, match="no field event_tiem") as raised:
        task.execute({})
    assert "pipeline.yaml:" in str(raised.value)
    assert "event_time" in str(raised.value)
    assert dags["heart_rate"].doc_md is not None
    assert "event_tiem" in dags["heart_rate"].doc_md


@pytest.mark.parametrize("text", ["schedule: every now and then", "[", "", "schedule: [1]"])
def test_a_schedule_that_cannot_be_read_is_left_out(workspace: Workspace, text: str) -> None:
    from sluicegate.airflow.dag import medallion_dags

    workspace.define(text)
    dags = medallion_dags(workspace.settings)
    assert dags["heart_rate"].schedule is None


def test_no_definitions_at_all_is_an_import_error(tmp_path: Path, workspace: Workspace) -> None:
    from sluicegate.airflow.dag import medallion_dags

    with pytest.raises(PipelineMissing, match="no pipeline definition"):
        medallion_dags(replace(workspace.settings, pipelines=tmp_path / "none"))


# --- the sensor ------------------------------------------------------------------------------------------------------


def look(workspace: Workspace, started: float = 0.0, **options: Any) -> Any:
    """Does one look of the sensor in a run that began ``started`` seconds ago."""
    from datetime import UTC, datetime, timedelta

    from sluicegate.airflow.sensor import LandedFilesSensor

    sensor = LandedFilesSensor(task_id="wait", pipeline="heart_rate", settings=workspace.settings, **options)
    began = datetime.now(UTC) - timedelta(seconds=started)
    context: Any = {"ti": SimpleNamespace(get_first_reschedule_date=lambda _: began)}
    return sensor.execute(context)


def test_the_sensor_gives_the_worker_back_while_there_is_nothing(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    with pytest.raises(AirflowRescheduleException):
        look(workspace)
    workspace.land("recordings/half.json", "[]", age=0)  # may still be being written
    workspace.land("recordings/.hidden.json", "[]")
    with pytest.raises(AirflowRescheduleException):
        look(workspace)


def test_the_sensor_sees_what_has_landed(heartbeats: Workspace) -> None:
    look(heartbeats)


def test_the_sensor_skips_a_run_without_files(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException):
        look(workspace, started=3601)


def test_a_missing_landing_folder_is_no_quiet_day(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    shutil.rmtree(workspace.folder / "landing" / "recordings")
    with pytest.raises(AirflowFailException, match=r"landing/recordings does not exist(.|\n)*help:"):
        look(workspace, started=3601)


# --- the command -----------------------------------------------------------------------------------------------------

SCHEDULED = {"dag_id": "heart_rate", "run_id": "scheduled__2026-11-21T11:45:00+00:00"}
BY_HAND = {"dag_id": "heart_rate", "run_id": 'Ada\'s "second" <try>'}


@pytest.fixture
def a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Java, jars and archive, whichever this one has."""
    monkeypatch.setattr(session, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(session, "java_version", lambda _: "17")
    monkeypatch.setattr(session, "jars", lambda: [Path("/jars/delta-spark.jar"), Path("/jars/delta-storage.jar")])
    monkeypatch.setattr(session, "usable_archive", lambda: (Path("/jars/spark.jsa"), ""))
    # A task sets the variable of a missing connection in its own process, which here is that of all tests.
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")


def command_of(job: SluicegateJob, run: dict[str, Any], attempt: int) -> list[str]:
    """What the job would start in a run whose template context has nothing that depends on a logical date."""
    context: Any = {"dag_run": SimpleNamespace(**run), "ti": SimpleNamespace(try_number=attempt)}
    job.render_template_fields(context)
    job.prepare()
    return job._get_hook()._build_spark_submit_command(job.application)


@pytest.mark.usefixtures("a_machine")
@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (None, "local[2]"),
        ("spark://spark-master:7077", "spark://spark-master:7077"),
        ('{"conn_type": "spark", "host": "local[4]"}', "local[4]"),
    ],
    ids=["none", "standalone", "local"],
)
def test_the_command_is_that_of_the_command_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, connection: str | None, master: str
) -> None:
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    command = command_of(job_of(workspace), SCHEDULED, 1)
    settings = replace(workspace.settings, master=master)
    facts = '{"dag_id": "heart_rate", "run_id": "scheduled__2026-11-21T11:45:00+00:00", "try": 1}'
    wanted = session.submit_command("bronze", "heart_rate", settings, ["--run-info", facts])
    assert command == wanted
    assert command[:3] == [str(session.spark_home() / "bin" / "spark-submit"), "--master", master]


@pytest.mark.usefixtures("a_machine")
def test_a_run_by_hand_has_no_logical_date_and_any_id(workspace: Workspace) -> None:
    command = command_of(job_of(workspace, "gold"), BY_HAND, 2)
    assert command[-11:-1] == [
        str(ROOT / "spark_jobs" / "gold.py"), "--pipeline", "heart_rate",
        "--lake", str(workspace.folder / "lake"), "--landing", str(workspace.folder / "landing"),
        "--pipelines", str(workspace.folder / "pipelines"), "--run-info",
    ]  # fmt: skip
    assert json.loads(command[-1]) == {**BY_HAND, "try": 2}


@pytest.mark.usefixtures("a_machine")
def test_settings_of_the_dag_win(workspace: Workspace) -> None:
    job = job_of(workspace)
    job.conf = {"spark.sql.shuffle.partitions": "7"}
    command = command_of(job, SCHEDULED, 1)
    assert command.count("spark.sql.shuffle.partitions=7") == 1
    assert sum(part.startswith("spark.sql.shuffle.partitions=") for part in command) == 1


# --- a job -----------------------------------------------------------------------------------------------------------

FAILED = {
    "code": "SG207", "exit_code": 2, "message": "a.json is not JSON",
    "table": "recordings_bronze", "file": "/in/a.json", "line": 3, "cause": "it begins with a comma",
    "hint": "repair it",
}  # fmt: skip


@pytest.fixture
def submit(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SluicegateJob]:
    """Makes a bronze job, for which there is work, and whose spark-submit is a shell script."""

    def make(script: str) -> SluicegateJob:
        monkeypatch.setattr(session, "java", lambda: "/usr/bin/java")
        monkeypatch.setattr(session, "java_version", lambda _: "17")
        monkeypatch.setattr(session, "spark_conf", lambda _: {"spark.app.id": "fake"})
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
        program = heartbeats.folder / "spark-submit"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        job = job_of(heartbeats)
        job._spark_binary = str(program)
        job.application_args = ["--pipeline", "heart_rate"]
        return job

    return make


def test_a_jobs_report_is_what_the_task_returns(submit: Callable[[str], SluicegateJob]) -> None:
    report = {"pipeline": "heart_rate", "layer": "bronze", "tables": []}
    assert submit(f"echo working\necho '{REPORT} {json.dumps(report)}'").execute({}) == report


@pytest.mark.parametrize(("exit_code", "again"), [(2, False), (3, False), (1, True)])
def test_a_failure_is_the_jobs_own_sentence(
    submit: Callable[[str], SluicegateJob], exit_code: int, again: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    facts = FAILED | {"exit_code": exit_code}
    with pytest.raises(AirflowException) as raised:
        submit(f"echo '{ERROR} {json.dumps(facts)}'\nexit {exit_code}").execute({})
    assert isinstance(raised.value, AirflowFailException) is not again
    assert str(raised.value).splitlines() == [
        "error[SG207]: a.json is not JSON",
        "  --> table recordings_bronze, /in/a.json:3",
        "  cause: it begins with a comma",
        "  help: repair it",
    ]


def test_a_job_that_dies_is_told_with_its_last_words(submit: Callable[[str], SluicegateJob]) -> None:
    from airflow.sdk.exceptions import AirflowException

    with pytest.raises(AirflowException) as raised:
        submit("echo out of memory\nkill -9 $$").execute({})
    assert str(raised.value) == (
        "the bronze job of heart_rate ended with exit code -9, having said:\n    out of memory"
    )


def test_an_idle_layer_starts_nothing(submit: Callable[[str], SluicegateJob], heartbeats: Workspace) -> None:
    job = submit(f"touch {heartbeats.folder}/started")
    shutil.rmtree(heartbeats.folder / "landing")
    for folder in ("recordings", "patients"):
        (heartbeats.folder / "landing" / folder).mkdir(parents=True)
    assert job.execute({}) is None
    assert not (heartbeats.folder / "started").exists()


def test_no_java_is_a_sentence_and_final(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    def none() -> str:
        raise JavaMissing("Spark needs Java 17 or newer, and there is none", hint="install one")

    monkeypatch.setattr(session, "java", none)
    with pytest.raises(AirflowFailException, match="needs Java 17"):
        job_of(heartbeats).execute({})


def test_killing_a_task_ends_all_that_it_started(submit: Callable[[str], SluicegateJob], heartbeats: Workspace) -> None:
    said = heartbeats.folder / "child"
    job = submit(f"sleep 60 &\necho $! > {said}.tmp; mv {said}.tmp {said}\nwait")
    failed: list[BaseException] = []

    def execute() -> None:
        try:
            job.execute({})
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
