"""Difference between the rows that a case expects and those of a table, as multisets.

In Python and not by ``frames.difference.compare``: the few rows are on the driver, some are paired by no key but by
most of their values, and a value that a case writes as YAML takes its type from the column (``values.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluicegate.tools.testing.values import Value, display_value, is_close

Row = tuple[Value, ...]

# Rows of each kind that are listed; all are counted.
SHOWN = 20


@dataclass
class TableDifference:
    """Difference of one table from what a case expects. Values are texts for people.

    Attributes:
        table: name of the table.
        step: step of the case after which it was compared, counted from 1.
        line: line of the expectation in its file.
        columns: the columns compared.
        missing: rows that are expected and absent.
        unexpected: rows that are present and not expected.
        changed: rows with other values: for each the expected and the found texts, column by column.
        counts: number of rows of each of these kinds, which may be more than are listed.
        expected: number of rows expected.
        found: number of rows in the table.
        note: anything else (may be empty).
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


def unmatched_rows(expected: Sequence[Row], actual: Sequence[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """Return the rows of each side without a counterpart on the other, as multisets; row order does not matter.

    With a tolerance, as many rows as possible are matched: the choice among several close ones is not left to chance.

    Returns:
        the rows only expected, and those only found, each in its original order.
    """
    missing, unexpected = _subtract_rows(expected, actual), _subtract_rows(actual, expected)
    if not tolerance or not missing or not unexpected:
        return missing, unexpected
    near = [
        [number for number, row in enumerate(unexpected) if is_close(expected, row, tolerance)] for expected in missing
    ]
    taken: dict[int, int] = {}
    for number in range(len(missing)):
        _assign(number, near, taken, set())
    matched = set(taken.values())
    return (
        [row for number, row in enumerate(missing) if number not in matched],
        [row for number, row in enumerate(unexpected) if number not in taken],
    )


def _subtract_rows(rows: Sequence[Row], subtracted: Sequence[Row]) -> list[Row]:
    """Subtract rows as multisets."""
    counts, more = Counter(subtracted), []
    for row in rows:
        if counts[row]:
            counts[row] -= 1
        else:
            more.append(row)
    return more


def _assign(number: int, near: list[list[int]], taken: dict[int, int], visited: set[int]) -> bool:
    """Match a row with one near it, rematching other rows if need be (Kuhn's algorithm)."""
    for candidate in near[number]:
        if candidate not in visited:
            visited.add(candidate)
            if candidate not in taken or _assign(taken[candidate], near, taken, visited):
                taken[candidate] = number
                return True
    return False


def pair_rows(missing: list[Row], unexpected: list[Row], keys: Sequence[int] = ()) -> list[tuple[Row, Row]]:
    """Pair rows of both sides that are one row with other values, and remove them from the two lists.

    Args:
        missing: rows that are only expected.
        unexpected: rows that are only found.
        keys: positions of the key columns; rows with equal keys are paired. Without keys, rows that agree in most
            columns are, and in at least half of them.
    """
    row_pairs = []
    for row_expected in list(missing):
        other = _nearest_row(row_expected, unexpected, keys)
        if other is not None:
            row_pairs.append((row_expected, other))
            missing.remove(row_expected)
            unexpected.remove(other)
    return row_pairs


def _nearest_row(row_expected: Row, rows: list[Row], keys: Sequence[int]) -> Row | None:
    if keys:
        return next((row for row in rows if all(row[column] == row_expected[column] for column in keys)), None)

    def equal_value_count(row: Row) -> int:
        return sum(value == expected_value for value, expected_value in zip(row, row_expected, strict=True))

    best = max(rows, key=equal_value_count, default=None)
    if best is not None and equal_value_count(best) * 2 >= max(len(row_expected), 2):
        return best
    return None


def compare(
    diff: TableDifference,
    expected: Sequence[Row],
    actual: Sequence[Row],
    *,
    keys: Sequence[int] = (),
    tolerance: float = 0.0,
    partly: bool = False,
) -> bool:
    """Compare rows and record their difference.

    Args:
        diff: the table's difference, which is filled in.
        expected: the expected rows, in the compared columns.
        actual: the table's rows in these columns.
        keys: positions of the key columns; may be none.
        tolerance: see ``unmatched_rows``.
        partly: True if the table may have other rows besides.

    Returns:
        whether there is no difference.
    """
    missing, unexpected = unmatched_rows(expected, actual, tolerance)
    if not missing and (partly or not unexpected):
        return True
    changed = pair_rows(missing, unexpected, keys)
    if partly:
        unexpected = []
    diff.counts = {"missing": len(missing), "unexpected": len(unexpected), "changed": len(changed)}
    diff.missing = [list(map(display_value, row)) for row in missing[:SHOWN]]
    diff.unexpected = [list(map(display_value, row)) for row in unexpected[:SHOWN]]
    diff.changed = [[list(map(display_value, row)) for row in pair] for pair in changed[:SHOWN]]
    return False
