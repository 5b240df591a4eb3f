"""What heart_rate must give, computed from the landed files in plain Python: it shares no code with what is tested."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def expected(landing: Path, corrected: Callable[[float], float] = float) -> dict[str, Any]:
    """Silver, quarantine and gold of everything in a landing folder.

    Args:
        landing: the folder.
        corrected: what a corrected transform makes of a heart rate.

    Returns:
        ``silver`` as a multiset of (device, mrn, name, time, heartrate), ``quarantine`` as a multiset of
        (device, mrn, broken rules), ``duplicates`` as a number, and ``gold`` as {(mrn, name, day): average}.
    """
    names: dict[int, str] = {}
    for file in sorted((landing / "patients").glob("*.csv"), key=_arrival):
        with file.open(newline="") as lines:
            names |= {int(row["mrn"]): row["name"] for row in csv.DictReader(lines)}
    silver: dict[tuple[int, float], tuple[Any, ...]] = {}
    quarantine: Counter[tuple[Any, ...]] = Counter()
    duplicates = 0
    for file in sorted((landing / "recordings").glob("*.json"), key=_arrival):
        for record in json.loads(file.read_text()):
            device, mrn, seconds = int(record["device_id"]), int(record["mrn"]), float(record["time"])
            name, sent = names.get(mrn), record["heartrate"]
            rate = None if sent is None else corrected(float(sent))
            broken = []
            if rate is None or not rate > 0:
                broken.append("valid_heartrate")
            if name is None:
                broken.append("known_patient")
            if broken:
                quarantine[(device, mrn, tuple(broken))] += 1
            elif (device, seconds) in silver:
                duplicates += 1
            else:
                time = datetime.fromtimestamp(seconds, UTC)
                silver[(device, seconds)] = (device, mrn, name, time, rate)
    days: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for _, mrn, name, time, rate in silver.values():
        days[(mrn, name, time.replace(hour=0, minute=0, second=0, microsecond=0))].append(rate)
    return {
        "silver": Counter(silver.values()),
        "quarantine": quarantine,
        "duplicates": duplicates,
        "gold": {key: sum(rates) / len(rates) for key, rates in days.items()},
    }


def _arrival(file: Path) -> tuple[float, str]:
    return file.stat().st_mtime, str(file)
