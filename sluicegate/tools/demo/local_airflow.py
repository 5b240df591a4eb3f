"""Local Airflow for one person on one machine, in a folder: SQLite, LocalExecutor, 127.0.0.1 only.

Its processes are started one by one: ``airflow standalone`` does the same, but migrates the database at every start,
prints all their output, serves logs on every address of the machine, and needs seconds more.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TextIO

import psutil  # type: ignore[import-untyped]

from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.spark.spark_submit import ROOT

USER = "admin"
PORT = 8080
LOCKED_FOR = 60.0  # seconds that a process waits for the database lock
STARTS_WITHIN = 180.0  # seconds; some 8 on two cores that are free
POLL_SECONDS = 2.0  # seconds between two checks whether the processes run

# Of Airflow, which serves it itself on all addresses of the machine alone.
LOG_SERVER = "airflow.utils.serve_logs.log_server:get_app"
LOG_PORT = "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"


class LocalAirflow:
    """Starts and stops Airflow, and calls its API; a context manager.

    Args:
        home: its folder, created if need be. Only its owner can read it: there are passwords in it.
        settings: passed to the DAGs as ``SLUICEGATE_*``.
        lasting: whether it serves for longer: then schedules start runs, and changed DAG files are noticed. Else it
            is for runs started by ``trigger``.
    """

    def __init__(self, home: Path, settings: Settings, *, lasting: bool) -> None:
        self.home = home.absolute()
        self.settings = settings
        self.lasting = lasting
        self.log = self.home / "demo.log"
        self.password_file = self.home / "simple_auth_manager_passwords.json.generated"
        self.url = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, tuple[str, ...]] = {}
        self._lock: TextIO | None = None
        self._stopping = threading.Event()
        self._keeper: threading.Thread | None = None
        self._token = ""
        # Never through a proxy.
        self._web = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    # --- start and stop ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start Airflow; ``wait`` returns when it is ready.

        Raises:
            SluicegateError: another Airflow runs in this folder, or its database cannot be created.
        """
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._lock_home()
        self.log.write_bytes(b"")  # it is for one start, and would grow for ever
        self._credentials = {"username": USER, "password": self._password()}
        port = _free_port(PORT)
        self.url = f"http://127.0.0.1:{port}"
        self.environment = self._settings_of_airflow(port)
        self._since = datetime.now(UTC)
        try:
            self._migrate()
            self._start_part("api-server")
            self._start_part("dag-processor", *([] if self.lasting else ["--num-runs", "1"]))
        except BaseException:
            self.stop()
            raise
        return self

    def _start_part(self, name: str, *arguments: str) -> None:
        """Start a command of Airflow."""
        self._start(name, "airflow", name, *arguments)

    def _start(self, name: str, *arguments: str) -> None:
        self._arguments[name] = arguments
        if self._lock is None:
            raise RuntimeError("Airflow is started by `with`")
        with self.log.open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to us alone, and we end them
                pass_fds=[self._lock.fileno()],  # they inherit the lock, so that what a kill of ours leaves is noticed
            )
        self._lock.truncate(0)
        self._lock.write(" ".join(str(process.pid) for process in self._processes.values()))
        self._lock.flush()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End all processes: politely, unless a job may still be running, which Airflow would wait for."""
        self.stop(patience=5.0 if kind is None else 1.0)

    def stop(self, patience: float = 1.0) -> None:
        """Terminate the processes, and after ``patience`` seconds kill the rest, jobs and their JVMs included."""
        if self._keeper is not None:
            self._stopping.set()
            self._keeper.join()
            self._keeper = None
        family: list[Any] = []
        for process in self._processes.values():
            with suppress(psutil.NoSuchProcess):
                family += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            process.terminate()
        until = time.monotonic() + patience
        while (running := [process for process in family if _is_alive(process)]) and time.monotonic() < until:
            time.sleep(0.1)
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for child in self._processes.values():
            child.wait()
            _end_group(child)
        self._processes = {}
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _supervise_processes(self) -> None:
        """Restart failed processes until ``stop``, as a supervisor does in production.

        Airflow 3.3.2's scheduler ends if another process was writing to SQLite while it made a scheduled run: its retry
        asks for the run that was rolled back. Otherwise runs stay queued for ever.
        """
        while not self._stopping.wait(POLL_SECONDS):
            for name, process in list(self._processes.items()):
                if code := process.poll():  # exit code 0 means that it has done its work
                    with self.log.open("a") as log:
                        log.write(f"{datetime.now(UTC)} {name} ended with exit code {code}; it is started again\n")
                    _end_group(process)  # workers of a scheduler that was killed would wait for it for ever
                    self._start(name, *self._arguments[name])

    def _lock_home(self) -> TextIO:
        lock = (self.home / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise SluicegateError(
                f"another Airflow is running in {self.home}",
                hint=f"stop it with Ctrl-C where it was started, or with `kill {lock.read()}`",
            ) from None
        return lock

    def _password(self) -> str:
        """Return the password of the user; generated once, and stored where Airflow itself stores it."""
        if not self.password_file.exists():
            with os.fdopen(os.open(self.password_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                json.dump({USER: secrets.token_urlsafe(12)}, file)
        return str(json.loads(self.password_file.read_text())[USER])

    def _settings_of_airflow(self, port: int) -> dict[str, str]:
        # Nothing of another Airflow that this person may use: its settings have the address of its database.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
        unproxied = ",".join(filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1"]))
        log_port = str(_free_port(0))
        return inherited | {
            "AIRFLOW_HOME": str(self.home), "AIRFLOW__API__BASE_URL": self.url, "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port), "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__API__WORKERS": "1", "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            # Of a task that runs or waits, the API server asks the host of its worker or triggerer for the log.
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "sluicegate.tools.demo.loopback.host_name",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.password_file),
            # Its processes write to one SQLite file; by default a request fails after waiting 5 seconds.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}?timeout={LOCKED_FOR:.0f}",
            LOG_PORT: log_port,
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": log_port,
            # Tasks of a scheduler that was killed: by default they wait five minutes to be tried again.
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "60",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": str(self.lasting), "NO_PROXY": unproxied, "no_proxy": unproxied,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "SLUICEGATE_LAKE": self.settings.lake, "SLUICEGATE_LANDING": self.settings.landing,
            "SLUICEGATE_MASTER": self.settings.master, "SLUICEGATE_PIPELINES": str(self.settings.pipelines),
        }  # fmt: skip

    def _migrate(self) -> None:
        """Create or migrate the database; three seconds, so only once for each version of Airflow."""
        marker, airflow_version = self.home / "migrated", version("apache-airflow")
        if (self.home / "airflow.db").exists() and marker.exists() and marker.read_text() == airflow_version:
            return
        self._start_part("db", "migrate")
        if self._processes.pop("db").wait():
            raise SluicegateError(
                f"Airflow's database in {self.home} cannot be created",
                cause=self._last_lines(),
                hint=f"delete {self.home} and try again; the tables are not in it",
            )
        marker.write_text(airflow_version)

    # --- readiness ---------------------------------------------------------------------------------------------------

    def wait(self, dag: str) -> None:
        """Wait until Airflow answers, its scheduler is healthy, and ``dag`` has been parsed since the start.

        From then on processes that fail are restarted.

        Raises:
            SluicegateError: a process ended, the DAG file cannot be imported, or it takes too long.
        """
        until = time.monotonic() + STARTS_WITHIN
        while lacking := self._missing_part(dag):
            ended = {name: code for name, process in self._processes.items() if (code := process.poll()) is not None}
            if ended.get("dag-processor") == 0:
                del ended["dag-processor"]
            if ended:
                problem = " and ".join(f"its {name} ended with exit code {code}" for name, code in ended.items())
                log = f"its log is {self.log}"
                raise SluicegateError(f"Airflow did not start: {problem}", cause=self._last_lines(), hint=log)
            if time.monotonic() > until:  # what is last in the log is not the cause: nothing failed
                hint = f"if this machine is busy, try again; its log is {self.log}"
                raise SluicegateError(f"Airflow was not ready within {STARTS_WITHIN:g} s: {lacking}", hint=hint)
            time.sleep(0.2)
        if self._keeper is None:
            self._stopping.clear()
            self._keeper = threading.Thread(target=self._supervise_processes, name="airflow-keeper", daemon=True)
            self._keeper.start()

    def _missing_part(self, dag: str) -> str:
        """Name the part that is not ready, empty if all are."""
        try:
            if not self._token:
                self._token = self.call("POST", "/auth/token", self._credentials)["access_token"]
            if "scheduler" not in self._processes:
                # Only once the server answers: tasks of an unfinished run would be started, find no server, and fail.
                self._start_part("scheduler", "--skip-serve-logs")
                if self.lasting:
                    self.start_triggerer()
                    address = ("--host", "127.0.0.1", "--port", self.environment[LOG_PORT], "--log-level", "warning")
                    self._start("log-server", "uvicorn", LOG_SERVER, "--factory", *address)
            health = self.call("GET", "/api/v2/monitor/health")
        except OSError:  # nobody listens yet, or an HTTP error
            return "its api-server does not respond"
        if health["scheduler"]["status"] != "healthy":
            return "its scheduler is not healthy"
        with suppress(OSError):  # no such DAG yet
            if self._is_dag_parsed(dag):
                return ""
        return f"its dag-processor has not parsed the DAG {dag}"

    def start_triggerer(self) -> None:
        """Start the triggerer, which runs deferred tasks; unless it runs."""
        if "triggerer" not in self._processes:
            self._start_part("triggerer", "--skip-serve-logs")

    def _is_dag_parsed(self, dag: str) -> bool:
        for error in self.call("GET", "/api/v2/importErrors")["import_errors"]:
            if datetime.fromisoformat(error["timestamp"]) > self._since:
                cause = error["stack_trace"].strip().splitlines()[-1]
                raise SluicegateError(f"Airflow cannot import {error['filename']}", cause=cause)
        parsed = self.call("GET", f"/api/v2/dags/{dag}")["last_parsed_time"]
        return bool(parsed) and datetime.fromisoformat(parsed) > self._since

    def _last_lines(self) -> str:
        return "\n    ".join(self.log.read_text(errors="replace").splitlines()[-8:])

    # --- runs --------------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Make one request to Airflow's REST API.

        Raises:
            OSError: nobody answers, or the answer is an HTTP error.
        """
        request = urllib.request.Request(  # noqa: S310 (the address is ours)
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"}
            | ({"Authorization": f"Bearer {self._token}"} if self._token else {}),
        )
        with self._web.open(request, timeout=2 * LOCKED_FOR) as answer:
            return json.loads(answer.read() or b"null")  # the answer to a DELETE is empty

    def trigger(self, dag: str) -> str:
        """Trigger a run of a DAG and return its id.

        Runs that a killed Airflow left unfinished are failed first.
        """
        runs = f"/api/v2/dags/{dag}/dagRuns"
        for dag_run in self.call("GET", f"{runs}?state=running&state=queued")["dag_runs"]:
            self.call("PATCH", f"{runs}/{dag_run['dag_run_id']}", {"state": "failed"})
        run_id = str(self.call("POST", runs, {"logical_date": None})["dag_run_id"])
        self.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
        return run_id

    def run_state(self, dag: str, run_id: str) -> str:
        """Return queued, running, success or failed."""
        return str(self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}")["state"])

    def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run, as Airflow's REST API has them, by start."""
        instances = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return sorted(instances, key=lambda task: task["start_date"] or "~")

    def result(self, dag: str, run_id: str, task: str) -> Any:
        """Return value (XCom) of a task; None if it has none."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/xcomEntries/return_value"
        with suppress_not_found():
            return self.call("GET", path)["value"]
        return None

    def failure(self, dag: str, run_id: str, task: str, attempt: int) -> str:
        """Return the error by which an attempt of a task failed; empty if its log does not have it (yet)."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/logs/{attempt}?full_content=true"
        for _ in range(10):  # the log may be some moments behind the state
            with suppress_not_found():  # nor has an attempt one that has not begun
                for entry in reversed(self.call("GET", path)["content"]):
                    if isinstance(entry, dict) and entry.get("error_detail"):
                        return str(entry["error_detail"][0]["exc_value"])
            time.sleep(0.3)
        return ""

    def task_log(self, dag: str, run_id: str, task: str, attempt: int) -> Path:
        """Return the file that an attempt of a task logged to."""
        return self.home / "logs" / f"dag_id={dag}" / f"run_id={run_id}" / f"task_id={task}" / f"attempt={attempt}.log"


@contextmanager
def suppress_not_found() -> Iterator[None]:
    """Suppress HTTP 404 from Airflow within the block."""
    try:
        yield
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the process group of a process that has ended."""
    with suppress(ProcessLookupError, PermissionError):  # none is left; macOS says the second
        os.killpg(leader.pid, signal.SIGKILL)


def _is_alive(process: Any) -> bool:
    """Return whether a process runs. An ended one stays a zombie where process 1 is no init, as in containers."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _free_port(preferred: int) -> int:
    """Return port ``preferred`` if nobody listens there, else any free one."""
    for port in (preferred, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise SluicegateError("this machine has no free port on 127.0.0.1")


def interrupt_on_termination() -> None:
    """Let SIGTERM end this process like Ctrl-C, so that its child processes end with it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
