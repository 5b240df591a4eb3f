"""What an Airflow uses while it runs, by part, and the table of several such measurements: nothing is started here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import mean, median

from bench import measure

PARTS = ("scheduler", "dag-processor", "triggerer", "api-server", "database")


@dataclass(frozen=True)
class Load:
    """What a part of Airflow has used so far, and has.

    Attributes:
        cpu: CPU seconds.
        memory: megabytes in RAM.
    """

    cpu: float
    memory: float


@dataclass
class Phase:
    """A stretch of time.

    Attributes:
        seconds: its length.
        cpu: CPU seconds by part.
        memory: megabytes at its end by part.
        loops: milliseconds of each of the scheduler's loops.
        heartbeats: seconds between two of the scheduler's heartbeats.
        files: seconds of the DAG processor for a DAG file, each time that it read one.
        triggers: number of triggers that the triggerer ran, each time that it told.
    """

    seconds: float
    cpu: dict[str, float]
    memory: dict[str, float]
    loops: list[float] = field(default_factory=list)
    heartbeats: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    triggers: list[float] = field(default_factory=list)

    def cpu_per_minute(self, part: str) -> float | None:
        """CPU seconds a minute; None if there is no such part."""
        return self.cpu[part] * 60 / self.seconds if part in self.cpu else None


@dataclass
class Measured:
    """What was found with so many pipelines.

    Attributes:
        pipelines: their number.
        files: number of DAG files that share them.
        idle: nothing is due.
        due: from the minute in which all runs are due until all wait.
        waiting: all runs wait for files.
        delays: seconds from that minute to the start of each run's first task.
        jobs: most jobs that ran at the same time.
        slots: slots of their pool.
    """

    pipelines: int
    files: int
    idle: Phase
    due: Phase
    waiting: Phase
    delays: list[float]
    jobs: int
    slots: int


def loads(pids: Mapping[str, int], there: Mapping[int, measure.Process]) -> dict[str, Load]:
    """What each part uses, with the processes below it; what is below the scheduler is apart, as ``tasks``.

    Args:
        pids: the first process of each part.
        there: all processes of this machine.

    Raises:
        RuntimeError: one is gone.
    """
    found = {}
    for name, pid in pids.items():
        if pid not in there:
            raise RuntimeError(f"Airflow's {name} ended while it was measured")
        below = [one for number, one in there.items() if _is_below(number, pid, there)]
        whole = Load(sum(one.cpu + one.waited for one in below), sum(one.memory for one in below))
        leader = Load(there[pid].cpu, there[pid].memory)
        found[name] = leader if name == "scheduler" else whole
        if name == "scheduler":
            found["tasks"] = Load(whole.cpu - leader.cpu, whole.memory - leader.memory)
    return found


def _is_below(number: int, root: int, there: Mapping[int, measure.Process]) -> bool:
    while number in there and number != root:
        number = there[number].parent
    return number == root


def most_concurrent(spans: Sequence[tuple[datetime, datetime]]) -> int:
    """Most spans of time that have a moment in common; one that ends as another begins has none with it."""
    ends = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, step in ends:
        now += step
        most = max(most, now)
    return most


def table(measured: Sequence[Measured]) -> str:
    """The measurements as a table, a column for each, and the ratio of the last to the first."""
    rows = [_row(what, [of(one) for one in measured], digits) for what, digits, of in _ROWS]
    names = [f"{one.pipelines:,}" for one in measured]
    head = ["pipelines", *names, *([f"{names[-1]} : {names[0]}"] if len(names) > 1 else [])]
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def _row(what: str, values: Sequence[float | None], digits: int) -> list[str]:
    shown = ["" if value is None else f"{value:,.{digits}f}" for value in values]
    if len(values) == 1:
        return [what, *shown]
    first, last = values[0], values[-1]
    return [what, *shown, f"{last / first:.1f}" if first and last is not None else ""]


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def _most(values: Sequence[float]) -> float | None:
    return max(values, default=None)


Row = tuple[str, int, Callable[[Measured], float | None]]


def _cpu(when: str, part: str) -> Row:
    title = {"idle": "nothing due", "due": "all due", "waiting": "all waiting"}[when]
    name = "starts of tasks" if part == "tasks" else part
    return f"{title}: {name}, CPU s a minute", 1, lambda one: getattr(one, when).cpu_per_minute(part)


_ROWS: list[Row] = [
    *(_cpu("idle", part) for part in PARTS),
    *((f"nothing due: {part}, MB", 0, lambda one, part=part: one.idle.memory.get(part)) for part in PARTS),
    ("DAG files", 0, lambda one: one.files),
    ("nothing due: seconds of the DAG processor for a file", 2, lambda one: _mean(one.idle.files)),
    ("nothing due: for all files, one after another, s", 2, lambda one: one.files * (_mean(one.idle.files) or 0)),
    ("nothing due: mean loop of the scheduler, ms", 0, lambda one: _mean(one.idle.loops)),
    ("nothing due: longest time between heartbeats, s", 1, lambda one: _most(one.idle.heartbeats)),
    ("all due: start of a run's first task, median, s after the minute", 1, lambda one: median(one.delays)),
    ("all due: start of the last run's first task, s", 1, lambda one: max(one.delays)),
    ("all due: all wait for files, s", 0, lambda one: one.due.seconds),
    *(_cpu("due", part) for part in ("scheduler", "tasks", "api-server", "database")),
    ("all due: CPU s of the start of a task", 2, lambda one: one.due.cpu["tasks"] / (2 * one.pipelines)),
    ("all due: mean loop of the scheduler, ms", 0, lambda one: _mean(one.due.loops)),
    ("all due: longest loop of the scheduler, ms", 0, lambda one: _most(one.due.loops)),
    ("all due: longest time between heartbeats, s", 1, lambda one: _most(one.due.heartbeats)),
    ("all waiting: triggers", 0, lambda one: _most(one.waiting.triggers)),
    *(_cpu("waiting", part) for part in PARTS),
    ("all waiting: triggerer, MB", 0, lambda one: one.waiting.memory["triggerer"]),
    ("jobs at a time, at most", 0, lambda one: one.jobs),
    ("slots of the pool spark", 0, lambda one: one.slots),
]
"""Rows of the table: what it is, digits after the point, and the figure of one measurement."""
