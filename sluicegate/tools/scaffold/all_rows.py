"""All rows of a table's files as texts in DuckDB, where types and keys are proved on them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sluicegate.bronze.file_sizes import UNPACKING
from sluicegate.bronze.text import excerpts
from sluicegate.definition import encodings
from sluicegate.errors import SourceError
from sluicegate.tools import arrow_values
from sluicegate.tools.scaffold import csv_dialect, sniff
from sluicegate.tools.scaffold.readings import BLANKS, NOTHING
from sluicegate.tools.scaffold.sniff import FileSample

MOST_ROWS = 5_000_000
"""Rows of a table beyond which no others are read: each takes some microseconds."""

MOST_BYTES = 1 << 30
"""Bytes of a table's files, unpacked, beyond which no others are read."""

MOST_ARRAY = 64 << 20
"""Bytes of a file that is one JSON value, which is read at once."""

_BATCH = 10_000

# Texts of a column by which readings are chosen that are then tried on all rows.
_FIRST = 100


_NOTHING = ", ".join(f"'{word}'" for word in NOTHING)

Field = tuple[str, int]
"""Field of the files, and how many earlier columns of a file have the same name."""


class _Unread(Exception):
    """Raised when no other rows can be read, with the reason."""


_UNREADABLE = (SourceError, OSError, EOFError, ValueError, RecursionError, csv.Error, pa.ArrowException, *UNPACKING)


class AllRows:
    """Rows of all files, up to the limits: DuckDB's table ``rows`` with a column ``c0``, ``c1``, … for each field.

    Attributes:
        count: number of rows.
        unread: why there are other rows in the files; empty if all are here.
        columns: what is known of the texts of each field.
        later_fields: fields of JSON that no sampled row has, in their order.
        differing_types: why equal values of a field may not look the same, by the field; for files with types.
    """

    def __init__(self, samples: Sequence[FileSample], files: Sequence[Path], fields: Sequence[Field]) -> None:
        self.count, self.unread = 0, ""
        self.later_fields: dict[str, None] = {}
        self.differing_types: dict[str, str] = {}
        self._files, self._fields, self._budget = files, fields, _Budget()
        self._first_types: dict[str, Any] = {}
        self._names = {name for name, _ in fields}
        self._folder = TemporaryDirectory()
        self._engine = duckdb.connect(config={"temp_directory": self._folder.name})
        self._columns = [f"c{number}" for number in range(len(fields))]
        texts = "".join(f", {column} VARCHAR" for column in self._columns)
        self._engine.execute(f"CREATE TABLE rows (id BIGINT, file BIGINT, number BIGINT{texts})")
        by_path = {sample.path: sample for sample in samples}
        try:
            for number, file in enumerate(files):
                self._read(number, by_path.get(file, samples[0]), file)
        except _Unread as error:
            self.unread = str(error)
        except _UNREADABLE:
            self.unread = "a file cannot be read to its end"
        if self.unread and self.count < sum(len(sample.rows) for sample in samples):
            self._read_samples(samples)
        self.columns = [self._column_texts(number) for number in range(len(fields))]

    def _column_texts(self, number: int) -> ColumnTexts:
        # A query for each column: with thousands of aggregates in one, DuckDB takes minutes.
        column = self._columns[number]
        ((full, with_text, padded, nulls),) = self.query(
            f"SELECT count(*) FILTER ({column} <> '' AND trim({column}) NOT IN ({_NOTHING})),"
            f" count(nullif({column}, '')), coalesce(bool_or({column} <> trim({column})), false),"
            f" list(DISTINCT trim({column})) FILTER (trim({column}) IN ({_NOTHING})) FROM rows"
        )
        return ColumnTexts(self, number, full, self.count - with_text, padded, tuple(sorted(nulls or ())))

    def _read_samples(self, samples: Sequence[FileSample]) -> None:
        """Take the rows of the samples instead, where files can only be read as far as these."""
        self._engine.execute("DELETE FROM rows")
        self.count = 0
        for sample in samples:
            places = {field: place for place, field in enumerate(csv_dialect.name_occurrences(sample.columns))}
            needed = [places.get(field, len(sample.columns)) for field in self._fields]
            rows = [[text_of_value([*row, None][place]) for place in needed] for row in sample.rows]
            self._write(self._files.index(sample.path), 0, rows)

    def __enter__(self) -> AllRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._engine.close()
        self._folder.cleanup()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of DuckDB's answer."""
        rows: list[tuple[Any, ...]] = self._engine.execute(sql, parameters).fetchall()
        return rows

    def place(self, row: int) -> str:
        """Where a row is, for people."""
        ((file, number),) = self.query("SELECT file, number FROM rows WHERE id = ?", [row])
        return f"record {number:,} of {self._files[file].name}"

    def _read(self, file_number: int, like: FileSample, file: Path) -> None:
        batch: list[Sequence[str | None]] = []
        written = 0
        try:
            for row in self._rows_of(file, like):
                if self.count + len(batch) == MOST_ROWS:
                    raise _Unread(f"there are more than {MOST_ROWS:,} rows")
                batch.append(row)
                if len(batch) == _BATCH:
                    self._write(file_number, written, batch)
                    written, batch = written + _BATCH, []
        finally:
            self._write(file_number, written, batch)

    def _write(self, file: int, before: int, rows: Sequence[Sequence[str | None]]) -> None:
        if not rows:
            return
        texts = [pa.array(column, pa.large_string()) for column in zip(*rows, strict=True)]
        batch = pa.table([pa.array(range(len(rows))), *texts], names=["n", *self._columns])
        self._engine.register("batch", batch)
        columns = ", ".join(self._columns)
        self._engine.execute(
            f"INSERT INTO rows SELECT {self.count} + n, {file}, {before} + n + 1, {columns} FROM batch"
        )
        self._engine.unregister("batch")
        self.count += len(rows)

    def _rows_of(self, file: Path, like: FileSample) -> Iterator[Sequence[str | None]]:
        """Rows of a file, with the texts of the fields."""
        if like.format == "parquet":
            self._budget.take(file.stat().st_size)
            yield from self._parquet_rows(file)
            return
        named = encodings.find(like.options.get("encoding", "UTF-8")) or encodings.UTF_8
        encoding = named.codec
        if encoding == "utf-8":
            encoding = "utf-8-sig"
        with sniff.open_unpacked(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
            lines = self._charged_lines(text)
            if like.format == "csv":
                yield from self._csv_rows(lines, like)
            elif like.options.get("multiLine"):
                yield from map(self._record_texts, _document_records(text, like.records))
            else:
                yield from (self._record_texts(sniff.DECODER.decode(line.strip())) for line in lines if line.strip())

    def _charged_lines(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._budget.take(len(line))
            yield line

    def _csv_rows(self, lines: Iterable[str], like: FileSample) -> Iterator[Sequence[str | None]]:
        rows = csv_dialect.records(_check_quoting(lines, like.options), like.options)
        names = like.columns
        if like.options.get("header") == "true":
            names = csv_dialect.column_names([name or "" for name in next(rows, [])])
        places_of_fields = {name: place for place, name in enumerate(csv_dialect.name_occurrences(names))}
        # A field that the file lacks is behind the end of each row.
        places = [places_of_fields.get(field, len(names)) for field in self._fields]
        for row in rows:
            if "multiLine" not in like.options and any(value and csv_dialect.LINE_BREAK.search(value) for value in row):
                raise _Unread("a value further down has a line break: the option multiLine is missing")
            padded = [*row[: len(names)], *[None] * max(1, len(names) + 1 - len(row))]
            yield [padded[place] for place in places]

    def _record_texts(self, record: Any) -> Sequence[str | None]:
        if not isinstance(record, dict):
            raise _Unread("a JSON value is not an object")
        if not record.keys() <= self._names:
            self.later_fields |= dict.fromkeys(name for name in record if name not in self._names)
        return [None if occurrence else text_of_value(record.get(name)) for name, occurrence in self._fields]

    def _parquet_rows(self, file: Path) -> Iterator[Sequence[str | None]]:
        with parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            places = {name: place for place, name in enumerate(csv_dialect.name_occurrences(schema.names))}
            for name, occurrence in places:
                self._compare_type(file, name, schema.field(places[name, occurrence]).type)
            for batch in opened.iter_batches(batch_size=_BATCH):
                columns = [self._parquet_texts(batch, places.get(field)) for field in self._fields]
                yield from zip(*columns, strict=True)

    def _compare_type(self, file: Path, name: str, kind: Any) -> None:
        """Note a field whose type differs from that in the first file: equal values may not look the same."""
        first = self._first_types.setdefault(name, kind)
        if not (first.equals(kind) or (pa.types.is_integer(first) and pa.types.is_integer(kind))):
            self.differing_types.setdefault(name, f"{name} is {kind} in {file.name}, and {first} in another file")

    def _parquet_texts(self, batch: pa.RecordBatch, place: int | None) -> Sequence[str | None]:
        if place is None:
            return [None] * batch.num_rows
        return [text_of_value(value) for value in arrow_values.values(_micros(batch.column(place)))]


def text_of_value(value: Any) -> str | None:
    """Text that Spark reads for a value of a file."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).encode("utf-8", "replace").decode()


def trimmed(text: str) -> str:
    """DuckDB's text without the blanks around it that Spark's casts take away."""
    return f"trim({text}, '{BLANKS}')"


@dataclass(frozen=True)
class Misfit:
    """Text that is no value of a type: as it is, without blanks around it, and the first row that has it."""

    text: str
    trimmed: str
    row: int


@dataclass(frozen=True)
class ColumnTexts:
    """Texts of a column in all rows.

    Attributes:
        rows: all rows.
        number: number of the column.
        full: number of texts that are more than a word for NULL.
        missing: number of rows without a text.
        padded: whether some texts have blanks around them.
        nulls: words among the texts that stand for NULL.
    """

    rows: AllRows
    number: int
    full: int
    missing: int
    padded: bool
    nulls: tuple[str, ...]

    def first(self) -> list[str]:
        """The first texts."""
        return [text for (text,) in self.query("t", f"true LIMIT {_FIRST}")]

    def query(self, select: str, where: str = "true") -> list[tuple[Any, ...]]:
        """What DuckDB answers about the full texts: ``v`` as they are, ``t`` without blanks around them."""
        column = f"c{self.number}"
        texts = f"SELECT id, {column} AS v, {trimmed(column)} AS t FROM rows WHERE trim({column}) NOT IN ({_NOTHING})"
        return self.rows.query(f"SELECT {select} FROM ({texts}) WHERE {where}")

    def texts_without(self, value: str, most: int) -> list[Misfit]:
        """Different texts of which a value is NULL, in their order."""
        misfits = f"({value}) IS NULL GROUP BY t ORDER BY min(id) LIMIT {most}"
        return [Misfit(*row) for row in self.query("arg_min(v, id), t, min(id)", misfits)]


class _Budget:
    """Bytes that may still be read."""

    def __init__(self) -> None:
        self.left = MOST_BYTES

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _Unread(f"there are more than {MOST_BYTES >> 20:,} MiB")


def _check_quoting(lines: Iterable[str], options: Mapping[str, str]) -> Iterator[str]:
    """Lines that Spark and Python parse alike: a backslash escapes a quote, and quotes enclose whole values."""
    sep = re.escape(options.get("sep", ","))
    odd = re.compile(rf'\\(?!")|[^{sep}\r\n]"[^{sep}\r\n]')
    for line in lines:
        quoted = options.get("escape") == "\\" and ('"' in line or "multiLine" in options)
        if quoted and odd.search(re.sub(r'(?<!\\)\\"', "", line)):
            raise _Unread("quotes and backslashes stand where programs read them in different ways")
        yield line


def _document_records(text: Any, path: str) -> Iterator[Any]:
    whole = text.read(MOST_ARRAY + 1)
    if len(whole) > MOST_ARRAY:
        raise _Unread(f"a file of one JSON value has more than {MOST_ARRAY >> 20:,} MiB")
    if path:
        start, end = excerpts.json_extent(whole, path.split("."))
        whole = whole[start:end]
    value = sniff.DECODER.decode(whole.strip())
    if isinstance(value, list):
        yield from value
    else:
        yield value


def _micros(values: Any) -> Any:
    """Timestamps as bronze has them: whole microseconds, or NULL."""
    if not (pa.types.is_timestamp(values.type) and values.type.unit == "ns"):
        return values
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    return pc.if_else(pc.equal(micros.cast(values.type), values), micros, pa.scalar(None, micros.type))
