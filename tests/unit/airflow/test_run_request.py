"""What each kind of run starts: the exact spark-submit command of each task, and what is refused before any."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate.definition import load
from sluicegate.errors import (
    AccountingError,
    DefinitionError,
    ExpectationFailed,
    JavaMissing,
    JobFailed,
    LakeLocked,
    SchemaMismatch,
    SluicegateError,
)
from sluicegate.flow.report import ERROR
from sluicegate.lake import discards, tables
from sluicegate.lake.exclusion.lock import pipeline_lock, turn
from sluicegate.spark import class_archive, jars, spark_submit
from sluicegate.spark import java as spark_java
from tests.conftest import ROOT, Workspace
from tests.support.airflow_runs import context_of, submitted_command
from tests.support.page_world import PageWorld
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of, job_of, task_of

if TYPE_CHECKING:
    from sluicegate.airflow.operators.submit import SluicegateJob

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

LAYERS = ("bronze", "silver", "gold")
DAY = (datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2, tzinfo=UTC))
INTERVAL = ["--mode=interval", "--from=2024-03-01T00:00:00+00:00", "--to=2024-03-02T00:00:00+00:00"]
TABLES = "--tables=patients_bronze,patients"
FULL = ["--mode=full-refresh"]


@pytest.fixture
def a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Java, jars and archive, whichever this one has."""
    monkeypatch.setattr(spark_java, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(spark_java, "java_version", lambda _: "17")
    monkeypatch.setattr(jars, "find_jars", lambda **_: [Path("/jars/delta-spark.jar"), Path("/jars/delta-storage.jar")])
    monkeypatch.setattr(class_archive, "usable_archive", lambda: (Path("/jars/spark.jsa"), ""))
    # A task sets the variable of a missing connection in its own process, which here is that of all tests.
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")


def command_of(workspace: Workspace, job: SluicegateJob, kind: str = "scheduled", form: Any = None, **run: Any) -> Any:
    """What a task would start in a run, its templates rendered by Airflow in the context that Airflow gives it."""
    from sluicegate.airflow.run_request import read_request

    context = context_of(job, kind, form, **run)
    job.render_template_fields(context)
    job.prepare(read_request(workspace.definition, context))
    return submitted_command(job)


# --- the command -----------------------------------------------------------------------------------------------------


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
    command = command_of(workspace, job_of(workspace))
    settings = replace(workspace.settings, master=master)
    facts = '{"dag_id": "heart_rate", "run_id": "scheduled__2026-11-21T11:45:00+00:00", "try": 1}'
    wanted = spark_submit.submit_command("bronze", "heart_rate", settings, ["--run-info", facts])
    assert command == wanted
    assert command[:3] == [str(spark_java.spark_home() / "bin" / "spark-submit"), "--master", master]


@pytest.mark.usefixtures("a_machine")
@pytest.mark.parametrize(
    ("kind", "run", "wanted"),
    [
        ("scheduled", {}, {}),
        ("manual", {}, {}),
        ("manual", {"dated": False}, {}),
        ("manual", {"dated": False, "form": {"mode": "auto", "from": None, "tables": None}}, {}),
        ("asset_triggered", {"dated": False}, {}),
        ("asset_materialization", {"dated": False}, {}),
        ("backfill", {"interval": DAY}, {"silver": INTERVAL}),
        # A run that a backfill makes anew keeps its id.
        ("backfill", {"interval": DAY, "run_id": "scheduled__2024-03-01T00:00:00+00:00"}, {"silver": INTERVAL}),
        ("backfill", {"interval": DAY, "form": {"mode": "auto", "max_files": 5}},
         {"bronze": ["--max-files=5"], "silver": INTERVAL}),
        ("manual", {"dated": False, "form": {"from": "2024-03-01T00:00:00Z", "to": "2024-03-02T01:00:00+01:00"}},
         {"silver": INTERVAL}),
        ("manual", {"form": {"mode": "full-refresh"}}, dict.fromkeys(LAYERS, FULL)),
        ("manual", {"form": {"tables": ["patients_bronze", "patients"], "max_files": 2}},
         {"silver": [TABLES], "gold": [TABLES], "bronze": [TABLES, "--max-files=2"]}),
    ],
    ids=["scheduled", "manual", "manual-undated", "form-as-it-is", "asset", "materialize", "backfill", "reprocess",
         "backfill-few-files", "interval", "full-refresh", "tables"],
)  # fmt: skip
def test_what_each_kind_of_run_starts(
    workspace: Workspace, kind: str, run: dict[str, Any], wanted: dict[str, list[str]]
) -> None:
    for layer in LAYERS:
        command = command_of(workspace, job_of(workspace, layer), kind, **run)
        run_id = run.get("run_id", f"{kind}__2026-11-21T11:45:00+00:00")
        facts = json.dumps({"dag_id": "heart_rate", "run_id": run_id, "try": 1})
        given = ["--run-info", facts, *wanted.get(layer, [])]
        assert command == spark_submit.submit_command(layer, "heart_rate", workspace.settings, given)
    workspace.edit("pipeline.yaml", "\nbronze:\n", "\ntasks: run\nbronze:\n")
    command = command_of(workspace, job_of(workspace, "run"), kind, **run)
    whole = wanted.get("silver", []) + [part for part in wanted.get("bronze", []) if part.startswith("--max-files")]
    given = ["--run-info", facts, *whole]
    assert command == spark_submit.submit_command("run", "heart_rate", workspace.settings, given)


REPLAY = {"mode": "replay", "tables": ["recordings_enriched"], "rules": ["valid_heartrate"]}


@pytest.mark.usefixtures("a_machine")
def test_a_replay_starts_its_own_job_in_the_place_of_silvers(workspace: Workspace) -> None:
    from sluicegate.airflow.run_request import read_request

    replay = ["--table=recordings_enriched", "--rule=valid_heartrate"]
    facts = json.dumps({"dag_id": "heart_rate", "run_id": "manual__2026-11-21T11:45:00+00:00", "try": 1})
    jobs = {"silver": ("replay", replay), "gold": ("gold", [])}
    for layer, (file, given) in jobs.items():
        command = command_of(workspace, job_of(workspace, layer), "manual", REPLAY)
        at = command.index(str(spark_submit.job_file(file)))
        assert command[at + 1 :] == spark_submit.job_arguments(
            "heart_rate", workspace.settings, ["--run-info", facts, *given]
        )
    bronze = job_of(workspace)
    request = read_request(workspace.definition, context_of(bronze, "manual", REPLAY))
    assert "nothing" in bronze._idle_reason(workspace.definition, request)
    assert not job_of(workspace, "silver")._idle_reason(workspace.definition, request)
    workspace.edit("pipeline.yaml", "\nbronze:\n", "\ntasks: run\nbronze:\n")
    command = command_of(workspace, job_of(workspace, "run"), "manual", REPLAY)
    assert str(spark_submit.job_file("replay")) in command
    assert command[-3:] == [*replay, "--follow"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (REPLAY | {"tables": None}, "one table"),
        (REPLAY | {"tables": ["recordings_enriched", "patients"]}, "one table"),
        (REPLAY | {"tables": ["recordings_bronze"]}, "only silver tables are replayed"),
        (REPLAY | {"rules": ["valid_heartrat"]}, "unknown rule valid_heartrat"),
        (REPLAY | {"rules": ["x' OR '1'='1"]}, "unknown rule x' OR"),
        (REPLAY | {"max_files": 2}, "interval"),
        (REPLAY | {"from": "2024-03-01", "to": "2024-03-02"}, "interval"),
        (REPLAY | {"mode": "auto"}, "replay"),
    ],
)
def test_a_replay_that_makes_no_sense_is_refused(workspace: Workspace, form: dict[str, Any], said: str) -> None:
    from sluicegate.airflow.run_request import read_request

    with pytest.raises(SluicegateError, match=said):
        read_request(workspace.definition, context_of(job_of(workspace, "silver"), "manual", form))


@pytest.mark.usefixtures("a_machine")
def test_a_run_by_hand_has_any_id(workspace: Workspace) -> None:
    odd = 'Ada\'s "second" <try>'
    command = command_of(workspace, job_of(workspace, "gold"), "manual", dated=False, run_id=odd, attempt=2)
    assert command[-11:-1] == [
        str(ROOT / "spark_jobs" / "gold.py"), "--pipeline", "heart_rate",
        "--lake", str(workspace.folder / "lake"), "--landing", str(workspace.folder / "landing"),
        "--pipelines", str(workspace.folder / "pipelines"), "--run-info",
    ]  # fmt: skip
    assert json.loads(command[-1]) == {"dag_id": "heart_rate", "run_id": odd, "try": 2}


@pytest.mark.usefixtures("a_machine")
def test_settings_of_the_dag_win(workspace: Workspace) -> None:
    job = job_of(workspace)
    job.conf = {"spark.sql.shuffle.partitions": "7"}
    command = command_of(workspace, job)
    assert command.count("spark.sql.shuffle.partitions=7") == 1
    assert sum(part.startswith("spark.sql.shuffle.partitions=") for part in command) == 1


# --- what is refused -------------------------------------------------------------------------------------------------


def check(workspace: Workspace, kind: str, form: Any = None, **run: Any) -> Any:
    task = task_of(workspace, "check_request")
    return task.execute(context_of(task, kind, form, **run))


@pytest.mark.parametrize(
    ("kind", "form", "told"),
    [
        ("backfill", {"mode": "incremental"}, "the mode incremental"),
        ("backfill", {"mode": "full-refresh"}, "the mode full-refresh"),
        ("backfill", {"from": "2024-03-01T00:00:00Z"}, "another interval"),
        ("backfill", {"to": "2024-03-02T00:00:00Z"}, "another interval"),
        ("backfill", {"tables": ["patients"]}, "no silver table of patients has an event_time"),
        ("manual", {"mode": "interval"}, "both ends"),
        ("manual", {"from": "2024-03-01T00:00:00Z"}, "both ends"),
        ("manual", {"mode": "full-refresh", "max_files": 3}, "a full refresh reads all files"),
        ("manual", {"mode": "full-refresh", "table": ["patients"]}, "did you mean tables"),
        ("backfill", {"form": "2024-03-01T00:00:00Z"}, "did you mean from"),
        ("asset_triggered", {"day": 1}, "its fields: mode, from, to"),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_first_task(
    workspace: Workspace, kind: str, form: dict[str, Any], told: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=told) as raised:
        check(workspace, kind, form)
    assert "help:" in str(raised.value)


def test_what_openlineage_adds_to_a_triggered_run_is_no_field(workspace: Workspace) -> None:
    """Its provider does so where a task of another DAG triggers the run."""
    assert check(workspace, "manual", {"openlineage": {"parentRunId": "x"}}) == "ingests new data"


def test_a_run_whose_form_airflow_ignores_fails(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a replay, or a full refresh, would be an ordinary run, and end well."""
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", "False")
    assert check(workspace, "manual") == "ingests new data"
    with pytest.raises(AirflowFailException, match="started in the mode replay"):
        check(workspace, "manual", {"mode": "replay", "tables": ["recordings_enriched"]})


def test_a_backfill_that_would_change_nothing_fails(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    workspace.edit("pipeline.yaml", "    event_time: time\n", "")
    assert check(workspace, "scheduled") == "ingests new data"
    with pytest.raises(AirflowFailException, match="no silver table of heart_rate has an event_time"):
        check(workspace, "backfill")


@pytest.mark.parametrize(
    "form",
    [
        {"mode": "sideways"},
        {"note": "x" * 501},
        {"tables": ["no_such_table"]},
        {"tables": "patients"},
        {"max_files": 0},
        {"from": 2024},
        {"from": "2025-03-03' OR 1=1 --"},
        {"to": "yesterday"},
        {"to": "2025-3-3"},
        {"to": "2025-03-03T"},
    ],
)
def test_airflow_refuses_what_the_form_cannot_hold(workspace: Workspace, form: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        check(workspace, "manual", form)


@pytest.mark.parametrize(
    "time",
    [
        "2020-01-01", "2020-01-01T00:00Z", "2020-01-01 00:00:00.5+02:00", "2020-01-01T00:00:00.000Z", "20200101",
        "2020-01-01 00:00:00+00", "2020-01-01T00", "20200101T000000Z", "2020-01-01T00:00:00,1234567",
        "2020-01-01T00:00:00.123456789+0200",
    ],
)  # fmt: skip
def test_a_day_and_a_time_are_dates_of_the_form(workspace: Workspace, time: str) -> None:
    dag_of(workspace).params.get_param("from").resolve(time)
    assert "and reprocesses [" in check(workspace, "manual", {"from": time, "to": "2020-01-02"})


def test_an_empty_end_of_an_interval_is_none(workspace: Workspace) -> None:
    assert check(workspace, "manual", {"from": "", "to": ""}) == "ingests new data"


def test_each_field_of_the_form_is_explained(workspace: Workspace) -> None:
    params = dag_of(workspace).params
    assert list(params) == ["mode", "from", "to", "tables", "rules", "note", "discard", "quarantine", "max_files"]
    for name in params:
        schema = params.get_param(name).schema
        assert schema["title"]
        assert schema["description_md"].endswith(".")
    assert all(label.startswith(mode) for mode, label in params.get_param("mode").schema["values_display"].items())
    assert params.get_param("tables").schema["items"]["enum"] == [
        "recordings_bronze", "patients_bronze", "patients", "recordings_enriched", "daily_patient_avg"
    ]  # fmt: skip


# --- what starts nothing ---------------------------------------------------------------------------------------------


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a job where it would start Spark."""

    def java() -> str:
        raise JavaMissing("here Spark would be started")

    monkeypatch.setattr(spark_java, "java", java)


def starts(workspace: Workspace, layer: str, kind: str, form: Any = None) -> bool:
    from airflow.sdk.exceptions import AirflowFailException

    job = job_of(workspace, layer)
    try:
        return job.execute(context_of(job, kind, form, interval=DAY)) is not None
    except AirflowFailException as error:
        return "here Spark would be started" in str(error)


@pytest.mark.usefixtures("no_java")
def test_an_interval_is_made_again_though_nothing_is_new(workspace: Workspace) -> None:
    assert [starts(workspace, layer, "scheduled") for layer in LAYERS] == [False, False, False]
    assert [starts(workspace, layer, "backfill") for layer in LAYERS] == [False, True, False]
    full = {"mode": "full-refresh"}
    assert [starts(workspace, layer, "manual", full) for layer in LAYERS] == [True, True, True]
    full["tables"] = ["patients"]  # type: ignore[assignment]
    assert [starts(workspace, layer, "manual", full) for layer in LAYERS] == [False, True, False]


DISCARD = {"mode": "discard", "tables": ["recordings_enriched"], "note": "a test"}


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("layer", ["silver", "run"])
def test_a_discard_is_carried_out_without_spark_by_the_task_of_silver(tmp_path: Path, layer: str) -> None:
    from sluicegate.airflow.run_request import read_request
    from sluicegate.monitor.status import status

    world = PageWorld.at(tmp_path, runs=1)
    workspace = world.workspace
    if layer == "run":
        workspace.edit("pipeline.yaml", "\nbronze:\n", "\ntasks: run\nbronze:\n")

    def standing() -> tuple[int, int]:
        found = next(
            one for one in status(workspace.definition, workspace.settings).tables if one.quarantined + one.discarded
        )
        return found.quarantined, found.discarded

    def does(form: dict[str, Any], run_id: str, attempt: int = 1) -> None:
        job = job_of(workspace, layer)
        context = context_of(job, "manual", form, run_id=run_id, attempt=attempt)
        context["dag_run"].triggering_user_name = "ada"
        assert job.execute(context) is None

    shown = f"{tables.table_id(DeltaTable(workspace.lake.quarantine('recordings_enriched')))}@0"
    world.run(quarantined=2)
    assert "discards the quarantined records" in check(workspace, "manual", DISCARD)
    if layer == "silver":
        request = read_request(workspace.definition, context_of(job_of(workspace), "manual", DISCARD))
        idle = [job_of(workspace, name)._idle_reason(workspace.definition, request) for name in LAYERS]
        assert idle == ["changes nothing in a discard", "", "changes nothing in a discard"]
    for attempt in (1, 2):
        does(DISCARD | {"quarantine": shown}, "discard__1", attempt)
        assert standing() == (2, 3)  # those that came after the page was shown still wait
    found = discards.recorded_discards(tables.delta_table(workspace.lake.discards("recordings_enriched"))).to_pylist()
    assert {(one["discard"], one["discarded_by"], one["note"]) for one in found} == {("discard__1", "ada", "a test")}
    does(DISCARD, "discard__2")
    assert standing() == (0, 5)
    does({"mode": "undo-discard", "tables": ["recordings_enriched"], "discard": "discard__1"}, "undo__1")
    assert standing() == (3, 2)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (DISCARD | {"tables": None}, "exactly one table"),
        (DISCARD | {"tables": ["recordings_bronze"]}, "only silver tables have a quarantine"),
        (DISCARD | {"note": " \n"}, "requires a note"),
        (DISCARD | {"max_files": 2}, "interval"),
        (DISCARD | {"discard": "one"}, "an id"),
        (DISCARD | {"mode": "undo-discard"}, "undo-discard"),
        (DISCARD | {"mode": "replay"}, "note requires the mode discard"),
        ({"quarantine": "x@1"}, "quarantine requires the mode discard"),
    ],
)
def test_a_discard_that_makes_no_sense_is_refused(workspace: Workspace, form: dict[str, Any], said: str) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=said):
        check(workspace, "manual", form)


@pytest.mark.usefixtures("no_java")
def test_only_what_the_chosen_tables_wait_for_counts(heartbeats: Workspace) -> None:
    assert starts(heartbeats, "bronze", "manual", {"tables": ["patients_bronze"]})
    assert not starts(heartbeats, "bronze", "manual", {"tables": ["patients"]})


@pytest.mark.usefixtures("no_java")
def test_two_runs_do_not_meet(heartbeats: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowRescheduleException

    # Another task has its turn, though its job has not got as far as the lock; or the command line has the lock.
    for another in (turn, pipeline_lock):
        with another(heartbeats.lake, "a backfill"), pytest.raises(AirflowRescheduleException):
            starts(heartbeats, "bronze", "scheduled")
        assert starts(heartbeats, "bronze", "scheduled")


# --- what is tried again ---------------------------------------------------------------------------------------------


def test_what_a_retry_cannot_change_is_final() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluicegate.airflow.run_request import failure

    final = [ExpectationFailed("x"), AccountingError("x"), SchemaMismatch("x")]
    again = [SluicegateError("x"), JobFailed("x"), LakeLocked("x")]
    assert [isinstance(failure(error), AirflowFailException) for error in final + again] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("task", ["check_request", "wait_for_files", "bronze", "account"])
def test_a_mistake_that_is_saved_between_parse_and_start_is_retried(
    workspace: Workspace, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a typo that is corrected at once would cost the run, and leave its files unread."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda *_, **__: {})  # which Airflow's server has
    parsed = task_of(workspace, task)
    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    with pytest.raises(AirflowException, match="did you mean event_time") as raised:
        parsed.execute(context_of(parsed))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_mistake_that_the_triggerer_or_the_job_reports_is_retried(workspace: Workspace) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    with pytest.raises(DefinitionError) as raised:
        load("heart_rate", workspace.settings)
    workspace.edit("pipeline.yaml", "event_tiem: time", "event_time: time")
    sensor, job, reported = task_of(workspace, "wait_for_files"), job_of(workspace), raised.value
    event = {"error": reported.for_people(), "facts": reported.as_dict()}
    with pytest.raises(AirflowException) as resumed:
        sensor.resume(context_of(sensor), event=event)
    job._said.take(f"{ERROR} {json.dumps(reported.as_dict())}")
    ended = job._job_failure(reported.exit_code)
    assert [isinstance(error, AirflowFailException) for error in (resumed.value, ended)] == [False, False]
    assert reported.message in str(ended)
