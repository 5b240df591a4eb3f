"""Processes: which one this is, which are gone for certain, and how a job and the command that runs it end together."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# Seconds in which a job may end by itself once it was told to, before it is killed.
GRACE = 20.0

# What ends a command where nothing says otherwise. SIGINT is KeyboardInterrupt already.
ENDS = (signal.SIGTERM, signal.SIGHUP)

PARENT = "SLUICEGATE_PARENT"
"""The variable in which a job is told of the process that runs it."""


def world() -> str:
    """The machine since its start and the process numbers that are seen here; empty where that cannot be told.

    Containers may have a host's name, and the numbers of its processes, without being it.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def is_gone(where: str, pid: int) -> bool:
    """Whether a process is gone for certain: one of another world, or of an unknown one, cannot be seen from here."""
    return bool(where) and where == world() and not is_there(pid)


def is_there(pid: int) -> bool:
    """Whether there is a process of this number here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Stopped(SystemExit):
    """Raised in the main thread when this process is told to end.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def ended_with_us(job: subprocess.Popen[str]) -> Iterator[None]:
    """Within it, what ends this process ends a job first: its whole process group, which is waited for.

    A job that its parent leaves behind would go on, and hold the lock. Where somebody else looks after a signal, or it
    is ignored (``nohup``), it is left alone.
    """
    former = {}
    if threading.current_thread() is threading.main_thread():
        former = {number: signal.signal(number, _stop) for number in ENDS if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    except BaseException as error:
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        interrupted = isinstance(error, (Stopped, KeyboardInterrupt))
        _end(job, number if interrupted else signal.SIGKILL)
        if interrupted:
            name = signal.Signals(number).name
            print(
                f"stopped by {name}: the job has ended, and a new run goes on behind its last commit", file=sys.stderr
            )
        raise
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def _end(job: subprocess.Popen[str], number: int) -> None:
    """Sends a signal to a job's group, waits for its end, and kills what is left; at once if told twice."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, number)
        with suppress(subprocess.TimeoutExpired, ValueError):
            job.communicate(timeout=GRACE)  # until all that write to its output are gone, Python and JVM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def end_with_parent() -> None:
    """Ends this job's process group once the process that runs it is gone, however it went (SIGKILL too).

    Nothing is looked for where no parent was named: Airflow and people start jobs by spark-submit itself.
    """
    named = os.environ.pop(PARENT, "")
    where, _, number = named.rpartition(" ")
    if not named or where != world():
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


def named_parent() -> dict[str, str]:
    """What tells a job of this process, by its environment."""
    return {PARENT: f"{world()} {os.getpid()}"} if world() else {}
