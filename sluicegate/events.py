"""The event log: what the tables' own logs say, copied to where it is kept for good.

Delta forgets a table's history after 30 days. The copy is made after the commits that it tells of and goes on from the
last commit that it has, so a kill between can lose nothing: the next run copies the rest.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from sluicegate import fault, lake
from sluicegate.definition_model import LAYERS

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


def copy_events(pipeline: Pipeline, at: lake.Lake) -> None:
    """Appends to ``_events`` the commits of ours that it does not have yet."""
    log = lake.delta_table(at.events)
    copied = _newest(log)
    rows: list[dict[str, Any]] = []
    for layer in LAYERS:
        for name in pipeline.names(layer):
            table = lake.delta_table(at.table(layer, name))
            if table is None:
                continue
            newest = copied.get(lake.table_id(table), -1)
            rows += [
                _event(commit) | {"table_id": lake.table_id(table)}
                for commit in (lake.commits(table, table.version() - newest) if table.version() > newest else ())
                if commit.ours is not None and commit.version > newest
            ]
    if rows:
        fault.point("events.before_commit")
        rows.sort(key=lambda row: (row["time"], row["table"], row["version"]))
        write_deltalake(log or at.events, pa.Table.from_pylist(rows, schema=EVENTS), mode="append")


def _newest(log: DeltaTable | None) -> dict[str, int]:
    """The newest copied version of each table, by the table's id: a table that was made anew begins again at 0."""
    if log is None:
        return {}
    known = lake.dataset(log).to_table(["table_id", "version"]).group_by("table_id")
    return {row["table_id"]: row["version_max"] for row in known.aggregate([("version", "max")]).to_pylist()}


def _event(commit: lake.Commit) -> dict[str, Any]:
    ours = commit.ours or {}
    numbers = {key: ours.get(key) for key in ("since", "until", "read", "quarantined", "dropped", "duplicates")}
    return {
        "time": datetime.fromtimestamp(commit.timestamp / 1000, UTC),
        "layer": ours.get("layer"), "table": ours.get("table"), "version": commit.version, "mode": ours.get("mode"),
        **numbers, "written": ours.get("written", commit.rows_written), "details": json.dumps(ours, default=str),
    }  # fmt: skip
