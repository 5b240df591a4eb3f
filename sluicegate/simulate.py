"""Lands realistic heart-rate files, one after another, in the shape that ``pipelines/heart_rate`` reads.

::

    {landing}/patients/patients.csv              mrn,name; written once, and read if it is there already
    {landing}/recordings/recordings-000001.json  an array of {device_id, mrn, time, heartrate}
    {landing}/recordings/recordings-000002.json  goes on in time where the former one ended

There is no hidden state: what to write next is worked out from what is in the landing folder. The same seed on the same
landing folder gives the same bytes, whether the files are asked for at once or one by one.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sluicegate.errors import UserError

BEGIN = datetime(2025, 3, 3, 6, tzinfo=UTC).timestamp()  # a Monday morning: the first reading of an empty landing
EVERY = 900.0  # seconds between two readings of one device, as trackers in the field send them
PATIENTS = 8
STRANGERS = 2
INVALID_SHARE = 0.003
UNKNOWN_SHARE = 0.004
DAY = 86_400.0

_NAME = re.compile(r"recordings-(\d+)\.json")
_DIGITS = 6  # so that names sort in time up to a file a second for eleven days
_FIRST = ("Ada", "Bruno", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kavya", "Liam")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Novak", "Silva", "Haddad", "Brandt", "Rossi", "Kowalski", "Iyer")


@dataclass(frozen=True)
class Landed:
    """One file that has landed.

    Attributes:
        path: the file.
        records: how many readings are in it.
        first: time of its first reading, UTC.
        last: time of its last reading, UTC.
        invalid: how many readings are at or below zero (a sensor that lost contact).
        unknown: how many readings belong to patients who are not in ``patients.csv``.
    """

    path: str
    records: int
    first: datetime
    last: datetime
    invalid: int
    unknown: int


@dataclass
class _Wearer:
    """A patient as their heart beats: all of it follows from the record number, so that files agree with each other."""

    mrn: int
    _days: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roll = _dice("wearer", self.mrn).random
        self.resting = 48 + 20 * roll()
        self.swing = 16 + 14 * roll()
        self.wakes = (5.5 + 3 * roll()) * 3600

    def rate(self, moment: float) -> float:
        """Beats a minute at a time (epoch seconds), without the noise of a single reading."""
        day, second = divmod(moment - self.wakes, DAY)
        mood, starts, ends = self._days.get(int(day)) or self._plan(int(day))
        # Sixteen hours awake as one broad hump, then eight hours near the resting rate.
        awake = math.sin(math.pi * second / 57_600.0) if second < 57_600.0 else 0.0
        rate = self.resting + mood + self.swing * math.sqrt(awake)
        if starts <= second < ends:
            effort = (second - starts) / (ends - starts)
            rate += 75 * math.sin(math.pi * effort) ** 0.5
        return rate

    def _plan(self, day: int) -> tuple[float, float, float]:
        """How the day differs from others: its mood (beats a minute) and when they exercise (seconds after waking)."""
        roll = _dice("day", day, self.mrn).random
        mood = 6 * roll() - 3
        starts, lasts = 3600 + 43_200 * roll(), 1500 + 3600 * roll()
        exercises = roll() < 0.7
        self._days[day] = (mood, starts, starts + lasts if exercises else starts)
        return self._days[day]


def simulate(landing: str, files: int = 1, records: int = 1000, seed: int | None = None) -> Iterator[Landed]:
    """Lands files one by one; each is whole and readable by the time it is yielded.

    Args:
        landing: the folder that files arrive in; it is made if missing. Local folders only.
        files: how many files to land.
        records: how many readings to put into each.
        seed: the same seed on the same landing folder gives the same bytes; ``None`` for other readings each time.

    Yields:
        What has landed, file by file.

    Raises:
        UserError: if the landing is a URI or cannot be written, or if what is there already cannot be gone on from.
    """
    if files < 1:
        raise UserError(f"there is no landing {files} files: ask for 1 or more")
    home = _home(landing, records)
    return (_land(home, records, seed) for _ in range(files))


def continuously(landing: str, every: float, records: int = 1000, seed: int | None = None) -> Iterator[Landed]:
    """Lands a file every so many seconds, the first at once, until the caller stops.

    Args:
        landing: the folder that files arrive in; it is made if missing. Local folders only.
        every: seconds from the landing of one file to that of the next.
        records: how many readings to put into each file.
        seed: as for :func:`simulate`.

    Yields:
        What has landed, file by file, without end.

    Raises:
        UserError: as :func:`simulate`, and if ``every`` is negative or not a number.
    """
    if not 0 <= every < math.inf:
        raise UserError(f"files cannot land every {every} seconds: give 0 or more")
    return _forever(_home(landing, records), every, records, seed)


def _forever(home: Path, every: float, records: int, seed: int | None) -> Iterator[Landed]:
    due = time.monotonic()
    while True:
        yield _land(home, records, seed)
        # From the time that was due and not from now, so that the time that landing takes does not add up.
        due = max(due + every, time.monotonic() - every)
        time.sleep(max(0.0, due - time.monotonic()))


def _home(landing: str, records: int) -> Path:
    if records < 1:
        raise UserError(f"a file cannot have {records} records: ask for 1 or more")
    if "://" in landing:
        raise UserError(
            f"files can be simulated in a local folder only, not in {landing}",
            hint="land them in a folder and copy them up, or give --landing DIR",
        )
    return Path(landing).expanduser()


def _land(home: Path, records: int, seed: int | None) -> Landed:
    recordings = home / "recordings"
    try:
        recordings.mkdir(parents=True, exist_ok=True)
        with _alone(recordings):
            mrns = _patients(home / "patients" / "patients.csv", seed)
            number, last = _former(recordings)
            path = recordings / f"recordings-{number + 1:0{_DIGITS}d}.json"
            text, landed = _file(path, mrns, last, records, _dice(seed, "file", number))
            _write(path, text)
    except OSError as error:
        raise UserError(f"cannot land files in {home}", cause=str(error)) from error
    return landed


def _file(path: Path, mrns: list[int], after: float | None, records: int, dice: random.Random) -> tuple[str, Landed]:
    """The text of one file whose readings lie after a time (epoch seconds; None: nothing has landed yet).

    Time is cut into slots; the devices take turns, and each reading lies somewhere in the first half of its slot. So
    the time of the last reading says which slot, and so which device, comes next, and no device reads twice at a time.
    """
    # The first patients wear two trackers: (device, wearer). The strangers' devices follow those of the patients.
    wearers = [_Wearer(mrn) for mrn in mrns]
    worn = list(enumerate([*wearers, *wearers[: len(wearers) // 4]], start=1))
    strange = [(len(worn) + n, _Wearer(mrn)) for n, mrn in enumerate(_strangers(mrns), start=1)]
    invalid, unknown = _odd(records, dice)
    width = EVERY / len(worn)
    slot = 0 if after is None else math.floor((after - BEGIN) / width) + 1
    lines, first, moment = [], math.inf, math.nan
    roll, noise = dice.random, dice.gauss
    for n in range(records):
        moment = round(BEGIN + width * (slot + n + 0.5 * roll()), 3)
        device, wearer = strange[n % STRANGERS] if n in unknown else worn[(slot + n) % len(worn)]
        rate = wearer.rate(moment) + noise(0.0, 2.5)
        if n in invalid:
            rate = -rate / 100 if roll() < 0.3 else 0.0
        first = min(first, moment)
        lines.append(f'  {{"device_id": {device}, "mrn": {wearer.mrn}, "time": {moment:.3f}, "heartrate": {rate:.4f}}}')
    landed = Landed(
        path=str(path),
        records=records,
        first=datetime.fromtimestamp(first, UTC),
        last=datetime.fromtimestamp(moment, UTC),
        invalid=len(invalid),
        unknown=len(unknown),
    )
    return "[\n" + ",\n".join(lines) + "\n]\n", landed


def _odd(records: int, dice: random.Random) -> tuple[set[int], set[int]]:
    """Which readings are invalid and which of unknown patients: apart from each other, so that the counts are plain."""

    def share(of: float) -> int:
        return int(records * of + dice.random())  # rounded up as often as the rest is large

    invalid, unknown = share(INVALID_SHARE), share(UNKNOWN_SHARE)
    chosen = dice.sample(range(records), invalid + unknown) if invalid + unknown <= records else []
    return set(chosen[:invalid]), set(chosen[invalid:])


def _strangers(mrns: list[int]) -> list[int]:
    known, dice = set(mrns), _dice("strangers")
    strange: list[int] = []
    while len(strange) < STRANGERS:
        mrn = _mrn(dice)
        if mrn not in known:
            known.add(mrn)
            strange.append(mrn)
    return strange


def _dice(*seed: object) -> random.Random:
    """Numbers that follow from what they are for; from nothing at all if the first of it is None."""
    return random.Random(None if seed[0] is None else " ".join(map(str, seed)))  # noqa: S311


def _mrn(dice: random.Random) -> int:
    return 10_000_000 + int(90_000_000 * dice.random())


def _patients(path: Path, seed: int | None) -> list[int]:
    """The patients' record numbers, as the file has them; writes the file if there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        dice = _dice(seed, "patients")
        people = sorted({_mrn(dice) for _ in range(PATIENTS)})
        names = dice.sample([f"{first} {last}" for first in _FIRST for last in _LAST], len(people))
        _write(path, "mrn,name\n" + "".join(f"{mrn},{name}\n" for mrn, name in zip(people, names, strict=True)))
    with suppress(ValueError, KeyError, TypeError, csv.Error):
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        if mrns := list(dict.fromkeys(int(row["mrn"]) for row in rows)):
            return mrns
    raise UserError(
        f"{path} has no list of patients that recordings could be made for",
        hint="it needs a line mrn,name, and then one patient a line; take it away to have one made",
    )


def _former(recordings: Path) -> tuple[int, float | None]:
    """Number of the newest file that we landed (0 if none), and the time of the newest reading in any of them."""
    ours = sorted(
        ((int(match[1]), path) for path in recordings.iterdir() if (match := _NAME.fullmatch(path.name))), reverse=True
    )
    for _, path in ours:
        if times := _times(path):
            return ours[0][0], max(times)
    return (ours[0][0] if ours else 0), None


def _times(path: Path) -> list[float]:
    try:
        readings: Any = json.loads(path.read_bytes())
        return [float(reading["time"]) for reading in readings]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a file of recordings, so there is no telling where it ends in time",
            cause=f"{type(error).__name__}: {error}",
            hint="mend it or take it away",
        ) from error


def _write(path: Path, text: str) -> None:
    """The file appears whole or not at all: readers of the landing never see half of it."""
    part = path.with_name(f".{path.name}.tmp")
    with part.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


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
