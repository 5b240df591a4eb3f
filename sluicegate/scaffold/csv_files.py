"""How a CSV text is written: its separator, its header and its quotes, by a look at its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate.scaffold.kinds import kind_of_text

SEPARATORS = (",", ";", "\t", "|")

# Rows by which the separator is told, and the longest value that is looked at, in characters.
_FIRST, _LONGEST = 200, 1 << 20


@dataclass(frozen=True)
class CsvText:
    """A CSV text.

    Attributes:
        options: options of Spark's reader that its texts need.
        columns: names of its columns; ``_c0``, ``_c1``, … where it names none, as Spark calls them.
        rows: rows below the header; a value that is empty is None.
        guessed: what of that is a guess, in words.
    """

    options: dict[str, str]
    columns: list[str]
    rows: list[list[str | None]]
    guessed: list[str]


def read(text: str, whole: bool, most: int, header: bool | None = None) -> CsvText | None:
    """Reads the beginning of a CSV text.

    Args:
        text: the text, or its beginning.
        whole: whether it is all of the text; else its last line may be cut off.
        most: most rows to read.
        header: whether there is a header; None to guess.

    Returns:
        what it is; None if it is no table.
    """
    backslash = re.search(r'\\"', text) is not None
    separator = max(SEPARATORS, key=lambda one: _fit(_rows(text, one, whole, _FIRST, backslash)))
    found = _rows(text, separator, whole, most + 1, backslash)
    if not found:
        return None
    wide = len(found[0]) if header else max(Counter(len(row) for row in found).items(), key=lambda one: one[1])[0]
    guessed = []
    if header is None:
        header = _has_header(found)
        guessed.append("the first line is a header" if header else "there is no header")
    names = found[0] if header else [""] * max(wide, len(found[0]))
    columns = [name or f"_c{number}" for number, name in enumerate(names)]
    rows = [_filled(row, len(columns)) for row in found[header : most + header]]
    options = {"header": "true" if header else "false"}
    if separator != ",":
        options["sep"] = separator
    if '"' in text and not backslash:
        options["escape"] = '"'  # as most programs write it: a quote in a quoted value is doubled
    if any("\n" in value for row in found for value in row):
        options["multiLine"] = "true"
    return CsvText(options, columns, rows, guessed)


def _filled(row: Sequence[str], count: int) -> list[str | None]:
    return [value or None for value in [*row, *[""] * (count - len(row))][:count]]


def _rows(text: str, separator: str, whole: bool, most: int, backslash: bool) -> list[list[str]]:
    """Rows that are not blank; one that is cut off by the end of the look is left out."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST * 8))
    escape = "\\" if backslash else None
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, escapechar=escape, doublequote=not backslash
    )
    found = []
    ahead = _safely(reader)
    last: list[str] | None = None
    for row in ahead:
        if last:
            found.append(last)
        if len(found) >= most:
            return found
        last = row
    if last and (whole or not found):
        found.append(last)
    return found


def _safely(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        for row in reader:
            if any(value.strip() for value in row):
                yield [value.replace("\r\n", "\n") for value in row]
    except csv.Error:
        return


def _fit(rows: list[list[str]]) -> tuple[float, int]:
    """How well a separator fits: the share of rows with the usual number of columns, then that number."""
    if not rows:
        return (0.0, 0)
    columns, often = max(Counter(len(row) for row in rows).items(), key=lambda one: (one[1], one[0]))
    return (0.0, 0) if columns < 2 else (round(often / len(rows), 1), columns)


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: it has only words, and other rows have other things in their place."""
    first, rest = rows[0], rows[1:]
    if any(kind_of_text(cell.strip()) != "STRING" for cell in first if cell.strip()) or not any(first):
        return False
    if any(len(cell) > 100 for cell in first):
        return False
    columns = [[row[n] for row in rest if n < len(row) and row[n]] for n in range(len(first))]
    if any(values and all(kind_of_text(value) != "STRING" for value in values) for values in columns):
        return True
    distinct = len({cell.casefold() for cell in first}) == len(first)
    return distinct and all(first[n] not in values for n, values in enumerate(columns))
