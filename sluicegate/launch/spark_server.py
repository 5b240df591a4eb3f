"""Start a Spark Connect server on this machine, with its token, until a signal ends it."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sluicegate import processes
from sluicegate.channel import Channel
from sluicegate.errors import JobFailed, UserError
from sluicegate.flow.report import ReportLines
from sluicegate.spark import connect, spark_submit

if TYPE_CHECKING:
    from sluicegate.settings import Settings

# Lines of the JVM before the server takes connections, which are shown if it ends without saying why.
LAST_LINES = 8

# What is passed on of Spark's log.
ERROR = " ERROR "


def make_token(file: Path) -> bool:
    """Create a token file that only this user can read, unless it exists; return whether it was created.

    Raises:
        UserError: the file cannot be created, or others could have read or written the existing one.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists():
            _demand_private(file)
            return False
        # Under its name only once it is whole: a stop in between would leave an empty token.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".connect-token-")  # which this user alone can read
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as token_file:
                token_file.write(secrets.token_urlsafe(32) + "\n")
            os.link(name, file)
        finally:
            os.unlink(name)
    except FileExistsError:
        return False  # another server of this user has just made it
    except OSError as error:
        raise UserError(
            f"the token cannot be written to {file}", cause=str(error), hint="choose another file with --token-file"
        ) from error
    return True


def _demand_private(file: Path) -> None:
    """Check that a token file is private to this user or root: secrets of a container are often root's.

    Raises:
        UserError: others may read the token.
    """
    facts = file.stat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in (os.getuid(), 0) or facts.st_mode & 0o007:
        raise UserError(
            f"the token at {file} may be readable by others",
            cause=f"its owner is user {facts.st_uid}, and its mode is {stat.filemode(facts.st_mode)}",
            hint=f"restrict it (chmod 600 {file}), or delete it to get a new token",
        )


def serve(settings: Settings, host: str, port: int, token_file: Path | None, tell: Callable[[str], None]) -> None:
    """Run a server until Ctrl-C or SIGTERM, and print how to use it.

    Args:
        settings: settings whose master is that of the server's Spark.
        host: address to listen on.
        port: port to listen on; 0 for any that is free.
        token_file: file of the token, created if missing; None for the usual one.
        tell: receives each line for people.

    Raises:
        UserError: the token's file cannot be created or read.
        JavaMissing: see ``submit_command``.
        SluicegateError: the error that ended the server.
    """
    if token_file is None:
        file = connect.token_file()
    else:
        file = token_file.absolute()
    if make_token(file):
        tell(f"created a token in {file}, readable only by you")
    command = spark_submit.serve_command(spark_submit.spark_submit_settings(settings), host, port)
    with Channel() as channel:
        _serve(command, channel, file, tell)


def _serve(command: list[str], channel: Channel, file: Path, tell: Callable[[str], None]) -> None:
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if not signals:
            _kill_later(server)
        signals.append(number)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)

    env = {
        **spark_submit.submit_env(),
        connect.TOKEN_FILE: str(file),
        **processes.parent_environment(),
        **channel.environment(),
    }
    env.pop(connect.TOKEN, None)  # the file is what counts, and no process of the server need have it there
    server = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
        start_new_session=True,
    )  # fmt: skip
    heeded = processes.heeded_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with processes.handle_signals(heeded, on_signal), processes.end_job_on_error(server):
        lines, tail = _listen(server, channel, file, tell)
        code = server.wait()
        processes.wait_for_group(server.pid)
    if signals:
        tell("stopped")
        return
    raise lines.error or JobFailed(
        f"the Spark Connect server ended with exit code {code}", cause="\n    ".join(tail), hint="start it again"
    )


def _kill_later(server: subprocess.Popen[str]) -> None:
    """Kill what is left of a server after its grace period."""

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)

    timer = threading.Timer(processes.GRACE, kill)
    timer.daemon = True
    timer.start()


def _usage(url: str, file: Path) -> tuple[str, str]:
    """Explain how other commands of this user connect to the server."""
    url = url.replace("//0.0.0.0", "//localhost")
    variables = f"{connect.REMOTE}={url}"
    if file != connect.own_token_file():
        variables += f" {connect.TOKEN_FILE}={shlex.quote(str(file))}"
    return (
        f"use it with --remote {url}, or for all commands: export {variables}",
        "Ctrl-C stops it; from other machines, and for TLS, see docs/howto/spark-connect.md",
    )


def _listen(
    server: subprocess.Popen[str], channel: Channel, file: Path, tell: Callable[[str], None]
) -> tuple[ReportLines, list[str]]:
    """Print lines for people until the server ends; return its error, if any, and its last lines."""
    lines = ReportLines()
    tail: list[str] = []

    def take(message: str) -> None:
        kind, _, text = message.partition(" ")
        if kind == connect.SERVER_ADDRESS:
            url = json.loads(text)
            tell(f"{connect.SERVES} {url}")
            for line in _usage(url, file):
                tell(line)
        else:
            lines.take(message)

    for line in channel.lines(server.stdout or (), take):
        if ERROR in line:
            tell(line)
        tail = [*tail, line][-LAST_LINES:]
    return lines, tail
