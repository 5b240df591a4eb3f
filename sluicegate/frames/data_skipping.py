"""Build range predicates for data skipping on a column with file statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.spark_sql.identifiers import quote_name

# From so many rows in a table on, data skipping by the keys of a batch pays.
MANY_ROWS = 200_000

# Values of which a predicate has each; of more it has the least and the greatest.
FEW_VALUES = 1_000

_WHOLE = ("tinyint", "smallint", "int", "bigint")

# Types of which values are collected as whole numbers, since Python has fewer of them: how, and back again.
_AS_NUMBERS = {"date": ("CAST(unix_date({}) AS BIGINT)", "date_from_unix_date(CAST({} AS INT))"),
               "timestamp": ("unix_micros({})", "timestamp_micros({})")}  # fmt: skip

# What Python has in the place of bytes that are no UTF-8, which Spark keeps in its texts as they are.
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"

# More ranges take longer to plan than they save. One late row must not widen a single range over the whole table.
RANGES = 50


def ranges(values: Sequence[int], most: int = RANGES) -> list[tuple[int, int]]:
    """Return at most ``most`` closed ranges that cover all values and omit the widest gaps.

    Args:
        values: ascending, each once.
        most: maximum number of ranges.
    """
    if not values:
        return []
    gaps = sorted(range(1, len(values)), key=lambda place: values[place - 1] - values[place])[: most - 1]
    starts = [0, *sorted(place for place in gaps if values[place] - values[place - 1] > 1)]
    ends = [*starts[1:], len(values)]
    return [(values[start], values[end - 1]) for start, end in zip(starts, ends, strict=True)]


def chunk_predicate(chunks: Sequence[int], column: str = "_chunk") -> Column:
    """Return the predicate for rows of some ledger batches, or of batches between them."""
    return range_predicate(column, ranges(chunks))


def range_predicate(column: str, spans: Sequence[tuple[Any, Any]]) -> Column:
    """Return the predicate for values of a column within closed ranges."""
    return reduce(or_, [F.col(column).between(first, last) for first, last in spans], F.lit(False))


def candidate_rows(frame: DataFrame, rows: DataFrame, event_time: str | None, keys: Sequence[str]) -> DataFrame:
    """Return the rows of a table that may share a key with one of ``rows``.

    With the event time among the keys, only the hours of these rows are read; otherwise all files of the table are
    opened for their keys.
    """
    if event_time is None or event_time not in keys:
        return frame
    hours = hour_predicate(rows, event_time, event_time)
    if hours is None:
        return frame
    return frame.where(hours)


def hour_predicate(rows: DataFrame, event_time: str, column: str) -> Column | None:
    """Return the predicate for rows of a table in the same hour as one of ``rows``, or in an hour between.

    Args:
        rows: the rows; their hours are collected.
        event_time: their column with the time.
        column: column of the table with the time, of the same type.

    Returns:
        None if their time is of a type without such hours.
    """
    kind = rows.schema[event_time].dataType.simpleString()
    if kind not in ("timestamp", "date"):
        return None
    hour = F.unix_micros(F.date_trunc("HOUR", F.col(quote_name(event_time)))) / F.lit(3_600_000_000)
    hours = rows.where(f"{quote_name(event_time)} IS NOT NULL").select(hour.cast("bigint").alias("hour")).distinct()
    spans = ranges([row[0] for row in hours.orderBy("hour").collect()])
    return range_predicate(quote_name(column), [(_moment(first), _moment(last + 1)) for first, last in spans])


def value_predicate(rows: DataFrame, of: str) -> Callable[[Column], Column] | None:
    """Return the predicate for values of a column in ``rows``, or between them if these are many.

    Args:
        rows: the rows, of which up to ``FEW_VALUES`` values are collected.
        of: their column with the value; the predicate is for columns of the same type.

    Returns:
        None if Delta has no usable statistics for this type, or Python cannot represent a value.
    """
    kind = rows.schema[of].dataType.simpleString()
    if not (_is_counted(kind) or kind == "string" or kind.startswith("decimal")):
        return None
    number, value = _AS_NUMBERS.get(kind, ("{}", "{}"))
    spans = _spans_of(rows.select(F.expr(number.format(quote_name(of))).alias("value")).distinct(), kind)
    if kind == "string" and any(_NO_TEXT in bound for bounds in spans.closed for bound in bounds):
        return None
    constants = [(_constant(first, kind, value), _constant(last, kind, value)) for first, last in spans.closed]

    def predicate(column: Column) -> Column:
        inside = reduce(or_, [column.between(first, last) for first, last in constants], F.lit(False))
        if not spans.null:
            return inside
        return inside | column.isNull()

    return predicate


@dataclass(frozen=True)
class _Spans:
    """Closed ranges of values, and whether NULL is among the values."""

    closed: Sequence[tuple[Any, ...]]
    null: bool


def _is_counted(kind: str) -> bool:
    """Return whether values of a type are integers, directly or as days and microseconds."""
    return kind in _WHOLE or kind in _AS_NUMBERS


def _spans_of(distinct: DataFrame, kind: str) -> _Spans:
    """Return ranges that cover the distinct values of a column; one range if they are many."""
    values = [row[0] for row in distinct.limit(FEW_VALUES + 1).collect()]
    if len(values) > FEW_VALUES:
        return _Spans([tuple(distinct.agg(F.min("value"), F.max("value")).collect()[0])], null=True)
    ascending = sorted({*values} - {None})
    if _is_counted(kind):
        return _Spans(ranges(ascending), None in values)
    return _Spans([(value, value) for value in ascending], None in values)


def _constant(value: Any, kind: str, form: str) -> Column:
    """Return the value as a literal of its type."""
    if kind == "string":
        return F.lit(value)
    # A number with an exponent (str of a small decimal) is a double for Spark, and has not all of its digits.
    digits = f"{value}L"
    if kind.startswith("decimal"):
        digits = f"{value:f}BD"
    return F.expr(form.format(digits)).cast(kind)


def _moment(hour: int) -> Any:
    return F.timestamp_seconds(F.lit(hour * 3600))
