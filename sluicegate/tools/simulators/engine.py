"""What all simulators share: numbered files, landed whole, one after another, and what goes wrong with records.

There is no hidden state: what to write next is worked out from what is in the landing folder. The same seed on the same
landing folder gives the same bytes, whether the files are asked for at once or one by one.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sluicegate.errors import UserError

BEGIN = datetime(2025, 3, 3, 6, tzinfo=UTC).timestamp()  # a Monday morning: the first record of an empty landing
DAY = 86_400.0
LATE = 2 * DAY  # how much older late records are than those beside them

Record = dict[str, Any]

_DIGITS = 6  # so that names sort in time up to a file a second for eleven days


@dataclass(frozen=True)
class Faults:
    """What goes wrong in files, besides the little that always does.

    Attributes:
        drift: records have a field more, and a number of theirs comes in quotes.
        duplicates: share of records that stand in their file once more.
        bad: share of records with a text or nothing where a number should be; in files of JSON lines some are cut off.
        late: share of records that come two days late, or of something that is told of in the next files only.
    """

    drift: bool = False
    duplicates: float = 0.0
    bad: float = 0.0
    late: float = 0.0


@dataclass(frozen=True)
class Landed:
    """One file that has landed.

    Attributes:
        path: the file.
        records: how many records are in it, cut off ones included.
        first: time of its first record before any is made late, UTC; None where records have no time.
        last: time of its last record, UTC, in the same way.
        faults: what is wrong in it, each with its number of records.
    """

    path: str
    records: int
    first: datetime | None = None
    last: datetime | None = None
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class File:
    """A file that is about to land; ``landed`` tells of it, its path being below the landing folder."""

    text: str
    landed: Landed


@dataclass(frozen=True)
class Kind:
    """A kind of record: where its files land, and how it goes wrong.

    Attributes:
        folder: folder below the landing, which also begins the names of its files.
        number: the field that has no number in a bad record; None: none goes bad.
        delay: makes a record late; None: none comes late.
        drift: makes a record as it is after drift.
        line: a record as text.
        array: whether a file is one JSON array; else it has a record a line.
    """

    folder: str
    number: str | None = None
    delay: Callable[[Record], None] | None = None
    drift: Callable[[Record], None] | None = None
    line: Callable[[Record], str] = json.dumps
    array: bool = False

    def path(self, number: int) -> str:
        """Where its file with a number lands, below the landing folder."""
        return f"{self.folder}/{self.folder}-{number:0{_DIGITS}d}.json"

    def file(self, number: int, records: list[Record], faults: Faults, lot: random.Random, facts: Landed) -> File:
        """A file of records, some of which go wrong.

        Args:
            number: of the file.
            records: what is to stand in it; they are changed.
            faults: what goes wrong.
            lot: which records it hits.
            facts: what is known of the file so far.
        """
        late: list[int] = []
        bad: list[int] = []
        if self.delay:
            late = _some(records, faults.late, lot)
            for n in late:
                self.delay(records[n])
        if self.number:
            bad = _some(records, faults.bad, lot)
            for n in bad:
                records[n][self.number] = lot.choice(["n/a", None])
        duplicates = _some(records, faults.duplicates, lot)
        if faults.drift and self.drift:
            for record in records:
                self.drift(record)
        lines = [self.line(record) for record in records]
        if not self.array:
            for n in bad[::3]:
                lines[n] = lines[n][: len(lines[n]) // 2]
        lines += [lines[n] for n in duplicates]
        text = "[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]\n" if self.array else "\n".join(lines) + "\n"
        injected = {"late": len(late), "bad": len(bad), "duplicates": len(duplicates)}
        wrong = dict(facts.faults) | {name: count for name, count in injected.items() if count}
        return File(text, replace(facts, path=self.path(number), records=len(lines), faults=wrong))


class Simulation(Protocol):
    """What a pipeline's simulator is: a module with these.

    Attributes:
        LEADING: the kind whose files say how many have landed; its file is the last one of its number.
    """

    LEADING: Kind

    def files(self, home: Path, number: int, records: int, seed: int | None, faults: Faults) -> Iterable[File]:
        """The files with a number, that of ``LEADING`` last; ``records`` are in each file of facts."""


def land(
    what: Simulation, landing: str, files: int, records: int, seed: int | None, faults: Faults
) -> Iterator[Landed]:
    """Lands files number by number; each is whole and readable by the time it is yielded.

    Raises:
        UserError: as :func:`sluicegate.tools.simulators.simulate`.
    """
    if files < 1:
        raise UserError(f"there is no landing {files} files: ask for 1 or more")
    home = _home(landing, records, faults)
    return (landed for _ in range(files) for landed in _next(what, home, records, seed, faults))


def land_on(
    what: Simulation, landing: str, every: float, records: int, seed: int | None, faults: Faults
) -> Iterator[Landed]:
    """Lands the files of a number every so many seconds, the first at once, until the caller stops.

    Raises:
        UserError: as :func:`sluicegate.tools.simulators.continuously`.
    """
    if not 0 <= every < math.inf:
        raise UserError(f"files cannot land every {every} seconds: give 0 or more")
    return _forever(what, _home(landing, records, faults), every, records, seed, faults)


def _forever(
    what: Simulation, home: Path, every: float, records: int, seed: int | None, faults: Faults
) -> Iterator[Landed]:
    due = time.monotonic()
    while True:
        yield from _next(what, home, records, seed, faults)
        # From the time that was due and not from now, so that the time that landing takes does not add up.
        due = max(due + every, time.monotonic() - every)
        time.sleep(max(0.0, due - time.monotonic()))


def _home(landing: str, records: int, faults: Faults) -> Path:
    if records < 1:
        raise UserError(f"a file cannot have {records} records: ask for 1 or more")
    for name in ("duplicates", "bad", "late"):
        if not 0 <= getattr(faults, name) <= 1:
            raise UserError(f"{name} is a share of the records, from 0 to 1, and not {getattr(faults, name)}")
    if "://" in landing:
        raise UserError(
            f"files can be simulated in a local folder only, not in {landing}",
            hint="land them in a folder and copy them up, or give --landing DIR",
        )
    return Path(landing).expanduser()


def _next(what: Simulation, home: Path, records: int, seed: int | None, faults: Faults) -> list[Landed]:
    """Lands the files of the next number."""
    leading = home / what.LEADING.folder
    landed = []
    try:
        leading.mkdir(parents=True, exist_ok=True)
        with _alone(leading):
            number = max((n for n, _ in numbered(leading)), default=0) + 1
            for file in what.files(home, number, records, seed, faults):
                path = home / file.landed.path
                write(path, file.text)
                landed.append(replace(file.landed, path=str(path)))
    except OSError as error:
        raise UserError(f"cannot land files in {home}", cause=str(error)) from error
    return landed


def numbered(folder: Path) -> list[tuple[int, Path]]:
    """The files of a kind that we landed, with their numbers, the newest first."""
    name = re.compile(rf"{re.escape(folder.name)}-(\d+)\.json")
    return sorted(
        ((int(match[1]), path) for path in folder.iterdir() if (match := name.fullmatch(path.name))), reverse=True
    )


def write(path: Path, text: str) -> None:
    """Writes a file that appears whole or not at all: readers of the landing never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.tmp")
    with part.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def dice(*seed: object) -> random.Random:
    """Numbers that follow from what they are for; from nothing at all if the first of it is None."""
    return random.Random(None if seed[0] is None else " ".join(map(str, seed)))  # noqa: S311


def share(of: float, records: int, lot: random.Random) -> int:
    """So many of some records as a share is, rounded up as often as the rest is large."""
    return int(records * of + lot.random())


def times(number: int, span: float, records: int, lot: random.Random) -> list[float]:
    """Times (epoch seconds) of the records of a file, which has a span of so many seconds to itself."""
    start, width = BEGIN + span * (number - 1), span / records
    return [round(start + width * (n + 0.9 * lot.random()), 3) for n in range(records)]


def between(moments: list[float], **faults: int) -> Landed:
    """What is known of a file with records of some times."""
    first, last = (datetime.fromtimestamp(moments[n], UTC) for n in (0, -1))
    return Landed("", len(moments), first, last, {name: count for name, count in faults.items() if count})


def _some(records: list[Record], of: float, lot: random.Random) -> list[int]:
    if of <= 0:
        return []
    return sorted(lot.sample(range(len(records)), min(len(records), share(of, len(records), lot))))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits for other simulators of the same folder: two of them would give two files one name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock a folder, and one simulator is the rule
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
