"""Event log: our commit info of all tables, copied to ``_events`` before Delta forgets it.

Delta keeps a table's history for 30 days. The copy is made after the commits it describes and continues after the last
copied version, so a kill in between loses nothing: the next run copies the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate import _faults
from sluicegate.definition.table import LAYERS
from sluicegate.errors import UserError
from sluicegate.flow import refresh_cost
from sluicegate.lake import commit_stats, layout, tables
from sluicegate.lake import log as lake_log

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline

TIME = pa.timestamp("us", "UTC")
EVENTS = pa.schema(
    [
        ("time", TIME), ("layer", pa.string()), ("table", pa.string()), ("table_id", pa.string()),
        ("version", pa.int64()), ("mode", pa.string()),
        ("since", pa.int64()), ("until", pa.int64()), ("read", pa.int64()), ("written", pa.int64()),
        ("quarantined", pa.int64()), ("dropped", pa.int64()), ("duplicates", pa.int64()), ("details", pa.string()),
    ]
)  # fmt: skip


def copy_events(pipeline: Pipeline, at: layout.Lake) -> None:
    """Appends to ``_events`` those of our commits that it does not have yet."""
    log = tables.delta_table(at.events)
    copied = _newest(log)
    rows: list[dict[str, Any]] = []
    for layer in LAYERS:
        for name in pipeline.names(layer):
            uri = at.table(layer, name)
            source = _source(pipeline, name, at) if layer == "gold" else ""
            for table, commit in _not_copied(uri, copied):
                rows.append(_event(commit, _bytes(commit, uri, source)) | {"table_id": tables.table_id(table)})
            for table, commit in _not_copied(layout.rejected(uri), copied):
                rows.append(_event(commit, {}) | {"table_id": tables.table_id(table), **_of_rejected(commit)})
    if rows:
        _faults.point("events.before_commit")
        rows.sort(key=lambda row: (row["time"], row["table"], row["version"]))
        tables.write(log or at.events, pa.Table.from_pylist(rows, schema=EVENTS), mode="append")


def demand_table(pipeline: Pipeline, table: str | None) -> None:
    """Checks that a run fills a table, if one is named.

    Raises:
        UserError: the pipeline has no such table.
    """
    names = [name for layer in LAYERS for name in pipeline.names(layer)]
    if table is not None and table not in names:
        raise UserError(f"{pipeline.name} has no table {table}", hint=f"its tables are {', '.join(names)}")


def newest_rows(at: layout.Lake, table: str | None, count: int) -> pa.Table:
    """Last events, oldest first (schema ``EVENTS``).

    Args:
        at: the lake.
        table: only of this table; None for all.
        count: how many.
    """
    log = tables.delta_table(at.events)
    if log is None:
        return EVENTS.empty_table()
    of_table = None if table is None else pc.field("table") == table
    rows = tables.dataset(log).to_table(filter=of_table)
    order = pc.sort_indices(rows, [("time", "ascending"), ("table", "ascending"), ("version", "ascending")])
    return rows.take(order.slice(max(rows.num_rows - count, 0)))


def _newest(log: DeltaTable | None) -> dict[str, int]:
    """Newest copied version by table id: a table that was made anew has a new id and begins again at 0."""
    if log is None:
        return {}
    known = tables.dataset(log).to_table(["table_id", "version"]).group_by("table_id")
    return {row["table_id"]: row["version_max"] for row in known.aggregate([("version", "max")]).to_pylist()}


def _not_copied(uri: str, copied: Mapping[str, int]) -> Iterator[tuple[DeltaTable, lake_log.Commit]]:
    """Our commits to a table, which need not exist, that the event log does not have."""
    table = tables.delta_table(uri)
    newest = -1 if table is None else copied.get(tables.table_id(table), -1)
    if table is None or table.version() <= newest:
        return
    for commit in lake_log.commits(table, table.version() - newest):
        if commit.ours is not None and commit.version > newest:
            yield table, commit


def _of_rejected(commit: lake_log.Commit) -> dict[str, Any]:
    """What differs in an event of a batch that was refused, or of the one that passed after it: no row was written."""
    return {"mode": (commit.ours or {}).get("step"), "written": 0}


def _source(pipeline: Pipeline, name: str, at: layout.Lake) -> str:
    """URI of the table that a gold table follows."""
    followed = pipeline.gold[name].reads[0]
    return next(at.table(layer, followed) for layer in LAYERS if followed in pipeline.names(layer))


def _bytes(commit: lake_log.Commit, uri: str, source: str) -> dict[str, Any]:
    """Bytes that a gold commit wrote, beside the bytes changed in its source: known once both are committed.

    The changed bytes are None for a full refresh, and where the source's log was cleaned.
    """
    ours = commit.ours or {}
    wrote = commit_stats.of_commit(uri, commit.version) if source else None
    if wrote is None:
        return {}
    came = None
    if ours.get("mode") == "incremental":
        came = commit_stats.between(source, int(ours.get("since", -1)), int(ours.get("until", -1)))
    found: dict[str, Any] = {"written": wrote.written, "changed": came.changed if came else None}
    found["written_per_byte_changed"] = round(wrote.written / came.changed, 3) if came and came.changed else None
    return {"bytes": found}


def _event(commit: lake_log.Commit, more: Mapping[str, Any]) -> dict[str, Any]:
    ours = {**(commit.ours or {}), **more}
    if (took := refresh_cost.measured(commit)) is not None:
        ours["cost"] = {**ours["cost"], "seconds": round(took, 2)}
    numbers = {key: ours.get(key) for key in ("since", "until", "read", "quarantined", "dropped", "duplicates")}
    return {
        "time": datetime.fromtimestamp(commit.timestamp / 1000, UTC),
        "layer": ours.get("layer"), "table": ours.get("table"), "version": commit.version, "mode": ours.get("mode"),
        **numbers, "written": ours.get("written", commit.rows_written), "details": json.dumps(ours, default=str),
    }  # fmt: skip
