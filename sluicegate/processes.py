"""Processes: identity and liveness, and termination of a job together with the command that runs it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from sluicegate.console import warn

# Seconds between the signal to a job and SIGKILL.
GRACE = 20.0

# Signals that end a command by default. SIGINT is KeyboardInterrupt already.
ENDS = (signal.SIGTERM, signal.SIGHUP)

PARENT = "SLUICEGATE_PARENT"
"""Variable that passes the parent process to a job."""

# Variables that this process has set for itself, with their values.
_own_variables: dict[str, str] = {}


def process_namespace() -> str:
    """Return boot id and PID namespace, within which a pid is unique; empty if they cannot be read.

    Host name and pid are not enough: containers may share a host's name and have the same pids.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def is_gone(where: str, pid: int) -> bool:
    """Return whether a process is known to be gone: one of another or an unknown namespace cannot be seen."""
    return bool(where) and where == process_namespace() and not is_running(pid)


def is_running(pid: int) -> bool:
    """Return whether a process with this pid exists in our namespace."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Job(Protocol):
    """A process that runs a job and leads a process group, as ``subprocess.Popen`` has it.

    Attributes:
        pid: its number, and that of its group.
    """

    pid: int

    def communicate(self, *, timeout: float) -> Any:
        """Wait until it and all writers of its output have ended; ``subprocess.TimeoutExpired`` if they do not."""

    def wait(self) -> int:
        """Wait until the job has ended, and return its exit code."""


class Stopped(SystemExit):
    """Raised in the main thread by SIGTERM or SIGHUP.

    Args:
        number: number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def end_job_on_error(job: Job) -> Iterator[None]:
    """End a job's process group, and wait for it, if an error or a signal ends the block.

    An orphaned job would go on and hold the lock. Signals that have another handler or are ignored (``nohup``) are
    left alone.
    """
    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():
        numbers = [number for number in ENDS if signal.getsignal(number) == signal.SIG_DFL]
    with handle_signals(numbers, _raise_stopped):
        try:
            yield
        except (Stopped, KeyboardInterrupt) as error:
            number = getattr(error, "number", signal.SIGINT)
            _end_job(job, number)
            name = signal.Signals(number).name
            warn(f"stopped by {name}: the job has ended, and a new run continues after its last commit")
            raise
        except BaseException:
            _end_job(job, signal.SIGKILL)
            raise


@contextmanager
def handle_signals(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have signals handled within the block; their former handlers return at its end."""
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former_handler in former.items():
            signal.signal(number, former_handler)


def heeded_signals(*numbers: int) -> list[int]:
    """Return those of some signals that this process was not started to ignore, as ``nohup`` does with SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def _raise_stopped(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def _end_job(job: Job, number: int) -> None:
    """Signal a job's process group, wait for it, and kill what is left; at once if interrupted while waiting."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, number)
        with suppress(subprocess.TimeoutExpired, ValueError):
            job.communicate(timeout=GRACE)  # until all writers of its output are gone, Python and JVM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def wait_for_group(leader: int) -> None:
    """Wait until no process of a group is left whose leader has ended: a JVM ends before the Python that it started.

    What is left after ``GRACE`` seconds is killed.
    """
    end = time.monotonic() + GRACE
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(leader, 0)
            with suppress(ChildProcessError):  # the first process of a container inherits them, and has to reap them
                os.waitpid(-leader, os.WNOHANG)
            time.sleep(0.05)
        os.killpg(leader, signal.SIGKILL)


def end_with_parent() -> None:
    """End this job's process group once its parent process is gone, also by SIGKILL.

    Without ``SLUICEGATE_PARENT`` nothing is watched: a person runs spark-submit.
    """
    named = os.environ.pop(PARENT, "")
    where, _, number = named.rpartition(" ")
    if not named or where != process_namespace():
        return
    try:
        parent = os.pidfd_open(int(number))
    except ProcessLookupError:
        _end_group()
        return
    except (AttributeError, OSError):  # not Linux, or an old one
        return
    threading.Thread(target=_wait_for, args=(parent,), name="parent", daemon=True).start()


def _wait_for(parent: int) -> None:
    select.select([parent], [], [])
    _end_group()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGTERM)


def parent_environment() -> dict[str, str]:
    """Return the environment that passes this process to a job as its parent."""
    if process_namespace():
        return {PARENT: f"{process_namespace()} {os.getpid()}"}
    return {}


def set_own_variable(name: str, value: str) -> None:
    """Set a variable for this process, and not for its jobs; one that the user has set stays, for both."""
    if name not in os.environ:
        os.environ[name] = _own_variables[name] = value


def own_variables() -> set[str]:
    """Return the names of the variables that this process has set for itself alone."""
    return {name for name, value in _own_variables.items() if os.environ.get(name) == value}
