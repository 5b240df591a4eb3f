"""A warm Spark beside the demo's Airflow: a Spark Connect server of its own, for as long as that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.spark import connect

STARTS_WITHIN = 180.0  # seconds; some 8 on two cores that are free
ENDS_WITHIN = 20.0  # seconds in which a server ends that is told to


@contextmanager
def warm_spark(home: Path, settings: Settings) -> Iterator[Settings]:
    """Start a server, and yield the settings with which jobs use it; where Spark is elsewhere, none is started.

    Args:
        home: folder of its log and of its token, which its owner alone can read.
        settings: their master is that of the server's Spark.

    Raises:
        SluicegateError: it did not start.
    """
    if not settings.master.startswith("local"):
        yield settings
        return
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    token, log = home / "connect-token", home / "spark.log"
    command = [sys.executable, "-m", "sluicegate.cli", "serve", "--port", "0", "--token-file", str(token)]
    server = subprocess.Popen(
        [*command, "--master", settings.master], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
        start_new_session=True,  # Ctrl-C goes to us alone, and we end it
    )  # fmt: skip
    before = os.environ.get(connect.TOKEN_FILE)
    os.environ[connect.TOKEN_FILE] = str(token)
    try:
        yield replace(settings, master=_address(server, log))
    finally:
        os.environ.pop(connect.TOKEN_FILE)
        os.environ.update({connect.TOKEN_FILE: before} if before is not None else {})
        server.terminate()
        try:
            server.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            server.kill()


def _address(server: subprocess.Popen[str], log: Path) -> str:
    """Return the address of a server once it accepts connections, and send its later output to the log."""
    addresses: list[str] = []
    answered = threading.Event()
    listener = threading.Thread(target=_listen, args=(server.stdout, log, addresses, answered), daemon=True)
    listener.start()
    if not answered.wait(STARTS_WITHIN) or not addresses:
        last_lines = log.read_text(errors="replace").splitlines()[-8:]
        raise SluicegateError("Spark did not start", cause="\n    ".join(last_lines), hint=f"its log is {log}")
    return addresses[0]


def _listen(output: IO[str] | None, log: Path, addresses: list[str], answered: threading.Event) -> None:
    with log.open("w") as file:
        for line in output or ():
            file.write(line)
            file.flush()
            if line.startswith(connect.SERVES):
                addresses.append(line.removeprefix(connect.SERVES).strip())
                answered.set()
    answered.set()
