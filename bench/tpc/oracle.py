"""What the tables must hold, by DuckDB over the landed files: it shares no code with what it is held against."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

HERE = Path(__file__).resolve().parent
RELATIVE, ABSOLUTE = 1e-9, 2e-6
"""By how much numbers may differ that one engine divides as decimals of six digits and the other as doubles."""


@dataclass(frozen=True)
class Difference:
    """A row that only one side has; of rows that differ in numbers only, the first.

    Attributes:
        table: the table.
        ours: what Sluicegate has, of the first difference.
        theirs: what DuckDB has there.
        counts: rows of both.
    """

    table: str
    ours: Any
    theirs: Any
    counts: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.table} has {self.counts[0]} rows for {self.counts[1]}; first {self.ours} for {self.theirs}"


class Oracle:
    """DuckDB over the files of a landing folder.

    Args:
        pipeline: ``tpch`` or ``tpcdi``.
        landing: the folder.
    """

    def __init__(self, pipeline: str, landing: Path) -> None:
        self._folder = HERE / "oracle" / pipeline
        self.connection = duckdb.connect(config={"threads": 2})
        self.connection.execute("SET TimeZone = 'UTC'")
        views = (self._folder / "_sources.sql").read_text().replace("LANDING", str(landing))
        self.connection.execute(views)

    @property
    def tables(self) -> list[str]:
        """The tables of which it knows what they must hold."""
        return sorted(path.stem for path in self._folder.glob("*.sql") if not path.stem.startswith("_"))

    def rows(self, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Columns and rows that a table must have."""
        found = self.connection.sql((self._folder / f"{table}.sql").read_text())
        return list(found.columns), found.fetchall()

    def difference(self, table: str, ours: Sequence[dict[str, Any]]) -> Difference | None:
        """The first difference between a table's rows, as multisets, and what they must be; None without any."""
        columns, theirs = self.rows(table)
        return _first_difference(table, [tuple(row[name] for name in columns) for row in ours], theirs)


def _first_difference(
    table: str, ours: Iterable[tuple[Any, ...]], theirs: Iterable[tuple[Any, ...]]
) -> Difference | None:
    left, right = (sorted(map(_plain, rows), key=_order) for rows in (ours, theirs))
    counts = len(left), len(right)
    for a, b in zip(left, right, strict=False):
        if not all(map(_is_same, a, b)):
            return Difference(table, a, b, counts)
    if counts[0] != counts[1]:
        longer = (left if counts[0] > counts[1] else right)[min(counts)]
        pair = (longer, None) if counts[0] > counts[1] else (None, longer)
        return Difference(table, pair[0], pair[1], counts)
    return None


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return float(value) if isinstance(value, (Decimal, int)) and not isinstance(value, bool) else value


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Rows in the order of what is no number, and then of numbers, rounded."""
    texts = ("" if isinstance(value, float) else str(value) for value in row)
    return (*texts, *(round(value, 3) if isinstance(value, float) else 0.0 for value in row))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return bool(one == other)
