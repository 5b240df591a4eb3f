"""Detection of a CSV header, and of lines above it. In doubt the first line is a row: no row may be lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluicegate.bronze.text.csv_records import Grammar
from sluicegate.tools.scaffold.naming import words
from sluicegate.tools.scaffold.readings import NOTHING, is_figure

# Words that are column names far more often than values. One of them makes a line of texts over texts a header.
_NAMES = {
    "address", "amount", "category", "city", "code", "comment", "comments", "country", "created", "currency",
    "customer", "date", "datetime", "day", "description", "device", "email", "event", "firstname", "first_name",
    "gender", "id", "key", "label", "language", "lastname", "last_name", "location", "message", "name", "note",
    "notes", "phone", "price", "product", "quantity", "reason", "region", "remark", "sku", "state", "status",
    "street", "surname", "text", "time", "timestamp", "title", "type", "unit", "updated", "url", "user", "username",
    "uuid", "value", "why", "zip",
}  # fmt: skip

# Words for a missing value: data, wherever they are.
_MISSING = {word.lower() for word in NOTHING if word} | {
    "missing", "unknown", "n.a.", "nan", "nil", "not available", "not applicable", "tbd",
}  # fmt: skip

# The line by which Excel is told the separator.
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)

_DOUBT = "in doubt, see --header and --no-header"


@dataclass(frozen=True)
class HeaderGuess:
    """Whether the first row of a CSV file is a header, whether that is in doubt, and the remark for the report."""

    header: bool
    in_doubt: bool
    remark: str


_HEADER = HeaderGuess(True, False, "the first line is a header")
_HEADER_IN_DOUBT = HeaderGuess(True, True, f"the first line is a header ({_DOUBT})")
_NO_HEADER = HeaderGuess(False, False, "no header")
_NO_HEADER_IN_DOUBT = HeaderGuess(False, True, f"no header: the first line is a row ({_DOUBT})")


def guess(rows: Sequence[Sequence[str]]) -> HeaderGuess:
    """Guess whether the first of some rows is a header.

    A header taken for data is one row too many, which can be seen; data taken for a header is a row lost in each file.
    So a header has to be certain: words over numbers or times, or column names over texts.

    Args:
        rows: the first rows, each with its values as texts.
    """
    first = [cell.strip() for cell in rows[0]]
    columns = [[row[n].strip() for row in rows[1:] if n < len(row)] for n in range(len(first))]
    if _has_years(first):
        return _NO_HEADER_IN_DOUBT  # years name columns, too
    if _has_figure(first) or _has_recurring_value(first, columns):
        return _NO_HEADER
    over_figures = [cell for cell, values in zip(first, columns, strict=True) if _is_typed(values)]
    if any(map(_may_be_missing, first)) or not any(first):
        return _outvote(first, over_figures)
    if any(over_figures):
        return _HEADER if all(map(_is_name, over_figures)) else _NO_HEADER_IN_DOUBT
    return _guess_over_texts(first, rows)


def _guess_over_texts(first: Sequence[str], rows: Sequence[Sequence[str]]) -> HeaderGuess:
    if not _are_different(first) or not _are_column_names(first):
        return _NO_HEADER_IN_DOUBT
    if len(rows) == 1:
        return _HEADER_IN_DOUBT
    return _HEADER


def _outvote(first: Sequence[str], over_figures: Sequence[str]) -> HeaderGuess:
    """A header, in doubt, if more columns of figures have a name than words of the first row may be data."""
    names = [cell for cell in over_figures if cell and not _may_be_missing(cell) and _is_name(cell)]
    if len(names) > sum(map(_may_be_missing, first)):
        return _HEADER_IN_DOUBT
    return _NO_HEADER


def _has_years(cells: Sequence[str]) -> bool:
    """Whether several cells are years."""
    return sum(re.fullmatch(r"(19|20)[0-9][0-9]", cell) is not None for cell in cells) > 1


def _has_figure(cells: Sequence[str]) -> bool:
    return any(cell and not _may_be_missing(cell) and is_figure(cell) for cell in cells)


def _may_be_missing(cell: str) -> bool:
    """Whether a cell is a word for nothing, or a short name: null, NA for sodium, or no for a number."""
    return cell.lower() in _MISSING or cell.lower() == "no"


def _are_different(cells: Sequence[str]) -> bool:
    return len({cell.casefold() for cell in cells}) == len(cells)


def _has_recurring_value(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether a value of the first row recurs in its own column, as no column name does."""
    return any(cell and cell in values for cell, values in zip(first, columns, strict=True))


def _is_typed(values: Sequence[str]) -> bool:
    """Whether all values are numbers, times or the like."""
    present = [value for value in values if value and value.lower() not in _MISSING]
    return bool(present) and all(is_figure(value) for value in present)


def _is_name(cell: str) -> bool:
    """Whether a cell over numbers is no value itself, as ``$5.00``, ``12 kg`` or ``1 Jan 2024`` is one."""
    if not any(char.isdigit() for char in cell) or cell[0].isalpha():
        return True
    signs = [char.isdigit() for char in cell if char.isalnum()]
    return 2 * sum(signs) <= len(signs) and not re.fullmatch(r"\W*\d[\d.,:/ -]*\s*\S{0,3}", cell)


def _are_column_names(first: Sequence[str]) -> bool:
    """Whether texts over texts are column names: at least half are known words, or written as programs write names."""
    texts = [cell for cell in first if cell]
    common = [
        cell
        for cell in texts
        if cell.lower() in _NAMES
        or words(cell)[-1:] in (["id"], ["name"], ["code"], ["date"], ["time"], ["type"], ["number"])
        or re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+", cell)
    ]
    return 2 * len(common) >= len(texts)


def named_separator(line: str) -> str:
    """Separator that the first line of a text names, as ``sep=;``; empty if it names none."""
    named = _SEPARATOR.fullmatch(line)
    if named is None:
        return ""
    return named[1]


def preamble_length(lines: Sequence[str], grammar: Grammar) -> int:
    """Number of the first lines that are neither a header nor records, by their values; 0 if only comments are there.

    They have at most half of the values that most lines have, and each of them fewer than the next line: bronze takes
    others for records, in later files too.
    """
    usual = usual_width(grammar.count(line) for line in lines if not grammar.is_no_record(line))
    values = [0 if grammar.is_no_record(line) else grammar.filled_count(line) for line in lines]
    length = next((number for number, count in enumerate(values) if 2 * count > usual), 0)
    if 0 < max(values[:length], default=0) < values[length]:
        return length
    return 0


def usual_width(widths: Iterable[int]) -> int:
    """The most frequent number of values in a row."""
    counts = Counter(widths)
    return max(counts, key=lambda width: counts[width], default=1)
