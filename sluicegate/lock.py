"""One writer for each pipeline: the lock that saves work. What keeps tables right are the marks (see flow.py)."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from sluicegate.errors import LakeLocked, LakeUnsupported, Where
from sluicegate.lake import Lake, is_local
from sluicegate.report import say
from sluicegate.time_spans import utc_now

POLL_SECONDS = 0.5


@contextmanager
def pipeline_lock(lake: Lake, owner: str, wait: float = 600.0) -> Iterator[None]:
    """Holds the pipeline's lock (``flock``: freed by the system when its process dies, so it never has to expire).

    Args:
        lake: the pipeline's lake.
        owner: what the holder calls itself in messages to those who wait.
        wait: seconds to wait for another holder.

    Raises:
        LakeLocked: somebody else held the lock all that time.
        LakeUnsupported: the lake is not on a local (or mounted) disk.
    """
    if not is_local(lake.root):
        raise LakeUnsupported(
            f"the lake {lake.root} is not on a local disk",
            hint="this version keeps one writer by a file lock; use a local or mounted folder for --lake",
        )
    lake.lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lake.lock, "a+", encoding="utf-8") as file:
        _acquire(file, lake, wait)
        _sign(file, owner)
        yield


@contextmanager
def turn(lake: Lake, owner: str) -> Iterator[str | None]:
    """Holds the turn to run a job, for those that would rather come back than wait in a JVM for the lock.

    The job itself takes the lock, some seconds later; of two that only looked at the lock both would start.

    Yields:
        None if it is ours; else who has it, or has the lock, and then there is nothing to hold.
    """
    if not is_local(lake.root):  # the job says what is wrong with that
        yield None
        return
    lake.lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lake.lock.with_name("turn.lock"), "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield _holder(file)
            return
        _sign(file, owner)
        yield _held_by(lake)


def _held_by(lake: Lake) -> str | None:
    """Who holds the pipeline's lock at this moment; None if nobody does."""
    if not lake.lock.exists():
        return None
    with open(lake.lock, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(file)
    return None


def _sign(file: IO[str], owner: str) -> None:
    """Writes into a lock who holds it."""
    file.seek(0)
    file.truncate()
    json.dump({"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "since": utc_now()}, file)
    file.flush()


def _acquire(file: IO[str], lake: Lake, wait: float) -> None:
    deadline = time.monotonic() + wait
    told = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _holder(file)
        if time.monotonic() >= deadline:
            raise LakeLocked(
                f"pipeline {lake.pipeline} is being written by {holder}",
                where=Where(file=str(lake.lock)),
                hint="wait for that run to end, or stop it; the lock is freed with its process",
            )
        if not told:
            say(f"waiting for {holder}, which is writing pipeline {lake.pipeline}")
            told = True
        time.sleep(POLL_SECONDS)


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        facts = json.load(file)
    except ValueError:  # the holder is between taking the lock and writing its name
        return "another run"
    return f"{facts['owner']} (pid {facts['pid']} on {facts['host']}, since {facts['since']})"
