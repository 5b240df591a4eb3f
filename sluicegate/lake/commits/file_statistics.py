"""Decide whether delta-rs' statistics of rows are right, so that no reader skips a value.

A file has statistics in the table's log, and others in its footer: Spark skips files by both. delta-rs omits NaN from
both, and logs decimals as doubles. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables

# Digits that a number has in the statistics of a file, where delta-rs has it as a double.
DIGITS = 15

# Columns of a table, from the first one, that delta-rs makes statistics of for the log. Spark counts fields of structs
# one by one, and so has statistics of fewer columns.
COUNTED = 32

# Properties of a table that say of which columns there are statistics in place of that.
_OF_STATISTICS = "delta.dataSkipping"

# Names by which the statistics of a column are found.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Times from 1900, in microseconds, and days from 15 October 1582, both to the year 9999: every reader takes them. Those
# before might be of the Julian calendar, and by default Spark 3 refuses a file with one, unless Spark has written its
# name into the file.
# https://spark.apache.org/docs/latest/sql-data-sources-parquet.html (datetimeRebaseModeInRead)
_TIMES = (-2_208_988_800_000_000, 253_402_300_799_999_999)
_DAYS = (-141_427, 2_932_896)


def are_right_for_rows(rows: pa.Table) -> bool:
    """Return whether delta-rs' statistics of these rows are right."""
    return all(_has_right_bounds(column.combine_chunks()) for column in rows.columns)


def are_right_for_table(table: DeltaTable) -> bool:
    """Return whether delta-rs' statistics of the stored rows are right, by the log; no data is read.

    A MERGE rewrites whole files, with rows that stay.
    """
    doubtful = list(_doubtful_leaves(table))
    if any(not leaf.named for leaf in doubtful):
        return False
    if not doubtful:
        return True
    names = [f"{kind}.{leaf.name}" for leaf in doubtful for kind in ("min", "max", "null_count")]
    statistics = tables.statistics(table, "num_records", *names)
    return all(_has_exact_bounds(statistics, leaf.name) for leaf in doubtful)


@dataclass(frozen=True)
class _Leaf:
    """Column or struct field of a type whose statistics may be wrong.

    Attributes:
        name: its name in the statistics.
        named: whether the name is unique.
    """

    name: str
    named: bool


def _doubtful_leaves(table: DeltaTable) -> Iterator[_Leaf]:
    by_rule = any(name.startswith(_OF_STATISTICS) for name in table.metadata().configuration)
    for place, field in enumerate(pa.schema(table.schema().to_arrow())):
        counted = by_rule or place < COUNTED
        named = bool(NAME.fullmatch(field.name))
        yield from _doubtful_column_leaves(field.name, field.type, counted=counted, named=named)


def _doubtful_column_leaves(name: str, kind: Any, *, counted: bool, named: bool) -> Iterator[_Leaf]:
    """Yield the leaves of a column; arrays and maps have no statistics, and are not skipped by."""
    if pa.types.is_struct(kind):
        for field in kind:
            both = named and bool(NAME.fullmatch(field.name))
            yield from _doubtful_column_leaves(f"{name}.{field.name}", field.type, counted=counted, named=both)
    elif pa.types.is_floating(kind) or (counted and not (pa.types.is_nested(kind) or _is_always_right(kind))):
        yield _Leaf(name, named)


def _is_always_right(kind: Any) -> bool:
    short = pa.types.is_decimal(kind) and kind.precision <= DIGITS
    return short or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _has_exact_bounds(statistics: pa.Table, name: str) -> bool:
    """Return whether the minimum and maximum of each file with values are known and right."""
    empty = pc.fill_null(pc.equal(statistics[f"null_count.{name}"], statistics["num_records"]), False)
    not_empty = statistics.filter(pc.invert(empty))
    if not not_empty.num_rows:
        return True
    ends = [not_empty[f"{kind}.{name}"].combine_chunks() for kind in ("min", "max")]
    return all(end.null_count == 0 and _has_right_bounds(end) for end in ends)


def _has_right_bounds(values: Any) -> bool:
    kind = values.type
    if pa.types.is_struct(kind):
        return all(map(_has_right_bounds, values.flatten()))
    if pa.types.is_map(kind):
        return _has_right_bounds(values.keys) and _has_right_bounds(values.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_right_bounds(values.flatten())
    if pa.types.is_floating(kind):  # NaN is left out of a file's greatest value, which for Spark it is
        return not pc.any(pc.is_nan(values)).as_py()
    if pa.types.is_decimal(kind):
        return _is_within(values, (-(limit := Decimal(10**DIGITS - 1).scaleb(-kind.scale)), limit))
    if pa.types.is_timestamp(kind):
        return kind.unit == "us" and kind.tz is not None and _is_within(values.cast(pa.int64()), _TIMES)
    if pa.types.is_date32(kind):
        return _is_within(values.cast(pa.int32()), _DAYS)
    if _is_text(kind):
        return _is_utf8(values)
    return bool(pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind))


def _is_utf8(values: Any) -> bool:
    """Return whether all strings are UTF-8: Spark's may have any bytes, which only Spark reads."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_within(values: Any, limits: tuple[Any, Any]) -> bool:
    bounds = pc.min_max(values)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least is None or (limits[0] <= least and most <= limits[1])
