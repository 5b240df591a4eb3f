"""A Spark Connect server with our settings, for tests that run through one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluicegate.settings import Settings
from sluicegate.spark import connect, spark_submit


@contextmanager
def serving(token: Path) -> Iterator[str]:
    """Address of a server on this machine, which ends with the block; ``token`` is the file of its token."""
    command = spark_submit.serve_command(Settings.of(master="local[2]"), "127.0.0.1", 0)
    env = spark_submit.submit_env() | {connect.TOKEN_FILE: str(token)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            lines = iter(running.stdout or ())
            yield next(line for line in lines if line.startswith(connect.SERVES)).removeprefix(connect.SERVES).strip()
        finally:
            running.terminate()
            running.wait(60)
