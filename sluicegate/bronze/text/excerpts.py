"""Cut out of a landed text what has its records: the lines below those that are skipped, or a value inside of JSON.

This runs on executors: it knows nothing of Spark.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator

from sluicegate.bronze.file_sizes import FileFault
from sluicegate.bronze.text.csv_records import Grammar

# What nests in a JSON text, and texts, in which nothing does.
NESTING = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*"?|[\[\]{}]', re.DOTALL)

_SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")
_BLANKS = re.compile(r"[\s\ufeff]*")


def skip_lines(texts: Iterable[str], count: int, grammar: Grammar) -> Iterator[str]:
    """Yield a CSV text without its first lines.

    Args:
        texts: the text, in parts.
        count: number of lines to skip.
        grammar: characters with a meaning.

    Raises:
        FileFault: the text has fewer lines, or one of them may be a record or the header: it has as many values as the
            first line that is read.
    """
    parts, head, first = iter(texts), "", ""
    for part in parts:
        head += part
        # The last line may go on in the next part.
        first = _first_record(_lines(head)[count:-1], grammar)
        if first:
            break
    lines = _lines(head)
    skipped, below = lines[:count], lines[count:]
    if head.strip() and len(skipped) < count:
        raise FileFault(f"it has fewer lines than skipRows leaves out ({count:,})")
    values = grammar.filled_count(first or _first_record(below, grammar))
    for number, line in enumerate(skipped, 1):
        if 1 < values <= grammar.filled_count(line):
            raise FileFault(f"skipRows is {count:,}, but line {number:,} may be a record or the header, by its values")
    yield "".join(below)
    yield from parts


def _lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


def _first_record(lines: Iterable[str], grammar: Grammar) -> str:
    return next((line for line in lines if not grammar.is_no_record(line)), "")


def json_extent(text: str, path: Iterable[str]) -> tuple[int, int]:
    """Return where the value of a field begins and ends in a JSON text; one that is not closed ends with the text.

    Args:
        text: the text, an object.
        path: name of the field, after those of the objects around it.

    Raises:
        FileFault: the text has no such field, or several, or more than one value.
    """
    start, end = 0, value_end(text)
    if text[end:].strip():
        raise FileFault("it has more than one JSON value")
    for name in path:
        extents = [(first, last) for field, first, last in json_fields(text, start) if field == name]
        if len(extents) != 1:
            raise FileFault(f"it has {len(extents) or 'no'} fields {name} where its records should be (`records`)")
        ((start, end),) = extents
    return start, end


def value_end(text: str) -> int:
    """Return where the first value of a JSON text ends."""
    return _value_end(text, _skip_blanks(text, 0))


def json_fields(text: str, place: int) -> Iterator[tuple[str, int, int]]:
    """Yield the fields of the object at a place, as far as the text goes: name, beginning and end of the value."""
    place = _skip_blanks(text, place)
    if text[place : place + 1] != "{":
        return
    place = _skip_blanks(text, place + 1)
    while text[place : place + 1] == '"':
        end = _value_end(text, place)
        start = _skip_blanks(text, _skip_blanks(text, end) + 1)
        value_end = _value_end(text, start)
        yield _name(text[place:end]), start, value_end
        place = _skip_blanks(text, _skip_blanks(text, value_end) + 1)


def _name(written: str) -> str:
    try:
        return str(json.loads(written))
    except ValueError:
        return ""


def _skip_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    if blanks is None:
        return place
    return blanks.end()


def _value_end(text: str, place: int) -> int:
    if scalar := _SCALAR.match(text, place):
        return scalar.end()
    depth = 0
    for token in NESTING.finditer(text, place):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth <= 0:
            return token.end()
    return len(text)
