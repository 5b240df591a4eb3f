"""The heart_rate pipeline on a real standalone cluster: in increments, and with a worker or the driver killed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.standalone import Cluster, cluster
from tests.conftest import ROOT, Workspace, beat
from tests.spark.test_medallion import assert_right
from tests.support.process_tree import JVM, descendants, kill_tree, named, send

pytestmark = [pytest.mark.e2e, pytest.mark.more]

LONGEST = 600.0


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core, whose executors live too briefly for their code to be compiled twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        with cluster(tmp_path_factory.mktemp("cluster"), 2) as started:
            patch.undo()
            yield started


def start(workspace: Workspace, on: Cluster, **more: str) -> subprocess.Popen[str]:
    """`sluicegate run heart_rate`, with a folder of the lake named as machines with another file system need it."""
    command = [sys.executable, "-m", "sluicegate.cli", "run", "heart_rate", "--lake", f"file://{workspace.folder}/lake",
               "--landing", f"file://{workspace.folder}/landing",
               "--pipelines", str(workspace.settings.pipelines)]  # fmt: skip
    env = os.environ | on.environment | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(workspace: Workspace, on: Cluster) -> str:
    """A whole run that has to end well; gives what it says."""
    job = start(workspace, on)
    said, _ = job.communicate(timeout=LONGEST)
    assert job.returncode == 0, said
    return said


def until(what: Callable[[], object], job: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONGEST
    while not what():
        assert job.poll() is None, f"it ended too early:\n{job.communicate()[0]}"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def commits(workspace: Workspace, table: str) -> int:
    """How many commits a table has, read while a job makes them."""
    return len([*Path(workspace.uri(table), "_delta_log").glob("*.json")])


def kill_driver(job: subprocess.Popen[str]) -> None:
    """SIGKILL to the JVM of spark-submit alone: its Python, the executors and `sluicegate run` have to notice."""
    send(named(descendants(job.pid), JVM), signal.SIGKILL)


def test_a_worker_and_then_the_driver_killed(heartbeats: Workspace, spark_cluster: Cluster) -> None:
    # A torn array: its whole elements are found by a Python function, which executors run in a bare Python.
    bare = f"spark.pyspark.python {getattr(sys, '_base_executable', sys.executable)}\n"
    (spark_cluster.folder / "spark-defaults.conf").write_text(bare)
    first, rest = '{"device_id": 1, "mrn": 1, "time": 1577900000, "heartrate": 66}', '{"device_id": 2, "mrn": 2'
    heartbeats.land("recordings/torn.json", f"[{first}, {rest}")
    job = start(heartbeats, spark_cluster, SPARK_CONF_DIR=str(spark_cluster.folder))
    until(lambda: spark_cluster.executors(1) and commits(heartbeats, "patients"), job)  # it is in silver
    spark_cluster.kill_worker(1)
    said, _ = job.communicate(timeout=LONGEST)
    assert "a damaged array: its first 1 elements were read" in said
    assert job.returncode in (0, 1), said  # what that worker alone had of a batch may be lost; a retry does it again

    heartbeats.land("recordings/torn.json", f'[{first}, {rest}, "time": 1577900000, "heartrate": 67}}]', age=50)
    heartbeats.land("recordings/d.json", [beat(2, 2, 90_000 + n, 70.0 + n % 9) for n in range(900)], age=50)
    former = spark_cluster.executors(0), commits(heartbeats, "recordings_bronze")
    job = start(heartbeats, spark_cluster)
    until(lambda: spark_cluster.executors(0) > former[0], job)
    until(lambda: commits(heartbeats, "recordings_bronze") > former[1], job)  # silver is next
    kill_driver(job)
    said, _ = job.communicate(timeout=LONGEST)
    assert job.returncode == 1, said
    assert "the run job ended with exit code" in said
    run(heartbeats, spark_cluster)
    assert_right(heartbeats)


def test_a_job_that_waits_for_executors_says_so_though_its_data_is_personal(
    heartbeats: Workspace, tmp_path: Path
) -> None:
    with cluster(tmp_path / "cluster", 0) as empty:
        job = start(heartbeats, empty)
        assert job.stdout is not None
        try:
            said = list(itertools.takewhile(lambda line: "has not accepted any resources" not in line, job.stdout))
            assert job.poll() is None, said
        finally:
            kill_tree(job.pid)
            job.communicate()


@pytest.mark.chaos
def test_workers_and_drivers_killed_at_random_moments(heartbeats: Workspace, spark_cluster: Cluster) -> None:
    """A seed is printed with a failure: ``SLUICEGATE_SEED`` runs it again."""
    seed = int(os.environ.get("SLUICEGATE_SEED") or random.SystemRandom().randrange(10**6))
    chance = random.Random(seed)
    print("seed", seed)
    for number in range(8):
        beats = [beat(2, 2, 100_000 + number * 1_000 + n, 60.0 + n % 9) for n in range(500)]
        heartbeats.land(f"recordings/round-{number}.json", beats, age=50 - number)
        job = start(heartbeats, spark_cluster)
        time.sleep(chance.uniform(5.0, 40.0))
        if chance.random() < 0.5:
            kill_driver(job)
        else:
            spark_cluster.kill_worker(len(spark_cluster.workers) - 1)
            spark_cluster.add_worker()
        said, _ = job.communicate(timeout=LONGEST)
        assert job.returncode in (0, 1), said
    run(heartbeats, spark_cluster)
    assert_right(heartbeats)
