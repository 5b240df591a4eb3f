"""Detection of a CSV header. In doubt the first line is a row: no row may be lost."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sluicegate.tools.scaffold.infer_types import NOTHING, is_other_date, kind_of_text, words

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

# A number as people write it: with a decimal comma, or with its thousands apart.
_WRITTEN_NUMBER = re.compile(r"[+-]?[0-9]{1,3}(?:[., '\u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?|[+-]?[0-9]+,[0-9]+")

_DOUBT = "in doubt, see --header and --no-header"


def guess(rows: Sequence[Sequence[str]]) -> tuple[bool, bool, str]:
    """Guesses whether the first of some rows is a header.

    A header taken for data is one row too many, which can be seen; data taken for a header is a row lost in each file.
    So a header has to be certain: words over numbers or times, or column names over texts.

    Args:
        rows: the first rows, each with its values as texts.

    Returns:
        whether it is one, whether that is in doubt, and the remark for the report.
    """
    first = [cell.strip() for cell in rows[0]]
    columns = [[row[n].strip() for row in rows[1:] if n < len(row)] for n in range(len(first))]
    if sum(re.fullmatch(r"(19|20)[0-9][0-9]", cell) is not None for cell in first) > 1:
        return False, True, f"there is no header, and the first line is a row ({_DOUBT})"  # years name columns, too
    if not any(first) or any(_is_figure(cell) for cell in first if cell):
        return False, False, "there is no header"
    if any(cell.lower() in _MISSING for cell in first) or _recurs(first, columns):
        return False, False, "there is no header"
    typed = [first[n] for n, values in enumerate(columns) if _is_typed(values)]
    if any(typed):
        if all(_is_name(cell) for cell in typed):
            return True, False, "the first line is a header"
        return False, True, f"there is no header, and the first line is a row ({_DOUBT})"
    if len({cell.casefold() for cell in first}) == len(first) and _names_columns(first):
        return True, len(rows) == 1, "the first line is a header" + (f" ({_DOUBT})" if len(rows) == 1 else "")
    return False, True, f"there is no header, and the first line is a row ({_DOUBT})"


def _recurs(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """Whether a value of the first row recurs in its own column, as no column name does."""
    return any(cell and cell in values for cell, values in zip(first, columns, strict=True))


def _is_typed(values: Sequence[str]) -> bool:
    """Whether all values are numbers, times or the like."""
    there = [value for value in values if value and value.lower() not in _MISSING]
    return bool(there) and all(_is_figure(value) for value in there)


def _is_figure(text: str) -> bool:
    """Whether a text is a number, a time or the like, also as only people write them."""
    return kind_of_text(text) != "STRING" or is_other_date(text) or _WRITTEN_NUMBER.fullmatch(text) is not None


def _is_name(cell: str) -> bool:
    """Whether a cell over numbers is no value itself, as ``$5.00``, ``12 kg`` or ``1 Jan 2024`` is one."""
    if not any(char.isdigit() for char in cell) or cell[0].isalpha():
        return True
    signs = [char.isdigit() for char in cell if char.isalnum()]
    return 2 * sum(signs) <= len(signs) and not re.fullmatch(r"\W*\d[\d.,:/ -]*\s*\S{0,3}", cell)


def _names_columns(first: Sequence[str]) -> bool:
    """Whether texts over texts are column names: at least half are known words, or written as programs write names."""
    there = [cell for cell in first if cell]
    said = [
        cell
        for cell in there
        if cell.lower() in _NAMES
        or words(cell)[-1:] in (["id"], ["name"], ["code"], ["date"], ["time"], ["type"], ["number"])
        or re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+|[a-z]+([A-Z][a-z0-9]+)+", cell)
    ]
    return 2 * len(said) >= len(there)
