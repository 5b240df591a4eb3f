"""Rows as written in a case: a list of ``{column: value}``, lists of values, or CSV text with a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.definition.yaml import Document, Path
from sluicegate.tools.testing.model import Place, Rows

_WHOLE = re.compile(r"-?(0|[1-9]\d*)")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


class RowsFault(Exception):
    """Raised for a value that is not rows.

    Args:
        message: one sentence.
        path: its path in the document.
        line: its line, where that is not the line of the path.
        hint: what to write instead (may be empty).
    """

    def __init__(self, message: str, path: Path, line: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.path, self.line, self.hint = message, path, line, hint


def read(value: Any, file: str, document: Document, path: Path, columns: Sequence[str] = ()) -> Rows:
    """Read rows.

    Args:
        value: value of the document at ``path``.
        file: the document's file, for places.
        document: the document.
        path: path of the rows in it.
        columns: names of the columns, if each row is a list of values.

    Raises:
        RowsFault: they are not rows.
    """
    if isinstance(value, str):
        if columns:
            raise RowsFault("CSV text has its columns in the first line: remove columns", path)
        return _parse_csv(value, file, document, path)
    if not isinstance(value, list):
        raise RowsFault("expected rows as a list of {column: value} or as CSV text", path)
    records, places = [], []
    for number, row in enumerate(value):
        place = (*path, number)
        records.append(_record(row, place, columns))
        places.append(Place.from_path(file, document, place))
    names = tuple(columns) or tuple(dict.fromkeys(name for record in records for name in record))
    return Rows(names, tuple(records), tuple(places))


def _record(row: Any, path: Path, columns: Sequence[str]) -> dict[str, Any]:
    if columns and isinstance(row, list):
        if len(row) != len(columns):
            raise RowsFault(f"expected {len(columns)} values, but this row has {len(row)}", path)
        return dict(zip(columns, row, strict=True))
    if not isinstance(row, dict) or columns:
        form = "a list of values, one for each of columns" if columns else "{column: value}"
        raise RowsFault(f"a row must be {form}", path)
    return row


def _parse_csv(text: str, file: str, document: Document, path: Path) -> Rows:
    lines = list(_lines(text, path, document.texts.get(path)))
    if not lines:
        raise RowsFault("the CSV text is empty", path, hint="the first line must list the columns")
    (first, header), *data_lines = lines
    if "" in header or len(set(header)) < len(header):
        raise RowsFault("duplicate column in the header of CSV text", path, first)
    records, places = [], []
    for line, values in data_lines:
        if len(values) != len(header):
            sentence = f"the header has {len(header)} columns, but this row has {len(values)} values"
            raise RowsFault(sentence, path, line, 'put a value that contains a comma in double quotes: "a, b"')
        records.append({name: value or None for name, value in zip(header, values, strict=True)})
        places.append(Place(file, ".".join(map(str, path)), line or document.line(path)))
    return Rows(tuple(header), tuple(records), tuple(places), texts=True)


def _lines(text: str, path: Path, first: int | None) -> Iterator[tuple[int | None, list[str]]]:
    """Yield the CSV records with their line numbers in the file, where these are known."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    line = 1
    try:
        for values in reader:
            if values:
                yield (None if first is None else first + line - 1), values
            line = reader.line_num + 1
    except csv.Error as error:
        raise RowsFault(f"invalid CSV: {error}", path, None if first is None else first + line - 1) from None


def typed_value(value: Any) -> Any:
    """Give a CSV text its type: a number, true or false, or the text itself."""
    if not isinstance(value, str):
        return value
    if value in ("true", "false"):
        return value == "true"
    if _WHOLE.fullmatch(value):
        return int(value)
    if _NUMBER.fullmatch(value):
        return float(value)
    return value
