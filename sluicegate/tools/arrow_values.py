"""Python's values of Arrow's columns, also of those with dates and times that Python does not have."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}

_DAYS_OF_400_YEARS, _MILLIS_OF_DAY = 146_097, 86_400_000


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; a date or time that Python does not have, as one after 9999, is its text."""
    try:
        python_values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return list(map(_value, column))
    return python_values


def rows(table: pa.Table | pa.RecordBatch) -> list[list[Any]]:
    """Return the rows of a table, with ``values``."""
    columns = list(map(values, table.columns))
    if columns:
        return list(map(list, zip(*columns, strict=True)))
    return [[] for _ in range(table.num_rows)]


def _value(scalar: Any) -> Any:
    """Return the value of a scalar, in which only what Python does not have is a text."""
    import pyarrow as pa

    kind = scalar.type
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    if pa.types.is_struct(kind):
        return {kind.field(number).name: _value(scalar[number]) for number in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
    if pa.types.is_nested(kind):
        return list(map(_value, scalar.values))
    return _text(scalar)


def _text(scalar: Any) -> str:
    """Return the text of a date or time. Arrow's own casts are wrong beyond the year 32767."""
    import pyarrow as pa

    kind = scalar.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return str(scalar.cast(pa.string()).as_py())
    if pa.types.is_date32(kind):
        return _day(scalar.value)
    if pa.types.is_date64(kind):
        return _day(scalar.value // _MILLIS_OF_DAY)
    digits = _DIGITS[kind.unit]
    seconds, fraction = divmod(scalar.value, 10**digits)
    days, second = divmod(seconds, 24 * 60 * 60)
    behind = f".{fraction:0{digits}}" if digits else ""
    zone = "Z" if kind.tz else ""
    return f"{_day(days)} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{behind}{zone}"


def _day(days: int) -> str:
    """Return the date so many days after 1970, of any year: the calendar repeats after 400 years."""
    cycles, days_of_cycle = divmod(days, _DAYS_OF_400_YEARS)
    day = date(1970, 1, 1) + timedelta(days=days_of_cycle)
    return f"{day.year + 400 * cycles:04}-{day:%m-%d}"
