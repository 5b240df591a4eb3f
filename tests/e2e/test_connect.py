"""Commands whose jobs use a Spark Connect server: clients, connections and servers that end in a batch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sluicegate.spark import connect
from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import ROOT, Workspace, beat
from tests.e2e.test_pipeline_dags import ended as finished
from tests.spark.test_medallion import assert_right

pytestmark = pytest.mark.e2e

LATER = [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0), beat(5, 5, 1, 50.0)]


class Server:
    """A server that `sluicegate serve` has started, and whose token is in a file of its own.

    Args:
        folder: folder for the token.
        port: port to listen on; 0 for any.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.token = folder / "private" / "token"
        command = [sys.executable, "-m", "sluicegate.cli", "serve", "--port", str(port), "--master", "local[2]"]
        command += ["--token-file", str(self.token)]
        self.running = subprocess.Popen(command, env=environment(), cwd=folder, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        assert self.running.stdout is not None
        for line in self.running.stdout:
            self.said.append(line)
            if line.startswith("Ctrl-C stops it"):  # the last line before it waits
                break
        [serves] = [line for line in self.said if line.startswith(connect.SERVES)]
        self.url = serves.removeprefix(connect.SERVES).strip()
        self.port = int(self.url.rpartition(":")[2])

    def end(self) -> str:
        """Lets the server end as SIGTERM does; what it said since it served."""
        self.running.terminate()
        said, _ = self.running.communicate(timeout=60)
        return said

    def kill(self) -> None:
        """Kills the server, its JVM first, as a machine that loses power."""
        # Its group is that of spark-submit, the one child of the command.
        [child] = Path(f"/proc/{self.running.pid}/task/{self.running.pid}/children").read_text().split()
        os.killpg(int(child), signal.SIGKILL)
        self.running.communicate(timeout=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share which do not end it."""
    started = Server(tmp_path_factory.mktemp("server"))
    try:
        yield started
    finally:
        started.end()


@contextmanager
def served(folder: Path, port: int = 0) -> Iterator[Server]:
    """A server of one test, which may kill it."""
    started = Server(folder, port)
    try:
        yield started
    finally:
        if started.running.poll() is None:
            started.end()


def environment(**more: str) -> dict[str, str]:
    """This process's, without what names another Spark."""
    left_out = ("SLUICEGATE_MASTER", connect.REMOTE, connect.TOKEN)
    return {name: value for name, value in os.environ.items() if name not in left_out} | {
        "PYTHONPATH": str(ROOT),
        **more,
    }


def started(workspace: Workspace, url: str, token: Path, *command: str, **more: str) -> subprocess.Popen[str]:
    """Starts a command on a server, in a process group of its own."""
    places = workspace.settings.arguments
    options = [part for name in ("lake", "landing", "pipelines") for part in (f"--{name}", places[name])]
    words = [sys.executable, "-m", "sluicegate.cli", *command, *options, "--remote", url]
    env = environment(**{connect.TOKEN_FILE: str(token)}, **more)
    return subprocess.Popen(
        words, cwd=workspace.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ended(job: subprocess.Popen[str], code: int = 0) -> str:
    """What a command said until its end, with the exit code that it must have."""
    said, _ = job.communicate(timeout=300)
    assert job.returncode == code, said
    return said


def run(workspace: Workspace, server: Server) -> str:
    return ended(started(workspace, server.url, server.token, "run", "heart_rate"))


def until_line(job: subprocess.Popen[str], beginning: str) -> None:
    """Reads what a command says until a line begins so."""
    assert job.stdout is not None
    assert any(line.startswith(beginning) for line in job.stdout), f"it never said {beginning}"


@pytest.mark.release
def test_a_client_killed_between_two_commits_and_a_wrong_token(heartbeats: Workspace, server: Server) -> None:
    killed = started(
        heartbeats, server.url, server.token, "run", "heart_rate", SLUICEGATE_FAULT="silver.between_commits"
    )
    assert "ended with exit code -9" in ended(killed, 1)
    said = run(heartbeats, server)
    assert "did not end cleanly" in said
    assert_right(heartbeats)

    other = heartbeats.folder / "other"
    other.write_text("another")
    heartbeats.land("recordings/d.json", LATER)
    refused = ended(started(heartbeats, server.url, other, "run", "heart_rate"), 1)
    assert "rejects the token" in refused
    assert "another" not in refused
    assert "did not end cleanly" not in run(heartbeats, server)
    assert_right(heartbeats)


BESIDE = """
from sluicegate.lake.layout import Lake
from sluicegate.spark.session import SharedSpark

one, other = (SharedSpark(name, Lake("/nowhere", name), private=True) for name in ("one", "other"))
kept = one.session_of("a").range(3).persist()
kept.count()
other.session_of("b")
other.clear_cache()
one.clear_cache()
print(kept.storageLevel.useMemory, one.session_of("a").conf.get("spark.connect.session.manager.defaultSessionTimeout"))
kept.unpersist()
"""


def client(server: Server, script: str, *arguments: str) -> str:
    """What a Python program says that uses a server."""
    env = environment(**{connect.REMOTE: server.url, connect.TOKEN_FILE: str(server.token)})
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.more
def test_a_run_leaves_the_cache_of_others_alone_and_a_session_lasts(server: Server) -> None:
    assert client(server, BESIDE).splitlines()[-1] == f"True {connect.SESSION_IDLE}"


INTERRUPTED = """
import signal, sys, threading, time
from pyspark.sql import functions as F
from sluicegate.jobs.base import writing
from sluicegate.jobs.parallel import run_side_by_side
from sluicegate.lake.layout import Lake
from sluicegate.spark import connect
from sluicegate.spark.session import SharedSpark

signal.signal(signal.SIGINT, signal.default_int_handler)
lake = Lake(sys.argv[1], "one")
spark = SharedSpark("one", lake, private=True)

def work(name):
    slow = spark.session_of(name).range(1).select(F.expr("java_method('java.lang.Thread', 'sleep', id + 90000L)"))
    threading.Timer(2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
    slow.collect()

began = time.monotonic()
try:
    with writing(lake, "a run", target=""):
        run_side_by_side({"a": []}, work, 1, connect.interrupt_all)
except KeyboardInterrupt:
    print("ended", time.monotonic() - began < 60)
"""


@pytest.mark.release
def test_an_interrupt_ends_what_threads_still_have_a_server_do(server: Server, tmp_path: Path) -> None:
    assert client(server, INTERRUPTED, str(tmp_path)).splitlines()[-1] == "ended True"


OPENING = """
import socket, sys
from sluicegate.spark import s3_commits, session

port = int(sys.argv[1])

def answers():
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

session._hide_texts = s3_commits.make_atomic = lambda opened: print("answers", answers())
opened = session.open_server("127.0.0.1", port, "")
print("port", session.server_port(opened) == port, "answers", answers())
session.close_server(opened)
print("answers", answers())
"""


@pytest.mark.more
def test_a_server_takes_nobody_before_its_log_is_silent_and_its_commits_are_atomic() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = environment(PYSPARK_SUBMIT_ARGS="--master local[1] --conf spark.ui.enabled=false pyspark-shell")
    env.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(port)], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.splitlines() == ["answers False", "answers False", "port True answers True", "answers False"], (
        done.stderr[-2000:]
    )


STOPPING = """
import sys, threading
from sluicegate.jobs import serve_job
from sluicegate.spark import session

def opened(*given, opening=session.open_server):
    made = opening(*given)
    threading.Timer(2, lambda: made._jsc.sc().stop()).start()
    return made

session.open_server = opened
sys.exit(serve_job.main(["--port", "0"]))
"""


@pytest.mark.release
def test_a_server_ends_with_its_spark() -> None:
    """Else its port would answer, so that whoever looks after it finds it well, and each run fails."""
    env = environment(PYSPARK_SUBMIT_ARGS="--master local[1] --conf spark.ui.enabled=false pyspark-shell")
    env.pop("SPARK_HOME", None)
    done = subprocess.run([sys.executable, "-c", STOPPING], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "has stopped by itself" in done.stderr + done.stdout


@pytest.mark.more
def test_a_server_says_how_it_is_used_and_ends_when_it_is_told(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert oct(server.token.stat().st_mode & 0o777) == "0o600"
        assert oct(server.token.parent.stat().st_mode & 0o777) == "0o700"
        secret = server.token.read_text().strip()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                assert secret.encode() not in (process / "cmdline").read_bytes()
                assert secret.encode() not in (process / "environ").read_bytes()
        said = server.end()
        before = "".join(server.said)
        assert f"export SPARK_REMOTE={server.url} SLUICEGATE_CONNECT_TOKEN_FILE={server.token}" in before
        assert said.rstrip().endswith("stopped")
        assert secret not in before + said
        assert server.running.returncode == 0


@pytest.mark.more
@pytest.mark.parametrize(
    "back", [pytest.param(False, id="gone"), pytest.param(True, id="back at once", marks=pytest.mark.release)]
)
def test_a_server_killed_in_a_batch(heartbeats: Workspace, tmp_path: Path, back: bool) -> None:
    """Once it stays away, so that the client gives up, and once another one is there before the client has noticed."""
    with served(tmp_path) as first:
        began = time.monotonic()
        job = started(heartbeats, first.url, first.token, "run", "heart_rate")
        until_line(job, "heart_rate silver")
        time.sleep(2)
        first.kill()
        if not back:
            assert "lost the connection" in ended(job, 1)
            assert time.monotonic() - began < 200
    with served(tmp_path, first.port) as second:
        if back:  # the new one knows nothing of the client's session
            said = ended(job, 1)
            assert "lost the connection" in said or "the session on the Spark Connect server" in said, said
        assert "did not end cleanly" in run(heartbeats, second)
        assert_right(heartbeats)


@pytest.mark.release
def test_a_connection_that_is_lost_again_and_again(heartbeats: Workspace, server: Server) -> None:
    with Cut(server.port) as cut:
        job = started(heartbeats, f"sc://127.0.0.1:{cut.port}", server.token, "run", "heart_rate")
        until_line(job, "Spark Connect: ")
        while job.poll() is None and cut.times < 8:
            time.sleep(2)
            cut.now()
        ended(job)
        assert cut.times > 2
    assert_right(heartbeats)


@pytest.mark.release
def test_commands_besides_runs(heartbeats: Workspace, server: Server) -> None:
    run(heartbeats, server)
    for words in (("maintain", "heart_rate"), ("replay", "heart_rate", "recordings_enriched", "--everything")):
        ended(started(heartbeats, server.url, server.token, *words))
    ended(started(heartbeats, server.url, server.token, "reset", "heart_rate", "patients_bronze", "--yes"))
    run(heartbeats, server)
    verified = ended(started(heartbeats, server.url, server.token, "status", "heart_rate", "--verify"))
    assert "verified: recordings_bronze, version " in verified
    assert_right(heartbeats)


@pytest.mark.release
def test_the_tasks_of_a_dag_use_the_server_of_their_connection(
    heartbeats: Workspace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a Spark that they could start, and with the token in nothing that Airflow writes down."""
    monkeypatch.setenv("SLUICEGATE_JARS", str(heartbeats.folder / "no-jars"))
    secret = server.token.read_text().strip()
    facts = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": server.port, "password": secret}
    with LocalAirflow(heartbeats.folder / ".airflow", heartbeats.settings, lasting=False) as airflow:
        airflow.wait("heart_rate")
        airflow.call("POST", "/api/v2/connections", {"connection_id": "spark_default", **facts})
        assert finished(airflow, "heart_rate", airflow.trigger("heart_rate")) == "success", airflow.log
    assert_right(heartbeats)
    logs = [file.read_text() for file in (heartbeats.folder / ".airflow").rglob("*.log")]
    assert any("Spark Connect: sc://127.0.0.1" in log for log in logs)
    assert not any(secret in log for log in logs)


class Cut:
    """A way to a server on which connections break when they are told to.

    Args:
        port: port of the server.
    """

    def __init__(self, port: int) -> None:
        self._target, self._pairs, self.times = port, list[socket.socket](), 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Cut:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.now()

    def now(self) -> None:
        """Breaks all connections that there are."""
        self.times += bool(self._pairs)
        while self._pairs:
            with suppress(OSError):
                self._pairs.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.create_connection(("127.0.0.1", self._target))
                self._pairs += [ours, theirs]
                for one, other in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for end in (one, other):  # not by close(), which the other thread, that waits for data here, would not notice
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
