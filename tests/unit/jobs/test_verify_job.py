"""The DAG that proves tables, the job behind it, and what the command says; without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from sluicegate import api
from sluicegate.cli import app
from sluicegate.console import program
from sluicegate.errors import NotVerified
from sluicegate.flow.report import ERROR, FINDING, REPORT, RunReport
from sluicegate.flow.verification.finding import Finding
from sluicegate.flow.verification.proofs import TARGET
from sluicegate.flow.verification.sample import Sample
from sluicegate.jobs import verify_job
from sluicegate.lake.proved_state import ProvedState
from sluicegate.launch import verification
from sluicegate.launch.verification import BY_IDENTITY, NO_SOURCE
from sluicegate.spark import configuration, java, spark_submit
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.support.by_hand import records, taken_in
from tests.support.channel import sent

if TYPE_CHECKING:
    from airflow.sdk import DAG

pytestmark = pytest.mark.unit

WEEKLY = 'verify: {schedule: "0 4 * * 0", sample: 10%}'


@pytest.fixture(autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [key for key in os.environ if key.startswith("AIRFLOW")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path_factory.getbasetemp() / "airflow"))


@pytest.fixture
def proved(workspace: Workspace) -> Workspace:
    """A pipeline that asks for proofs, and has three records in bronze of which silver has taken in all."""
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\n{WEEKLY}\ndatabase:")
    records(workspace, "patients_bronze", [1])
    taken_in(workspace, "patients", [1])
    records(workspace, "recordings_bronze", [1, 2, 3])
    taken_in(workspace, "recordings_enriched", [1, 2, 3])
    return workspace


def dags(workspace: Workspace) -> dict[str, DAG]:
    from sluicegate.airflow.dag import medallion_dags

    return medallion_dags(workspace.settings)


def test_a_definition_that_asks_for_it_has_a_dag_for_it(proved: Workspace) -> None:
    from sluicegate.airflow.timetable import PipelineTimetable

    dag = dags(proved)["heart_rate_verify"]
    assert dag.timetable == PipelineTimetable("0 4 * * 0")
    assert (dag.task_ids, dag.tags, dag.catchup) == (["verify"], {"healthcare"}, False)
    proved.edit("pipeline.yaml", WEEKLY, "verify: {}")
    assert dags(proved)["heart_rate_verify"].schedule is None
    proved.edit("pipeline.yaml", "verify: {}", "")
    assert list(dags(proved)) == ["heart_rate"]


def test_its_task_submits_the_job_though_nothing_waits(proved: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(java, "java_version", lambda _: "17")
    monkeypatch.setattr(configuration, "spark_conf", lambda _, **__: {"spark.app.id": "fake"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    program = proved.folder / "spark-submit"
    program.write_text(f'#!/bin/sh\necho "$@" > {proved.folder}/arguments\n')
    program.chmod(0o755)

    def submitted(**form: bool) -> str:
        task: Any = dags(proved)["heart_rate_verify"].task_dict["verify"]
        task.spark_binary = str(program)
        context = context_of(task, "manual", form)
        task.render_template_fields(context)
        task.execute(context)
        return (proved.folder / "arguments").read_text().rstrip()

    assert f"{spark_submit.job_file('verify')} --pipeline heart_rate " in submitted()
    assert submitted().endswith(" --sample=10")
    proved.edit("pipeline.yaml", ", sample: 10%", "")
    assert submitted().endswith(" --since-last")
    assert submitted(whole=True).endswith(" --sample=100")


def places(workspace: Workspace) -> list[str]:
    return ["--lake", workspace.settings.lake, "--landing", workspace.settings.landing,
            "--pipelines", str(workspace.settings.pipelines)]  # fmt: skip


def command(workspace: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "sluicegate.cli", "status", "heart_rate", *words, *places(workspace)]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)


def test_the_job_fails_with_what_is_wrong_and_what_mends_it(
    proved: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_job.flows, "stored_silver", lambda *_: [])  # and gold is not there: no Spark
    assert verify_job.main(["--pipeline", "heart_rate", *places(proved)]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [json.loads(line.removeprefix(FINDING)) for line in lines if line.startswith(FINDING)]
    proofs = [("proved", "patients"), ("proved", "recordings_enriched")]
    assert [(one["kind"], one["table"]) for one in told] == [("behind", "daily_patient_avg"), *proofs]
    assert "behind: daily_patient_avg: it does not exist, and 3 rows of recordings_enriched wait" in lines

    records(proved, "recordings_enriched_quarantine", [3])
    assert verify_job.main(["--pipeline", "heart_rate", *places(proved)]) == NotVerified.exit_code
    last = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix(ERROR))
    assert last["message"] == "verification found 1 problem in heart_rate"
    assert last["cause"].startswith("recordings_enriched: 1 records are duplicates, such as 1/3")
    assert last["hint"] == "run sluicegate run heart_rate --full-refresh recordings_enriched"


def test_a_table_whose_source_is_gone_is_not_said_to_be_proved(proved: Workspace) -> None:
    """Its records were compared with nothing."""
    shutil.rmtree(proved.lake.table("bronze", "recordings_bronze"))
    told = verification.findings_without_spark(proved.definition)
    assert [(one.kind, one.what) for one in told if one.table == "recordings_enriched"] == [("unseen", NO_SOURCE)]
    assert "patients" in {one.table for one in told if one.kind == "proved"}


def test_that_values_of_events_and_schemas_are_not_compared_is_told_where_there_are_any(proved: Workspace) -> None:
    def told() -> list[tuple[str, str]]:
        findings = verification.findings_without_spark(proved.definition)
        return [(one.kind, one.what) for one in findings if one.table == "heart_rate"]

    assert told() == []
    write_deltalake(proved.lake.schemas("patients_bronze"), pa.table({"version": [1]}))
    [(kind, what)] = told()
    assert (kind, "`_schemas`" in what) == ("unseen", True)
    shutil.rmtree(proved.lake.schemas("patients_bronze"))
    write_deltalake(proved.lake.events, pa.table({"version": [1]}))
    assert [kind for kind, _ in told()] == ["unseen"]


def test_the_command_says_no_more_than_is_proved(proved: Workspace) -> None:
    asked = command(proved, "--verify", "--no-spark")
    assert asked.returncode == 0, asked.stderr
    one_place = [f"verified: {name}, version 0: {BY_IDENTITY}" for name in ("patients", "recordings_enriched")]
    values = [f"not looked at: {name}: its values, as --no-spark says" for name in ("patients", "recordings_enriched")]
    assert asked.stdout.splitlines()[-6:] == [
        "behind: daily_patient_avg: it does not exist, and 3 rows of recordings_enriched wait",
        f"  run: {program()} run heart_rate",
        *values,
        *one_place,
    ]
    taken_in(proved, "daily_patient_avg", [])
    asked = command(proved, "--verify", "--no-spark")
    assert asked.stdout.splitlines()[-3:] == [
        "not proved: daily_patient_avg: its query was not re-run, as --no-spark says",
        *one_place,
    ]
    records(proved, "recordings_enriched_quarantine", [3])
    asked = command(proved, "--verify", "--no-spark", "--json")
    told = json.loads(asked.stdout)
    assert asked.returncode == 1
    assert told["problems"] == ["recordings_enriched: 1 records are duplicates, such as 1/3 (chunk/position)"]
    assert told["findings"][0]["mend"] == "sluicegate run heart_rate --full-refresh recordings_enriched"
    assert [(one["table"], one["version"]) for one in told["proved"]] == [("patients", 0)]
    assert "and at most 100" in command(proved, "--verify", "--sample", "0").stderr


def test_the_command_looks_at_what_was_not_proved_before_and_at_no_sample_of_it(proved: Workspace) -> None:
    refused = command(proved, "--verify", "--since-last", "--sample", "10%")
    assert refused.returncode != 0
    assert "--since-last" in refused.stderr
    asked: list[Any] = []
    found = api.verify(proved.definition, spark=False, since_last=True, tell=asked.append)
    assert {one.kind for one in found} == {"behind", "unseen", "proved"}


def test_a_table_of_which_something_is_wrong_is_not_remembered_as_proved(proved: Workspace) -> None:
    proofs = verification.proofs_of(proved.definition, Sample(), since_last=True)
    records(proved, "recordings_enriched_quarantine", [3])
    paths = {}
    for layer, name in (("bronze", "patients_bronze"), ("silver", "recordings_enriched")):
        state = ProvedState.from_table(DeltaTable(proved.uri(name)))
        assert state is not None
        proofs.keep(layer, name, "", {TARGET: state}, None)
        paths[name] = Path(proved.lake.proof(layer, name))
    assert all(path.exists() for path in paths.values())
    api.verify(proved.definition, spark=False)
    assert {name for name, path in paths.items() if path.exists()} == {"patients_bronze"}


def test_what_the_job_finds_in_gold_is_told_with_the_rest(proved: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_in(proved, "daily_patient_avg", [])
    mend = "sluicegate run heart_rate --full-refresh daily_patient_avg"
    found = Finding("wrong", "daily_patient_avg", "1 row differs from its query", mend)
    report = RunReport("heart_rate", "verify").as_dict()
    script = f"{sent(FINDING, found.as_dict())}; echo Spark says something; {sent(REPORT, report)}"
    asked: list[Any] = []

    def command(*given: Any) -> list[str]:
        asked.extend(given)
        return ["bash", "-c", script]

    monkeypatch.setattr(spark_submit, "submit_command", command)
    done = CliRunner().invoke(app.app, ["status", "heart_rate", "--verify", "--sample", "10%", *places(proved)])
    assert done.exit_code == 1
    wrong = done.stdout.splitlines().index("NOT RIGHT: daily_patient_avg: 1 row differs from its query")
    assert done.stdout.splitlines()[wrong + 1] == f"  run: {mend.replace('sluicegate', program())}"
    assert "verified: daily_patient_avg" not in done.stdout
    assert "Spark says something" not in done.stdout
    assert (asked[0], asked[3][-2:]) == ("verify", ["--queries", "--sample=10"])


def test_without_spark_gold_is_unproved_for_a_reason_and_not_by_its_words(proved: Workspace) -> None:
    taken_in(proved, "daily_patient_avg", [])
    [found] = [one for one in api.verify(proved.definition, spark=False) if one.kind == "unproved"]
    assert (found.table, found.reason) == ("daily_patient_avg", "without-spark")
    assert "spark" not in found.what
    assert found.as_dict()["reason"] == "without-spark"
    shown = json.loads(command(proved, "--verify", "--no-spark", "--json").stdout)["findings"]
    assert [set(one) for one in shown] == [{"kind", "table", "what", "mend"}] * len(shown)
    assert found.what + ", as --no-spark says" in [one["what"] for one in shown]


def test_all_that_is_wrong_is_in_the_error() -> None:
    found = [Finding("wrong", "a", "x", "run a"), Finding("behind", "b", "y"), Finding("wrong", "c", "z", "run a")]
    with pytest.raises(NotVerified, match="2 problems in p") as raised:
        verify_job.raise_if_wrong("p", found)
    assert (raised.value.cause, raised.value.hint) == ("a: x\n    c: z", "run run a")
    verify_job.raise_if_wrong("p", found[1:2])
