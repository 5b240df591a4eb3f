"""Columns of a bronze table, and the fields of landed files that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sluicegate.witness.values import PRINTED_DIGITS, SKIPS_FROM, Comparer, comparer, plain_type

RESCUED, CORRUPT = "_rescued_data", "_corrupt_record"

# Values of a stored row, in the order of ``BronzeColumns.names``.
Row = Sequence[Any]


@dataclass(frozen=True)
class BronzeColumns:
    """Columns of a bronze table.

    Attributes:
        types: types of its data columns.
        landed: landed names of columns that are called otherwise.
        in_path: columns that are taken from the paths of files.
        case_sensitive: whether a field of a name in another case has no column.
        rescues: whether what has no column is in the rescued data.
        private: whether values must not be shown.
    """

    types: Mapping[str, pa.DataType]
    landed: Mapping[str, str] = field(default_factory=dict)
    in_path: frozenset[str] = frozenset()
    case_sensitive: bool = False
    rescues: bool = True
    private: bool = False

    @cached_property
    def names(self) -> list[str]:
        """Columns of a stored row."""
        return [*self.types, RESCUED, CORRUPT]

    @cached_property
    def comparers(self) -> dict[str, Comparer]:
        """Comparer of each column."""
        return {name: comparer(kind) for name, kind in self.types.items()}

    @cached_property
    def _fields(self) -> dict[str, str | None]:
        return {}

    def find_column(self, name: str) -> str | None:
        """Return the column that a field's values may be in; None if they are rescued."""
        if name not in self._fields:
            self._fields[name] = self._find_column(name)
        return self._fields[name]

    def _find_column(self, name: str) -> str | None:
        if name in self.in_path:
            return None
        own = {landed: column for column, landed in self.landed.items()}
        if name in own:
            return own[name]
        if name in self.types and name not in self.landed:
            return name
        if self.case_sensitive:
            return None
        lower = {landed.lower(): column for landed, column in own.items()}
        lower |= {column.lower(): column for column in self.types if column not in self.landed}
        return lower.get(name.lower())

    def plain_rows(self, batch: pa.RecordBatch) -> list[Row]:
        """Return rows of a batch, with times as whole numbers."""
        columns = list(map(batch.column, self.names))
        values = [_plain_values(column).to_pylist() for column in columns]
        return list(zip(*values, strict=True))


def _plain_values(column: pa.Array) -> pa.Array:
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    if pa.types.is_nested(column.type):
        return column.cast(kind)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(kind)
    return column.cast(pa.date32()).cast(kind)


def path_value(path: str, name: str) -> str | None:
    """Return the value of a folder ``name=value`` in a path, which Hive percent-encodes."""
    prefix = f"{name}="
    value = next((unquote(part[len(prefix) :]) for part in path.split("/")[:-1] if part.startswith(prefix)), "")
    if value in ("", "__HIVE_DEFAULT_PARTITION__"):
        return None
    return value


def _whole_numbers(values: Sequence[Any]) -> list[Any] | None:
    if any(isinstance(value, (float, Decimal)) for value in values):  # whose fractions int() would leave out
        return None
    try:
        return [None if value is None else int(value) for value in values]
    except (ValueError, TypeError):
        return None


def _is_double(value: Any) -> bool:
    """Return whether a value is sure to be the very number that its nearest DOUBLE is printed as."""
    if isinstance(value, str):
        return len(value) < PRINTED_DIGITS - 1 and {"e", "E"}.isdisjoint(value)
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < SKIPS_FROM)


def _doubles(values: Sequence[Any]) -> list[Any] | None:
    if not all(map(_is_double, values)):
        return None
    try:
        return [None if value is None else float(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        return None


def _texts(values: Sequence[Any]) -> list[Any] | None:
    if all(value is None or isinstance(value, str) for value in values):
        return list(values)
    return None


# Conversion of a whole column, of the types that nearly all columns have; equal lists are equal values.
QUICK: dict[str, Callable[[Sequence[Any]], list[Any] | None]] = {
    **dict.fromkeys(["int8", "int16", "int32", "int64"], _whole_numbers), "double": _doubles, "string": _texts,
    "large_string": _texts,
}  # fmt: skip
