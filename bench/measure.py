"""What work costs: seconds, CPU seconds and memory of a process and all that it starts; medians and ratios of rounds.

CPU seconds are those of all processes, also of those that have ended and were waited for. Memory is what all of them
have in RAM together, at its highest of some looks a second; pages that two share count twice. Both are read from
``/proc``, so they are told on Linux only.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
EVERY = 0.2  # seconds between two looks: one takes some milliseconds
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
TAIL = 3


class CommandFailed(Exception):
    """A side of a case failed; the message has the end of what it said."""


@dataclass(frozen=True)
class Cost:
    """What one piece of work took.

    Attributes:
        seconds: from its beginning to its end.
        cpu: CPU seconds of all its processes; None where that is not told.
        peak: megabytes that they had together at most; None where that is not told.
    """

    seconds: float
    cpu: float | None = None
    peak: float | None = None


@dataclass(frozen=True)
class Process:
    """A process at one moment.

    Attributes:
        parent: the process that it is below.
        began: when it began, in the system's own count: a number is given again, but not with this.
        cpu: CPU seconds of its own so far.
        waited: CPU seconds of those below it that have ended and were waited for.
        memory: megabytes in RAM.
    """

    parent: int
    began: int
    cpu: float
    waited: float
    memory: float


def processes() -> dict[int, Process]:
    """All processes of this machine by number; none where that is not told."""
    found = {}
    for entry in PROC.glob("[0-9]*"):
        try:
            # The name may have spaces and brackets; what follows the last bracket has not. See proc_pid_stat(5).
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        own, waited = sum(map(int, fields[11:13])) / TICKS, sum(map(int, fields[13:15])) / TICKS
        found[int(entry.name)] = Process(int(fields[1]), int(fields[19]), own, waited, int(fields[21]) * PAGE / 1e6)
    return found


class Watch:
    """Looks at a process and all below it from time to time, in a thread.

    Whatever was below it once is followed until it ends, also if the process between has ended: ``spark-pipelines``
    leaves its JVM behind so, and nobody waits for that.
    """

    def __init__(self, root: int) -> None:
        self._root, self._ended = root, threading.Event()
        self._seen: dict[tuple[int, int], float] = {}
        self._peak = 0.0
        self._waited: float | None = None
        self._sample()
        self._before, self._waited_before = dict(self._seen), self._waited
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._sample_until_ended, daemon=True)
        self._thread.start()

    def _sample_until_ended(self) -> None:
        while not self._ended.wait(EVERY):
            self._sample()

    def _sample(self) -> None:
        there = processes()
        ours = {self._root} | {pid for pid, one in there.items() if (pid, one.began) in self._seen}
        inside = {pid: one for pid, one in there.items() if _is_below(pid, ours, there)}
        self._seen |= {(pid, one.began): one.cpu for pid, one in inside.items()}
        self._peak = max(self._peak, sum(one.memory for one in inside.values()))
        if self._root in inside:
            self._waited = sum(one.cpu + one.waited for one in inside.values())

    def end(self, *, all_cpu: float = 0.0) -> Cost:
        """Ends the watch.

        Args:
            all_cpu: CPU seconds that the system told of all that was waited for, when the process had ended.
        """
        seconds = time.monotonic() - self._began
        self._ended.set()
        self._thread.join()
        self._sample()
        if self._waited is None or self._waited_before is None:
            return Cost(seconds, all_cpu or None)
        # What ended between two looks is in the sums of who waited for it; what nobody waited for was seen.
        seen = sum(cpu - self._before.get(one, 0.0) for one, cpu in self._seen.items())
        return Cost(seconds, max(seen, self._waited - self._waited_before, all_cpu), self._peak)


def _is_below(pid: int, roots: Collection[int], there: Mapping[int, Process]) -> bool:
    while pid in there:
        if pid in roots:
            return True
        pid = there[pid].parent
    return False


def run(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Cost:
    """Runs a command to its end, and tells what it and all that it started took.

    Args:
        command: the command.
        log: file that its output is added to.
        environment: its environment; by default this process's.
        folder: folder to run it in.

    Raises:
        CommandFailed: it ended with another exit code than 0.
    """
    with log.open("ab") as output:
        began = output.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                                   cwd=folder)  # fmt: skip
        with _terminate_after(process):
            watch = Watch(process.pid)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            cost = watch.end(all_cpu=used.ru_utime + used.ru_stime)
    if process.returncode:
        raise CommandFailed(f"exit code {process.returncode}: {last_words(log, began)}")
    return cost


@contextmanager
def _terminate_after(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()


def last_words(log: Path, began: int = 0) -> str:
    """The last lines of a log that say something, in one line."""
    with log.open("rb") as lines:
        lines.seek(began)
        said = lines.read().decode(errors="replace").splitlines()
    telling = [line.strip() for line in said if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    errors = [line for line in telling if "Error" in line or "Exception" in line or "error[" in line]
    return " / ".join((errors or telling)[-TAIL:])[:500]


def rotate_names(names: Sequence[str], number: int) -> list[str]:
    """Names in the order of a round: another one is the first each time, so that none is always before the same."""
    first = number % len(names) if names else 0
    return [*names[first:], *names[:first]]


def median(figures: Sequence[float]) -> float:
    """The middle of some figures."""
    return statistics.median(figures)


def ratio(mine: Mapping[int, float], theirs: Mapping[int, float]) -> float | None:
    """The median of the ratios within one round, over the rounds that both have; None without one.

    A machine may be slower in one round than in another: ratios within a round do not notice.
    """
    both = [mine[number] / theirs[number] for number in mine.keys() & theirs.keys() if theirs[number]]
    return statistics.median(both) if both else None
