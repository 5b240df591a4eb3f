"""Records of landed files, by readers that are not the engine's: Python's csv and json, pyarrow's Parquet and ORC."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluicegate.definition import BronzeTable
from sluicegate.landing.file_names import ARCHIVE_COMPANION
from sluicegate.storage import filesystems
from sluicegate.witness import arrow_values, encodings
from sluicegate.witness.json_text import decoder

# What reads the formats that are read here.
READERS = {"csv": "Python's csv", "json": "Python's json", "text": "Python", "parquet": "pyarrow", "orc": "pyarrow"}

# Options that say nothing about values, or that are followed here.
_OF_TIMES = {"dateformat", "timestampformat", "timestampntzformat", "timeformat"}
_FOLLOWED = {
    "json": {"multiline", "encoding", "charset", "prefersdecimal", "dropfieldifallnull", "infertimestamp", "mode",
             "useunsaferow", *_OF_TIMES},
    "csv": {"header", "sep", "delimiter", "quote", "escape", "encoding", "charset", "multiline", "comment", "mode",
            "skiprows", "nullvalue", "maxcolumns", "maxcharspercolumn", "inputbuffersize", "columnpruning",
            "preferdate", *_OF_TIMES},
    "text": {"encoding", "charset"},
    "parquet": set[str](), "orc": set[str](),
}  # fmt: skip

_PACKED = (".lz4", ".snappy", ".deflate")
# The last of an archive with a password.
_UNPACKING = (EOFError, pa.ArrowException, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError)
_BROKEN = (csv.Error, UnicodeError, *_UNPACKING)
_BLANK = " \t\r\n"

# What Java's trim leaves out, by which Spark knows a blank line of CSV.
_TRIMMED = "".join(map(chr, range(33)))


_DECODER = decoder()


class Unreadable(Exception):
    """These readers cannot say what a file has."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it lies in its file.

    Attributes:
        fields: its values by the names of their fields; None where it is no record of the format.
        text: its text; None of typed formats.
        broken: whether the engine may have kept it as a corrupt record, behind the others of its file: it has another
            number of values than its header, or bytes or escapes that are no text.
    """

    fields: Mapping[str, Any] | None
    text: str | None = None
    broken: bool = False


def obstacle(table: BronzeTable) -> str:
    """Return why the files of a table are not read here; empty if they are."""
    if table.format not in READERS:
        return f"the second reader does not support the format {table.format}"
    if table.singleVariantColumn is not None:
        return "the second reader does not support VARIANT"
    unknown = sorted(name for name in table.options if name.lower() not in _FOLLOWED[table.format])
    if unknown:
        return f"the second reader does not support the option {', '.join(unknown)}"
    patterns = [text for name, text in table.options_by_lower_name.items() if name in _OF_TIMES and _is_misread(text)]
    if patterns:
        return f"the second reader would misread times of the format {', '.join(sorted(patterns))}"
    return ""


def _is_misread(pattern: str) -> bool:
    """Return whether times of a form look like year, month and day, and are not."""
    parts = pattern.split("-")
    if len(parts) < 3:
        return False
    first, second, third = parts[:3]
    if first.startswith(("y", "u")):
        return len(first) in (2, 3) or second not in ("M", "MM") or not third.startswith("d")
    return len(third) - len(third.lstrip("yu")) in (1, 2)


class FileReader:
    """Reads the files of one bronze table.

    Attributes:
        table: its definition.
        wrapped: whether the file that was read last has values of several lines, and is read line by line.
    """

    def __init__(self, table: BronzeTable) -> None:
        self.table = table
        self.wrapped = False
        self._options = table.options_by_lower_name

    def records(self, place: str) -> Iterator[Record]:
        """Yield records of a file, in its order.

        Raises:
            Unreadable: it is not known what the file has.
            OSError: it cannot be opened.
        """
        self.wrapped = False
        try:
            match self.table.format:
                case "parquet" | "orc":
                    yield from self._typed_records(place)
                case "csv":
                    with self._lines(place, newline="") as lines:
                        yield from self._csv(itertools.islice(lines, self.table.skipped_lines, None))
                case "text":
                    with self._lines(place) as lines:
                        for line in lines:
                            text = line.removesuffix("\n")
                            yield Record({"value": text}, text, has_bytes_that_are_no_text(text))
                case _ if self.table.has_option("multiline"):
                    with self._lines(place, newline="") as lines:
                        yield from self._elements(lines.read())
                case _:
                    with self._lines(place) as lines:
                        yield from _json_lines(lines)
        except (*_BROKEN, LookupError) as error:
            cause, *_ = (str(error) or repr(error)).splitlines()
            raise Unreadable(f"the second reader failed: {cause}") from error

    @contextmanager
    def _lines(self, place: str, newline: str | None = None) -> Iterator[io.TextIOWrapper]:
        codec, errors = self._codec(place), "strict"
        if codec == "utf-8":
            codec, errors = "utf-8-sig", "surrogateescape"
        with _open_unpacked(place) as raw:
            text = io.TextIOWrapper(raw, codec, errors, newline)
            yield text
            text.detach()

    def _codec(self, place: str) -> str:
        """Return Python's name of the encoding of a file."""
        encoding = self._options.get("encoding", self._options.get("charset", "utf-8"))
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            raise Unreadable(f"Python does not support the encoding {encoding}") from None
        is_json = name == "utf-8" and self.table.format == "json"
        if not is_json and name not in ("utf-16", "utf-32"):
            return name
        with _open_unpacked(place) as raw:
            head = raw.read(encodings.HEAD)
        if is_json:
            return encodings.codec_of_json(head)
        return encodings.add_byte_order(name, head)

    def _elements(self, text: str) -> Iterator[Record]:
        """Yield records of a file that is one JSON value, with others around them if the definition says so."""
        if not self.table.records:
            yield from _elements(text)
            return
        value, _ = _decode(text, _skip_blanks(text, 0))
        for name in self.table.path_of_records:
            if not isinstance(value, dict) or name not in value:
                raise Unreadable(f"it has no field {self.table.records}")
            value = value[name]
        if isinstance(value, list):
            yield from map(_array_record, value)
        else:
            yield _only_record(value)

    # --- CSV ---------------------------------------------------------------------------------------------------------

    def _csv(self, lines: Iterator[str]) -> Iterator[Record]:
        csv.field_size_limit(sys.maxsize)
        separator = self._options.get("sep", self._options.get("delimiter", ",")).replace("\\t", "\t")
        quote = self._options.get("quote", '"')
        if len(separator) != 1 or len(quote) != 1:
            raise Unreadable("Python's csv supports separators and quotes of one character only")
        rows = self._rows(lines, separator, quote)
        if self.table.has_option("header"):
            names = self._names(rows)
        else:
            names = [name for name in self.table.declared_columns or {} if name not in self.table.partitionColumns]
        nulls = dict.fromkeys(("", self._options.get("nullvalue", "")))
        for row, text in rows:
            names = names or [f"_c{place}" for place in range(len(row))]
            values = [nulls.get(value, value) for value in row]
            fields = dict(zip(names, values, strict=False))
            fields |= {f"_{place}": value for place, value in enumerate(values) if place >= len(names) and value}
            yield Record(fields, text, len(row) != len(names) or has_bytes_that_are_no_text(text))

    def _rows(self, lines: Iterator[str], separator: str, quote: str) -> Iterator[tuple[list[str], str]]:
        """Yield values of each record, and its text."""
        escape = self.table.reader_options.get("escape", self._options.get("escape", "\\"))
        comment = self._options.get("comment", "")
        text: list[str] = []

        def noted_lines() -> Iterator[str]:
            for line in lines:
                if not text and comment and line.startswith(comment):
                    continue
                text.append(line)
                yield line

        for row in csv.reader(noted_lines(), delimiter=separator, quotechar=quote, strict=True):
            whole = "".join(text)
            self.wrapped = self.wrapped or (len(text) > 1 and not self.table.has_option("multiline"))
            text.clear()
            if not whole.strip(_TRIMMED):
                if self.table.has_option("multiline") and whole.strip("\r\n"):
                    raise Unreadable("it has blank lines")
                continue
            if escape != quote and (quote in whole or escape in whole):
                raise Unreadable(f"only Spark can interpret {escape} with {quote} in it")
            yield row, whole.rstrip("\r\n")

    @staticmethod
    def _names(rows: Iterator[tuple[list[str], str]]) -> list[str]:
        """Return names of the header; the second field of a name is called as it is rescued."""
        header, _ = next(rows, ([], ""))
        called = [name or f"_c{place}" for place, name in enumerate(header)]
        names: list[str] = []
        for name in called:
            number, free = 2, name
            while free in names or (number > 2 and free in called):
                free, number = f"{name}_{number}", number + 1
            names.append(free)
        return names

    # --- typed -------------------------------------------------------------------------------------------------------

    def _typed_records(self, place: str) -> Iterator[Record]:
        with filesystems.reader(place) as opened:
            file = arrow_values.open_typed_file(pa.PythonFile(opened, mode="r"), self.table.format)
            for batch in file.batches:
                columns = [_values(column, file.is_gregorian) for column in batch.columns]
                for row in zip(*columns, strict=True):  # none where there is no column
                    yield Record(dict(zip(batch.schema.names, row, strict=True)))


@contextmanager
def _open_unpacked(place: str) -> Iterator[Any]:
    """Yield bytes of a file, unpacked by the end of its name."""
    lower = place.lower()
    if lower.endswith(_PACKED):
        raise Unreadable(f"it has the unsupported compression .{lower.rpartition('.')[2]}")
    with filesystems.reader(place) as raw, _OPENERS.get(os.path.splitext(lower)[1], nullcontext)(raw) as unpacked:
        yield unpacked


def _only_member(raw: Any) -> Any:
    archive = zipfile.ZipFile(raw)
    members = [name for name in archive.namelist() if not name.endswith("/") and not ARCHIVE_COMPANION.search(name)]
    if len(members) != 1:
        raise Unreadable(f"it has {len(members):,} files")
    return archive.open(members[0])


def _open_xz(raw: Any) -> Any:
    """Open an .xz file such that what follows a stream, and is none, is a fault; lzma.LZMAFile leaves it out."""
    from _compression import DecompressReader

    return io.BufferedReader(DecompressReader(raw, lzma.LZMADecompressor, format=lzma.FORMAT_XZ))


_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open, ".bz2": bz2.BZ2File, ".xz": _open_xz, ".zip": _only_member,
    ".zst": lambda raw: io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")),
}  # fmt: skip


def has_bytes_that_are_no_text(text: str) -> bool:
    """Return whether a text has bytes that are no UTF-8, which are halves of surrogate pairs in it."""
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)


def _json_lines(lines: Iterator[str]) -> Iterator[Record]:
    for line in lines:
        text = line.removesuffix("\n")
        start = _skip_blanks(text, 0)
        if start == len(text):
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            yield Record(None, text, True)
            continue
        if text[end:].strip(_BLANK) not in ("", ","):
            yield Record(None, text, True)
        elif isinstance(value, list):
            yield from map(_array_record, value)
        else:
            yield Record(_fields(value), text, has_bytes_that_are_no_text(text) or _has_halves(text, value))


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Return fields of a JSON value: none of NULL, and None of what is no object."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    return None


def _has_halves(text: str, value: Any) -> bool:
    """Return whether a value has an escaped half of a surrogate pair."""
    if "\\u" not in text:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _array_record(element: Any) -> Record:
    """Record that is an element of an array.

    Raises:
        Unreadable: it is no object, so that the engine may have kept the whole array as one corrupt record.
    """
    if not isinstance(element, dict):
        raise Unreadable("its array has elements that are not objects, so it may be one record or several")
    return Record(element)


def _only_record(value: Any) -> Record:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, str):
        return Record(None, str(value))
    return Record(_fields(value), json.dumps(value))


def _elements(text: str) -> Iterator[Record]:
    """Yield records of a file that is one JSON value: an array of them, or one; each is decoded by itself."""
    place = _skip_blanks(text, 0)
    if place == len(text):
        return
    if text[place] != "[":
        value, end = _decode(text, place)
        if text[end:].strip(_BLANK):
            raise Unreadable("it has more than one JSON value")
        yield _only_record(value)
        return
    place = _skip_blanks(text, place + 1)
    while place < len(text) and text[place] != "]":
        value, place = _decode(text, place)
        yield _array_record(value)
        place = _skip_blanks(text, place)
        if text[place : place + 1] == ",":
            place = _skip_blanks(text, place + 1)
        elif text[place : place + 1] != "]":
            raise Unreadable("its array is not closed")
    if text[place + 1 :].strip(_BLANK) or place >= len(text):
        raise Unreadable("its array is not closed, or is followed by more")


def _decode(text: str, place: int) -> tuple[Any, int]:
    """Return the JSON value at a place of a text, and where it ends."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not valid JSON: {error}") from error


def _skip_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place] in _BLANK:
        place += 1
    return place


def _values(column: pa.Array, is_gregorian: bool) -> Sequence[Any]:
    try:
        return arrow_values.landed_values(column, is_gregorian=is_gregorian)
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"Python cannot represent a value: {error}") from error


def has_twins(text: str) -> bool:
    """Return whether an object in a JSON text has a field twice, of which each reader believes another one."""
    twins: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(items)
        if len(fields) < len(items):
            twins.extend(fields)
        return fields

    with suppress(ValueError):
        json.loads(text, object_pairs_hook=pairs, strict=False)
    return bool(twins)
