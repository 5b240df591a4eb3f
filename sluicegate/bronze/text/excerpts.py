"""Cut out of a landed text what has its records: the lines below those that are skipped, or a value inside of JSON.

This runs on executors: it knows nothing of Spark.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from sluicegate.bronze.file_sizes import FileFault
from sluicegate.bronze.text.csv_records import Extent, Grammar, extent
from sluicegate.definition.tables.column_names import normalize_name

# Characters in which the first record has to end: until then the text is in memory, and split again with each part.
LONGEST_HEAD = 4 << 20

# What nests in a JSON text, and texts, in which nothing does.
NESTING = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*"?|[\[\]{}]', re.DOTALL)

_SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")
_BLANKS = re.compile(r"[\s\ufeff]*")


def skip_lines(texts: Iterable[str], count: int, grammar: Grammar, columns: Collection[str] = ()) -> Iterator[str]:
    """Yield a CSV text without its first lines.

    Args:
        texts: the text, in parts.
        count: number of lines to skip.
        grammar: characters with a meaning.
        columns: normalized names of columns by which the header is known; none if there is no header.

    Raises:
        FileFault: the text has fewer lines, or one of them may be a record or the header, or no record is near them.
    """
    parts, head = iter(texts), ""
    for part in parts:
        head += part
        # The last line may go on in the next part.
        if not _first_record(_lines(head)[count:-1], grammar)[1].whole:
            break
        if len(head) > LONGEST_HEAD:
            raise FileFault(f"no record is near the {count:,} lines that skipRows leaves out")
    lines = _lines(head)
    skipped, below = lines[:count], lines[count:]
    if head.strip() and len(skipped) < count:
        raise FileFault(f"it has fewer lines than skipRows leaves out ({count:,})")
    _demand_titles(skipped, below, grammar, columns)
    yield "".join(below)
    yield from parts


def _demand_titles(skipped: Sequence[str], below: Sequence[str], grammar: Grammar, columns: Collection[str]) -> None:
    """Refuse a skipped line that may be a record or the header.

    It may be one if it has as many values as the first record that is read. Where that certainly is the header, only
    another header is refused. Of one value nothing can be told.
    """
    record, extent_of_record = _first_record(below, grammar)
    values = grammar.filled_count(record)
    if not extent_of_record.closed:
        values = 2  # at least: its quotes contradict each other, or there is none
    has_header = _has_names(record, grammar, columns)
    for number, line in enumerate(skipped, 1):
        is_alike = not has_header and 1 < values <= grammar.filled_count(line)
        if is_alike or _has_names(line, grammar, columns):
            raise FileFault(f"skipRows is {len(skipped):,}, but line {number:,} may be a record or the header")


def _has_names(line: str, grammar: Grammar, columns: Collection[str]) -> bool:
    names = {normalize_name(value.strip().strip(grammar.quote)) for value in grammar.values(line)}
    return bool(columns) and names.issuperset(columns)


def _lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


def _first_record(lines: Iterable[str], grammar: Grammar) -> tuple[str, Extent]:
    """Return the first record of some lines, and its extent in the lines from its first; one of no line if none is."""
    below = list(itertools.dropwhile(grammar.is_no_record, lines))
    if not below:
        return "", Extent(0, closed=False, whole=True)
    record = extent(below, 0, grammar)
    return "".join(below[: record.end]), record


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
            raise FileFault(f"its records should be in one field {name} (`records`), but it has {len(extents)}")
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
