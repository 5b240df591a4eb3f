"""The DAG that is written out, run as it is: a real Airflow, real Spark, files that land, and then nothing new."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT, Workspace
from tests.support.pipelines_oracle import heart_rate, plain

pytestmark = [pytest.mark.e2e, pytest.mark.more]

# Runs the DAG in this process, once for each folder of landing, and tells how its tasks ended and what they published.
RUNS = """
import json, os, runpy, shutil, sys
from airflow.models.asset import AssetEvent, AssetModel
from airflow.utils.session import create_session
from sqlalchemy import select
file, *folders = sys.argv[1:]
dag = runpy.run_path(file)["dag"]
for folder in folders:
    shutil.copytree(folder, os.environ["SLUICEGATE_LANDING"], dirs_exist_ok=True)
    run = dag.test()
    with create_session() as session:
        names = select(AssetModel.name).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        events = sorted(session.scalars(names))
    print("TOLD" + json.dumps([{task.task_id: task.state for task in run.get_task_instances()}, events]))
"""
BRONZE, SILVER = ("patients_bronze", "recordings_bronze"), ("patients", "recordings_enriched")
GOLD = ("daily_patient_avg", "device_counts")


def test_two_landings(tmp_path: Path) -> None:
    """Each run publishes the tables that it changed, and no other."""
    shutil.copytree(ROOT / "data" / "heart_rate", tmp_path / "first")
    [*_, later] = sorted((tmp_path / "first" / "recordings").iterdir())
    (tmp_path / "second" / "recordings").mkdir(parents=True)
    shutil.move(later, tmp_path / "second" / "recordings")
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")
    places = {f"SLUICEGATE_{name.upper()}": str(tmp_path / name) for name in ("lake", "landing", "pipelines")}
    own = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SLUICEGATE"))}
    own |= places | {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                     "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"), "SLUICEGATE_MASTER": "local[2]"}  # fmt: skip
    folders = [str(tmp_path / name) for name in ("first", "second")]
    example = str(ROOT / "dags" / "example_sequence.py")
    for command in (["-m", "airflow", "db", "migrate"], ["-c", RUNS, example, *folders]):
        done = subprocess.run([sys.executable, *command], env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    told = [json.loads(line.removeprefix("TOLD")) for line in done.stdout.splitlines() if line.startswith("TOLD")]
    succeeded = dict.fromkeys(("wait_for_files", "bronze", "silver", "gold"), "success")
    assert [tasks for tasks, _ in told] == [succeeded, succeeded], done.stdout
    first = Counter(f"heart_rate.{name}" for name in (*BRONZE, *SILVER, *GOLD))
    second = Counter(f"heart_rate.{name}" for name in (BRONZE[1], SILVER[1], *GOLD))
    assert [Counter(events) for _, events in told] == [first, first + second]
    workspace, wanted = Workspace(tmp_path), heart_rate(tmp_path / "landing")
    for name, (columns, rows) in wanted.items():
        assert plain(workspace.rows(name, *columns)) == plain(rows)
