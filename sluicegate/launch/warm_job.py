"""A run in a Spark that the run before has left ready, or that this run leaves ready for the next one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from sluicegate.console import warn
from sluicegate.errors import UserError
from sluicegate.launch import warm_spark
from sluicegate.spark import spark_submit

if TYPE_CHECKING:
    from sluicegate.settings import Settings


# Seconds for which a process that has just been started may not listen yet, and one that ends may still exist.
PATIENCE = 20.0

# Seconds between two attempts to connect.
POLL_SECONDS = 0.02

# Variables by which pyspark starts a shell's JVM, or finds a running one; a job by spark-submit takes none of them.
OF_PYSPARK_SHELLS = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


class WarmJob:
    """A run in a warm Spark, with what ``subprocess.Popen`` has of a job.

    Attributes:
        pid: number of Spark's process, which leads its group.
        stdout: lines that the run prints.
    """

    def __init__(self, connection: socket.socket, pid: int, stdout: IO[str]) -> None:
        self._connection, self.pid, self.stdout = connection, pid, stdout
        self._code: int | None = None

    def wait(self) -> int:
        """Wait until the run has ended, and return its exit code; that of SIGKILL if its process ended before."""
        if self._code is None:
            self._connection.settimeout(None)
            self._code = self._receive_code()
        return self._code

    def communicate(self, *, timeout: float) -> None:
        """Wait until the process of the run has ended.

        Raises:
            TimeoutExpired: it has not ended after so many seconds.
        """
        self._connection.settimeout(timeout)
        try:
            while self._connection.recv(65536):
                continue
        except TimeoutError:
            raise subprocess.TimeoutExpired("run", timeout) from None
        except OSError:
            return

    def close(self) -> None:
        """Close the connection, at which a run that is still at work is ended."""
        self.stdout.close()
        self._connection.close()

    def _receive_code(self) -> int:
        try:
            message, _ = warm_spark.receive(self._connection)
        except (OSError, ValueError):
            message = {}
        code = message.get("code")
        if isinstance(code, int):
            return code
        return -signal.SIGKILL


def start(
    arguments: Sequence[str],
    settings: Settings,
    channel: Mapping[str, str],
    minutes: float,
    tell: Callable[[str], None],
) -> WarmJob | None:
    """Start a run in the lake's warm Spark, which is started if there is none.

    Args:
        arguments: the command line of the job ``run``.
        settings: where things are.
        channel: variables that give the job its channel.
        minutes: for which a Spark that is started stays ready.
        tell: takes each line for people.

    Returns:
        the run, which is to be closed; None if no warm Spark can take it, such as while another run is in it.
    """
    try:
        place = warm_spark.Place.from_lake(settings.lake)
        fingerprint = warm_spark.fingerprint(settings)
        request = {"fingerprint": fingerprint, "arguments": list(arguments), "channel": dict(channel)}
        connection = place.connection()
        if connection is not None:
            answer = _ask(connection, request)
            if isinstance(answer, WarmJob):
                return answer
            if answer == "busy":
                return None
            _wait_until_gone(place)
        return _ask_new_process(place, request, settings, minutes, tell)
    except OSError as error:
        tell(f"no Spark can stay ready: {error}")
        return None


def _ask_new_process(
    place: warm_spark.Place,
    request: Mapping[str, object],
    settings: Settings,
    minutes: float,
    tell: Callable[[str], None],
) -> WarmJob | None:
    """Start a Spark that stays, and give it a run."""
    process = _start(place, str(request["fingerprint"]), settings, minutes)
    try:
        connection = _await_connection(place, process)
    except BaseException:  # Ctrl-C
        _kill(process)
        raise
    if connection is None:
        _kill(process)
        return None
    answer = _ask(connection, request)
    if not isinstance(answer, WarmJob):
        return None
    tell(f"Spark stays ready for the next run for {minutes:g} minutes; `sluicegate stop` ends it, --cold does without")
    return answer


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ask(connection: socket.socket, request: Mapping[str, object]) -> WarmJob | str:
    """Give a run to a warm Spark; if it does not take it, its reason: ``busy``, ``other`` or empty."""
    reading, writing = os.pipe()
    try:
        connection.settimeout(PATIENCE)
        warm_spark.send(connection, request, [writing])
        answer, _ = warm_spark.receive(connection)
    except (OSError, ValueError):
        answer = {}
    finally:
        os.close(writing)
    pid = answer.get("pid")
    if isinstance(pid, int):
        output = open(reading, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 (closed with the job)
        return WarmJob(connection, pid, output)
    os.close(reading)
    connection.close()
    return str(answer.get("refused", ""))


def _start(place: warm_spark.Place, fingerprint: str, settings: Settings, minutes: float) -> subprocess.Popen[bytes]:
    # -P: files of the working folder are no modules of it, as they are none of a job by spark-submit.
    command = [sys.executable, "-P", "-m", "sluicegate.jobs.warm", settings.lake, settings.landing, settings.master]
    command += [fingerprint, f"{minutes:g}"]
    variables = {name: text for name, text in spark_submit.submit_env("run").items() if name not in OF_PYSPARK_SHELLS}
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    finally:
        os.close(log)


def _await_connection(place: warm_spark.Place, process: subprocess.Popen[bytes]) -> socket.socket | None:
    """Connect to a process that has just been started; None if it ended, or does not listen for long."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        connection = place.connection()
        if connection is not None:
            return connection
        if process.poll() is not None:
            warn(f"no Spark stays ready: its process ended with exit code {process.returncode}; see {place.log}")
            return None
        time.sleep(POLL_SECONDS)
    return None


def _wait_until_gone(place: warm_spark.Place) -> None:
    """Wait until a Spark that refused a run, because it is another one, has ended."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and place.is_running():
        time.sleep(POLL_SECONDS)


def stop(lake: str) -> str:
    """End the warm Spark of a lake.

    Returns:
        ``stopped``, ``busy`` if a run is in it, or ``none`` if there is none.

    Raises:
        UserError: the folder of its socket is not private, or it does not end.
    """
    try:
        place = warm_spark.Place.from_lake(lake)
    except OSError as error:
        raise UserError(f"no Spark can stay ready: {error}", hint="remove the folder, or close it to others") from None
    connection = place.connection()
    if connection is None:
        return "none"
    if _answer_to_stop(connection) == "busy":
        return "busy"
    _wait_until_gone(place)
    if place.is_running():
        raise UserError(
            f"the Spark of this lake has not ended within {PATIENCE:g} s",
            hint=f"end its process, `python -m sluicegate.jobs.warm {lake}`, by kill -9",
        )
    return "stopped"


def _answer_to_stop(connection: socket.socket) -> str:
    """Ask a warm Spark to end; its reason if it does not, and empty if it has just ended or does not answer."""
    with connection:
        connection.settimeout(PATIENCE)
        try:
            warm_spark.send(connection, {"stop": True})
            answer, _ = warm_spark.receive(connection)
        except (OSError, ValueError):
            return ""
    return str(answer.get("refused", ""))
