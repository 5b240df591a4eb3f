"""What 1, 20 and 200 pipelines cost Airflow: ``python -m bench.scheduler --pipelines 1 20 200``.

For each number a real Airflow is started, on PostgreSQL where this machine has it, else on SQLite. Its pipelines are
copies of that of heart rates, with tables that one real run has made: what waits for files reads a real ledger. They
are looked at three times, each for a while, from outside: with nothing due; from the minute in which all runs are due
until each run waits for files, in the triggerer; and waiting. Then files land, and every pipeline wants a Spark job:
each fails at once, without Spark, and the times of the first of them tell how many there were at a time. The table goes
into bench/measurements.md, in the place of the one before.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import dags, measure
from bench.airflow_load import Measured, Phase, loads, most_concurrent, table
from bench.block import Block
from bench.database import Database, postgres
from bench.statsd import Statsd
from sluicegate.console import say
from sluicegate.definition import load
from sluicegate.errors import SluicegateError
from sluicegate.launch import pipeline as pipeline_run
from sluicegate.settings import HOME, Settings
from sluicegate.tools.demo.local_airflow import LocalAirflow

PAGE = HOME / "bench" / "measurements.md"
BLOCK = Block("bench.scheduler", "The scheduler's load")
NAME = "heart_rate"
SAMPLES = HOME / "data" / NAME
MASTER = "local[2]"

# Tasks that LocalExecutor runs at a time: more than the pool of Spark has slots, so that it is the pool that limits.
PARALLELISM = 8
JOBS_SEEN = 20  # jobs after whose end the measurement of the pool ends
SETTLES = 20.0  # seconds between the last DAG parsed and the first look
POLL_SECONDS = 2.0
STARTS_WITHIN = (240.0, 2.0)  # seconds until all DAGs are parsed: in any case, and for each pipeline more
WAITS_WITHIN = (180.0, 8.0)  # seconds until all runs wait, and until the first jobs have ended: the same

DAG_FILE = """
from datetime import datetime

from sluicegate.airflow.dag import medallion_dags
from sluicegate.settings import Settings

globals().update(medallion_dags(
    Settings.of(pipelines={pipelines!r}, landing={landing!r}, lake={lake!r}, master={master!r}),
    only={only!r},
    dag_args={{"start_date": datetime.fromisoformat({start!r}), "is_paused_upon_creation": False}},
))
"""


class MeasuredAirflow(LocalAirflow):
    """Airflow with the defaults of its scheduler, which tells its metrics to this process."""

    def __init__(self, folder: Path, settings: Settings, database: Database | None, statsd: Statsd) -> None:
        super().__init__(folder / "airflow", settings, lasting=True)
        self._dags, self._database, self._statsd = folder / "dags", database, statsd

    def _settings_of_airflow(self, port: int) -> dict[str, str]:
        said = super()._settings_of_airflow(port) | {
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._dags),
            "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM),
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self._statsd.port),
            # Without jars a job ends with a sentence before Spark starts.
            "SLUICEGATE_JARS": str(self.home / "no-jars"),
        }
        del said["AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"]
        if self._database is not None:
            said["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = self._database.address
        return said

    @property
    def pids(self) -> dict[str, int]:
        """The first process of each part."""
        found = {name: process.pid for name, process in self._processes.items()}
        return found | ({"database": self._database.pid} if self._database else {})

    def list_all(self, path: str, key: str) -> list[dict[str, Any]]:
        """All items of a list of the API, page by page."""
        found: list[dict[str, Any]] = []
        while len(page := self.call("GET", f"{path}&limit=100&offset={len(found)}")[key]):
            found += page
        return found

    def count(self, path: str) -> int:
        """Number of items of a list of the API."""
        return int(self.call("GET", f"{path}&limit=1")["total_entries"])


TASKS = "/api/v2/dags/~/dagRuns/~/taskInstances"


class Series:
    """Measurement with so many pipelines.

    Args:
        number: number of pipelines.
        seconds: length of the looks at what goes on.
        files: number of DAG files.
        lake: tables of one pipeline.
    """

    def __init__(self, number: int, seconds: float, files: int, lake: Path) -> None:
        self.number, self.seconds, self.files, self.lake = number, seconds, files, lake

    def run(self) -> Measured:
        """Measures.

        Raises:
            RuntimeError: something took too long.
            SluicegateError: Airflow did not start.
        """
        with tempfile.TemporaryDirectory() as name, postgres() as database, Statsd() as self.statsd:
            folder = Path(name)
            # A whole minute, as schedules have them.
            lead = 45 + SETTLES + self.seconds + self.number
            self.due = datetime.fromtimestamp(math.ceil((time.time() + lead) / 60) * 60, UTC)
            settings = self._prepare(folder)
            with MeasuredAirflow(folder, settings, database, self.statsd) as self.airflow:
                return self._measure(Path(settings.landing))

    def _prepare(self, folder: Path) -> Settings:
        """Makes landing, lake, definitions and DAG files."""
        dags.pipelines(folder, self.number)
        settings = Settings.of(str(folder / "lake"), str(self.lake.parent / "landing"), folder / "pipelines", MASTER)
        names = sorted(path.name for path in settings.pipelines.iterdir())
        for name in names:
            shutil.copytree(self.lake / NAME, Path(settings.lake) / name)
            file = settings.pipelines / name / "pipeline.yaml"
            text = file.read_text()
            if 'schedule: "*/15 * * * *"' not in text:
                raise RuntimeError(f"{file} has another schedule than the one that is replaced")
            cron = f"{self.due.minute} {self.due.hour} * * *"
            file.write_text(text.replace("*/15 * * * *", cron))
        (folder / "dags" / "medallion.py").unlink()
        said = {**settings.arguments, "start": (self.due - timedelta(days=1)).isoformat()}
        for index in range(min(self.files, self.number)):
            text = DAG_FILE.format(**said, only=names[index :: self.files])
            (folder / "dags" / f"medallion_{index:02}.py").write_text(text)
        return settings

    def _measure(self, landing: Path) -> Measured:
        first = f"{NAME}_000"
        self.airflow.wait(first)
        self._wait_until(lambda: self.airflow.count("/api/v2/dags?") >= self.number, "DAGs are parsed", STARTS_WITHIN)
        time.sleep(SETTLES)
        idle = self._phase(lambda: time.sleep(self.seconds))
        left = (self.due - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise RuntimeError(
                f"runs were due {-left:.0f} s before all was measured that comes before: is it busy here?"
            )
        time.sleep(left)
        waits = f"{TASKS}?state=deferred"
        due = self._phase(
            lambda: self._wait_until(
                lambda: self.airflow.count(waits) >= self.number, "runs wait for files", WAITS_WITHIN
            )
        )
        waiting = self._phase(lambda: time.sleep(self.seconds))
        checks = self.airflow.list_all(f"{TASKS}?task_id=check_request", "task_instances")
        delays = [(_time(task["start_date"]) - self.due).total_seconds() for task in checks]
        return Measured(self.number, min(self.files, self.number), idle, due, waiting, delays, *self._jobs(landing))

    def _phase(self, work: Callable[[], object]) -> Phase:
        """Does some work, and looks at all parts before and after it."""
        pids = self.airflow.pids
        before, began = loads(pids, measure.processes()), time.time()
        work()
        after, ended = loads(pids, measure.processes()), time.time()

        def metric_points(name: str) -> list[tuple[float, float]]:
            return self.statsd.metric_values(name, began, ended)

        beats = [time for time, _ in metric_points("scheduler_heartbeat")]
        return Phase(
            ended - began,
            {name: one.cpu - before[name].cpu for name, one in after.items()},
            {name: one.memory for name, one in after.items()},
            loops=[value for _, value in metric_points("scheduler.scheduler_loop_duration")],
            heartbeats=[later - sooner for sooner, later in pairwise(beats)],
            files=[value for _, value in metric_points("dag_processing.last_duration")],
            triggers=[value for _, value in metric_points("triggers.running")],
        )

    def _jobs(self, landing: Path) -> tuple[int, int]:
        """Lands a file, for which all pipelines want a job; gives how many ran at a time, and slots of their pool."""
        [sample, *_] = sorted((SAMPLES / "recordings").glob("*.json"))
        landed = landing / "recordings" / "another.json"
        shutil.copyfile(sample, landed)
        then = time.time() - 600  # it has settled
        os.utime(landed, (then, then))
        ended = f"{TASKS}?task_id=bronze&state=failed"
        wanted = min(self.number, JOBS_SEEN)
        try:
            self._wait_until(lambda: self.airflow.count(ended) >= wanted, "jobs have ended", WAITS_WITHIN, wanted)
        finally:
            landed.unlink()
        jobs = self.airflow.list_all(ended, "task_instances")
        pool = self.airflow.call("GET", "/api/v2/pools/spark")
        return most_concurrent([(_time(job["start_date"]), _time(job["end_date"])) for job in jobs]), int(pool["slots"])

    def _wait_until(
        self, done: Callable[[], bool], what: str, within: tuple[float, float], of: int | None = None
    ) -> None:
        """Waits.

        Raises:
            RuntimeError: it takes too long.
        """
        limit = within[0] + within[1] * self.number
        until = time.monotonic() + limit
        while not _is_done(done):
            if time.monotonic() > until:
                states = {
                    state: self.airflow.count(f"{TASKS}?state={state}")
                    for state in ("scheduled", "queued", "running", "deferred", "failed", "success")
                }
                raise RuntimeError(f"not all {of or self.number} {what} within {limit:.0f} s; tasks by state: {states}")
            time.sleep(POLL_SECONDS)


def _is_done(done: Callable[[], bool]) -> bool:
    try:
        return done()
    except OSError:  # a server that is busy may answer too late once
        return False


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _lake(folder: Path) -> Path:
    """Lands the sample files, and makes the tables of one pipeline of them in one run."""
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), HOME / "pipelines", MASTER)
    shutil.copytree(SAMPLES, settings.landing)
    then = time.time() - 600  # they have settled
    for file in Path(settings.landing).rglob("*.*"):
        os.utime(file, (then, then))
    pipeline_run.run(load(NAME, settings), settings, None, say)
    return Path(settings.lake)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures with each number of pipelines; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.scheduler", description=__doc__)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[1, 20, 200], help="numbers (default: 1 20 200)")
    parser.add_argument("--seconds", type=float, default=60, help="length of the looks (default: 60)")
    parser.add_argument("--files", type=int, default=1, help="DAG files that share the pipelines (default: 1)")
    given = parser.parse_args(arguments)
    if min(*given.pipelines, given.files, 1) < 1:
        parser.error("numbers of pipelines and of DAG files are 1 or more")
    if not measure.processes():
        parser.error("it reads /proc, which this system does not have")
    measured: list[Measured] = []
    try:
        with tempfile.TemporaryDirectory() as name:
            lake = _lake(Path(name))
            for number in given.pipelines:
                measured.append(Series(number, given.seconds, given.files, lake).run())
                print(table(measured), flush=True)
    except SluicegateError as error:
        print(error.for_people(), file=sys.stderr)
        return error.exit_code
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(BLOCK.insert_into(PAGE.read_text(), table(measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
