"""Data skipping: range predicates on a column that has file statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# From so many rows in a table on, data skipping by the keys of a batch pays.
MANY_ROWS = 200_000

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
    return _within(column, ranges(chunks))


def _within(column: str, spans: Sequence[tuple[Any, Any]]) -> Column:
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
    return _within(quoted(column), [(_moment(first), _moment(last + 1)) for first, last in found])


def _moment(hour: int) -> Any:
    return F.timestamp_seconds(F.lit(hour * 3600))
