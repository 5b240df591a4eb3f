"""What is other between the rows that a case expects and those that a table has: two multisets of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sluicegate.tools.testing.values import Value, close, shown

Row = tuple[Value, ...]

# Rows of each kind that are told; all are counted.
SHOWN = 20


@dataclass
class TableDifference:
    """How one table differs from what a case expects. Values are texts for people.

    Attributes:
        table: name of the table.
        step: which run of the case it was behind, counted from 1.
        line: where the expectation stands in its file.
        columns: the columns that were looked at.
        missing: rows that are expected and not there.
        unexpected: rows that are there and not expected.
        changed: rows that are there with other values: for each the expected and the found texts, column by column.
        counts: how many rows there are of each of these kinds, which may be more than are told.
        expected: how many rows are expected.
        found: how many rows the table has.
        note: what else there is to say.
    """

    table: str
    step: int
    line: int
    columns: list[str] = field(default_factory=list)
    missing: list[list[str]] = field(default_factory=list)
    unexpected: list[list[str]] = field(default_factory=list)
    changed: list[list[list[str]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    expected: int | None = None
    found: int = 0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def unmatched(expected: Sequence[Row], found: Sequence[Row], tolerance: float = 0.0) -> tuple[list[Row], list[Row]]:
    """The rows of each side that have no counterpart on the other, as multisets; the order of rows means nothing.

    With a tolerance as many rows as possible find one: which of several that are close is taken is not left to chance.

    Returns:
        the rows that are only expected, and those that are only found, each in the order in which it was given.
    """
    missing, unexpected = _less(expected, found), _less(found, expected)
    if not tolerance or not missing or not unexpected:
        return missing, unexpected
    near = [[n for n, row in enumerate(unexpected) if close(wanted, row, tolerance)] for wanted in missing]
    taken: dict[int, int] = {}
    for number in range(len(missing)):
        _assign(number, near, taken, set())
    matched = set(taken.values())
    return (
        [row for number, row in enumerate(missing) if number not in matched],
        [row for number, row in enumerate(unexpected) if number not in taken],
    )


def _less(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """The rows without as many of each as there are others."""
    left, rest = Counter(others), []
    for row in rows:
        if left[row]:
            left[row] -= 1
        else:
            rest.append(row)
    return rest


def _assign(number: int, near: list[list[int]], taken: dict[int, int], seen: set[int]) -> bool:
    """Gives a row one of those that are near it, if need be by giving another row another one (Kuhn's algorithm)."""
    for one in near[number]:
        if one not in seen:
            seen.add(one)
            if one not in taken or _assign(taken[one], near, taken, seen):
                taken[one] = number
                return True
    return False


def pairs(missing: list[Row], unexpected: list[Row], keys: Sequence[int] = ()) -> list[tuple[Row, Row]]:
    """Rows of both sides that are one row with other values, and takes them out of the two lists.

    Args:
        missing: rows that are only expected.
        unexpected: rows that are only found.
        keys: positions of the columns that name a row; rows with the same ones belong together. Without them those
            do that agree in most columns, and in at least half of them.
    """
    found = []
    for wanted in list(missing):
        other = _nearest(wanted, unexpected, keys)
        if other is not None:
            found.append((wanted, other))
            missing.remove(wanted)
            unexpected.remove(other)
    return found


def _nearest(wanted: Row, rows: list[Row], keys: Sequence[int]) -> Row | None:
    if keys:
        return next((row for row in rows if all(row[at] == wanted[at] for at in keys)), None)

    def alike(row: Row) -> int:
        return sum(one == other for one, other in zip(row, wanted, strict=True))

    best = max(rows, key=alike, default=None)
    return best if best is not None and alike(best) * 2 >= max(len(wanted), 2) else None


def compare(
    diff: TableDifference,
    expected: Sequence[Row],
    found: Sequence[Row],
    *,
    keys: Sequence[int] = (),
    tolerance: float = 0.0,
    partly: bool = False,
) -> bool:
    """Compares rows and writes down how they differ.

    Args:
        diff: takes the difference.
        expected: the rows that are expected, in the columns that are looked at.
        found: the rows that the table has in these columns.
        keys: positions of the columns that name a row; may be none.
        tolerance: see ``unmatched``.
        partly: whether the table may have other rows besides.

    Returns:
        whether there is no difference.
    """
    missing, unexpected = unmatched(expected, found, tolerance)
    if not missing and (partly or not unexpected):
        return True
    changed = pairs(missing, unexpected, keys)
    if partly:
        unexpected = []
    diff.counts = {"missing": len(missing), "unexpected": len(unexpected), "changed": len(changed)}
    diff.missing = [list(map(shown, row)) for row in missing[:SHOWN]]
    diff.unexpected = [list(map(shown, row)) for row in unexpected[:SHOWN]]
    diff.changed = [[list(map(shown, row)) for row in pair] for pair in changed[:SHOWN]]
    return False
