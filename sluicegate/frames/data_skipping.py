"""Data skipping: range predicates on a column that has file statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    """Closed ranges, ``most`` at most, that cover all values and leave out the widest gaps between them.

    Args:
        values: ascending, each once.
        most: how many ranges there may be.
    """
    gaps = sorted(range(1, len(values)), key=lambda at: values[at - 1] - values[at])[: most - 1]
    starts = [0, *sorted(at for at in gaps if values[at] - values[at - 1] > 1)]
    return [(values[first], values[last - 1]) for first, last in zip(starts, [*starts[1:], len(values)], strict=True)] \
        if values else []  # fmt: skip


def of_chunks(chunks: Sequence[int], column: str = "_chunk") -> Column:
    """Predicate for rows of some ledger batches, or of batches between these."""
    return within(column, ranges(chunks))


def within(column: str, spans: Sequence[tuple[Any, Any]]) -> Column:
    """Predicate for values of a column in one of some closed ranges."""
    found = F.lit(False)
    for first, last in spans:
        found = found | F.col(column).between(first, last)
    return found


def near(frame: DataFrame, rows: DataFrame, event_time: str | None, keys: Sequence[str]) -> DataFrame:
    """Rows of a table that may share a key with one of ``rows``.

    With the event time among the keys only the hours of these rows are read; else the whole table, whose files are
    then all opened for their keys.
    """
    if event_time is None or event_time not in keys:
        return frame
    hours = same_hours(rows, event_time, event_time)
    return frame if hours is None else frame.where(hours)


def same_hours(rows: DataFrame, event_time: str, column: str) -> Column | None:
    """Predicate for rows of a table with a time in the same hour as one of ``rows``, or in an hour between these.

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
    hour = F.unix_micros(F.date_trunc("HOUR", F.col(quoted(event_time)))) / F.lit(3_600_000_000)
    hours = rows.where(f"{quoted(event_time)} IS NOT NULL").select(hour.cast("bigint").alias("hour")).distinct()
    found = ranges([row[0] for row in hours.orderBy("hour").collect()])
    return within(quoted(column), [(_moment(first), _moment(last + 1)) for first, last in found])


def same_values(rows: DataFrame, of: str) -> Callable[[Column], Column] | None:
    """Predicate for values of a column that one of ``rows`` has, or, of many, values between these.

    Args:
        rows: the rows; up to ``FEW_VALUES`` values of theirs are collected.
        of: their column with the value; the predicate is for columns of the same type.

    Returns:
        None if Delta has no usable statistics of values of this type, or Python cannot have one of the values.
    """
    kind = rows.schema[of].dataType.simpleString()
    counted = kind in _WHOLE or kind in _AS_NUMBERS
    if not (counted or kind == "string" or kind.startswith("decimal")):
        return None
    number, value = _AS_NUMBERS.get(kind, ("{}", "{}"))
    held = rows.select(F.expr(number.format(quoted(of))).alias("value")).distinct()
    found = [row[0] for row in held.limit(FEW_VALUES + 1).collect()]
    if len(found) > FEW_VALUES:
        spans, null = [tuple(held.agg(F.min("value"), F.max("value")).collect()[0])], True
    else:
        known = sorted(one for one in found if one is not None)
        spans, null = ranges(known) if counted else [(one, one) for one in known], None in found
    if kind == "string" and any(_NO_TEXT in one for span in spans for one in span):
        return None
    made = [(_constant(first, kind, value), _constant(last, kind, value)) for first, last in spans]

    def near(column: Column) -> Column:
        inside = reduce(or_, [column.between(first, last) for first, last in made], F.lit(False))
        return inside | column.isNull() if null else inside

    return near


def _constant(value: Any, kind: str, form: str) -> Column:
    """Value as a literal of its type."""
    if kind == "string":
        return F.lit(value)
    # A number with an exponent (str of a small decimal) is a double for Spark, and has not all of its digits.
    digits = f"{value:f}BD" if kind.startswith("decimal") else f"{value}L"
    return F.expr(form.format(digits)).cast(kind)


def _moment(hour: int) -> Any:
    return F.timestamp_seconds(F.lit(hour * 3600))
