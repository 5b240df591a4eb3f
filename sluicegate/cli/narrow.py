"""Tables on a terminal that is narrower than they are: no word is broken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

GAP = 2
"""Blanks between two columns."""


def split_empty(
    columns: Iterable[Sequence[str]], numbers: Collection[str]
) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """Return the columns that have a value below their heading, and the others; in ``numbers``, 0 is none."""
    filled, empty = [], []
    for column in columns:
        ignored = {""}
        if column[0] in numbers:
            ignored = {"", "0"}
        if set(column[1:]) <= ignored:
            empty.append(column)
        else:
            filled.append(column)
    return filled, empty


def fit_widths(columns: Sequence[Sequence[str]], limit: int) -> list[int] | None:
    """Return a width for each column with which cells break only at blanks; None if the limit is too small for that."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in columns]
    slack = [
        width - max(cell_len(word) for cell in column for word in cell.split(" "))
        for width, column in zip(widths, columns, strict=True)
    ]
    for _ in range(sum(widths) + GAP * (len(columns) - 1) - limit):
        widest = max(range(len(slack)), key=slack.__getitem__)
        if slack[widest] == 0:
            return None
        slack[widest] -= 1
        widths[widest] -= 1
    return widths


def records(columns: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield the rows one below the other, a line for each cell that is not empty."""
    width = max(len(column[0]) for column in columns)
    for number in range(1, len(columns[0])):
        if number > 1:
            yield ""
        for column in columns:
            if column[number]:
                yield f"{column[0]:<{width}}  {column[number]}"
