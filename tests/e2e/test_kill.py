"""Real jobs, really killed: SIGKILL to JVM and Python at named points and at random moments, and then a new run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sluicegate.flow.report import ReportLines
from sluicegate.lake.exclusion import lock
from sluicegate.lake.layout import LAYERS
from sluicegate.launch import submit as run_submit
from sluicegate.private_folders import PREFIX
from sluicegate.spark import spark_submit
from tests.conftest import ROOT, Workspace, beat
from tests.spark.test_medallion import assert_right

pytestmark = pytest.mark.e2e


def start(workspace: Workspace, job: str, fault: str = "", scratch: str = "") -> subprocess.Popen[str]:
    """Starts a job in a process group of its own, as `sluicegate run` does."""
    command = spark_submit.submit_command(job, workspace.pipeline, workspace.settings)
    environment = spark_submit.submit_env() | {"SLUICEGATE_FAULT": fault, "TMPDIR": scratch or tempfile.gettempdir()}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def finish(workspace: Workspace, *jobs: str) -> None:
    for job in jobs:
        run_submit.submit(job, workspace.pipeline, workspace.settings, {"run_id": "after the kill"}, print)


def free(workspace: Workspace) -> None:
    """Fails where whoever ended has left its lock."""
    with lock.pipeline_lock(workspace.lake, "the next run", wait=0.0):
        pass


def killed(workspace: Workspace, job: str, point: str, before: list[str], scratch: str = "") -> None:
    """Kills a job at a point, by when some layers have reported."""
    started = start(workspace, job, fault=point, scratch=scratch)
    output, _ = started.communicate(timeout=180)
    assert started.returncode == -signal.SIGKILL, output
    said = ReportLines()
    for line in output.splitlines():
        said.take(line)
    assert ([report["layer"] for report in said.reports()], said.error) == (before, None)
    free(workspace)


def test_killed_between_the_commits_of_silver(heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the one Spark of a run, whose bronze has reported. The next run removes what it has left in its scratch,
    and nothing of its own is left."""
    scratch = heartbeats.folder / "scratch"
    scratch.mkdir()
    killed(heartbeats, "run", "silver.between_commits", ["bronze"], str(scratch))
    assert any(scratch.glob(f"{PREFIX}*/blockmgr-*"))
    monkeypatch.setenv("TMPDIR", str(scratch))
    finish(heartbeats, "run")
    assert list(scratch.glob(f"{PREFIX}*")) == []
    assert_right(heartbeats)


@pytest.mark.release
def test_killed_at_one_point_after_another_and_then_told_to_end(heartbeats: Workspace) -> None:
    """Each job goes on from what the one before has left, so that a job which mends is killed, too."""
    killed(heartbeats, "run", "bronze.before_commit", [])
    finish(heartbeats, "bronze")
    killed(heartbeats, "silver", "silver.between_commits", [])  # in a Spark of the layer's own
    killed(heartbeats, "run", "gold.after_commit", ["bronze", "silver"])

    heartbeats.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0), beat(5, 5, 1, 50.0)], age=60)
    places = heartbeats.settings.arguments
    options = [part for name in ("lake", "landing", "pipelines", "master") for part in (f"--{name}", places[name])]
    told = subprocess.Popen(
        [sys.executable, "-m", "sluicegate.cli", "run", "heart_rate", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert told.stdout is not None
    assert any(line.startswith("heart_rate bronze") for line in told.stdout)  # the job has the lock
    told.terminate()
    _, said = told.communicate()
    assert told.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in said
    free(heartbeats)
    finish(heartbeats, "run")
    assert_right(heartbeats)


@pytest.mark.chaos
def test_killed_at_random_moments_and_checkpoints_deleted(heartbeats: Workspace, tmp_path: Path) -> None:
    """A seed is printed with a failure: ``SLUICEGATE_SEED`` runs it again."""
    seed = int(os.environ.get("SLUICEGATE_SEED") or random.SystemRandom().randrange(10**6))
    chance = random.Random(seed)
    print("seed", seed)
    for number, layer in enumerate(LAYERS):
        scratch = tmp_path / f"scratch {layer}"
        scratch.mkdir()
        job = start(heartbeats, layer, scratch=str(scratch))
        time.sleep(chance.uniform(3.0, 12.0))
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        for leftover in [*scratch.iterdir(), *tmp_path.rglob("*checkpoint*")]:
            shutil.rmtree(leftover, ignore_errors=True)
        heartbeats.land(
            f"recordings/later-{number}.json", [beat(2, 2, 10_000 + number, 70.0 + number)], age=50 - number
        )
    finish(heartbeats, *LAYERS)
    assert_right(heartbeats)
