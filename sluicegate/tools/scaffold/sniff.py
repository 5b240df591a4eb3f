"""Sample of a file: format, columns and first rows from its beginning. Large files are never read whole."""

from __future__ import annotations

import codecs
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from sluicegate.bronze.file_sizes import OPENERS, UNPACKING, FileFault
from sluicegate.bronze.text import csv_check, csv_records, excerpts
from sluicegate.bronze.text.csv_records import Grammar
from sluicegate.errors import SourceError, Where
from sluicegate.spark_sql.types import MOST_DIGITS
from sluicegate.tools import arrow_values
from sluicegate.tools.scaffold import csv_dialect, json_wrapping, text_encoding

ROWS = 1000
"""Most rows of a file that are sampled."""

BYTES = 4 << 20
"""Most bytes of a file, unpacked, that are sampled."""

CHECKED = 1 << 30
"""Most bytes of a CSV file of which all lines are looked at."""

SPLIT_CHARACTERS = 64 << 20
"""Most characters of a CSV file that is cut into records, if one of its lines can be read in two ways."""

Format = Literal["csv", "json", "parquet"]

_OTHERS = {
    b"ORC": "ORC", b"Obj\x01": "Avro", b"%PDF": "PDF", b"SQLite": "SQLite", b"7z\xbc\xaf": "a 7z archive",
}  # fmt: skip
_PACKED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz", b"\x28\xb5\x2f\xfd": ".zst", b"PK\x03\x04": ".zip"}
_WORKBOOKS = re.compile(r"\.(xls[xmb]?|ods)$", re.IGNORECASE)
_OF_LINES = {".jsonl", ".ndjson"}
_TEXT = {".csv", ".tsv", ".txt", ".tab", ".psv", ".dat", ""}


class JsonNumber(str):
    """JSON number as it is written: a float would lose digits."""


@dataclass(frozen=True)
class FileSample:
    """Sample of a file, from its beginning.

    Attributes:
        path: the file.
        format: its format.
        options: options of Spark's reader.
        columns: names of its columns in order; those of CSV as in the header.
        rows: its first rows, each with a value for each column: text, ``JsonNumber``, bool, list, dict or None.
        records: field of a JSON file that has its records; empty if the file itself is them.
        types: Spark's types of the columns, for files that declare them.
        guessed: what of the options is a guess, in words.
        doubt: whether the decision on a CSV header is uncertain.
    """

    path: Path
    format: Format
    options: dict[str, str]
    columns: list[str]
    rows: list[list[Any]]
    records: str = ""
    types: dict[str, str] = field(default_factory=dict)
    guessed: Sequence[str] = ()
    doubt: bool = False


def sniff(path: Path, header: bool | None = None) -> FileSample:
    """Sample a file.

    Args:
        path: the file.
        header: whether a CSV file has a header; None to guess.

    Raises:
        SourceError: it cannot be read, is empty, or is of no known format.
    """
    if _WORKBOOKS.search(path.name):
        raise _fault(path, "is a workbook", "save each of its sheets as a file of its own: CSV UTF-8 in Excel")
    try:
        head, whole = _head(path)
        if not head.strip():
            raise _fault(path, "is empty", "omit it")
        if head[:4] == b"PAR1":
            return _parquet(path)
        if kind := next((kind for magic, kind in _OTHERS.items() if head.startswith(magic)), None):
            hint = "only CSV, JSON and Parquet are supported here; for ORC, Avro and XML write the definition yourself"
            raise _fault(path, f"looks like {kind}", hint)
        text, encoding = _text(path, head, whole)
        if encoding is None and not whole and not _is_in(path, "utf-8") and _is_in(path, text_encoding.WESTERN[1]):
            encoding, codec = text_encoding.WESTERN
            text = head.decode(codec)
        if _has_json(path, text):
            return _json(path, text, whole, encoding)
        return _csv(path, text, whole, encoding, header)
    except FileFault as error:
        raise _fault(path, "cannot be unpacked", "give each file of the archive by itself", error) from error
    except (OSError, EOFError, *UNPACKING) as error:
        raise _fault(path, "cannot be read", "provide a complete file that you may read", error) from error


def _fault(path: Path, message: str, hint: str, cause: Exception | None = None) -> SourceError:
    detail = ""
    if cause:
        detail = f"{type(cause).__name__}: {cause}"
    return SourceError(f"{path.name} {message}", where=Where(file=str(path)), cause=detail, hint=hint)


def _head(path: Path) -> tuple[bytes, bool]:
    """First bytes of a file, unpacked, and whether that is all of it."""
    packed = _detect_compression(path)
    if packed and path.suffix.lower() != packed:
        raise _fault(path, f"is compressed, which Spark only detects by the name: it must end in {packed}", "rename it")
    if path.suffix.lower() in _PACKED.values() and path.stat().st_size and not packed:
        raise _fault(
            path, f"is not compressed, but its name ends in {path.suffix}, so Spark would decompress it", "rename it"
        )
    with open_unpacked(path) as file:
        head = file.read(BYTES + 1)
    return head[:BYTES], len(head) <= BYTES


def _detect_compression(path: Path) -> str:
    """Suffix that a packed file should have, by its first bytes; empty if it is not packed."""
    with path.open("rb") as file:
        head = file.read(max(map(len, _PACKED)))
    return next((suffix for magic, suffix in _PACKED.items() if head.startswith(magic)), "")


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Opened file, unpacked if it is packed."""
    packed = _detect_compression(path)
    with path.open("rb") as file:
        if packed:
            yield io.BufferedReader(OPENERS[packed](file))
        else:
            yield file


def _is_in(path: Path, codec: str) -> bool:
    """Whether a file is in an encoding to its end, or as far as its lines are looked at."""
    decoder, left = codecs.getincrementaldecoder(codec)(), CHECKED
    with open_unpacked(path) as file:
        while left > 0 and (block := file.read(BYTES)):
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                return False
            left -= len(block)
    return True


def _text(path: Path, head: bytes, whole: bool) -> tuple[str, str | None]:
    """Text of some bytes, and its encoding if that is not UTF-8."""
    decoded = text_encoding.decode_head(head, whole)
    if decoded is not None:
        return decoded
    if b"\0" in head:
        raise _fault(path, "is neither text nor Parquet", "only CSV, JSON and Parquet are supported here")
    hint = "convert it to UTF-8, or write the definition yourself, with the option encoding"
    raise _fault(path, "has an encoding that cannot be detected", hint)


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _parquet(path: Path) -> FileSample:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            batch = next(file.iter_batches(batch_size=ROWS), None)
            if batch is None:
                rows = []
            else:
                rows = arrow_values.rows(batch)
    except (pa.ArrowException, ValueError) as error:
        raise _fault(path, "cannot be read as Parquet", "provide a complete file", error) from error
    types = {column.name: _spark_type(column.type) for column in schema}
    return FileSample(path, "parquet", {}, list(schema.names), rows, types=types)


def _spark_type(kind: Any) -> str:
    """Type of a column in bronze, for one of a file."""
    import pyarrow as pa
    from pyarrow import types as of

    if of.is_time(kind) or isinstance(kind, pa.UuidType) or (of.is_decimal(kind) and kind.precision > MOST_DIGITS):
        return "STRING"  # which has all of their values
    type_names = (
        (of.is_integer, "BIGINT"), (of.is_floating, "DOUBLE"), (of.is_boolean, "BOOLEAN"), (of.is_date, "DATE"),
        (of.is_timestamp, "TIMESTAMP"), (of.is_decimal, "DECIMAL"), (of.is_string, "STRING"),
        (of.is_large_string, "STRING"), (of.is_nested, "NESTED"),
    )  # fmt: skip
    return next((name for test, name in type_names if test(kind)), "OTHER")


# --- JSON ------------------------------------------------------------------------------------------------------------

DECODER = json.JSONDecoder(parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=JsonNumber)


def _json(path: Path, text: str, whole: bool, encoding: str | None) -> FileSample:
    first, *others = text.strip().split("\n", 1)
    is_object = text.lstrip()[0] == "{" and _is_value(first)
    if is_object and (others or not _OF_LINES.isdisjoint(suffix.lower() for suffix in path.suffixes)):
        return _json_sample(path, _lines(path, text, whole), {}, encoding)
    wrapped, remarks = json_wrapping.find_records(text), []
    if wrapped is not None and wrapped.is_certain:
        remarks = [f"its records are in {wrapped.path}, and what is around them is not read"]
        _demand_end(path, text, excerpts.value_end(text))
        documents = _documents(path, wrapped.text, whole)
        return _json_sample(path, documents, {"multiLine": "true"}, encoding, wrapped.path, remarks)
    if wrapped is not None:
        remarks = [f"it is one record, with others in {wrapped.path}, which `records: {wrapped.path}` would read"]
    options = {"multiLine": "true"}
    if is_object:
        options = {}
    return _json_sample(path, _documents(path, text, whole), options, encoding, remarks=remarks)


def _json_sample(
    path: Path, values: Iterable[Any], options: dict[str, str], encoding: str | None, place: str = "",
    remarks: Sequence[str] = (),
) -> FileSample:  # fmt: skip
    """Sample of a JSON file by its first values, and the place that has its records."""
    records = list(values)
    if any(not isinstance(record, dict) for record in records):
        raise _fault(path, "has JSON values that are not objects", "a record must be an object, {…}")
    if not any(records):
        raise _fault(path, "contains no records", "provide a file with records")
    columns = list(dict.fromkeys(name for record in records for name in record))
    if encoding:
        options["encoding"] = encoding
    rows = [[record.get(name) for name in columns] for record in records]
    return FileSample(path, "json", options, columns, rows, place, guessed=[*remarks, *_encoding_remarks(encoding)])


def _encoding_remarks(encoding: str | None) -> list[str]:
    if encoding is None:
        return []
    return [f"it is {encoding}" if encoding.startswith("UTF") else f"it is not UTF-8, so {encoding}"]


def _has_json(path: Path, text: str) -> bool:
    """Whether a text begins as JSON does: in a file called CSV with an object."""
    if re.search(r"\.(csv|tsv)(\.(gz|bz2|xz|zst|zip))?$", path.name, re.IGNORECASE):
        return re.match(r"\s*(\{|\[\s*\{)", text) is not None
    return text.lstrip()[:1] in ("{", "[")


def _is_value(line: str) -> bool:
    try:
        DECODER.decode(line.strip())
    except (ValueError, RecursionError):
        return False
    return True


def _lines(path: Path, text: str, whole: bool) -> Iterator[Any]:
    lines = text.split("\n")
    if not whole:
        lines.pop()
    full = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in full[:ROWS]:
        try:
            yield DECODER.decode(line.strip())
        except (ValueError, RecursionError) as error:
            raise _json_fault(path, number, error) from error


def _documents(path: Path, text: str, whole: bool) -> Iterator[Any]:
    """Elements of an array, or the one object of the file, as far as the text goes."""
    place = _skip_blanks(text, 0)
    if text[place] == "[":
        yield from _elements(path, text, place + 1, whole)
        return
    value, place = _value(path, text, place)
    yield value
    _demand_end(path, text, place)


def _demand_end(path: Path, text: str, place: int) -> None:
    """Refuse another value behind the one of the file, of which Spark would read no record."""
    if text[place:].strip():
        raise _fault(path, "contains more than one JSON value", "write one record on each line, or all as an array")


def _elements(path: Path, text: str, place: int, whole: bool) -> Iterator[Any]:
    """The first elements of an array, whose first one begins at a place in the text."""
    for number in range(ROWS):
        place = _skip_blanks(text, place, "," if number else "")
        if text[place : place + 1] == "]":
            _demand_end(path, text, place + 1)
            return
        try:
            value, place = _value(path, text, place)
        except SourceError as error:
            if number and not whole and not isinstance(error.__cause__, RecursionError):
                return  # continues after the sampled part
            raise
        yield value


def _skip_blanks(text: str, place: int, separator: str = "") -> int:
    """The next place of anything but blanks and a separator."""
    while place < len(text) and (text[place].isspace() or text[place] == separator):
        place += 1
    return place


def _value(path: Path, text: str, place: int) -> tuple[Any, int]:
    """The value at a place, and the place after it."""
    try:
        return DECODER.raw_decode(text, place)
    except (ValueError, RecursionError) as error:
        raise _json_fault(path, text.count("\n", 0, place) + 1, error) from error


def _json_fault(path: Path, line: int, error: Exception) -> SourceError:
    fault = _fault(path, "is not JSON", "provide a complete file")
    fault.where = Where(file=str(path), line=line)
    if isinstance(error, ValueError):
        fault.cause = str(error).split(":")[0]
    else:
        fault.cause = "it is nested too deeply"
    return fault


# --- CSV -------------------------------------------------------------------------------------------------------------


def _csv(path: Path, text: str, whole: bool, encoding: str | None, header: bool | None) -> FileSample:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED.values()]
    suffix = ""
    if suffixes:
        suffix = suffixes[-1]
    if suffix not in _TEXT or text.lstrip()[:1] == "<":
        hint = "only CSV, JSON and Parquet are supported here; for XML and others write the definition yourself"
        raise _fault(path, "has an unknown format", hint)
    table = csv_dialect.read(text, whole, ROWS, header)
    if table is None or (suffix != ".csv" and len(table.columns) < 2):
        hint = "separate columns with a comma, a semicolon, a tab or |"
        raise _fault(path, "does not look like a table", hint)
    options = dict(table.options)
    if encoding:
        options["encoding"] = encoding
    guessed = [*table.guessed, *_encoding_remarks(encoding), *_check_all_lines(path, options)]
    return FileSample(path, "csv", options, table.columns, list(table.rows), guessed=guessed, doubt=table.doubt)


def _check_all_lines(path: Path, options: dict[str, str]) -> list[str]:
    """Set multiLine if a quoted value has a line break anywhere in a file; add remarks on doubtful values."""
    lower = {name.lower(): value for name, value in options.items()}
    # Python cannot unpack .zst as text here, and bronze does not check it either.
    if path.stat().st_size > CHECKED or path.suffix.lower() == ".zst":
        return []
    if (trouble := csv_check.find_trouble(str(path), lower)) is None:
        return []
    several = csv_check.find_trouble(str(path), {**lower, "multiline": "true"})
    if several is not None and trouble["characters"] <= SPLIT_CHARACTERS:
        several = None if _are_rows_sound(path, lower, trouble["columns"]) else several
    if several is None:
        options["multiLine"] = "true"
        return []
    return [f"line {several['line']:,} becomes a corrupt record, or those before it do: {several['why']} (in doubt)"]


def _are_rows_sound(path: Path, options: dict[str, str], columns: int) -> bool:
    encoding = csv_check.python_encoding(options.get("encoding", "utf-8"))
    with open_unpacked(path) as file, io.TextIOWrapper(file, encoding, "replace", newline="") as text:
        below = "".join(itertools.islice(text, int(options.get("skiprows", "0")), None))
        rows = csv_records.records(below.encode(), Grammar.from_options(options), columns, False, "utf-8")
    return all(sound for _, sound in rows)
