"""The commands as people type them, README's among them, in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.spark import spark_submit
from tests.conftest import ROOT, Workspace, beat
from tests.support import event_logs
from tests.support.pages import follow_in_process

pytestmark = pytest.mark.e2e


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working folder as a clone has it, with the sample files landed, but nothing made yet."""
    for name in ("pipelines", "spark_jobs", ".venv", "Makefile"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "data" / "heart_rate", tmp_path / "landing")
    return tmp_path


def sluicegate(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line of this Python."""
    command = [sys.executable, "-m", "sluicegate.cli", *arguments]
    env = os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


@pytest.mark.more
def test_readme_commands_in_their_order(home: Path) -> None:
    """All but `make` (its demo is a test of its own), as one shell runs them."""
    commands = [command for command in readme_commands() if not command.startswith("make")]
    assert len(commands) >= 9
    script = "set -e\n" + "\n".join(f"echo {shlex.quote('$ ' + command)}; {command}" for command in commands)
    env = os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", script], cwd=home, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " WARN " not in done.stdout + done.stderr
    assert "2,500 read" in done.stdout  # three sample files and the one that `simulate` landed
    for table in ("recordings_bronze", "patients_bronze", "patients", "recordings_enriched", "daily_patient_avg"):
        assert f"verified: {table}, version " in done.stdout
    assert "valid_heartrate" in done.stdout
    assert "reprocessing [2025-03-03 00:00:00, 2025-03-04 00:00:00);" in done.stdout
    assert "gold is up to date: no row of silver changed" in done.stdout
    assert "no row of the table would change" in done.stdout
    assert done.stdout.count("SLUICEGATE_REPORT") == 3  # the jobs by themselves, with nothing left to do


def test_a_run_in_json_and_then_nothing_new_starts_no_jvm(home: Path, tmp_path: Path) -> None:
    """Nor is anything of Spark loaded, which is what makes it quick to say so."""
    done = sluicegate(home, "run", "heart_rate", "--json")
    reports = json.loads(done.stdout)
    assert [report["layer"] for report in reports] == ["bronze", "silver", "gold"]
    silver = next(t for t in reports[1]["tables"] if t["table"] == "recordings_enriched")
    assert silver["read"] == 1500
    assert silver["read"] == silver["written"] + silver["quarantined"] + silver["dropped"] + silver["duplicates"]
    shim = tmp_path / "bin"
    shim.mkdir()
    (shim / "java").write_text("#!/bin/sh\necho started >> " + shlex.quote(str(tmp_path / "jvm starts")) + "\nexit 1\n")
    (shim / "java").chmod(0o755)
    path = f"{shim}:{os.environ['PATH']}"
    told = {"PATH": path, "JAVA_HOME": str(shim.parent), "PYTHONPROFILEIMPORTTIME": "1"}
    again = sluicegate(home, "run", "heart_rate", **told)
    assert again.returncode == 0, again.stderr
    assert "nothing new" in again.stdout
    assert "Spark was not started" in again.stdout
    assert not (tmp_path / "jvm starts").exists()
    loaded = {line.rsplit("|", 1)[-1].strip().partition(".")[0] for line in again.stderr.splitlines()}
    assert "deltalake" in loaded
    assert not loaded & {"pyspark", "py4j", "airflow"}


@pytest.mark.release
def test_each_table_is_filled_by_a_stream(home: Path, tmp_path: Path) -> None:
    """On a first load, after a few records and after many, as Spark's event log has it."""
    logs = tmp_path / "event logs"
    logs.mkdir()
    tables = {"bronze": ["patients_bronze", "recordings_bronze"], "silver": ["patients", "recordings_enriched"],
              "gold": ["daily_patient_avg", "device_counts"]}  # fmt: skip
    every = sorted(f"{layer} {table}" for layer, of_layer in tables.items() for table in of_layer)
    followed = [name for name in every if "patients" not in name]
    for records, streams in ((0, every), (1000, followed), (30_000, followed)):
        if records:
            landed = sluicegate(home, "simulate", "heart_rate", "--records", str(records))
            assert landed.returncode == 0, landed.stderr
        before = event_logs.streams(logs)
        done = sluicegate(home, "run", "heart_rate", JAVA_TOOL_OPTIONS=event_logs.options(logs))
        assert done.returncode == 0, done.stdout + done.stderr
        [started] = [names for run, names in event_logs.streams(logs).items() if run not in before]
        assert started == streams
        assert "(query: " not in done.stdout


@pytest.mark.release
def test_the_page_on_python_does_what_it_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    follow_in_process((ROOT / "docs" / "howto" / "from-python.md").read_text())


@pytest.mark.more
def test_jobs_use_the_class_data_archive(heartbeats: Workspace, tmp_path: Path) -> None:
    """The JVM says nothing when it refuses an archive, and then each start costs seconds."""
    log = tmp_path / "classes.log"
    command = spark_submit.submit_command("gold", "heart_rate", heartbeats.settings)
    environment = spark_submit.submit_env() | {"JAVA_TOOL_OPTIONS": f"-Xlog:class+load=info:file={log}-%p"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = max(tmp_path.glob("classes.log-*"), key=lambda file: file.stat().st_size).read_text().splitlines()
    archived = [line for line in loaded if line.endswith("source: shared objects file (top)")]
    assert len(archived) > len(loaded) / 3
    assert any("org.apache.spark" in line for line in archived)


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The error of a command that failed as a user's mistake does: exit 2, a sentence, no stack trace."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith("error[SG2")
    assert (done.stdout + done.stderr).count("error[") == 1
    return done.stderr


def test_typo_in_the_definition(heartbeats: Workspace) -> None:
    heartbeats.edit("pipeline.yaml", "schemaHints: mrn", "schemaHint: mrn")
    said = one_sentence(sluicegate(heartbeats.folder, "run", "heart_rate"))
    assert "schemaHints" in said
    assert "pipeline.yaml:" in said


def test_unknown_pipeline(heartbeats: Workspace) -> None:
    assert "heart_rate" in one_sentence(sluicegate(heartbeats.folder, "run", "hart_rate"))


def test_missing_landing_folder(heartbeats: Workspace) -> None:
    shutil.rmtree(heartbeats.folder / "landing" / "recordings")
    assert "does not exist" in one_sentence(sluicegate(heartbeats.folder, "run", "heart_rate"))


def test_no_java(heartbeats: Workspace, tmp_path: Path) -> None:
    said = one_sentence(sluicegate(heartbeats.folder, "run", "heart_rate", JAVA_HOME=str(tmp_path / "nothing here")))
    assert "Java 17" in said


def test_not_a_delta_table(heartbeats: Workspace) -> None:
    folder = Path(heartbeats.uri("recordings_enriched"))
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert "not a Delta table" in one_sentence(sluicegate(heartbeats.folder, "run", "heart_rate"))
    assert (folder / "notes.txt").read_text() == "mine"


def test_job_says_the_user_s_mistake_and_exits_2(heartbeats: Workspace) -> None:
    """A query that only Spark can find wrong: the job's own exit code and last line reach the person."""
    heartbeats.edit("recordings_enriched.sql", "r.heartrate", "array_sort(r.heartrate) AS heartrate")
    said = one_sentence(sluicegate(heartbeats.folder, "run", "heart_rate"))
    assert "array_sort" in said


@pytest.mark.more
def test_broken_expect_or_fail_exits_3(heartbeats: Workspace) -> None:
    heartbeats.edit("pipeline.yaml", "{expect_or_quarantine: heartrate > 0}", "{expect_or_fail: heartrate > 0}")
    heartbeats.land("recordings/z.json", [beat(1, 1, 1, -1.0)])
    done = sluicegate(heartbeats.folder, "run", "heart_rate")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "valid_heartrate" in done.stderr
    assert heartbeats.rows("patients")  # the other table went on
    assert not heartbeats.rows("recordings_enriched")


@pytest.mark.release
def test_copy_into_with_a_select(heartbeats: Workspace) -> None:
    archive = heartbeats.folder / "archive"
    archive.mkdir()
    (archive / "a.csv").write_text("mrn;name;left\n7;Cy;x\nseven;Di;y\n")
    copy = ["copy-into", "heart_rate", "patients_bronze", str(archive), "--option", "sep=;", "--json"]
    select = "SELECT CAST(mrn AS BIGINT) AS mrn, upper(name) AS name FROM source"
    wrong = sluicegate(heartbeats.folder, *copy[:-1], "--select", "SELECT nam FROM source")
    assert "reads nam," in one_sentence(wrong)
    seen = sluicegate(heartbeats.folder, *copy, "--select", select, "--validate", "2")
    assert (json.loads(seen.stdout)["read"], json.loads(seen.stdout)["rescued"]) == (2, 1), seen.stderr
    done = sluicegate(heartbeats.folder, *copy, "--select", select)
    assert json.loads(done.stdout)["num_inserted_rows"] == 2, done.stderr
    assert Counter(heartbeats.rows("patients_bronze", "mrn", "name")) == {(7, "CY"): 1, (None, "DI"): 1}
    again = sluicegate(heartbeats.folder, *copy, "--select", select)
    assert json.loads(again.stdout)["num_inserted_rows"] == 0


@pytest.mark.more
def test_a_delta_table_as_the_source(tmp_path: Path) -> None:
    """From the table to bronze, and what the commands say of it; nothing new starts no JVM."""
    workspace = Workspace(tmp_path)
    source = tmp_path / "theirs"
    write_deltalake(source, pa.table({"id": [1, 2]}))
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '{source}', format: delta}}\n")
    (tmp_path / "landing").mkdir()
    planned = sluicegate(tmp_path, "plan", "heart_rate")
    assert "1 version of a Delta table for things" in planned.stdout, planned.stderr
    done = sluicegate(tmp_path, "run", "heart_rate")
    assert "2 read =         2 written" in done.stdout, done.stdout + done.stderr
    write_deltalake(source, pa.table({"id": [3]}), mode="append")
    files = json.loads(sluicegate(tmp_path, "files", "heart_rate", "things", "--json").stdout)
    assert [entry["state"] for entry in files] == ["ingested", "waiting"]
    assert sluicegate(tmp_path, "run", "heart_rate").returncode == 0
    assert sorted(workspace.rows("things", "id")) == [(1,), (2,), (3,)]
    assert "Spark was not started" in sluicegate(tmp_path, "run", "heart_rate").stdout
    verified = sluicegate(tmp_path, "status", "heart_rate", "--verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "not looked at: things" in verified.stdout
