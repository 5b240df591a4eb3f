"""Realistic heart-rate files, in the shape that ``pipelines/heart_rate`` and ``pipelines/healthcare_dlh`` read.

::

    {landing}/patients/patients.csv              mrn,name; written once, and read if it is there already
    {landing}/recordings/recordings-000001.json  an array of {device_id, mrn, time, heartrate}
    {landing}/recordings/recordings-000002.json  goes on in time where the former one ended
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluicegate.errors import UserError
from sluicegate.tools.simulators import engine
from sluicegate.tools.simulators.engine import File, Kind, Landed, Order, Record

EVERY = 900.0  # seconds between two readings of one device, as trackers in the field send them
PATIENTS = 8
STRANGERS = 2
INVALID_SHARE = 0.003
UNKNOWN_SHARE = 0.004

_FIRST = ("Ada", "Bruno", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kavya", "Liam")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Novak", "Silva", "Haddad", "Brandt", "Rossi", "Kowalski", "Iyer")


@dataclass
class _Wearer:
    """Patient with a heart rate: it follows from the record number, so that files agree with each other."""

    mrn: int
    _days: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roll = engine.dice("wearer", self.mrn).random
        self.resting = 48 + 20 * roll()
        self.swing = 16 + 14 * roll()
        self.wakes = (5.5 + 3 * roll()) * 3600

    def rate(self, moment: float) -> float:
        """Return the beats per minute at a time (epoch seconds), without the noise of a single reading."""
        day, second = divmod(moment - self.wakes, engine.DAY)
        mood, starts, ends = self._days.get(int(day)) or self._plan(int(day))
        # Sixteen hours awake as one broad hump, then eight hours near the resting rate.
        awake = 0.0
        if second < 57_600.0:
            awake = math.sin(math.pi * second / 57_600.0)
        rate = self.resting + mood + self.swing * math.sqrt(awake)
        if starts <= second < ends:
            effort = (second - starts) / (ends - starts)
            rate += 75 * math.sin(math.pi * effort) ** 0.5
        return rate

    def _plan(self, day: int) -> tuple[float, float, float]:
        """Plan a day: mood (beats per minute), and start and end of exercise (seconds after waking)."""
        roll = engine.dice("day", day, self.mrn).random
        mood = 6 * roll() - 3
        starts, lasts = 3600 + 43_200 * roll(), 1500 + 3600 * roll()
        exercises = roll() < 0.7
        self._days[day] = (mood, starts, starts + lasts if exercises else starts)
        return self._days[day]


def _line(record: Record) -> str:
    """Format a reading as trackers write it, with a fixed number of digits."""
    digits = {"time": ".3f", "heartrate": ".4f"}
    values = (
        format(value, digits[name]) if name in digits and isinstance(value, float) else json.dumps(value)
        for name, value in record.items()
    )
    return "{" + ", ".join(f'"{name}": {value}' for name, value in zip(record, values, strict=True)) + "}"


def _delay(reading: Record) -> None:
    reading["time"] -= engine.LATE


def _drift(reading: Record) -> None:
    reading |= {"device_id": str(reading["device_id"]), "battery": 100 - reading["device_id"] % 90}


LEADING = Kind("recordings", "heartrate", _delay, _drift, _line, array=True)


def files(home: Path, number: int, order: Order) -> Iterable[File]:
    """Make the next file of recordings; the patients are written once, and then read.

    Raises:
        UserError: the existing files cannot be continued.
    """
    mrns = _patients(home / "patients" / "patients.csv", order.seed)
    slot = _slot(_width(mrns), _newest_reading_time(home / LEADING.folder), order.begin)
    readings, patients = _readings(mrns, slot, order.records, engine.dice(order.seed, "file", number - 1))
    yield LEADING.file(number, readings, order.faults, engine.dice(order.seed, "faults", number), patients)


def _width(mrns: list[int]) -> float:
    """Return the seconds of a slot: those between two readings of one device, over the devices of patients."""
    return EVERY / (len(mrns) + len(mrns) // 4)


def _slot(width: float, after: float | None, begin: float) -> int:
    """Return the first slot of a file: after the newest reading (epoch seconds), or where a landing begins."""
    if after is None:
        return math.ceil((begin - engine.BEGIN) / width)
    return math.floor((after - engine.BEGIN) / width) + 1


def _readings(mrns: list[int], slot: int, records: int, lot: random.Random) -> tuple[list[Record], Landed]:
    """Make the readings of one file, from a slot on.

    Time is cut into slots; the devices take turns, and each reading is in the first half of its slot. So the time of
    the last reading determines the next slot and device, and no device reads twice at a time.
    """
    # The first patients wear two trackers: (device, wearer). The strangers' devices follow those of the patients.
    wearers = list(map(_Wearer, mrns))
    worn = list(enumerate([*wearers, *wearers[: len(wearers) // 4]], start=1))
    strange = [(len(worn) + n, _Wearer(mrn)) for n, mrn in enumerate(_strangers(mrns), start=1)]
    invalid, unknown = _faulty_indexes(records, lot)
    width = _width(mrns)
    readings = []
    roll, noise = lot.random, lot.gauss
    for n in range(records):
        moment = round(engine.BEGIN + width * (slot + n + 0.5 * roll()), 3)
        if n in unknown:
            device, wearer = strange[n % STRANGERS]
        else:
            device, wearer = worn[(slot + n) % len(worn)]
        rate = wearer.rate(moment) + noise(0.0, 2.5)
        if n in invalid:
            rate = -rate / 100 if roll() < 0.3 else 0.0
        readings.append({"device_id": device, "mrn": wearer.mrn, "time": moment, "heartrate": rate})
    moments = [reading["time"] for reading in readings]
    return readings, engine.landed_facts(moments, invalid=len(invalid), unknown=len(unknown))


def _faulty_indexes(records: int, lot: random.Random) -> tuple[set[int], set[int]]:
    """Choose invalid readings and those of unknown patients: disjoint, so that the counts are exact."""
    invalid, unknown = (
        engine.record_count(INVALID_SHARE, records, lot),
        engine.record_count(UNKNOWN_SHARE, records, lot),
    )
    chosen = []
    if invalid + unknown <= records:
        chosen = lot.sample(range(records), invalid + unknown)
    return set(chosen[:invalid]), set(chosen[invalid:])


def _strangers(mrns: list[int]) -> list[int]:
    patients, lot = set(mrns), engine.dice("strangers")
    strange: list[int] = []
    while len(strange) < STRANGERS:
        mrn = _mrn(lot)
        if mrn not in patients:
            patients.add(mrn)
            strange.append(mrn)
    return strange


def _mrn(lot: random.Random) -> int:
    return 10_000_000 + int(90_000_000 * lot.random())


def _patients(path: Path, seed: int | None) -> list[int]:
    """Return the record numbers of the patients in the file, and write the file if there is none."""
    if not path.exists():
        lot = engine.dice(seed, "patients")
        people = sorted({_mrn(lot) for _ in range(PATIENTS)})
        names = lot.sample([f"{first} {last}" for first in _FIRST for last in _LAST], len(people))
        engine.write(path, "mrn,name\n" + "".join(f"{mrn},{name}\n" for mrn, name in zip(people, names, strict=True)))
    with suppress(ValueError, KeyError, TypeError, csv.Error):
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        if mrns := list(dict.fromkeys(int(row["mrn"]) for row in rows)):
            return mrns
    raise UserError(
        f"{path} has no patients to simulate recordings for",
        hint="its first line must be mrn,name, followed by one patient per line; delete it to create a new one",
    )


def _newest_reading_time(recordings: Path) -> float | None:
    """Return the time of the newest reading in the newest simulated file that has one."""
    return next((max(times) for _, path in engine.numbered_files(recordings) if (times := _times(path))), None)


def _times(path: Path) -> list[float]:
    try:
        readings: Any = json.loads(path.read_bytes())
        return [float(reading["time"]) for reading in readings]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a file of recordings, so the time of the last one is unknown",
            cause=f"{type(error).__name__}: {error}",
            hint="repair or remove it",
        ) from error
