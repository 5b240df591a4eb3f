"""The command that starts a Spark Connect server: which signals end it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sluicegate import channel
from sluicegate.errors import JobFailed
from sluicegate.launch import spark_server
from sluicegate.settings import Settings
from sluicegate.spark import connect, spark_submit

pytestmark = pytest.mark.unit

# Stands for the JVM: it serves, and ends by itself a second later. What it prints says another address.
SERVER = f"""
import os, time
print({connect.SERVES!r}, "sc://evil.example:1", flush=True)
with open(os.environ[{channel.FILE!r}], "a") as file:
    print({connect.SERVER_ADDRESS!r}, '"sc://localhost:1"', file=file)
print(os.environ[{channel.TOKEN!r}], flush=True)
time.sleep(1)
"""


@pytest.mark.parametrize("ignored", [True, False])
def test_a_signal_that_the_command_was_started_to_ignore_does_not_end_it(
    ignored: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark_submit, "serve_command", lambda *_: [sys.executable, "-c", SERVER])
    monkeypatch.setattr(spark_submit, "submit_env", lambda: dict(os.environ))
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if line.startswith(connect.SERVES):
            os.kill(os.getpid(), signal.SIGHUP)

    former = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        settings = Settings.of(str(tmp_path), master="local[1]")
        if ignored:  # as nohup has it
            with pytest.raises(JobFailed, match="ended with exit code 0"):
                spark_server.serve(settings, "localhost", 0, tmp_path / "token", tell)
        else:
            spark_server.serve(settings, "localhost", 0, tmp_path / "token", tell)
        assert ("stopped" in said) is not ignored
        assert next(line for line in said if "sc://" in line) == f"{connect.SERVES} sc://localhost:1"
        assert not any("evil" in line for line in said)
    finally:
        signal.signal(signal.SIGHUP, former)
