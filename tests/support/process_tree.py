"""Processes below another, any of which may end while it is looked at."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

JVM = "java"


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Leave out processes that have ended, zombies among them."""
    alive = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """List the living processes below a process, or below this one; none if it has ended."""
    try:
        return living(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def named(processes: Iterable[psutil.Process], name: str) -> list[psutil.Process]:
    """Select the living processes of a program."""
    selected = []
    for process in living(processes):
        with suppress(psutil.NoSuchProcess):
            if process.name() == name:
                selected.append(process)
    return selected


def send(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each process that has not ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def kill_tree(pid: int) -> None:
    """Kill a process and all below it with SIGKILL, as the machine's end would."""
    try:
        top = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    send([*descendants(pid), top], signal.SIGKILL)
