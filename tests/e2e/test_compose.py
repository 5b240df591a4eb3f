"""The compose stack as people start it, in a copy of the repository: ``make test-compose``. Needs Docker.

Real files are dropped, runs are triggered through Airflow's REST API, and the tables are read on the host by delta-rs.
Services are killed in the middle of runs. Each step tells how long it took.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts import compose, compose_env
from sluicegate.definition import load
from sluicegate.lake.layout import Lake
from sluicegate.lake.tables import dataset, delta_table
from sluicegate.monitor import status
from sluicegate.settings import Settings
from tests.support import event_logs
from tests.support.oracle import expected
from tests.unit.repository.test_compose import HOLDERS

pytestmark = [pytest.mark.e2e, pytest.mark.compose]

ROOT = Path(__file__).resolve().parents[2]
DAG = "heart_rate"
DAGS = f"/api/v2/dags/{DAG}"
LONGEST = 900.0  # seconds; beyond all retries of a task

# Streams of each job, with the names that Spark's pages show: of a first load, and of a run with readings alone.
FIRST_LOAD = {
    "heart_rate.bronze": ["bronze patients_bronze", "bronze recordings_bronze"],
    "heart_rate.silver": ["silver patients", "silver recordings_enriched"],
    "heart_rate.gold": ["gold daily_patient_avg", "gold device_counts"],
}
READINGS = FIRST_LOAD | {
    "heart_rate.bronze": ["bronze recordings_bronze"],
    "heart_rate.silver": ["silver recordings_enriched"],
}


@contextmanager
def told(what: str) -> Iterator[None]:
    """Prints how long something took."""
    started = time.monotonic()
    yield
    print(f"  {what:<78} {time.monotonic() - started:6.1f} s", flush=True)


def until(look: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + LONGEST
    while not (found := look()):
        assert time.monotonic() < end, f"{what} took too long"
        time.sleep(0.5)
    return found


class Stack:
    """The stack of a copy of the repository, with ports and a project of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake, self.landing = folder / "lake", folder / "landing"
        self.port = _free_port()
        (folder / ".env").touch(0o600)
        (folder / ".env").write_text(
            f"COMPOSE_PROJECT_NAME=sluicegate-test\nAIRFLOW_PORT={self.port}\nSPARK_PORT={_free_port()}\n"
            "SLUICEGATE_IMAGE=sluicegate:test\nSPARK_EVENT_LOG=true\n"
        )
        self.command = compose.compose()
        self._token = ""

    @property
    def settings(self) -> Settings:
        return Settings.of(str(self.lake), str(self.landing), self.folder / "pipelines", "local[1]")

    def make(self, *arguments: str) -> str:
        done = subprocess.run(["make", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def compose(self, *arguments: str) -> str:
        command = [*self.command, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def container(self, service: str) -> str:
        return self.compose("ps", "-q", service).split()[0]

    def is_running(self, service: str) -> bool:
        """Whether a service has a container that runs; some releases of Compose list services without one."""
        labels = {"project": "sluicegate-test", "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        return bool(subprocess.run(["docker", "ps", "-q", *filters], capture_output=True, check=True).stdout)

    def inside(self, *arguments: str) -> str:
        """What a command prints in the container of the scheduler."""
        command = ["docker", "exec", self.container("airflow-scheduler"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if not self._token and path != "/auth/token":
            said = {"username": "admin", "password": compose_env.settings(self.folder)["AIRFLOW_PASSWORD"]}
            self._token = self.call("POST", "/auth/token", said)["access_token"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"}
            | ({"Authorization": f"Bearer {self._token}"} if self._token else {}),
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def asked(self, method: str, path: str, body: Any = None) -> Any:
        """What Airflow answers once it can: a service may be starting."""

        def answer() -> Any:
            try:
                return self.call(method, path, body)
            except OSError:
                return None

        return until(answer, path)

    def trigger(self, **form: Any) -> str:
        return str(self.asked("POST", f"{DAGS}/dagRuns", {"logical_date": None, "conf": form})["dag_run_id"])

    def state(self, run: str) -> str:
        return str(self.asked("GET", f"{DAGS}/dagRuns/{run}")["state"])

    def tasks(self, run: str) -> dict[str, str]:
        found = self.asked("GET", f"{DAGS}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def ended(self, run: str) -> str:
        return str(until(lambda: s if (s := self.state(run)) in ("success", "failed") else None, f"run {run}"))

    def streams(self, folder: Path) -> dict[str, list[list[str]]]:
        """Streams that each run of a layer's job started, by the event logs, which are copied into a folder."""
        copy = ["docker", "cp", f"{self.container('airflow-scheduler')}:/events/.", str(folder)]
        folder.mkdir()
        subprocess.run(copy, check=True, capture_output=True)
        runs = event_logs.streams_by_job(folder)
        return {job: runs[job] for job in FIRST_LOAD if job in runs}

    def rows(self, layer: str, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = delta_table(Lake(str(self.lake), DAG).table(layer, table))
        return [tuple(row.values()) for row in dataset(found).to_table(list(columns)).to_pylist()] if found else []

    def is_right(self) -> None:
        """All that landed is in the tables, once; as a computation of the test's own has it."""
        want = expected(self.landing)
        gold = self.rows("gold", "daily_patient_avg", "mrn", "name", "date", "avg_heartrate")
        assert {row[:3]: row[3] for row in gold} == pytest.approx(want["gold"])
        assert len(gold) == len(want["gold"])
        silver = Counter(self.rows("silver", "recordings_enriched", "device_id", "mrn", "name", "time", "heartrate"))
        assert silver == want["silver"]
        assert status.verify(load(DAG, self.settings), self.settings) == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def remove_leftovers() -> None:
    """Removes the containers and volumes of a test that was stopped, whose passwords went with its folder."""
    of_ours = ["--filter", "label=com.docker.compose_env.project=sluicegate-test"]
    for found, remove in ((["ps", "-a"], ["rm", "-f"]), (["volume", "ls"], ["volume", "rm"])):
        listed = subprocess.run(["docker", *found, "-q", *of_ours], capture_output=True, text=True, check=True)
        if names := listed.stdout.split():
            subprocess.run(["docker", *remove, *names], capture_output=True, check=True)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("compose") / "checkout"
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                             check=True).stdout.splitlines()  # fmt: skip
    for name in tracked:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    started = Stack(folder)
    remove_leftovers()
    try:
        with told("make up: build the image, start, wait for health"):
            print(started.make("up", f"LAKE={started.lake}"))
        yield started
    finally:
        said = subprocess.run([*started.command, "logs", "--tail", "40"], cwd=folder, capture_output=True, text=True,
                              check=False).stdout  # fmt: skip
        (tmp_path_factory.getbasetemp() / "compose.log").write_text(said)
        started.compose("down", "--volumes", "--remove-orphans")


def drop(stack: Stack, files: int = 1) -> None:
    """Files land in the folder that the stack has mounted."""
    program = [sys.executable, "-m", "sluicegate.cli", "simulate", DAG, "--landing", str(stack.landing)]
    subprocess.run([*program, "--files", str(files)], cwd=ROOT, check=True, capture_output=True)


def complete(stack: Stack) -> bool:
    """Whether gold has all that landed: each of the averages that the landed files give."""
    gold = stack.rows("gold", "daily_patient_avg", "mrn", "name", "date", "avg_heartrate")
    return {row[:3]: row[3] for row in gold} == pytest.approx(expected(stack.landing)["gold"])


def edit(stack: Stack, old: str, new: str) -> None:
    path = stack.folder / "pipelines" / DAG / "pipeline.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_jobs_are_spark_submits_with_streams_by_default_and_clients_of_a_warm_spark_by_one_word(
    stack: Stack, tmp_path: Path
) -> None:
    """All tests behind this one, but the last, have the warm Spark."""
    stack.asked("PATCH", DAGS, {"is_paused": False})  # a paused DAG keeps a triggered run queued
    for files in (1, 2):
        drop(stack, files)
        with told(f"a run triggered through the REST API, {files},000 records: three spark-submits"):
            assert stack.ended(stack.trigger()) == "success"
        stack.is_right()
    submits = {job: [FIRST_LOAD[job], READINGS[job]] for job in FIRST_LOAD}
    assert stack.streams(tmp_path / "submits") == submits
    assert not stack.is_running("connect")
    with told("make up WARM=1"):
        stack.make("up", f"LAKE={stack.lake}", "WARM=1")
    assert stack.is_running("connect")
    drop(stack)
    with told("a run triggered through the REST API, 1,000 records: the warm Spark's first"):
        assert stack.ended(stack.trigger()) == "success"
    stack.is_right()
    assert stack.streams(tmp_path / "warm") == submits


# Asks from inside of a container who answers there.
REACHES = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.partition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        continue
    print(place)
"""
API, DATABASE, SERVER = "airflow-apiserver:8080", "postgres:5432", "connect:15002"


def test_a_container_reaches_whom_it_has_to_and_no_other(stack: Stack) -> None:
    def reached(service: str, *arguments: str) -> list[str]:
        command = ["docker", "exec", stack.container(service), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def addresses(service: str) -> list[str]:
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        command = ["docker", "inspect", "--format", form, stack.container(service)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    places = (API, DATABASE, SERVER)
    assert reached("connect", "python", "-c", REACHES, *places) == [SERVER]
    # Names of other networks are not known there; nor is there a way to an address.
    known = [f"{one}:8080" for one in addresses("airflow-apiserver")] + [f"{one}:5432" for one in addresses("postgres")]
    assert len(known) == 4
    assert reached("connect", "python", "-c", REACHES, *known) == []
    assert set(reached("airflow-scheduler", "python", "-c", REACHES, *known)) > {known[-1]}
    assert reached("airflow-scheduler", "python", "-c", REACHES, *places) == [API, DATABASE, SERVER]
    assert reached("airflow-dag-processor", "python", "-c", REACHES, *places) == [API, DATABASE]
    # With a password of the database it shares a network with all who have one; a token for the API it has none.
    assert reached("airflow-upkeep", "python", "-c", REACHES, *places) == [API, DATABASE]


def test_a_container_has_the_secrets_that_it_uses(stack: Stack) -> None:
    said = compose_env.settings(stack.folder)
    for service in ("connect", "airflow-upkeep", "airflow-dag-processor", "airflow-triggerer", "airflow-scheduler"):
        command = ["docker", "exec", stack.container(service), "env"]
        there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = {name for name in compose_env.SECRETS if said[name] in there}
        assert found == {
            name for name, holders in HOLDERS.items() if service in holders and name in compose_env.SECRETS
        }


def test_files_flow_to_gold_by_themselves(stack: Stack) -> None:
    edit(stack, "schedule:", "trigger: file_arrival\nschedule:")
    until(lambda: "Asset" in (stack.asked("GET", DAGS)["timetable_summary"] or ""), "the new definition")
    stack.asked("PATCH", DAGS, {"is_paused": False})
    drop(stack)
    with told("a file of 1,000 records dropped: gold has it, cold"):
        until(lambda: complete(stack), "gold")
    drop(stack)
    with told("another file: gold has it"):
        until(lambda: complete(stack), "gold")
    until(lambda: all(one["state"] == "success" for one in stack.asked("GET", f"{DAGS}/dagRuns")["dag_runs"]), "runs")
    stack.is_right()


def test_a_run_by_the_rest_api(stack: Stack) -> None:
    edit(stack, "trigger: file_arrival\n", "")
    until(lambda: "Asset" not in (stack.asked("GET", DAGS)["timetable_summary"] or ""), "the new definition")
    drop(stack)
    run = stack.trigger()
    with told("a run triggered through the REST API: three jobs on the server"):
        assert stack.ended(run) == "success"
    assert set(stack.tasks(run).values()) == {"success"}
    stack.is_right()


def test_inside_and_outside(stack: Stack) -> None:
    """The command line sees the same tables in a container and on the host."""
    inside = json.loads(stack.inside("sluicegate", "status", DAG, "--verify", "--no-spark", "--json"))
    program = [sys.executable, "-m", "sluicegate.cli", "status", DAG, "--verify", "--no-spark", "--json"]
    places = [f"--{name}={stack.folder / name}" for name in ("lake", "landing", "pipelines")]
    done = subprocess.run([*program, *places], cwd=ROOT, capture_output=True, text=True, check=True)
    outside = json.loads(done.stdout)
    for told_of in (inside, outside):  # files have the paths of the container: outside they are not looked at
        del told_of["findings"], told_of["proved"]
    assert outside == inside
    with told("another pipeline by the command line inside, from files to the catalog"):
        stack.inside("sluicegate", "run", "healthcare_dlh")
    asked = "; ".join([
        "SELECT count(*) FROM heart_rate.recordings_enriched",
        "SELECT count(*) FROM healthcare_dlh.fact_heartbeat_silver",
        "DESCRIBE DATABASE EXTENDED healthcare_dlh",
    ])  # fmt: skip
    with told("spark-sql: tables by their names in the catalog"):
        said = stack.inside("spark-sql", "-S", "-e", asked)
    counts = [int(line) for line in said.splitlines() if line.isdigit()]
    silver = delta_table(Lake(str(stack.lake), "healthcare_dlh").table("silver", "fact_heartbeat_silver"))
    assert silver is not None
    assert counts == [sum(expected(stack.landing)["silver"].values()), silver.count()]
    assert counts[1] > 0
    assert "contains_pii,true" in said


def test_a_backfill_rebuilds(stack: Stack) -> None:
    first = min(row[0] for row in stack.rows("silver", "recordings_enriched", "time")).date()
    before = stack.rows("silver", "recordings_enriched", "time", "heartrate")
    edit(stack, "heartrate > 0", "heartrate > 70")
    body = {"dag_id": DAG, "from_date": f"{first}T00:00:00Z", "to_date": f"{first}T23:59:00Z", "run_backwards": False,
            "reprocess_behavior": "completed", "max_active_runs": 1, "dag_run_conf": {}}  # fmt: skip
    edit(stack, '"*/15 * * * *"', '"0 0 * * *"')
    until(lambda: "0 0 * * *" in (stack.asked("GET", DAGS)["timetable_summary"] or ""), "the new definition")
    with told("a backfill of a day"):
        stack.asked("POST", "/api/v2/backfills", body)
        runs = until(lambda: stack.asked("GET", f"{DAGS}/dagRuns?run_type=backfill")["dag_runs"], "a backfill")
        assert {stack.ended(run["dag_run_id"]) for run in runs} == {"success"}
    after = stack.rows("silver", "recordings_enriched", "time", "heartrate")
    day = [run["data_interval_start"][:10] for run in runs]
    kept = Counter((time, rate) for time, rate in before if time.date().isoformat() not in day or rate > 70)
    assert Counter(after) == kept != Counter(before)
    edit(stack, "heartrate > 70", "heartrate > 0")
    stack.inside("sluicegate", "replay", DAG, "recordings_enriched", "--everything")
    stack.is_right()


@pytest.mark.parametrize("service", ["connect", "airflow-triggerer", "airflow-scheduler"])
def test_a_service_killed_in_a_run_loses_and_doubles_nothing(stack: Stack, service: str) -> None:
    drop(stack, files=2)
    run = stack.trigger()
    until(lambda: "running" in (stack.tasks(run).get("bronze"), stack.tasks(run).get("silver")), "a job")
    with told(f"{service} killed in a run, and started: the run ends well"):
        subprocess.run(["docker", "kill", stack.container(service)], check=True, capture_output=True)
        stack.compose("up", "-d", "--no-recreate", service)
        assert stack.ended(run) == "success"
    stack.is_right()


def test_a_cluster_by_two_settings(stack: Stack) -> None:
    """Once by a Spark of each job's own there, and once by the server."""
    for name in ("SLUICEGATE_MASTER", "SLUICEGATE_CONNECT_MASTER"):
        before = (stack.folder / ".env").read_text()
        (stack.folder / ".env").write_text(f"{before}COMPOSE_PROFILES=cluster,warm\n{name}=spark://spark-master:7077\n")
        with told(f"{name} is a cluster of two workers"):
            stack.compose("--profile", "cluster", "up", "-d", "--scale", "spark-worker=2")
            until(lambda: stack.compose("ps", "-q", "spark-worker").count("\n") == 2, "a second worker")
        drop(stack)
        with told("a run there"):
            assert stack.ended(stack.trigger()) == "success"
        subprocess.run(["docker", "kill", stack.container("spark-master")], check=True, capture_output=True)
        stack.compose("--profile", "cluster", "up", "-d", "--no-recreate", "--scale", "spark-worker=2")
        drop(stack)
        with told("another one, after the master was killed and started"):
            assert stack.ended(stack.trigger()) == "success"
        stack.is_right()
        (stack.folder / ".env").write_text(before)
    stack.compose("up", "-d", "--remove-orphans")


def test_down_keeps_what_there_is_and_jobs_are_spark_submits_again_without_two_settings(
    stack: Stack, tmp_path: Path
) -> None:
    before = stack.asked("GET", f"{DAGS}/dagRuns?limit=100")["total_entries"]
    submits = stack.streams(tmp_path / "before")
    with told("make down"):
        stack.make("down")
    assert stack.compose("ps", "-q") == ""
    lines = (stack.folder / ".env").read_text().splitlines(keepends=True)
    of_warm_spark = ("SLUICEGATE_MASTER=", "COMPOSE_PROFILES=")
    (stack.folder / ".env").write_text("".join(line for line in lines if not line.startswith(of_warm_spark)))
    with told("make up, again"):
        stack.make("up")
    assert not stack.is_running("connect")
    assert stack.asked("GET", f"{DAGS}/dagRuns?limit=100")["total_entries"] >= before
    drop(stack)
    assert stack.ended(stack.trigger()) == "success"
    stack.is_right()
    assert stack.streams(tmp_path / "after") == {job: [*submits[job], READINGS[job]] for job in FIRST_LOAD}
