"""Process of a job that a task runs: in a group of its own, so that the task ends it with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from sluicegate import processes


class JobProcess:
    """A job as a process, by spark-submit or as the client of a server.

    Args:
        command: its command.
        env: its environment.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._job = subprocess.Popen(
            command, env={**env, **processes.parent_environment()}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="backslashreplace", start_new_session=True,
        )  # fmt: skip

    def output(self) -> Iterable[str]:
        """What it prints, as it comes."""
        yield from self._job.stdout or ()

    def wait_for_exit(self) -> int:
        """Exit code, once it has ended."""
        return self._job.wait()

    def kill(self) -> None:
        """End it at once, with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._job.pid, signal.SIGKILL)
