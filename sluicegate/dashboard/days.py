"""Calendar of a table's days by event time: their rows, and when an interval that has them was last rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.dashboard import batches
from sluicegate.lake import tables

if TYPE_CHECKING:
    from sluicegate.dashboard.batches import CommittedBatch
    from sluicegate.dashboard.source import Source
    from sluicegate.definition import Pipeline

SHOWN = 400
"""Days that a calendar has, the last ones."""


# Days that Python has, as Arrow counts them.
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


@dataclass(frozen=True)
class Day:
    """A day (UTC).

    Attributes:
        day: the day.
        rows: rows of the table whose event time is in it.
        rebuilt: when a run last rebuilt an interval that has all of it; None if none did.
        run: that run.
    """

    day: date
    rows: int
    rebuilt: datetime | None = None
    run: str = ""


@dataclass(frozen=True)
class DayDetails:
    """Calendar of a silver table.

    Attributes:
        pipeline: its pipeline.
        tables: the tables with an event time, of which one is shown.
        table: that one; empty if there is none.
        column: its event-time column.
        days: its days, oldest first, without gaps; None while they are counted.
        left_out: number of days before these.
        unknown: rows without an event time.
        mixed: whether the table may have rows of a former definition.
        definition: fingerprint of the definition that its last batch was made by.
    """

    pipeline: str
    tables: tuple[str, ...]
    table: str
    column: str
    days: tuple[Day, ...] | None
    left_out: int = 0
    unknown: int = 0
    mixed: bool = False
    definition: str = ""


def day_details(source: Source, pipeline: Pipeline, name: str | None = None) -> DayDetails:
    """The calendar of a silver table, by default the first that has an event time."""
    with_event_time = tuple(name for name, table in pipeline.silver.items() if table.event_time)
    if not with_event_time or (name is not None and name not in with_event_time):
        return DayDetails(pipeline.name, with_event_time, "", "", ())
    name = name or with_event_time[0]
    column = str(pipeline.silver[name].event_time)
    view = DayDetails(pipeline.name, with_event_time, name, column, ())
    uri = source.lake(pipeline).table("silver", name)
    table = source.table(uri)
    if table is None:
        return view
    version = (tables.table_id(table), table.version())
    counts = source.compute_soon(("days", uri, version), lambda: _count_days(table, column)).value
    history = [batch for batch in batches.newest_batches(source, pipeline) if batch.table == name]
    if counts is None:
        return replace(view, days=None)
    rows, unknown = counts
    days = _days(rows, [batch for batch in history if batch.interval is not None])
    view = replace(view, days=days[-SHOWN:], left_out=max(0, len(days) - SHOWN), unknown=unknown)
    if not history:
        return view
    return replace(view, mixed=history[0].mixed, definition=history[0].definition)


def _count_days(table: DeltaTable, column: str) -> tuple[dict[date, int], int]:
    """Rows by day, and rows without one that a calendar has; of the table that one column alone is read, in parts."""
    name = {field.name.lower(): field.name for field in table.schema().fields}.get(column.lower())
    if name is None:  # the definition has it since today, and no run has made it yet
        return {}, tables.rows(table)
    rows, unknown = dict[date, int](), 0
    for batch in tables.dataset(table).to_batches([name], batch_readahead=1, fragment_readahead=1):
        read = batch[0]
        if not (pa.types.is_timestamp(read.type) or pa.types.is_date(read.type)):
            unknown += len(read)
            continue
        days = pc.cast(pc.cast(read, pa.date32(), safe=False), pa.int32())
        for day_count in days.value_counts().to_pylist():
            if day_count["values"] is None or not _FIRST <= day_count["values"] <= _LAST:
                unknown += day_count["counts"]
            else:
                day = _EPOCH + timedelta(days=day_count["values"])
                rows[day] = rows.get(day, 0) + day_count["counts"]
    return rows, unknown


def _days(rows: dict[date, int], intervals: Sequence[CommittedBatch]) -> tuple[Day, ...]:
    if not rows:
        return ()
    first, last = min(rows), max(rows)
    # One date of the year 1 makes no calendar of 2,000 years.
    first = max(first, date.fromordinal(max(1, last.toordinal() - 10 * SHOWN)))
    calendar = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        batch = next((interval for interval in intervals if _covers(interval, day)), None)
        calendar.append(Day(day, rows.get(day, 0), batch.time if batch else None, batch.run_id if batch else ""))
    return tuple(calendar)


def _covers(batch: CommittedBatch, day: date) -> bool:
    """Whether a batch rebuilt an interval that has a whole day."""
    since, until = (_moment(text) for text in batch.interval or ("", ""))
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return since is not None and until is not None and since <= begin and until - begin >= timedelta(days=1)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=UTC)
