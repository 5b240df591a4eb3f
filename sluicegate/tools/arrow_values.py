"""Python's values of Arrow's columns, also of those with dates and times that Python does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values of a column; a date or time that Python does not have, as one after the year 9999, is its text."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]
    return found


def rows(table: pa.Table | pa.RecordBatch) -> list[list[Any]]:
    """Rows of a table, with ``values``."""
    columns = [values(column) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


def _value(scalar: Any) -> Any:
    """Value of a scalar, in which only what Python does not have is a text."""
    import pyarrow as pa

    kind = scalar.type
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        pass
    if pa.types.is_struct(kind):
        return {kind.field(at).name: _value(scalar[at]) for at in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
    if pa.types.is_nested(kind):
        return [_value(element) for element in scalar.values]
    return _text(scalar)


def _text(scalar: Any) -> str:
    import pyarrow as pa

    if not pa.types.is_timestamp(scalar.type) or scalar.type.tz:
        return str(scalar.cast(pa.string()).as_py())
    # Arrow writes such times out only if they have a zone.
    zoned = pa.array([scalar.value]).cast(pa.timestamp(scalar.type.unit, "UTC"))
    return str(zoned.cast(pa.string())[0].as_py()).removesuffix("Z")
