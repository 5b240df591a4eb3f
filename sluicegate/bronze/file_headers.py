"""Metadata of files, without their records: the footers of Parquet and ORC, the headers of Avro and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from sluicegate.bronze import avro_header
from sluicegate.sql.types import MOST_DIGITS
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
    "the column {} has a type that Spark does not know, of a newer version of Parquet or wrong in the file, and Spark "
    "reads no part of such a file: have the column written with another type"
)

# The last bytes of a file with an encrypted footer.
ENCRYPTED = b"PARE"


def footer(path: str, form: str) -> dict[str, Any]:
    """Schema (``fields``) and number of records (``records``; Avro: None) of a Parquet, ORC or Avro file.

    Of Parquet also whether it has a type that Spark refuses (``refused``), and the names of the columns without a type
    (``void``), which Spark takes for INT. Or why no part of a file can be read that is whole (``unreadable``), or what
    is wrong with it (``error``).
    """
    import pyarrow as pa
    from pyarrow import orc

    try:
        with filesystems.reader(path) as file:
            if form == "avro":
                return {"fields": avro_header.schema(file), "records": None}
            if form == "parquet":
                return _of_parquet(file)
            opened = orc.ORCFile(file)
            # Without other metadata, which may differ in each file.
            fields = opened.schema.to_string(show_field_metadata=False, show_schema_metadata=False)
            return {"fields": str(fields), "records": int(opened.nrows)}
    except (*BROKEN, pa.ArrowException) as error:
        return {"error": _reason(error)}


def _of_parquet(file: IO[bytes]) -> dict[str, Any]:
    from pyarrow import parquet

    if _is_encrypted(file):
        return {"unreadable": "its footer is encrypted, and there are no keys: land it decrypted"}
    about = parquet.read_metadata(file)
    schema = about.schema
    if not about.num_columns:
        return {"unreadable": f"it has no column, and {about.num_rows:,} records"}
    columns = [schema.column(at) for at in range(about.num_columns)]
    if unknown := [column.path for column in columns if _logical_type(column) == UNHEARD_OF]:
        return {"unreadable": NEWER.format(unknown[0])}
    # By the types as they are stored: INT96 and INT64 (TIMESTAMP(NANOS)) are one to Arrow. The first two lines are the
    # object and the name of the root.
    fields = str(schema).split("\n", 2)[-1]
    refused = any(map(_is_refused, columns))
    void = [column.name for column in columns if _logical_type(column) == WITHOUT_TYPE and column.path == column.name]
    return {"fields": fields, "records": int(about.num_rows), "refused": refused, "void": void}


def _is_encrypted(file: IO[bytes]) -> bool:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - len(ENCRYPTED)))
    encrypted = file.read(len(ENCRYPTED)) == ENCRYPTED
    file.seek(0)
    return encrypted


def _logical_type(column: Any) -> str:
    """Logical type of a column; pyarrow calls some that it knows UNKNOWN, INTERVAL and that of NULLs among them."""
    named = str(column.logical_type.type)
    return str(json.loads(column.logical_type.to_json())["Type"]).upper() if named == "UNKNOWN" else named


def _is_refused(column: Any) -> bool:
    """Whether Spark reads no file that has such a column, unless it is told how."""
    match _logical_type(column):
        case "TIMESTAMP":
            return str(json.loads(column.logical_type.to_json()).get("timeUnit")) == "nanoseconds"
        case "DECIMAL":
            return int(column.precision) > MOST_DIGITS
        case kind:
            return kind in REFUSED


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
