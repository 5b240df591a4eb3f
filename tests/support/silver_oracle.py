"""What the silver tables of silver_world.py must hold, in plain Python over the landed files, by today's definition.

It shares no code with what is tested. Files are read in the order of their modification times: whoever lands files
gives each a later time than all before, a file that is landed again too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

# A record's place in the order of arrival: its file's time and path, and the line.
Arrival = tuple[float, str, int]

FILTERED = 9


@dataclass(frozen=True)
class Today:
    """Today's definition of table ``t``.

    Attributes:
        order: which of several records with one key wins; ``every``: there are no keys.
        least: the rule ``big`` wants a greater ``v``.
        shift: seconds that the transform adds to the event time.
    """

    order: Literal["first", "latest", "every"] = "first"
    least: int = 0
    shift: int = 0


def expected(landing: Path, today: Today) -> dict[str, Counter[Any]]:
    """Rows of ``t`` and of its quarantine, and how many records are set aside for which reason."""
    names = _names(landing / "names")
    quarantine: Counter[Any] = Counter()
    aside: Counter[str] = Counter()
    good: list[tuple[Arrival, dict[str, Any]]] = []
    for arrival, record in _records(landing / "raw"):
        if record.get("k") == FILTERED:
            aside["filtered"] += 1
            continue
        row = _row(record, names, today)
        broken = _broken(record, row, today)
        if broken - {"small"}:
            quarantine[(*_values(row), tuple(sorted(broken)))] += 1
        elif broken:
            aside["dropped"] += 1
        else:
            good.append((arrival, {**row, "seq": record.get("seq")}))
    winners = _winners(good, today)
    if len(good) > len(winners):
        aside["superseded" if today.order == "latest" else "duplicate"] = len(good) - len(winners)
    return {"t": Counter(_values(row) for row in winners), "quarantine": quarantine, "aside": aside}


def _names(folder: Path) -> dict[int, str | None]:
    """Of the records of each ``n`` the one with the greatest ``seq``, of equal ones the last to arrive."""
    best: dict[int, tuple[int, Arrival, str | None]] = {}
    for arrival, record in _records(folder):
        if record.get("n") is None or record.get("seq") is None:
            continue
        held = best.get(record["n"])
        if held is None or (record["seq"], arrival) >= held[:2]:
            best[record["n"]] = (record["seq"], arrival, record.get("name"))
    return {n: name for n, (_, _, name) in best.items()}


def _records(folder: Path) -> Iterator[tuple[Arrival, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json"), key=lambda file: (file.stat().st_mtime, str(file))):
        for number, line in enumerate(file.read_text().splitlines()):
            yield (file.stat().st_mtime, str(file), number), json.loads(line)


def _row(record: dict[str, Any], names: dict[int, str | None], today: Today) -> dict[str, Any]:
    seconds = record.get("s")
    at = None if seconds is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds + today.shift)
    return {"id": record["id"], "k": record.get("k"), "name": names.get(record.get("n", -1)), "at": at,
            "v": _whole_number(record.get("v"))}  # fmt: skip


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column] for column in ("id", "k", "name", "at", "v"))


def _whole_number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _broken(record: dict[str, Any], row: dict[str, Any], today: Today) -> set[str]:
    """The rules that a row breaks; what a rule cannot judge breaks it."""
    value = row["v"]
    held = {
        "CAST(r.v AS INT) fits": record.get("v") is None or value is not None,
        "k is not null": row["k"] is not None or today.order == "every",
        "at is not null": row["at"] is not None,
        "seq is not null": record.get("seq") is not None or today.order != "latest",
        "big": value is not None and value > today.least,
        "small": value is not None and value < 100,
        "known": row["name"] is not None,
    }
    return {rule for rule, holds in held.items() if not holds}


def _winners(good: list[tuple[Arrival, dict[str, Any]]], today: Today) -> list[dict[str, Any]]:
    if today.order == "every":
        return [row for _, row in good]
    winners: dict[int, tuple[Any, dict[str, Any]]] = {}
    for arrival, row in good:
        held = winners.get(row["k"])
        rank = (row["seq"], arrival) if today.order == "latest" else (0, arrival)
        better = held is None or (rank > held[0] if today.order == "latest" else rank < held[0])
        if better:
            winners[row["k"]] = (rank, row)
    return [row for _, row in winners.values()]
