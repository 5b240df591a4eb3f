"""The DAG of alerts in an Airflow with a database: what it reported it knows in its next run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Workspace

pytestmark = [pytest.mark.e2e, pytest.mark.release]


def test_what_was_reported_by_a_run_is_skipped_by_the_next(workspace: Workspace, tmp_path: Path) -> None:
    workspace.edit("pipeline.yaml", "\nbronze:", "\nalerts: {freshness: {recordings_bronze: {fail: 1 day}}}\nbronze:")
    home = tmp_path / "airflow"
    env = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")} | {
        "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"), "PYTHONPATH": str(ROOT),
        "SLUICEGATE_LAKE": workspace.settings.lake, "SLUICEGATE_LANDING": workspace.settings.landing,
        "SLUICEGATE_PIPELINES": str(workspace.settings.pipelines),
    }  # fmt: skip
    airflow = Path(sys.executable).parent / "airflow"

    def said(*arguments: str) -> str:
        done = subprocess.run([airflow, *arguments], env=env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    said("db", "migrate")
    first = said("dags", "test", "heart_rate_alerts", "2026-11-25T00:00:00")
    assert "freshness of recordings_bronze: nothing has arrived yet, and it fails after 1 day" in first
    assert "SG305" in first
    then = said("dags", "test", "heart_rate_alerts", "2026-11-25T00:15:00")
    assert "reported before: freshness of recordings_bronze" in then
