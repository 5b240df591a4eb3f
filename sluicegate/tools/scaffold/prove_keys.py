"""Proof that columns are unique in all rows of all files. A key that only the first rows show would lose rows.

Of a key that is unique but for few rows, the files are read once more: do these rows say the same, or something else?
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sluicegate.definition import encodings
from sluicegate.errors import SourceError
from sluicegate.tools import arrow_values
from sluicegate.tools.scaffold import csv_dialect, sniff
from sluicegate.tools.scaffold.cast_values import UNFIT, caster
from sluicegate.tools.scaffold.column import NewColumn
from sluicegate.tools.scaffold.nearly import has_few_exceptions
from sluicegate.tools.scaffold.sniff import FileSample

MOST_ROWS = 5_000_000
"""Rows of a table beyond which no key is proved: each takes some bytes of memory and some microseconds."""

MOST_BYTES = 1 << 30
"""Bytes of a table's files, unpacked, beyond which no key is proved."""

MOST_ARRAY = 64 << 20
"""Bytes of a file that is one JSON value, which is read at once."""


@dataclass(frozen=True)
class KeyProof:
    """Result for candidate keys, over all rows.

    Attributes:
        keys: names of the columns.
        why_not: why they are no keys; empty if they are never NULL, and no two different rows have the same.
        rows: rows that were read.
        surplus: rows with the same keys as an earlier one, which would be set aside as duplicates.
        unfit: rows with a value that does not fit its type, which are quarantined for that, whatever the keys.
        place: where the first row is that was compared with an earlier one: the first that differs, if one does.
        near: whether they would be keys but for few rows.
    """

    keys: list[str]
    why_not: str
    rows: int
    surplus: int = 0
    unfit: int = 0
    place: str = ""
    near: bool = False


class _Unproved(Exception):
    """Raised when not all rows can be read, with the reason."""


_UNREADABLE = (SourceError, OSError, EOFError, ValueError, RecursionError, csv.Error, pa.ArrowException, zlib.error)


@dataclass
class _Candidate:
    """Candidate key: its columns, and the values seen."""

    names: list[str]
    places: list[int]
    key_numbers: array[int] = field(default_factory=lambda: array("Q"))
    empty: int = 0
    unfit: int = 0

    def take(self, values: Sequence[Any]) -> None:
        """Add a row. Equal rows always count as duplicates; of 2**64 different ones two may, too."""
        key = tuple(values[place] for place in self.places)
        if UNFIT in key:
            self.unfit += 1
        elif None in key:
            self.empty += 1
        else:
            self.key_numbers.append(_number(key))

    def proof(self, rows: int) -> KeyProof:
        """Result over all rows."""
        surplus = len(self.key_numbers) - int(pc.count_distinct(self._values()).as_py())
        near = has_few_exceptions(self.empty + self.unfit + surplus, rows)
        reason = ""
        if surplus:
            reason = f"not unique: {surplus:,} of {rows:,} rows would be set aside as duplicates"
        if self.empty or (self.unfit and not has_few_exceptions(self.unfit, rows)):
            without = self.empty + self.unfit
            reason, surplus = f"not proved: {without:,} of {rows:,} rows have no value there that fits", 0
        return KeyProof(self.names, reason, rows, surplus, self.unfit, near=near)

    def repeated_key_numbers(self) -> set[int]:
        """Numbers of the keys that several rows have."""
        counted = pc.value_counts(self._values())
        return {*counted.field("values").filter(pc.greater(counted.field("counts"), 1)).to_pylist()}

    def _values(self) -> Any:
        return pa.Array.from_buffers(pa.uint64(), len(self.key_numbers), [None, pa.py_buffer(self.key_numbers)])


def _number(values: tuple[Any, ...]) -> int:
    """Number that equal rows share, and of different ones hardly any."""
    if len(values) == 1 and type(values[0]) is int and values[0] >= 0:
        return values[0]
    digest = hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def prove(
    samples: Sequence[FileSample],
    files: Sequence[Path],
    columns: Sequence[NewColumn],
    candidates: Sequence[Sequence[str]],
) -> list[KeyProof]:
    """Read all files of a table to find which candidates are keys.

    Values are compared as silver will have them, by their types: ``1`` and ``01`` are one BIGINT.

    Args:
        samples: samples of some of the files.
        files: all files, sampled or not.
        columns: the columns of the table.
        candidates: sets of column names that may be keys.

    Returns:
        a proof for each candidate; only the first if that one is proved.
    """
    if not candidates:
        return []
    first = _proofs(samples, files, columns, candidates[:1])
    # The others cost as much again, and are rarely needed.
    if not first[0].why_not:
        return first
    return first + _proofs(samples, files, columns, candidates[1:])


def _proofs(
    samples: Sequence[FileSample],
    files: Sequence[Path],
    columns: Sequence[NewColumn],
    candidates: Sequence[Sequence[str]],
) -> list[KeyProof]:
    if not candidates:
        return []
    read = [n for n, column in enumerate(columns) if any(column.name in keys for keys in candidates)]
    names = [columns[n].name for n in read]
    table = _Candidates([_Candidate([*keys], [names.index(key) for key in keys]) for keys in candidates])
    try:
        for *_, values in _cast_rows(samples, files, columns, read):
            table.take(values)
    except _Unproved as error:
        return table.failed_proofs(str(error))
    except _UNREADABLE:
        return table.failed_proofs("a file cannot be read to its end")
    proofs = table.proofs()
    nearly = _nearly_proved_candidate(proofs)
    if nearly is not None:
        with suppress(_Unproved, *_UNREADABLE):  # other columns may be what cannot be read
            proofs[nearly] = _compare_repeated_rows(samples, files, columns, table.candidates[nearly], proofs[nearly])
    return proofs


def _nearly_proved_candidate(proofs: Sequence[KeyProof]) -> int | None:
    """Number of the first candidate that only a few rows keep from being a key; None where there is a key."""
    if not all(proof.why_not for proof in proofs):
        return None
    return next((n for n, proof in enumerate(proofs) if proof.near and proof.surplus), None)


@dataclass
class _Candidates:
    """Candidate keys of a table, and its rows so far."""

    candidates: list[_Candidate]
    rows: int = 0

    def take(self, values: Sequence[Any]) -> None:
        self.rows += 1
        for candidate in self.candidates:
            candidate.take(values)

    def proofs(self) -> list[KeyProof]:
        """Results over all rows."""
        return [candidate.proof(self.rows) for candidate in self.candidates]

    def failed_proofs(self, reason: str) -> list[KeyProof]:
        return [KeyProof(candidate.names, f"not proved: {reason}", self.rows) for candidate in self.candidates]


def _cast_rows(
    samples: Sequence[FileSample], files: Sequence[Path], columns: Sequence[NewColumn], needed: Sequence[int]
) -> Iterator[tuple[Path, int, list[Any], list[Any]]]:
    """All rows of all files: file, number there, some of its columns, and these as silver will have them.

    Raises:
        _Unproved: there are too many, or they may be read in several ways.
    """
    fields = [_field(columns, n) for n in needed]
    values = [caster(columns[n], typed=samples[0].format == "parquet") for n in needed]
    by_path = {sample.path: sample for sample in samples}
    rows, budget, types = 0, _Budget(), _ParquetTypes()
    for file in files:
        for number, row in enumerate(_rows(file, by_path.get(file, samples[0]), fields, budget, types), 1):
            rows += 1
            if rows > MOST_ROWS:
                raise _Unproved(f"there are more than {MOST_ROWS:,} rows")
            yield file, number, row, [of(value) for of, value in zip(values, row, strict=True)]


def _compare_repeated_rows(
    samples: Sequence[FileSample],
    files: Sequence[Path],
    columns: Sequence[NewColumn],
    candidate: _Candidate,
    proof: KeyProof,
) -> KeyProof:
    """Proof for keys that several rows have, once these rows are compared: copies of one row, or different ones."""
    numbers = {column.name: n for n, column in enumerate(columns)}
    keys = [numbers[name] for name in candidate.names]
    repeated, first = candidate.repeated_key_numbers(), dict[int, int]()
    copied_records: list[str] = []
    differing_records: list[str] = []
    for file, number, row, cast in _cast_rows(samples, files, columns, range(len(columns))):
        key = tuple(cast[n] for n in keys)
        if UNFIT in cast or (key_number := _number(key)) not in repeated:
            continue
        whole = _number(("all of it", *row))
        record = f"record {number:,} of {file.name}"
        if key_number not in first:
            first[key_number] = whole
        elif first[key_number] == whole:
            copied_records.append(record)
        else:
            differing_records.append(record)
    if differing_records:
        differ = "differs" if len(differing_records) == 1 else "differ"
        place = differing_records[0]
        sentence = f"though {len(differing_records):,} of them {differ} from the row that is kept, as does {place}"
        return replace(proof, why_not=f"{proof.why_not}, {sentence}", place=place)
    if not copied_records or any(columns[n].is_id_like for n in keys):
        place = copied_records[0] if copied_records else ""
        return replace(proof, why_not="", surplus=len(copied_records), place=place)
    # Nothing names these rows: equal ones may be two things that happened.
    sentence = f"all of them copies of the row that is kept, as is {copied_records[0]}"
    return replace(proof, why_not=f"{proof.why_not}, {sentence}", place=copied_records[0])


def _field(columns: Sequence[NewColumn], number: int) -> tuple[str, int]:
    """Field of a column, and how many earlier columns have the same field."""
    name = columns[number].field
    return name, sum(column.field == name for column in columns[:number])


# --- rows ------------------------------------------------------------------------------------------------------------


class _Budget:
    """Bytes that may still be read."""

    def __init__(self) -> None:
        self.left = MOST_BYTES

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _Unproved(f"there are more than {MOST_BYTES >> 20:,} MiB")


class _ParquetTypes:
    """Field types of the first file. Where another file's types differ, equal values do not look the same."""

    def __init__(self) -> None:
        self.first: list[Any] | None = None

    def demand(self, file: Path, fields: Sequence[tuple[str, int]], types: list[Any]) -> None:
        self.first = self.first or types
        for (name, _), first, other in zip(fields, self.first, types, strict=True):
            if not (first.equals(other) or (pa.types.is_integer(first) and pa.types.is_integer(other))):
                raise _Unproved(f"{name} is {other} in {file.name}, and {first} in another file")


def _rows(
    file: Path, like: FileSample, fields: Sequence[tuple[str, int]], budget: _Budget, types: _ParquetTypes
) -> Iterator[list[Any]]:
    """Rows of a file, with the values of some fields."""
    if like.format == "parquet":
        budget.take(file.stat().st_size)
        yield from _parquet_rows(file, fields, types)
        return
    named = encodings.find(like.options.get("encoding", "UTF-8")) or encodings.UTF_8
    if named.codec == "utf-8":
        encoding = "utf-8-sig"
    else:
        encoding = named.codec
    with sniff.open_unpacked(file) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        lines = _charge_lines(text, budget)
        if like.format == "csv":
            yield from _csv_rows(lines, like, fields)
        elif like.options.get("multiLine"):
            yield from _json_document_rows(text, fields)
        else:
            yield from _json_line_rows(lines, fields)


def _charge_lines(lines: Iterable[str], budget: _Budget) -> Iterator[str]:
    for line in lines:
        budget.take(len(line))
        yield line


def _csv_rows(lines: Iterable[str], like: FileSample, fields: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
    rows = csv_dialect.records(_check_quoting(lines, like.options), like.options)
    names = like.columns
    if like.options.get("header") == "true":
        names = csv_dialect.column_names([name or "" for name in next(rows, [])])
    places_of_fields = {name: place for place, name in enumerate(csv_dialect.name_occurrences(names))}
    places = [places_of_fields.get(field_key) for field_key in fields]
    for row in rows:
        if "multiLine" not in like.options and any(value and csv_dialect.LINE_BREAK.search(value) for value in row):
            raise _Unproved("a value further down has a line break: the option multiLine is missing")
        yield [None if place is None or place >= len(row) else row[place] for place in places]


def _check_quoting(lines: Iterable[str], options: Mapping[str, str]) -> Iterator[str]:
    """Lines that Spark and Python parse alike: a backslash escapes a quote, and quotes enclose whole values."""
    sep = re.escape(options.get("sep", ","))
    odd = re.compile(rf'\\(?!")|[^{sep}\r\n]"[^{sep}\r\n]')
    for line in lines:
        quoted = options.get("escape") == "\\" and ('"' in line or "multiLine" in options)
        if quoted and odd.search(re.sub(r'(?<!\\)\\"', "", line)):
            raise _Unproved("quotes and backslashes stand where programs read them in different ways")
        yield line


def _json_line_rows(lines: Iterable[str], fields: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
    for line in lines:
        if line.strip():
            yield _record_values(sniff.DECODER.decode(line.strip()), fields)


def _json_document_rows(text: Any, fields: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
    whole = text.read(MOST_ARRAY + 1)
    if len(whole) > MOST_ARRAY:
        raise _Unproved(f"a file of one JSON value has more than {MOST_ARRAY >> 20:,} MiB")
    value = sniff.DECODER.decode(whole.strip())
    for record in value if isinstance(value, list) else [value]:
        yield _record_values(record, fields)


def _record_values(record: Any, fields: Sequence[tuple[str, int]]) -> list[Any]:
    if not isinstance(record, dict):
        raise _Unproved("a JSON value is not an object")
    return [None if occurrence else record.get(name) for name, occurrence in fields]


def _parquet_rows(file: Path, fields: Sequence[tuple[str, int]], types: _ParquetTypes) -> Iterator[list[Any]]:
    with parquet.ParquetFile(file) as opened:
        places_of_fields = {
            name: place for place, name in enumerate(csv_dialect.name_occurrences(opened.schema_arrow.names))
        }
        if missing := [name for name, occurrence in fields if (name, occurrence) not in places_of_fields]:
            raise _Unproved(f"{file.name} has no column {missing[0]}")
        types.demand(
            file, fields, [opened.schema_arrow.field(places_of_fields[field_key]).type for field_key in fields]
        )
        for batch in opened.iter_batches(columns=[name for name, _ in fields]):
            plain = [arrow_values.values(_micros(batch.column(batch.schema.names.index(name)))) for name, _ in fields]
            yield from map(list, zip(*plain, strict=True))


def _micros(values: Any) -> Any:
    """Timestamps as bronze has them: whole microseconds, or NULL."""
    if not (pa.types.is_timestamp(values.type) and values.type.unit == "ns"):
        return values
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    return pc.if_else(pc.equal(micros.cast(values.type), values), micros, pa.scalar(None, micros.type))
