"""Files that are late: none has arrived within the time span that the definition expects of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import FilesLate, Where
from sluicegate.lake import layout, log, tables
from sluicegate.settings import Settings
from sluicegate.times import format_span


def late_files_error(pipeline: Pipeline, settings: Settings, time: datetime, only: Sequence[str]) -> FilesLate | None:
    """Return the error about the bronze tables whose files, or whose source's new versions, are late; None if none is.

    Args:
        pipeline: the definition.
        settings: where things are.
        time: the time.
        only: only these tables; none means all.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    late_tables: dict[str, str] = {}
    for name, table in pipeline.bronze.items():
        if table.expect_files_within is None or (only and name not in only):
            continue
        last = arrival_time(name, table, lake)
        if last is None or time - last > table.expect_files_within:
            last_arrival = "none has arrived yet"
            if last:
                last_arrival = f"the last arrived at {last:%Y-%m-%d %H:%M} UTC"
            expected = format_span(table.expect_files_within)
            late_tables[name] = f"{name} expects new files within {expected}, and {last_arrival}"
    if not late_tables:
        return None
    hint = "ask whoever delivers them, check the landing folder, or adjust expect_files_within"
    return FilesLate("; ".join(late_tables.values()), where=Where(table=", ".join(late_tables)), hint=hint)


def arrival_time(name: str, table: BronzeTable, lake: layout.Lake) -> datetime | None:
    """Return when a file was last entered into a table's ledger, or a version of its source last taken in."""
    if not table.reads_files:
        return change_time("bronze", name, lake)
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return None
    times = [time for (time,) in tables.statistics_rows(ledger, "max.discovered") if time is not None]
    newest: datetime | None = max(times, default=None)
    if newest and newest.tzinfo is None:
        return newest.replace(tzinfo=UTC)
    return newest


def change_time(layer: str, name: str, lake: layout.Lake) -> datetime | None:
    """Return the time at which a run last changed a table."""
    commit = log.last_own_commit(tables.delta_table(lake.table(layer, name)))
    if commit:
        return datetime.fromtimestamp(commit.timestamp / 1000, UTC)
    return None
