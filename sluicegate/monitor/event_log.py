"""Event log: our commit info of all tables, copied to ``_events`` before Delta forgets it.

Delta keeps a table's history for 30 days. The copy is made after the commits it describes and continues after the last
copied version, so a kill in between loses nothing: the next run copies the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate import _faults
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import UserError
from sluicegate.flow import refresh_cost
from sluicegate.lake import layout, tables
from sluicegate.lake import log as lake_log
from sluicegate.lake.commits import commit_stats
from sluicegate.lake.commits.commit_info import BatchMode

# Batches of commands with a longer break between them are of two runs: a command line gives its runs no names.
BREAK = timedelta(minutes=10)

TIME = pa.timestamp("us", "UTC")
EVENTS = pa.schema(
    [
        ("time", TIME), ("layer", pa.string()), ("table", pa.string()), ("table_id", pa.string()),
        ("version", pa.int64()), ("mode", pa.string()),
        ("since", pa.int64()), ("until", pa.int64()), ("read", pa.int64()), ("written", pa.int64()),
        ("quarantined", pa.int64()), ("dropped", pa.int64()), ("duplicates", pa.int64()), ("details", pa.string()),
    ]
)  # fmt: skip


# What the greatest time of a file may be short of in its statistics, which have milliseconds.
MARGIN = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Logged:
    """A table whose commits are events.

    Attributes:
        name: the table of the definition.
        uri: its address, or that of the rows that it refused.
        followed: of gold, the address of the table that it follows.
        refused: whether it has the rows that the table refused.
    """

    name: str
    uri: str
    followed: str = ""
    refused: bool = False


def copy_events(pipeline: Pipeline, lake: layout.Lake, layers: Sequence[str] = LAYERS) -> None:
    """Append to ``_events`` those of our commits to the tables of some layers that it does not have yet."""
    log = tables.delta_table(lake.events)
    rows = list(_uncopied_events(log, logged_tables(pipeline, lake, layers)))
    if rows:
        _faults.point("events.before_commit")
        rows.sort(key=lambda row: (row["time"], row["table"], row["version"]))
        tables.write(log or lake.events, pa.Table.from_pylist(rows, schema=EVENTS), mode="append")


def logged_tables(pipeline: Pipeline, lake: layout.Lake, layers: Sequence[str] = LAYERS) -> Iterator[Logged]:
    """Yield the tables of a pipeline that have events, none of which need exist."""
    for layer in [layer for layer in LAYERS if layer in layers]:
        for name in pipeline.names(layer):
            uri = lake.table(layer, name)
            yield Logged(name, uri, _followed_table(pipeline, name, lake) if layer == "gold" else "")
            yield Logged(name, layout.rejected_table(uri), refused=True)


def events_since(table: DeltaTable, of: Logged, copied: int, most: int | None = None) -> list[dict[str, Any]]:
    """Return the events of the commits of ours to a table above a version, newest first.

    Args:
        table: the table.
        of: which it is.
        copied: the version.
        most: how many commits are read at most; None for all.
    """
    news = table.version() - copied
    if news <= 0:
        return []
    events, table_id = [], tables.table_id(table)
    for commit in lake_log.commits(table, news if most is None else min(news, most)):
        if commit.ours is None or commit.version <= copied:
            continue
        row = _event(commit, _bytes(commit, of)) | {"table_id": table_id}
        # Of a batch that was refused, or of the one that passed after it, no row was written.
        events.append(row | {"mode": commit.ours.step, "written": 0} if of.refused else row)
    return events


def demand_table(pipeline: Pipeline, table: str | None) -> None:
    """Check that a run fills a table, if one is named.

    Raises:
        UserError: the pipeline has no such table.
    """
    names = [name for layer in LAYERS for name in pipeline.names(layer)]
    if table is not None and table not in names:
        raise UserError(f"unknown table {table} of {pipeline.name}", hint=f"its tables: {', '.join(names)}")


def history(pipeline: Pipeline, lake: layout.Lake, table: str | None, count: int) -> pa.Table:
    """Return the last events, oldest first, with those of commits that are not copied yet, as of a run under way.

    Args:
        pipeline: the definition.
        lake: the lake.
        table: only of this table; None for all.
        count: how many.
    """
    log = tables.delta_table(lake.events)
    logs = [log_of_table for log_of_table in logged_tables(pipeline, lake) if table in (None, log_of_table.name)]
    more = pa.Table.from_pylist(list(_uncopied_events(log, logs, count)), EVENTS)
    return _last_events(pa.concat_tables([newest_rows(lake, table, count), more]), count)


def newest_rows(lake: layout.Lake, table: str | None, count: int) -> pa.Table:
    """Return the last events that are copied, oldest first (schema ``EVENTS``).

    Args:
        lake: the lake.
        table: only of this table; None for all.
        count: how many.
    """
    log = tables.delta_table(lake.events)
    if log is None:
        return EVENTS.empty_table()
    return newest_events(log, count, table)


def newest_events(log: DeltaTable, count: int, table: str | None = None) -> pa.Table:
    """Return the last rows of the event log, oldest first: of the newest of its files, as most need not be opened.

    Args:
        log: the event log.
        count: how many.
        table: only of this table; None for all.
    """
    if table is None:
        of_table = None
    else:
        of_table = pc.field("table") == table
    if tables.filesystem(log) is None or not tables.is_plain(log):
        return _last_events(tables.dataset(log).to_table(EVENTS.names, filter=of_table), count)
    files = tables.statistics(log, "path", "max.time", "num_records").sort_by([("max.time", "descending")]).to_pylist()
    paths = [file["path"] for file in files if file["max.time"] is None]  # without statistics: they have to be opened
    unread = [file for file in files if file["max.time"] is not None]
    events, rows = EVENTS.empty_table(), count
    while paths or unread:
        newest_files = _files_with_rows(unread, rows)
        unread = unread[len(newest_files) :]
        paths += [file["path"] for file in newest_files]
        read = tables.files_of(log, paths).to_table(EVENTS.names, filter=of_table)
        events = _last_events(pa.concat_tables([events, read.cast(EVENTS)]), count)
        complete = events.num_rows == count
        if complete and unread and unread[0]["max.time"] + MARGIN < events["time"][0].as_py():
            break
        paths, rows = [], 2 * rows
    return events


def _files_with_rows(files: Sequence[Mapping[str, Any]], rows: int) -> Sequence[Mapping[str, Any]]:
    """Return the first files that have so many rows together, by their statistics."""
    total = 0
    for number, file in enumerate(files):
        if total >= rows:
            return files[:number]
        total += file["num_records"] or 0
    return files


def _last_events(rows: pa.Table, count: int) -> pa.Table:
    order = pc.sort_indices(rows, [("time", "ascending"), ("table", "ascending"), ("version", "ascending")])
    return rows.take(order.slice(max(rows.num_rows - count, 0)))


def _uncopied_events(log: DeltaTable | None, of: Iterable[Logged], most: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of our commits that the event log does not have: of each table so many at most."""
    copied = _copied_versions(log)
    for logged_table in of:
        table = tables.delta_table(logged_table.uri)
        if table is not None:
            yield from events_since(table, logged_table, copied.get(tables.table_id(table), -1), most)


def _copied_versions(log: DeltaTable | None) -> dict[str, int]:
    """Return the newest copied version by table id: a table that was made anew has a new id and begins again at 0."""
    if log is None:
        return {}
    versions = tables.dataset(log).to_table(["table_id", "version"]).group_by("table_id")
    return {row["table_id"]: row["version_max"] for row in versions.aggregate([("version", "max")]).to_pylist()}


def _followed_table(pipeline: Pipeline, name: str, lake: layout.Lake) -> str:
    """Return the URI of the table that a gold table follows."""
    followed = pipeline.gold[name].reads[0]
    return next(lake.table(layer, followed) for layer in LAYERS if followed in pipeline.names(layer))


def _bytes(commit: lake_log.Commit, of: Logged) -> dict[str, Any]:
    """Return the bytes that a gold commit wrote, beside the bytes changed in its source: known once both are committed.

    The changed bytes are None for a full refresh, and where the source's log was cleaned.
    """
    if not of.followed or (wrote := commit_stats.commit_volume(of.uri, commit.version)) is None:
        return {}
    info, changed, per_byte = commit.info, None, None
    if info.mode == BatchMode.INCREMENTAL:
        read = commit_stats.change_volume(of.followed, info.since, -1 if info.until is None else info.until)
        changed = read and read.changed
    if changed:
        per_byte = round(wrote.written / changed, 3)
    return {"bytes": {"written": wrote.written, "changed": changed, "written_per_byte_changed": per_byte}}


def _event(commit: lake_log.Commit, more: Mapping[str, Any]) -> dict[str, Any]:
    info = commit.info.with_facts(more)
    if (took := refresh_cost.measured_seconds(commit)) is not None:
        info = info.with_facts({"cost": {**info.gold.cost, "seconds": round(took, 2)}})
    numbers = {key: info.get(key) for key in ("since", "until", "read", "quarantined", "dropped", "duplicates")}
    return {
        "time": datetime.fromtimestamp(commit.timestamp / 1000, UTC),
        "layer": info.layer, "table": info.table, "version": commit.version, "mode": info.mode,
        **numbers, "written": info.get("written", commit.rows_written), "details": json.dumps(dict(info), default=str),
    }  # fmt: skip
