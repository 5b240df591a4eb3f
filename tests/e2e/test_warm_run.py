"""`sluicegate run` in the Spark that the run before has left ready: as exact as in one of its own, whatever happens."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from sluicegate.lake.exclusion import lock
from sluicegate.launch import warm_job, warm_spark
from tests.conftest import ROOT, Workspace, beat
from tests.spark.test_medallion import assert_right

pytestmark = pytest.mark.e2e


@dataclass
class Runs:
    """Runs of the command line that leave a Spark ready for five minutes."""

    workspace: Workspace
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str, pipeline: str = "heart_rate") -> subprocess.Popen[str]:
        places = self.workspace.settings.arguments
        arguments = [
            part for name in ("lake", "landing", "pipelines", "master") for part in (f"--{name}", places[name])
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "sluicegate.cli", "run", pipeline, *arguments, *options],
            cwd=ROOT,
            env={**os.environ, warm_spark.MINUTES: "5", **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, pipeline: str = "heart_rate", code: int = 0) -> str:
        run = self.start(*options, pipeline=pipeline)
        output, _ = run.communicate(timeout=240)
        assert run.returncode == code, output
        return output

    def process(self) -> psutil.Process | None:
        """The process that keeps Spark ready."""
        connection = warm_spark.Place.from_lake(self.workspace.settings.lake).connection()
        if connection is None:
            return None
        connection.close()
        for process in psutil.process_iter():
            with_arguments = _arguments(process)
            if "sluicegate.jobs.warm" in with_arguments and self.workspace.settings.lake in with_arguments:
                return process
        return None

    def demand_process(self) -> psutil.Process:
        process = self.process()
        assert process is not None
        return process


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def wait_until_gone(process: psutil.Process) -> None:
    psutil.wait_procs([process], timeout=30)
    assert not process.is_running()


@pytest.fixture
def runs(heartbeats: Workspace) -> Iterator[Runs]:
    running = Runs(heartbeats)
    yield running
    process = running.process()
    if process is not None:
        os.killpg(process.pid, signal.SIGKILL)


def test_runs_share_a_spark_and_follow_what_changes_between_them(runs: Runs) -> None:
    workspace = runs.workspace
    assert "stays ready" in runs.run()
    process = runs.demand_process()
    assert_right(workspace)

    workspace.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0)], age=60)
    assert "stays ready" not in runs.run()
    assert_right(workspace)

    runs.run("--layer", "copper", code=2)  # a user's mistake
    workspace.edit("pipeline.yaml", "heartrate > 0", "heartrate > 61")  # a rule that quarantines more from now on
    workspace.land("recordings/e.json", [beat(1, 1, 9000, 60.5), beat(1, 1, 9001, 70.5)], age=50)
    runs.run()
    assert [row for row in workspace.rows("recordings_enriched_quarantine", "heartrate") if 60.5 in row]
    assert runs.demand_process() == process

    table = DeltaTable(workspace.uri("daily_patient_avg"))
    table.restore(0)
    runs.run()
    runs.run("--full-refresh", "daily_patient_avg")
    assert runs.demand_process() == process

    # Another lake at the same place, which has other rows in commits of the same numbers.
    shutil.rmtree(workspace.settings.lake)
    for file in ("d", "e"):
        (workspace.folder / f"landing/recordings/{file}.json").unlink()
    workspace.edit("pipeline.yaml", "heartrate > 61", "heartrate > 0")
    runs.run()
    assert_right(workspace)
    assert runs.demand_process() == process

    runs.variables["WHAT_A_FUNCTION_MAY_READ"] = "1"  # another environment, another Spark
    workspace.land("recordings/f.json", [beat(2, 2, 7300, 75.0)], age=60)
    assert "stays ready" in runs.run()
    assert runs.demand_process() != process
    assert_right(workspace)

    workspace.land("recordings/g.json", [beat(2, 2, 7400, 75.0)], age=60)
    former = runs.demand_process()
    assert "stays ready" not in runs.run("--cold")
    assert runs.demand_process() == former
    assert warm_job.stop(workspace.settings.lake) == "stopped"
    wait_until_gone(former)
    assert warm_job.stop(workspace.settings.lake) == "none"
    assert_right(workspace)


def test_a_client_that_is_killed_takes_its_run_with_it_and_a_run_that_is_killed_says_so(runs: Runs) -> None:
    workspace = runs.workspace
    runs.run()
    process = runs.demand_process()
    children = process.children(recursive=True)

    workspace.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0)], age=60)
    client = runs.start()
    assert client.stdout is not None
    assert any(line.startswith("heart_rate bronze") for line in client.stdout)  # it has the lock
    client.kill()
    wait_until_gone(process)
    assert psutil.wait_procs(children, timeout=30)[1] == []
    with lock.pipeline_lock(workspace.lake, "the next run", wait=0.0):
        pass

    runs.variables["SLUICEGATE_FAULT"] = "silver.between_commits"
    workspace.land("recordings/e.json", [beat(2, 2, 7300, 75.0)], age=60)
    output = runs.run(code=1)
    assert "error[SG" in output
    assert runs.process() is None

    del runs.variables["SLUICEGATE_FAULT"]
    runs.run()
    assert_right(workspace)

    workspace.land("recordings/f.json", [beat(2, 2, 7500, 75.0)], age=60)
    stopped = runs.start()
    assert stopped.stdout is not None
    assert any(line.startswith("heart_rate bronze") for line in stopped.stdout)
    stopped.terminate()
    output, _ = stopped.communicate(timeout=60)
    assert stopped.returncode == 128 + signal.SIGTERM, output
    assert "stopped by SIGTERM" in output
    runs.run()
    assert_right(workspace)


def test_a_run_after_the_jvm_was_killed_starts_another_spark(runs: Runs) -> None:
    workspace = runs.workspace
    runs.run()
    process = runs.demand_process()
    for child in process.children():
        child.kill()
    wait_until_gone(process)
    workspace.land("recordings/d.json", [beat(2, 2, 7200, 75.0)], age=60)
    runs.variables["PYSPARK_SUBMIT_ARGS"] = "--verbose"  # of a shell; spark-submit does not take it either
    assert "stays ready" in runs.run()
    assert_right(workspace)


@pytest.mark.release
def test_two_runs_at_once_take_turns(runs: Runs) -> None:
    """The second one starts a Spark of its own, and waits for the lock as ever."""
    workspace = runs.workspace
    runs.run()
    for number in range(3):
        workspace.land(f"recordings/d{number}.json", [beat(2, 2, 7200 + number, 75.0)], age=60)
    both = [runs.start(), runs.start()]
    outputs = [run.communicate(timeout=240)[0] for run in both]
    assert [run.returncode for run in both] == [0, 0], outputs
    assert_right(workspace)


@pytest.mark.release
def test_an_idle_spark_ends_by_itself(runs: Runs) -> None:
    runs.variables[warm_spark.MINUTES] = "0.05"
    runs.run()
    place = warm_spark.Place.from_lake(runs.workspace.settings.lake)
    end = time.monotonic() + 60
    while place.is_running() and time.monotonic() < end:
        time.sleep(0.1)
    assert not place.is_running()
    assert not place.address.exists()


@pytest.mark.release
def test_nobody_else_can_reach_it(runs: Runs) -> None:
    runs.run()
    place = warm_spark.Place.from_lake(runs.workspace.settings.lake)
    assert [oct(path.stat().st_mode & 0o777) for path in (place.folder, place.address)] == ["0o700", "0o600"]
    arguments = " ".join(_arguments(runs.demand_process()))
    assert not re.search(r"token|secret|password", arguments, re.IGNORECASE)
    assert Path(f"/proc/{runs.demand_process().pid}/environ").stat().st_uid == os.getuid()
