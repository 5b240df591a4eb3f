"""Fields of a JSON file around its records, as ``{"count": 2, "data": [{…}, {…}]}`` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sluicegate.bronze.text import excerpts
from sluicegate.tools.scaffold.naming import can_be_quoted, words

# Names of fields that programs give to the records of an answer, and others that records have, too.
_NAMES = {"content", "data", "docs", "documents", "features", "hits", "records", "result", "results", "rows", "value"}
_NAMES_OF_PARTS = {"elements", "entries", "events", "items", "list", "members", "objects", "observations", "values"}

# Objects around an array of records, each within another.
DEEPEST = 3

_OBJECTS = re.compile(r"\[\s*\{")


class WrappedRecords(NamedTuple):
    """Records inside of a JSON object: their path, their text, and whether that is a guess by their name alone."""

    path: str
    text: str
    is_certain: bool


def find_records(text: str) -> WrappedRecords | None:
    """Find the longest array of objects that is not within another array; None if the object has none."""
    arrays = list(_arrays(text, 0, ()))
    if not arrays:
        return None
    path, start, end = max(arrays, key=lambda array: array[2] - array[1])
    fields_around = [name for name, *_ in excerpts.json_fields(text, 0)]
    # What has an id is a record itself.
    has_id = any({"id", "uuid", "key"}.intersection(words(name)) for name in fields_around)
    field = path[-1].lower()
    is_certain = field in _NAMES or len(fields_around) == 1 or (field in _NAMES_OF_PARTS and not has_id)
    return WrappedRecords(".".join(path), text[start:end], is_certain)


def _arrays(text: str, place: int, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int, int]]:
    for name, start, end in excerpts.json_fields(text, place):
        if "." in name or not can_be_quoted(name):
            continue
        if _OBJECTS.match(text, start):
            yield (*path, name), start, end
        elif text[start : start + 1] == "{" and len(path) + 1 < DEEPEST:
            yield from _arrays(text, start, (*path, name))
