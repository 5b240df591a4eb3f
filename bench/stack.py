"""What the compose stack grows by: ``python -m bench.stack --runs 200``, with the stack of this checkout started.

Each run takes in one more file of 1,000 records through the DAG of heart rates, and is waited for. The DAG keeps its
schedule: where a scheduled run is quicker than the triggered one and takes its file, another one lands. Before the
first run, and after each quarter of them, disk, memory and restarts are looked at, from outside of what is measured;
the table goes into bench/measurements.md, in the place of the one before. Ctrl-C ends the series with the runs that it
had.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.block import Block
from scripts import compose, compose_env
from sluicegate.console import human_bytes

DAG = "heart_rate"
DAGS = f"/api/v2/dags/{DAG}"
PAGE = compose.ROOT / "bench" / "measurements.md"
BLOCK = Block("bench.stack", "The compose stack after many runs")

# Folders in which all that the stack keeps but its database is, with a service that has each. Each container has a
# scratch of its own, and jobs work in that of the scheduler.
FOLDERS = {
    "logs": ("airflow-scheduler", "/logs"),
    "event logs": ("airflow-scheduler", "/events"),
    "scratch": ("airflow-scheduler", "/scratch"),
    "lake": ("airflow-scheduler", "$SLUICEGATE_LAKE"),
}
SIZE = "SELECT sum(pg_database_size(datname)) FROM pg_database"

# Seconds after which the file of a run that waits was taken by another run: several checks of the wait.
TAKEN_AFTER = 120.0
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass
class Sample:
    """What was found of the stack at one time.

    Attributes:
        runs: number of runs before it.
        files: number of files that landed for them.
        seconds: time that the last of them took; None before the first.
        disk: bytes by place.
        memory: bytes by service.
        restarts: number of restarts by service, without those that have none.
    """

    runs: int
    files: int = 0
    seconds: float | None = None
    disk: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)


def docker(*arguments: str) -> str:
    """What a command of Docker prints."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


def containers() -> dict[str, str]:
    """Id of each running container of the stack by its service."""
    project = compose_env.settings(compose.ROOT).get("COMPOSE_PROJECT_NAME", "sluicegate")
    form = '{{.Label "com.docker.compose.service"}} {{.ID}}'
    lines = docker("ps", "--filter", f"label=com.docker.compose_env.project={project}", "--format", form).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def memory_of(text: str) -> int:
    """Bytes of what ``docker stats`` shows, such as ``1.2GiB / 2GiB``."""
    found = re.match(r"([\d.]+)\s*([KMG]?i?B)", text)
    if found is None:
        raise ValueError(f"{text} is no size of memory")
    return round(float(found[1]) * UNITS[found[2]])


def take_sample(runs: int, files: int = 0, seconds: float | None = None) -> Sample:
    """Looks at the stack."""
    there, found = containers(), Sample(runs, files, seconds)
    for name, (service, folder) in FOLDERS.items():
        sized = docker("exec", there[service], "sh", "-c", f"du -sb {folder} | cut -f1")
        found.disk[name] = int(sized)
    found.disk["database"] = int(docker("exec", there["postgres"], "psql", "-U", "postgres", "-tAc", SIZE))
    for service, container in sorted(there.items()):
        found.memory[service] = memory_of(docker("stats", "--no-stream", "--format", "{{.MemUsage}}", container))
        if count := int(docker("inspect", "--format", "{{.RestartCount}}", container)):
            found.restarts[service] = count
    return found


class Airflow:
    """The REST API of the stack's Airflow."""

    def __init__(self) -> None:
        said = compose_env.settings(compose.ROOT)
        self._base = f"http://127.0.0.1:{said.get('AIRFLOW_PORT', compose_env.PORTS['AIRFLOW_PORT'])}"
        self._user = {"username": "admin", "password": said["AIRFLOW_PASSWORD"]}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        """What the API answers, with a token of its own for each call: a long series outlives one."""
        if not token and path != "/auth/token":
            token = self.call("POST", "/auth/token", self._user)["access_token"]
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, method=method, data=data, headers=headers)  # noqa: S310
        with self._opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def run(self, land: Callable[[], None]) -> float:
        """Lands a file, triggers a run and waits for its end; the seconds that it took.

        Args:
            land: lands a file; called again where another run has taken the one before.

        Raises:
            RuntimeError: it failed.
        """
        land()
        # Not before: a scheduled run fails where the folder of landing is not there.
        self.call("PATCH", DAGS, {"is_paused": False})
        landed = started = time.monotonic()
        said = self.call("POST", f"{DAGS}/dagRuns", {"logical_date": None, "conf": {}})
        run = f"{DAGS}/dagRuns/{said['dag_run_id']}"
        while (state := self.call("GET", run)["state"]) not in ("success", "failed"):
            time.sleep(1)
            waited = time.monotonic() - landed
            if waited > TAKEN_AFTER and is_taken(self.call("GET", f"{run}/taskInstances")["task_instances"]):
                land()
                landed = time.monotonic()
        if state == "failed":
            raise RuntimeError(f"the run {run} failed")
        return time.monotonic() - started


def is_taken(tasks: Sequence[dict[str, Any]]) -> bool:
    """Whether a run whose file landed long ago still waits for one: it would, for an hour.

    Args:
        tasks: its task instances, as the REST API gives them.
    """
    return any(task["task_id"] == "wait_for_files" and task["state"] == "deferred" for task in tasks)


def table(samples: Sequence[Sample]) -> str:
    """The samples as a table, a column for each."""
    rows = [["after runs", *(f"{one.runs:,}" for one in samples)]]
    rows.append(["files landed", *(f"{one.files:,}" for one in samples)])
    rows.append(["seconds of a run", *("" if one.seconds is None else f"{one.seconds:.0f}" for one in samples)])
    for kind in ("disk", "memory"):
        names = sorted({name for one in samples for name in getattr(one, kind)})
        rows += [[f"{kind}: {name}", *(_size(getattr(one, kind).get(name)) for one in samples)] for name in names]
    listed = (", ".join(f"{name} {count}" for name, count in one.restarts.items()) or "0" for one in samples)
    rows.append(["restarts", *listed])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _size(size: int | None) -> str:
    return "" if size is None else human_bytes(size)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the series; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.stack", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="number of runs (default: 200)")
    parser.add_argument("--samples", type=int, default=4, help="number of samples after the first (default: 4)")
    given = parser.parse_args(arguments)
    landing = compose_env.settings(compose.ROOT)["SLUICEGATE_LANDING"]
    program = [sys.executable, "-m", "sluicegate.cli", "simulate", DAG, "--landing", landing, "--files", "1"]
    airflow, files = Airflow(), 0

    def land() -> None:
        nonlocal files
        subprocess.run(program, check=True, capture_output=True)
        files += 1

    def sample(runs: int, seconds: float) -> None:
        samples.append(take_sample(runs, files, seconds))
        print(table(samples), flush=True)
        PAGE.write_text(BLOCK.insert_into(PAGE.read_text(), table(samples)))

    samples, every = [take_sample(0)], max(1, given.runs // given.samples)
    done, seconds = 0, 0.0
    with suppress(KeyboardInterrupt):
        while done < given.runs:
            seconds = airflow.run(land)
            done += 1
            if done % every == 0:
                sample(done, seconds)
    if done > samples[-1].runs:
        sample(done, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
