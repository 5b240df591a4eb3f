"""Metadata of files, without their records: the footers of Parquet and ORC, the headers of Avro and CSV."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluicegate.bronze import avro_header
from sluicegate.storage import filesystems

# Errors of opening or reading a file that is gone or broken.
BROKEN = (OSError, EOFError, ValueError, LookupError, TypeError, csv.Error)


def footer(path: str, form: str) -> dict[str, Any]:
    """Schema (``fields``) and number of records (``records``; Avro: None) of a Parquet, ORC or Avro file.

    Of Parquet also the names of the columns without a type (``void``), which Spark takes for INT.
    Or what is wrong with it (``error``).
    """
    import pyarrow as pa
    from pyarrow import orc, parquet

    try:
        with filesystems.reader(path) as file:
            if form == "avro":
                return {"fields": avro_header.schema(file), "records": None}
            void: list[str] = []
            if form == "parquet":
                about = parquet.read_metadata(file)
                found, records = about.schema.to_arrow_schema(), about.num_rows
                void = [field.name for field in found if pa.types.is_null(field.type)]
            else:
                opened = orc.ORCFile(file)
                found, records = opened.schema, opened.nrows
            # Without other metadata, which may differ in each file.
            fields = found.to_string(show_field_metadata=False, show_schema_metadata=False)
            return {"fields": str(fields), "records": int(records), "void": void}
    except (*BROKEN, pa.ArrowException) as error:
        return {"error": _reason(error)}


def header(path: str, options: Mapping[str, str], separator: str) -> dict[str, Any]:
    """The names in the first line of a CSV file (``fields``), or what is wrong with it (``error``).

    Args:
        path: the file.
        options: the reader's options by their names in small letters.
        separator: one character.
    """
    comment, quote = options.get("comment"), options.get("quote", '"')
    several = options.get("multiline", "").lower() == "true"
    try:
        with filesystems.reader(
            path, "rt", "infer", newline="", encoding="utf-8-sig", errors="surrogateescape"
        ) as file:
            uncommented = (line for line in file if not (comment and line.startswith(comment)))
            lines = itertools.dropwhile(lambda line: not line.strip(), uncommented)
            style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
            # Without multiLine the header ends with its line, whatever quote is open there.
            read = _RecordedLines(lines if several else (line.rstrip("\r\n") for line in itertools.islice(lines, 1)))
            names = next(csv.reader(read, delimiter=separator, **style), [])
            if several and _is_open(read.lines, delimiter=separator, **style):
                return {"error": "a quote in its header is never closed, so that all of it would be the header"}
    except BROKEN as error:
        return {"error": _reason(error)}
    if wrong := next((char for name in names for char in name if "\udc80" <= char <= "\udcff"), ""):
        return {"error": f"its header has the byte 0x{ord(wrong) - 0xDC00:02X}, which is no text in UTF-8: the option "
                         "encoding names the encoding that it is in, such as windows-1252"}  # fmt: skip
    front, back = (options.get(f"ignore{side}whitespace", "").lower() == "true" for side in ("leading", "trailing"))
    names = [name.lstrip() if front else name for name in names]
    return {"fields": [name.rstrip() if back else name for name in names]}


class _RecordedLines:
    """Iterator that keeps the lines that were read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self.lines = iter(lines), list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.lines.append(line)
            yield line


def _is_open(lines: Sequence[str], **style: Any) -> bool:
    """Whether a file ends in a quote that one of its lines has begun."""
    try:
        next(csv.reader(lines, strict=True, **style), [])
    except csv.Error as error:  # Python has no other word for it
        return str(error) == "unexpected end of data"
    return False


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
