"""Engine of all simulators: numbered files, landed whole, one after another, and fault injection.

There is no hidden state: the next file follows from what is in the landing folder. The same seed on the same landing
folder gives the same bytes, whether files are requested at once or one by one.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sluicegate.errors import UserError

BEGIN = datetime(2025, 3, 3, 6, tzinfo=UTC).timestamp()  # a Monday morning: the usual first record of a landing
DAY = 86_400.0
LATE = 2 * DAY  # how much older late records are than others in their file

Record = dict[str, Any]

_DIGITS = 6  # so that names sort in time up to a file a second for eleven days


@dataclass(frozen=True)
class Faults:
    """Faults to inject, besides the few that always occur.

    Attributes:
        drift: schema drift: records have one more field, and one of their numbers is a string.
        duplicates: share of records that are repeated in their file.
        bad: share of records with a text or nothing where a number should be; some JSON lines are also truncated.
        late: share of records that come two days late, or refer to something that only the next files describe.
    """

    drift: bool = False
    duplicates: float = 0.0
    bad: float = 0.0
    late: float = 0.0


@dataclass(frozen=True)
class Order:
    """What the files that are asked for shall be.

    Attributes:
        records: how many records each file of facts has.
        seed: the same one on the same landing folder gives the same bytes; None for other records each time.
        faults: faults to inject.
        begin: time (epoch seconds) of the first record in an empty landing.
    """

    records: int
    seed: int | None
    faults: Faults
    begin: float = BEGIN


@dataclass(frozen=True)
class Landed:
    """One file that has landed.

    Attributes:
        path: the file.
        records: number of records in it, truncated ones included.
        first: time of its first record before any is made late, UTC; None where records have no time.
        last: time of its last record, UTC, in the same way.
        faults: faults in it, each with its number of records.
    """

    path: str
    records: int
    first: datetime | None = None
    last: datetime | None = None
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class File:
    """File about to land; the path in ``landed`` is relative to the landing folder."""

    text: str
    landed: Landed


@dataclass(frozen=True)
class Kind:
    """Kind of record: its landing folder, and its faults.

    Attributes:
        folder: folder below the landing; also the prefix of its files' names.
        number: the field without a number in a bad record; None: none is bad.
        delay: makes a record late; None: none is late.
        drift: gives a record the drifted schema.
        line: a record as text.
        array: whether a file is one JSON array; else JSON lines.
    """

    folder: str
    number: str | None = None
    delay: Callable[[Record], None] | None = None
    drift: Callable[[Record], None] | None = None
    line: Callable[[Record], str] = json.dumps
    array: bool = False

    def path(self, number: int) -> str:
        """Return the path of the file with a number, below the landing folder."""
        return f"{self.folder}/{self.folder}-{number:0{_DIGITS}d}.json"

    def file(self, number: int, records: list[Record], faults: Faults, lot: random.Random, facts: Landed) -> File:
        """Make a file of records, some of them faulty.

        Args:
            number: sequence number of the file.
            records: its records; they are modified.
            faults: faults to inject.
            lot: random choice of the records with faults.
            facts: report on the file, as far as it is complete.
        """
        late = self._delay_records(records, faults, lot)
        bad = self._spoil_numbers(records, faults, lot)
        duplicates = _sample_indexes(records, faults.duplicates, lot)
        if faults.drift and self.drift:
            for record in records:
                self.drift(record)
        lines = list(map(self.line, records))
        if not self.array:
            for n in bad[::3]:
                lines[n] = lines[n][: len(lines[n]) // 2]
        lines += [lines[n] for n in duplicates]
        injected = {"late": len(late), "bad": len(bad), "duplicates": len(duplicates)}
        all_faults = dict(facts.faults) | {name: count for name, count in injected.items() if count}
        landed = replace(facts, path=self.path(number), records=len(lines), faults=all_faults)
        return File(self._text(lines), landed)

    def _delay_records(self, records: list[Record], faults: Faults, lot: random.Random) -> list[int]:
        """Make some records late; their numbers."""
        if not self.delay:
            return []
        late = _sample_indexes(records, faults.late, lot)
        for n in late:
            self.delay(records[n])
        return late

    def _spoil_numbers(self, records: list[Record], faults: Faults, lot: random.Random) -> list[int]:
        """Make some records bad; their numbers."""
        if not self.number:
            return []
        bad = _sample_indexes(records, faults.bad, lot)
        for n in bad:
            records[n][self.number] = lot.choice(["n/a", None])
        return bad

    def _text(self, lines: Sequence[str]) -> str:
        if self.array:
            return "[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]\n"
        return "\n".join(lines) + "\n"


class Simulation(Protocol):
    """Interface of a pipeline's simulator module.

    Attributes:
        LEADING: the kind whose files say how many have landed; its file is the last one of its number.
    """

    LEADING: Kind

    def files(self, home: Path, number: int, order: Order) -> Iterable[File]:
        """Make the files with a number, that of ``LEADING`` last."""


def land(simulation: Simulation, landing: str, files: int, order: Order) -> Iterator[Landed]:
    """Land files number by number; each is complete by the time it is yielded.

    Raises:
        UserError: as ``Simulator.land``.
    """
    if files < 1:
        raise UserError(f"cannot land {files} files: use 1 or more")
    home = _landing_folder(landing, order)
    return (landed for _ in range(files) for landed in _land_next(simulation, home, order))


def land_continuously(simulation: Simulation, landing: str, every: float, order: Order) -> Iterator[Landed]:
    """Land the files of the next number every ``every`` seconds, the first at once, until the caller stops.

    Raises:
        UserError: as ``Simulator.land_continuously``.
    """
    if not 0 <= every < math.inf:
        raise UserError(f"files cannot land every {every} seconds: give 0 or more")
    return _land_forever(simulation, _landing_folder(landing, order), every, order)


def _land_forever(simulation: Simulation, home: Path, every: float, order: Order) -> Iterator[Landed]:
    due = time.monotonic()
    while True:
        yield from _land_next(simulation, home, order)
        # From the time that was due and not from now, so that the time for landing does not add up.
        due = max(due + every, time.monotonic() - every)
        time.sleep(max(0.0, due - time.monotonic()))


def _landing_folder(landing: str, order: Order) -> Path:
    if order.records < 1:
        raise UserError(f"a file cannot have {order.records} records: ask for 1 or more")
    for name in ("duplicates", "bad", "late"):
        if not 0 <= getattr(order.faults, name) <= 1:
            raise UserError(f"{name} must be a share of the records, from 0 to 1, not {getattr(order.faults, name)}")
    if "://" in landing:
        raise UserError(
            f"files can be simulated in a local folder only, not in {landing}",
            hint="land them in a folder and copy them up, or give --landing DIR",
        )
    return Path(landing).expanduser()


def _land_next(simulation: Simulation, home: Path, order: Order) -> list[Landed]:
    """Land the files of the next number."""
    leading = home / simulation.LEADING.folder
    landed = []
    try:
        leading.mkdir(parents=True, exist_ok=True)
        with _lock_folder(leading):
            number = max((n for n, _ in numbered_files(leading)), default=0) + 1
            for file in simulation.files(home, number, order):
                path = home / file.landed.path
                write(path, file.text)
                landed.append(replace(file.landed, path=str(path)))
    except OSError as error:
        raise UserError(f"cannot land files in {home}", cause=str(error)) from error
    return landed


def numbered_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a kind that a simulator landed, with their numbers, the newest first."""
    name = re.compile(rf"{re.escape(folder.name)}-(\d+)\.json")
    return sorted(
        ((int(match[1]), path) for path in folder.iterdir() if (match := name.fullmatch(path.name))), reverse=True
    )


def write(path: Path, text: str) -> None:
    """Write a file atomically: readers of the landing never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.tmp")
    with part.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def dice(*seed: object) -> random.Random:
    """Return random numbers determined by the seed; not reproducible if its first part is None."""
    return random.Random(None if seed[0] is None else " ".join(map(str, seed)))  # noqa: S311


def record_count(of: float, records: int, lot: random.Random) -> int:
    """Return the number of records for a share, rounded up with the probability of the fraction."""
    return int(records * of + lot.random())


def times(start: float, span: float, records: int, lot: random.Random) -> list[float]:
    """Return the times (epoch seconds) of the records of a file, which covers a span of its own."""
    width = span / records
    return [round(start + width * (n + 0.9 * lot.random()), 3) for n in range(records)]


def described_numbers(first: int, new: int, updated: int, number: int, lot: random.Random) -> list[int]:
    """Return the numbers of the entities in a file of a dimension: some that changed, then the new ones.

    Args:
        first: number of entities in the first file, which has all of them.
        new: number of entities that each later file adds.
        updated: number of earlier entities that each later file repeats.
        number: sequence number of the file.
        lot: random choice of the changed entities.
    """
    if number == 1:
        return list(range(1, first + 1))
    before = first + new * (number - 2)
    return [*sorted(lot.sample(range(1, before + 1), updated)), *range(before + 1, before + new + 1)]


def begin_of(first: Path, number: int, order: Order) -> float:
    """Return the time (epoch seconds) at which a landing begins, by its first file of a dimension if there is one.

    Args:
        first: the file, whose records were updated when the landing began.
        number: sequence number of the files to land.
        order: records, seed and faults of the simulation.
    """
    if number == 1:
        return order.begin
    try:
        with first.open(encoding="utf-8") as file:
            return datetime.fromisoformat(json.loads(file.readline())["updated"]).timestamp()
    except (OSError, ValueError, KeyError, TypeError):
        return order.begin  # it was moved away or changed since it was read


def landed_facts(moments: list[float], **faults: int) -> Landed:
    """Return the facts of a file with records of these times."""
    first, last = (datetime.fromtimestamp(moments[n], UTC) for n in (0, -1))
    return Landed("", len(moments), first, last, {name: count for name, count in faults.items() if count})


def _sample_indexes(records: list[Record], of: float, lot: random.Random) -> list[int]:
    if of <= 0:
        return []
    return sorted(lot.sample(range(len(records)), min(len(records), record_count(of, len(records), lot))))


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Wait for other simulators of the same folder: two of them would use one file name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock a folder, and one simulator is the rule
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
