"""``make demo`` as a person runs it: a real Airflow, real Spark, and a folder that had nothing in it."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable

from scripts import recording
from sluicegate.spark import connect
from tests.conftest import ROOT
from tests.support import event_logs

pytestmark = pytest.mark.e2e

TABLES = (
    "recordings_bronze",
    "patients_bronze",
    "patients",
    "recordings_enriched",
    "daily_patient_avg",
    "device_counts",
)


# Streams of each job of a run, with the names that Spark's pages show.
STREAMS = [
    ["bronze patients_bronze", "bronze recordings_bronze"],
    ["gold daily_patient_avg", "gold device_counts"],
    ["silver patients", "silver recordings_enriched"],
]


def demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the demo in a folder, with no settings of the person who runs the tests."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SLUICEGATE"))}
    own |= {"SLUICEGATE_MASTER": "local[2]", **environment}
    command = [sys.executable, "-m", "sluicegate.tools.demo", *arguments]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=600)


def left_of(folder: Path) -> list[str]:
    """Processes that still run in, or speak of, a folder."""
    left = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        facts = process.info
        place = f"{facts['cwd']} {' '.join(facts['cmdline'] or [])}"
        if str(folder) in place and facts["status"] != psutil.STATUS_ZOMBIE:
            left.append(place)
    return left


def averages(landing: Path) -> dict[tuple[int, date], float]:
    """What the gold table must hold, worked out from the landed files in the plainest way."""
    known = {row["mrn"] for row in csv.DictReader((landing / "patients" / "patients.csv").open())}
    readings: dict[tuple[int, date], dict[tuple[Any, Any], float]] = defaultdict(dict)
    for file in sorted((landing / "recordings").glob("*.json")):
        for record in json.loads(file.read_text()):
            rate = float(record["heartrate"])
            if rate > 0 and str(record["mrn"]) in known:
                day = datetime.fromtimestamp(float(record["time"]), UTC).date()
                readings[int(record["mrn"]), day][record["device_id"], record["time"]] = rate
    return {key: sum(rates.values()) / len(rates) for key, rates in readings.items()}


def gold(lake: Path) -> dict[tuple[int, date], float]:
    rows = DeltaTable(lake / "heart_rate" / "gold" / "daily_patient_avg").to_pyarrow_table().to_pylist()
    return {(row["mrn"], row["date"].date()): row["avg_heartrate"] for row in rows}


def asset_events(home: Path) -> dict[str, dict[str, Any]]:
    """What Airflow's events told of each asset; each was to have one."""
    query = "SELECT asset.name, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_event.asset_id"
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        rows = database.execute(query).fetchall()
    assert len({name for name, _ in rows}) == len(rows)
    return {name: json.loads(extra) for name, extra in rows}


def links(home: Path) -> list[str]:
    """Where Airflow's pages of tasks link to."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        return [
            json.loads(value) for (value,) in database.execute("SELECT value FROM xcom WHERE key = '_link_SparkUI'")
        ]


def lineage(events: Path) -> dict[str, tuple[set[str], dict[str, int]]]:
    """What OpenLineage was told at the end of each task: what it read, and what it wrote with the number of rows."""
    told = {}
    for event in map(json.loads, events.read_text().splitlines()):
        if event["eventType"] == "COMPLETE" and (event["inputs"] or event["outputs"]):
            assert {one["namespace"] for one in event["inputs"] + event["outputs"]} == {"file"}
            rows = {one["name"]: one["outputFacets"]["outputStatistics"]["rowCount"] for one in event["outputs"]}
            told[event["job"]["name"]] = ({one["name"] for one in event["inputs"]}, rows)
    return told


def java_that_tells(folder: Path) -> Path:
    """A JAVA_HOME whose java leaves a note when it is started."""
    program = folder / "java-home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    real = (
        Path(os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "").resolve().parent.parent) / "bin" / "java"
    )
    program.write_text(f'#!/bin/sh\ntouch {folder}/jvm-started\nexec {real} "$@"\n')
    program.chmod(0o755)
    return program.parent.parent


@pytest.mark.more
def test_without_airflow_the_demo_shows_the_same_tables(tmp_path: Path) -> None:
    """``make try``: nothing of Airflow is started or left."""
    done = demo(tmp_path, "--without-airflow")
    assert done.returncode == 0, done.stdout + done.stderr
    assert gold(tmp_path / "lake") == pytest.approx(averages(tmp_path / "landing"))
    assert "heart_rate.daily_patient_avg" in done.stdout
    assert "make demo" in done.stdout
    # In a checkout, the commands at the end are those of its .venv.
    said = done.stdout.replace(str(Path(sys.executable).with_name("sluicegate")), ".venv/bin/sluicegate")
    printed = [part for line in said.splitlines() for part in recording.wrap_line(line.rstrip())]
    shown = recording.text_of(recording.PICTURE.read_text())[1:]
    assert recording.comparable_lines(printed) == recording.comparable_lines(shown)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "landing"]


@pytest.mark.more
def test_the_demo_and_then_nothing_new(tmp_path: Path) -> None:
    lineage_file = tmp_path.with_suffix(".lineage")
    transport = {"type": "file", "log_file_path": str(lineage_file), "append": True}
    logs = tmp_path.with_suffix(".spark")
    logs.mkdir()
    first = demo(
        tmp_path,
        OPENLINEAGE__TRANSPORT=json.dumps(transport),
        SLUICEGATE_HISTORY_SERVER="http://history:18080",
        JAVA_TOOL_OPTIONS=event_logs.options(logs),
    )
    assert first.returncode == 0, first.stdout + first.stderr
    for task in ("check_request", "wait_for_files", "bronze", "silver", "gold", "account"):
        assert any(line.split()[2:] == [task, "success"] for line in first.stdout.splitlines()), first.stdout
    assert "1,500 read" in first.stdout
    events = asset_events(tmp_path / ".airflow")
    assert set(events) == {f"heart_rate.{name}" for name in TABLES}
    assert events["heart_rate.recordings_bronze"]["rows"] == 1500
    logged = event_logs.streams(logs)
    assert sorted(logged.values()) == STREAMS
    assert set(links(tmp_path / ".airflow")) == {f"http://history:18080/history/{one}/" for one in logged}
    told = lineage(lineage_file)
    of = {name: events[f"heart_rate.{name}"]["table"] for name in TABLES}
    rows = {layer: told[f"heart_rate.{layer}"][1] for layer in ("bronze", "silver", "gold")}
    assert {layer: told[f"heart_rate.{layer}"][0] for layer in rows} == {
        "bronze": {f"{tmp_path}/landing/{name}" for name in ("recordings", "patients")},
        "silver": {of["recordings_bronze"], of["patients_bronze"], of["patients"]},
        "gold": {of["recordings_enriched"], of["recordings_bronze"]},
    }
    quarantine = of["recordings_enriched"] + "_quarantine"
    assert rows["bronze"][of["recordings_bronze"]] == 1500
    assert rows["silver"][of["recordings_enriched"]] + rows["silver"][quarantine] == 1500
    assert set(rows["silver"]) == {of["patients"], of["recordings_enriched"], quarantine}
    assert rows["gold"] == {of[name]: events[f"heart_rate.{name}"]["rows"] for name in TABLES[-2:]}
    wanted = averages(ROOT / "data" / "heart_rate")
    assert gold(tmp_path / "lake") == pytest.approx(wanted, abs=1e-9)
    for promised in ("heart_rate.daily_patient_avg", "make ui", "simulate heart_rate", "WHERE date BETWEEN"):
        assert promised in first.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [".airflow", "lake", "landing"]
    assert (tmp_path / ".airflow").stat().st_mode & 0o077 == 0
    assert left_of(tmp_path) == []

    log = (tmp_path / ".airflow" / "demo.log").stat()
    second = demo(tmp_path, JAVA_HOME=str(java_that_tells(tmp_path)))
    assert second.returncode == 0, second.stdout + second.stderr
    assert "nothing new" in second.stdout.splitlines()[0]
    assert "heart_rate.daily_patient_avg" in second.stdout
    assert not (tmp_path / "jvm-started").exists()
    assert (tmp_path / ".airflow" / "demo.log").stat() == log  # nor was Airflow


@pytest.mark.release
def test_a_run_that_fails_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    done = demo(tmp_path, SLUICEGATE_JARS=str(tmp_path / "jars"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error[SG100]: task bronze of DAG heart_rate failed" in done.stderr
    assert "error[SG205]: there are no Delta jars" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    log = done.stderr.split("the log of the task is ")[1].strip()
    assert "there are no Delta jars" in (tmp_path / log).read_text()
    assert left_of(tmp_path) == []


@pytest.mark.release
def test_the_page_has_a_warm_spark_beside_it(tmp_path: Path) -> None:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SLUICEGATE"))}
    shutil.copytree(ROOT / "data" / "heart_rate", tmp_path / "landing")
    command = [sys.executable, "-m", "sluicegate.tools.demo", "--ui", "--warm"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=own | {"SLUICEGATE_MASTER": "local[2]"}, stdout=subprocess.PIPE, text=True
    ) as page:
        assert page.stdout is not None
        said = [next(page.stdout) for _ in range(4)]
        try:
            assert said[2].startswith("open http"), said
            home = tmp_path / ".airflow"
            spark = (home / "spark.log").read_text()
            [url] = [line.split()[-1] for line in spark.splitlines() if line.startswith(connect.SERVES)]
            run = [sys.executable, "-m", "sluicegate.cli", "run", "heart_rate", "--remote", url]
            run += ["--pipelines", str(ROOT / "pipelines")]
            env = own | {connect.TOKEN_FILE: str(home / "connect-token")}
            done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            assert gold(tmp_path / "lake") == pytest.approx(averages(tmp_path / "landing"))
        finally:
            page.terminate()  # as by Ctrl-C, which processes in the background of a shell ignore
            try:
                page.wait(60)
            except subprocess.TimeoutExpired:
                page.kill()
    assert page.returncode == 0
    assert left_of(tmp_path) == []


def test_a_missing_folder_is_one_sentence_and_starts_nothing(tmp_path: Path) -> None:
    done = demo(tmp_path, "--input", "nowhere")
    assert done.returncode == 2
    assert "nowhere/recordings does not exist" in done.stderr
    assert list(tmp_path.iterdir()) == []
