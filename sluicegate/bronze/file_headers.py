"""Read the metadata of files without their records: footers of Parquet and ORC, headers of Avro and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from sluicegate.bronze import avro_header
from sluicegate.bronze.text import undecodable
from sluicegate.spark_sql.types import MOST_DIGITS
from sluicegate.storage import filesystems

# Errors of opening or reading a file that is gone or broken.
BROKEN = (OSError, EOFError, ValueError, LookupError, TypeError, csv.Error)

# Logical types of Parquet that Spark refuses.
REFUSED = ("TIME", "FLOAT16", "UUID", "INTERVAL", "GEOMETRY", "GEOGRAPHY")

# pyarrow's name of a logical type that it does not know.
UNHEARD_OF = "UNDEFINED"

# Logical type, as Arrow writes it, of a column that only has NULL.
WITHOUT_TYPE = "NULL"
NEWER = (
    "the column {} has a type that Spark does not know, of a newer Parquet or by a mistake in the file, and Spark "
    "cannot read any column of such a file: write the column with another type"
)

# The last bytes of a file with an encrypted footer.
ENCRYPTED = b"PARE"


def footer(path: str, form: str) -> dict[str, Any]:
    """Return the schema (``fields``) and record count (``records``; Avro: None) of a Parquet, ORC or Avro file.

    For Parquet also ``refused``, whether it has a type that Spark refuses or an untyped part of a column, and ``void``,
    the names of untyped columns, which Spark reads as INT. If no part of an intact file can be read, ``unreadable`` has
    the reason; ``error`` has the fault of a damaged one.
    """
    import pyarrow as pa
    from pyarrow import orc

    try:
        with filesystems.reader(path) as file:
            if form == "avro":
                return {"fields": avro_header.schema(file), "records": None}
            if form == "parquet":
                return _parquet_footer(file)
            opened = orc.ORCFile(file)
            # Without other metadata, which may differ in each file.
            fields = opened.schema.to_string(show_field_metadata=False, show_schema_metadata=False)
            return {"fields": str(fields), "records": int(opened.nrows)}
    except (*BROKEN, pa.ArrowException) as error:
        return {"error": _reason(error)}


def _parquet_footer(file: IO[bytes]) -> dict[str, Any]:
    from pyarrow import parquet

    if _is_encrypted(file):
        return {"unreadable": "its footer is encrypted, which is not supported: land it decrypted"}
    about = parquet.read_metadata(file)
    schema = about.schema
    if not about.num_columns:
        return {"unreadable": f"it has {about.num_rows:,} records but no column"}
    columns = list(map(schema.column, range(about.num_columns)))
    if unknown := [column.path for column in columns if _logical_type(column) == UNHEARD_OF]:
        return {"unreadable": NEWER.format(unknown[0])}
    # By the types as they are stored: INT96 and INT64 (TIMESTAMP(NANOS)) are one to Arrow. The first two lines are the
    # object and the name of the root.
    fields = str(schema).split("\n", 2)[-1]
    void = [column for column in columns if _logical_type(column) == WITHOUT_TYPE]
    within = any(column.path != column.name for column in void)
    refused = within or any(map(_is_refused, columns))
    return {"fields": fields, "records": int(about.num_rows), "refused": refused,
            "void": [column.name for column in void if column.path == column.name]}  # fmt: skip


def _is_encrypted(file: IO[bytes]) -> bool:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - len(ENCRYPTED)))
    encrypted = file.read(len(ENCRYPTED)) == ENCRYPTED
    file.seek(0)
    return encrypted


def _logical_type(column: Any) -> str:
    """Return the logical type of a column.

    pyarrow calls some types that it knows UNKNOWN, INTERVAL and columns of NULLs among them.
    """
    named = str(column.logical_type.type)
    if named == "UNKNOWN":
        return str(json.loads(column.logical_type.to_json())["Type"]).upper()
    return named


def _is_refused(column: Any) -> bool:
    """Return whether Spark rejects files with such a column unless it is given a schema."""
    match _logical_type(column):
        case "TIMESTAMP":
            return str(json.loads(column.logical_type.to_json()).get("timeUnit")) == "nanoseconds"
        case "DECIMAL":
            return int(column.precision) > MOST_DIGITS
        case kind:
            return kind in REFUSED


def header(path: str, options: Mapping[str, str], separator: str) -> dict[str, Any]:
    """Return the names in the first line of a CSV file (``fields``), or its fault (``error``).

    Args:
        path: the file.
        options: reader options by lower-case name.
        separator: one character.
    """
    quote = options.get("quote", '"')
    several = options.get("multiline", "").lower() == "true"
    if quote:
        style: dict[str, Any] = {"quotechar": quote}
    else:
        style = {"quoting": csv.QUOTE_NONE}
    style["delimiter"] = separator
    try:
        with filesystems.reader(
            path, "rt", "infer", newline="", encoding="utf-8-sig", errors="surrogateescape"
        ) as file:
            lines = _HeaderLines(file, options.get("comment", ""), several=several)
            names = next(csv.reader(lines, **style), [])
            if several and _is_open(lines.texts, **style):
                return {"error": "a quote in its header is never closed, so the whole file would be its header"}
    except BROKEN as error:
        return {"error": _reason(error)}
    if fault := lines.fault:
        return {"error": f"its header has {fault}"}
    if options.get("ignoreleadingwhitespace", "").lower() == "true":
        names = [name.lstrip() for name in names]
    if options.get("ignoretrailingwhitespace", "").lower() == "true":
        names = [name.rstrip() for name in names]
    return {"fields": names}


class _HeaderLines:
    """Iterator over the lines of a file's header that keeps the lines it gave.

    Blank lines and comments before the header are skipped.

    Without multiLine the header ends with its line, whatever quote is open there.
    """

    def __init__(self, file: Iterable[str], comment: str, *, several: bool) -> None:
        self.texts: list[str] = []
        self.fault = ""
        self._lines, self._comment, self._several = enumerate(file, 1), comment, several

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            if self._comment and line.startswith(self._comment):
                continue
            if not self.texts and not line.strip():
                continue
            self.fault = self.fault or _fault(line, number)
            text = line
            if not self._several:
                text = line.rstrip("\r\n")
            self.texts.append(text)
            yield text
            if not self._several:
                return


def _fault(line: str, number: int) -> str:
    """Return why a line is not valid UTF-8; empty if it is.

    UTF-16 without a byte order mark has a NUL in each Latin letter.
    """
    if undecoded := undecodable.first_undecodable(line, number):
        return undecoded.reason("UTF-8")
    if "\0" in line:
        return f"a NUL character in line {number}, as in UTF-16: set the option encoding"
    return ""


def _is_open(lines: Sequence[str], **style: Any) -> bool:
    """Return whether a file ends within a quote that one of its lines opened."""
    try:
        next(csv.reader(lines, strict=True, **style), [])
    except csv.Error as error:  # Python has no other word for it
        return str(error) == "unexpected end of data"
    return False


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
