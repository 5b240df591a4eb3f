"""The event log and the files' outcomes: what the tables' own logs say, copied to where it is kept for good.

Delta forgets a table's history after 30 days. Both copies are made after the commits that they tell of and go on from
the last commit that they have, so a kill between can lose nothing: the next run copies the rest.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from sluicegate import fault, lake
from sluicegate.landing import canonical

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
OUTCOME = pa.schema(
    [
        ("path", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("corrupt", pa.int64()),
        ("version", pa.int64()), ("ingested", TIME), ("table_id", pa.string()),
    ]
)  # fmt: skip


def copy_events(pipeline: Pipeline, at: lake.Lake) -> None:
    """Appends to ``_events`` the commits of ours that it does not have yet."""
    log = lake.delta_table(at.events)
    copied = _newest(log)
    rows: list[dict[str, Any]] = []
    for layer in lake.LAYERS:
        for name in getattr(pipeline, layer):
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


def copy_outcome(at: lake.Lake, name: str) -> tuple[int, int]:
    """Appends to ``_ledger/{name}_outcome`` what became of the files of chunks that bronze committed since.

    The counts are taken from the committed rows themselves, so they cannot differ from what is in the table.

    Returns:
        rows and corrupt records of these files.
    """
    bronze, ledger = lake.delta_table(at.table("bronze", name)), lake.delta_table(at.ledger(name))
    if bronze is None or ledger is None:
        return 0, 0
    known = outcome(at, name)
    told, version = max(((row["chunk"], row["version"]) for row in known), default=(0, -1))
    commits = _chunk_commits(bronze, told, bronze.version() - version)
    if not commits:
        return 0, 0
    counted = _count(bronze, told)
    files = lake.dataset(ledger).to_table(["path", "chunk"], filter=pc.field("chunk").isin(sorted(commits))).to_pylist()
    rows = [
        {
            **file, **counted.get((file["chunk"], file["path"]), {"rows": 0, "corrupt": 0}),
            "version": commits[file["chunk"]].version,
            "ingested": datetime.fromtimestamp(commits[file["chunk"]].timestamp / 1000, UTC),
            "table_id": lake.table_id(bronze),
        }
        for file in files
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["chunk"], row["path"]))
    write_deltalake(at.outcome(name), pa.Table.from_pylist(rows, schema=OUTCOME), mode="append")
    return sum(row["rows"] for row in rows), sum(row["corrupt"] for row in rows)


def outcome(at: lake.Lake, name: str) -> list[dict[str, Any]]:
    """What became of each file that bronze table ``name`` has taken in (schema ``OUTCOME``), in no order."""
    bronze, log = lake.delta_table(at.table("bronze", name)), lake.delta_table(at.outcome(name))
    if bronze is None or log is None:
        return []
    # Of a table that was deleted and made anew, the former one's files are another story.
    rows: list[dict[str, Any]] = (
        lake.dataset(log).to_table(filter=pc.field("table_id") == lake.table_id(bronze)).to_pylist()
    )
    return rows


def _chunk_commits(bronze: DeltaTable, told: int, behind: int) -> dict[int, lake.Commit]:
    """The commit of each chunk after ``told``, among the ``behind`` newest commits."""
    found: dict[int, lake.Commit] = {}
    for commit in lake.commits(bronze, behind) if behind > 0 else ():
        chunk = (commit.ours or {}).get("chunk")
        if chunk is not None:
            if chunk <= told:
                break
            found[int(chunk)] = commit
    return found


def _count(bronze: DeltaTable, told: int) -> dict[tuple[int, str], dict[str, int]]:
    columns = {
        "chunk": pc.field("_chunk"),
        "source_file": pc.field("source_file"),
        "corrupt": pc.field("_corrupt_record").is_valid().cast(pa.int64()),
    }
    rows = lake.dataset(bronze).to_table(columns=columns, filter=pc.field("_chunk") > told)
    groups = rows.group_by(["chunk", "source_file"]).aggregate([("corrupt", "count"), ("corrupt", "sum")])
    return {
        (g["chunk"], canonical(g["source_file"])): {"rows": g["corrupt_count"], "corrupt": g["corrupt_sum"]}
        for g in groups.to_pylist()
    }
