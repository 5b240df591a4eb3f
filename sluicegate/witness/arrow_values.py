"""Values of the columns of typed files as Parquet and ORC store them, where pyarrow would make other ones of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import pyarrow as pa

from sluicegate.witness.moments import UNSURE, Moment, microseconds

# Day from which the Julian calendar, and the local times before there were time zones, make no difference.
SURE = date(1900, 1, 1)

# Notes of Spark in Parquet files whose times are of the Julian calendar, and the first version that knows another.
_VERSION, _OF_JULIAN = (
    b"org.apache.spark.version",
    (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"),
)
_GREGORIAN_SINCE = b"3.1.0"


@dataclass(frozen=True)
class TypedFile:
    """A file of Parquet or ORC that is read.

    Attributes:
        batches: its records.
        is_gregorian: whether its times before ``SURE`` are of the Gregorian calendar for all who read it. They are not
            where Spark 2 has written it; and of ORC, whose C++ and Java libraries differ.
    """

    batches: Iterable[pa.RecordBatch]
    is_gregorian: bool


def open_typed_file(source: Any, form: str) -> TypedFile:
    """Return a file of the format ``parquet`` or ``orc``."""
    if form == "parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(source, coerce_int96_timestamp_unit="us")
        notes = file.metadata.metadata or {}
        is_julian = notes.get(_VERSION, _GREGORIAN_SINCE) < _GREGORIAN_SINCE or any(map(notes.__contains__, _OF_JULIAN))
        return TypedFile(file.iter_batches(10_000), not is_julian)
    from pyarrow import orc

    of_orc = orc.ORCFile(source)
    return TypedFile(map(of_orc.read_stripe, range(of_orc.nstripes)), is_gregorian=False)


def landed_values(column: pa.Array, *, is_gregorian: bool = True) -> Sequence[Any]:
    """Return values of a column of a typed file; times as microseconds, of which Python has more years.

    A time of day is its text, with as many digits as its unit has. A note in a file that its whole numbers are lengths
    of time, as pandas writes it, is no part of the format: they are numbers.

    Raises:
        ValueError: Python has no word for a value, as for a time of the year 10000 within a struct.
        OverflowError: likewise.
    """
    values = _convert_values(column)
    if is_gregorian or not any(word in str(column.type) for word in ("date", "timestamp")):
        return values
    return [_map_parts(value, _flag_unsure) for value in values]


def _convert_values(column: pa.Array) -> Sequence[Any]:
    if isinstance(column.type, pa.BaseExtensionType) and not isinstance(column.type, pa.UuidType):
        column = column.storage
    if pa.types.is_timestamp(column.type):
        unit, nanoseconds = "us", 1
        if column.type.unit == "ns":
            unit, nanoseconds = "ns", 1000
        numbers = column.cast(pa.timestamp(unit, column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if number is None else Moment(number // nanoseconds) for number in numbers]
    if pa.types.is_date(column.type):
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else Moment(day * 86_400_000_000) for day in days]
    kind = _cast_type(column.type)
    if kind != column.type:
        column = column.cast(kind)
    values = column.to_pylist()
    if "arrow.uuid" not in str(kind):
        return list(values)
    return [_map_parts(value, _as_text) for value in values]


def _cast_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts in the place of times of day, and whole numbers in that of lengths of time."""
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_cast_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_cast_type(kind.key_type)), _cast_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_cast_type(kind.value_type)))
    return kind


def _map_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with each of its innermost parts changed."""
    match value:
        case dict():
            return {name: _map_parts(part, change) for name, part in value.items()}
        case list():
            return [_map_parts(part, change) for part in value]
        case tuple():
            return tuple(_map_parts(part, change) for part in value)
    return change(value)


def _as_text(part: Any) -> Any:
    """Return an identifier as its text; anything else as it is."""
    if isinstance(part, UUID):
        return str(part)
    return part


def _flag_unsure(part: Any) -> Any:
    """``UNSURE`` in the place of a time of which that is to be said; anything else as it is."""
    if isinstance(part, Moment) and part < (microseconds(SURE) or 0):
        return UNSURE
    if isinstance(part, date) and part.year < SURE.year:
        return UNSURE
    return part
