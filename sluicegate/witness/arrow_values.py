"""Values of the columns of typed files as Parquet and ORC store them, where pyarrow would make other ones of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa

from sluicegate.witness.values import Moment


def landed(column: pa.Array) -> Sequence[Any]:
    """Values of a column of a typed file; times as microseconds, of which Python has more years.

    A time of day is its text, with as many digits as its unit has. A note in a file that its whole numbers are lengths
    of time, as pandas writes it, is no part of the format: they are numbers.

    Raises:
        ValueError: Python has no word for a value, as for a time of the year 10000 within a struct.
        OverflowError: likewise.
    """
    if isinstance(column.type, pa.BaseExtensionType) and not isinstance(column.type, pa.UuidType):
        column = column.storage
    if pa.types.is_timestamp(column.type):
        numbers = column.cast(pa.timestamp("ns" if column.type.unit == "ns" else "us", column.type.tz)).cast(pa.int64())
        by = 1000 if column.type.unit == "ns" else 1
        return [None if number is None else Moment(number // by) for number in numbers.to_pylist()]
    if pa.types.is_date(column.type):
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else Moment(day * 86_400_000_000) for day in days]
    kind = _stored(column.type)
    values = (column if kind == column.type else column.cast(kind)).to_pylist()
    return [_with_texts(value) for value in values] if "arrow.uuid" in str(kind) else list(values)


def _stored(kind: pa.DataType) -> pa.DataType:
    """A type with texts in the place of times of day, and whole numbers in that of lengths of time."""
    if pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_stored(kind.key_type)), _stored(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    return kind


def _with_texts(value: Any) -> Any:
    """A value with texts in the place of identifiers."""
    match value:
        case UUID():
            return str(value)
        case dict():
            return {name: _with_texts(part) for name, part in value.items()}
        case list():
            return [_with_texts(part) for part in value]
        case tuple():
            return tuple(map(_with_texts, value))
    return value
