"""heart_rate with landing and lake on S3, by the commands that people type; the store fails, and runs are killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluicegate.lake import layout, tables
from sluicegate.settings import Settings
from sluicegate.spark import configuration, spark_submit
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right
from tests.support.process_tree import kill_tree
from tests.support.s3_server import BUCKET, Proxy, s3_server, seeded

pytestmark = [pytest.mark.e2e, pytest.mark.more]


@dataclass
class OnS3(Workspace):
    """A workspace whose landing and lake are in a bucket; what lands stays on disk, too, for the oracle."""

    @property
    def settings(self) -> Settings:
        here = f"s3://{BUCKET}/{self.folder.name}"
        return Settings.of(f"{here}/lake", f"{here}/landing", self.folder / "pipelines", "local[2]")

    def land(self, name: str, content: Any, age: float = 60.0) -> Path:
        import boto3

        path = super().land(name, content, age)
        boto3.client("s3").put_object(Bucket=BUCKET, Key=f"{self.folder.name}/landing/{name}", Body=path.read_bytes())
        return path

    def command(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Starts ``sluicegate …`` in a process group of its own."""
        at = self.settings
        where = ["--lake", at.lake, "--landing", at.landing, "--pipelines", str(at.pipelines)]
        return subprocess.Popen(
            [sys.executable, "-m", "sluicegate.cli", *words, self.pipeline, *where],
            env=spark_submit.submit_env() | {"SLUICEGATE_MASTER": at.master} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def bucket(workspace: Workspace, server: str) -> OnS3:
    """Two patients and two files of recordings, one with an odd name, landed in a bucket."""
    made = OnS3(workspace.folder)
    for place in ("recordings", "patients"):
        made.edit("pipeline.yaml", f"path: ${{landing}}/{place}", f"settleSeconds: 0\n    path: ${{landing}}/{place}")
    made.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    made.land("recordings/a b%20+ü.json", [beat(1, 1, 0, 60.0), beat(1, 1, 900, 62.5), beat(2, 2, 0, -3.0)], age=90)
    made.land("recordings/b.json", [beat(2, 2, 900, 80.0), beat(3, 9, 900, 70.0), beat(1, 1, 0, 61.0)], age=80)
    return made


def until_done(bucket: OnS3, tries: int = 6) -> list[str]:
    """Runs again as long as the store stops a run, as a person or Airflow would; returns what the failures said."""
    said: list[str] = []
    for _ in range(tries):
        job = bucket.command("run")
        output, _ = job.communicate(timeout=600)
        if job.returncode == 0:
            return said
        said.append(output)
    pytest.fail("\n".join(said))


def verified(bucket: OnS3) -> None:
    assert_right(bucket)
    asked = bucket.command("status", "--verify")
    output, _ = asked.communicate(timeout=300)
    assert asked.returncode == 0, output
    assert "verified: recordings_bronze, version " in output


def test_a_store_that_fails_a_kill_and_two_runs_at_once(
    bucket: OnS3, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(server, seeded(8, 0.02)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        until_done(bucket)
        assert {500, 503, "slow", "lost"} <= set(proxy.met)
        proxy.fate = lambda *_: ""
        bucket.land("recordings/c.json", [beat(1, 1, 900, 99.0), beat(1, 1, 86400, 90.0)])
        killed = bucket.command("run", SLUICEGATE_FAULT="silver.between_commits")
        output, _ = killed.communicate(timeout=600)
        assert killed.returncode == 1, output
        both = [bucket.command("run") for _ in range(2)]
        outputs = [one.communicate(timeout=900)[0] for one in both]
        assert [one.returncode for one in both] == [0, 0], outputs
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    verified(bucket)
    idle = bucket.command("run")
    assert "up to date; Spark was not started" in idle.communicate(timeout=300)[0]


@pytest.mark.chaos
def test_killed_at_random_moments_while_the_store_fails(
    bucket: OnS3, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed is printed with a failure: ``SLUICEGATE_SEED`` runs it again."""
    seed = int(os.environ.get("SLUICEGATE_SEED") or random.SystemRandom().randrange(10**6))
    chance = random.Random(seed)
    print("seed", seed)
    with Proxy(server, seeded(seed, 0.03)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        for number in range(6):
            monkeypatch.setenv("AWS_ENDPOINT_URL", server)
            bucket.land(
                f"recordings/later-{number}.json", [beat(2, 2, 10_000 + number, 70.0 + number)], age=50 - number
            )
            monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
            jobs = [bucket.command("run") for _ in range(chance.choice([1, 2]))]
            time.sleep(chance.uniform(5.0, 40.0))
            for job in jobs:
                kill_all(job)
        until_done(bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    verified(bucket)


def kill_all(job: subprocess.Popen[str]) -> None:
    """SIGKILL to a command and to the job that it started, which has a process group of its own."""
    if job.poll() is None:
        kill_tree(job.pid)
    job.communicate()


RACER = """
import pathlib, sys, time
from pyspark.sql.functions import lit
from sluicegate import lake
from sluicegate.session import open_session
at = lake.Lake(sys.argv[1], "race")
spark = open_session(sys.argv[2], at)
if sys.argv[2] == "A":  # of two that make a table at once, Delta itself refuses one
    spark.createDataFrame([], "row STRING").write.format("delta").save(at.table("gold", "rows"))
pathlib.Path(sys.argv[3], "ready." + sys.argv[2]).touch()
while len(list(pathlib.Path(sys.argv[3]).glob("ready.*"))) < 2:  # its parent kills it if the other never comes
    time.sleep(0.02)
for number in range(30):
    try:
        spark.range(1).select(lit(f"{sys.argv[2]}{number}").alias("row")).write.format("delta").mode("append").save(
            at.table("gold", "rows"))
        print("committed", f"{sys.argv[2]}{number}", flush=True)
    except Exception as error:
        assert "RemoteFileChangedException" in str(error), error
"""


@pytest.mark.chaos
def test_of_two_drivers_that_make_one_version_one_does(bucket: OnS3, tmp_path: Path, server: str) -> None:
    """Two Sparks append to one table without any lock; no commit that was reported is overwritten."""
    settings, script = bucket.settings, tmp_path / "racer.py"
    script.write_text(RACER)
    at = layout.Lake(settings.lake, "race")
    command = spark_submit._spark_submit(settings.master, configuration.spark_conf(settings))
    racers = [
        subprocess.Popen(
            [*command, str(script), settings.lake, name, str(tmp_path)],
            env=spark_submit.submit_env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )
        for name in "AB"
    ]  # fmt: skip
    try:
        said = [line for racer in racers for line in racer.communicate(timeout=600)[0].split("\n")]
    finally:
        for racer in racers:
            if racer.poll() is None:
                kill_all(racer)
    assert [racer.returncode for racer in racers] == [0, 0], said
    committed = sorted(line.split()[1] for line in said if line.startswith("committed"))
    rows = tables.dataset(tables.table_at(at.table("gold", "rows"))).to_table()["row"].to_pylist()
    assert len(committed) > 30
    assert set(committed) <= set(rows)
    assert len(rows) == len(set(rows))
