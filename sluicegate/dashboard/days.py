"""Calendar of a table's days by event time: their rows, and when an interval that has them was last rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.dashboard import batches
from sluicegate.dashboard.batches import CommittedBatch
from sluicegate.dashboard.runs import DagRun
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.lake import tables

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
class Rebuild:
    """An interval of event time that a run rebuilt, whether rows of the table changed or not.

    Attributes:
        since: its beginning.
        until: its end.
        time: when it was rebuilt.
        run: the run.
    """

    since: datetime
    until: datetime
    time: datetime
    run: str

    def covers(self, day: date) -> bool:
        """Return whether the rebuild includes the whole day."""
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return self.since <= begin and self.until - begin >= timedelta(days=1)


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


def day_details(
    source: Source, pipeline: Pipeline, name: str | None = None, dag_runs: Sequence[DagRun] = ()
) -> DayDetails:
    """Return the calendar of a silver table, by default of the first with an event time.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        name: the table.
        dag_runs: runs in Airflow, which include those that changed no row and made no commit.
    """
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
    rebuilds = [*_committed_rebuilds(history), *_successful_rebuilds(dag_runs, name)]
    days = _days(rows, sorted(rebuilds, key=lambda rebuild: rebuild.time, reverse=True))
    view = replace(view, days=days[-SHOWN:], left_out=max(0, len(days) - SHOWN), unknown=unknown)
    if not history:
        return view
    return replace(view, mixed=history[0].mixed, definition=history[0].definition)


def _count_days(table: DeltaTable, column: str) -> tuple[dict[date, int], int]:
    """Count rows by day, and those without a day of the calendar, reading only the event time in batches."""
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


def _committed_rebuilds(history: Sequence[CommittedBatch]) -> Iterator[Rebuild]:
    """Yield the intervals of a table's commits."""
    for batch in history:
        since, until = (_moment(text) for text in batch.interval or ("", ""))
        if since is not None and until is not None:
            yield Rebuild(since, until, batch.time, batch.run_id)


def _successful_rebuilds(dag_runs: Sequence[DagRun], table: str) -> Iterator[Rebuild]:
    """Yield the intervals of successful rebuilds in Airflow."""
    for run in dag_runs:
        requested_tables = run.requested.get("tables")
        if isinstance(requested_tables, list) and requested_tables and table not in requested_tables:
            continue
        if not run.is_complete or run.ended is None:
            continue
        since, until = (_moment(str(run.requested.get(end) or "")) for end in ("from", "to"))
        if run.kind == "backfill" and run.interval is not None:
            since, until = run.interval
        if since is not None and until is not None:
            yield Rebuild(since, until, run.ended, run.run_id)


def _days(rows: dict[date, int], rebuilds: Sequence[Rebuild]) -> tuple[Day, ...]:
    if not rows:
        return ()
    first, last = min(rows), max(rows)
    # One date of the year 1 makes no calendar of 2,000 years.
    first = max(first, date.fromordinal(max(1, last.toordinal() - 10 * SHOWN)))
    calendar = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        rebuild = next((rebuild for rebuild in rebuilds if rebuild.covers(day)), None)
        calendar.append(Day(day, rows.get(day, 0)))
        if rebuild is not None:
            calendar[-1] = Day(day, rows.get(day, 0), rebuild.time, rebuild.run)
    return tuple(calendar)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=UTC)
