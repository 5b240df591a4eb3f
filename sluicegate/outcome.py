"""What became of each landed file, copied from bronze's own log to where it is kept for good (see events.py)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from sluicegate import lake

TIME = pa.timestamp("us", "UTC")
OUTCOME = pa.schema(
    [
        ("path", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("corrupt", pa.int64()),
        ("rescued", pa.int64()), ("error", pa.string()), ("retry", pa.bool_()), ("definition", pa.string()),
        ("version", pa.int64()), ("ingested", TIME), ("table_id", pa.string()),
    ]
)  # fmt: skip
NOTHING = {"rows": 0, "corrupt": 0, "rescued": 0}


@dataclass(frozen=True)
class Taken:
    """What the files of some chunks gave.

    Attributes:
        rows: records.
        corrupt: records among them that are kept as text.
        rescued: records among them that have values in ``_rescued_data``.
        failed: files that could not be read, and why.
    """

    rows: int
    corrupt: int
    rescued: int
    failed: dict[str, str]


def copy(at: lake.Lake, name: str) -> Taken:
    """Appends to ``_ledger/{name}_outcome`` what became of the files of chunks that bronze committed since.

    The counts are taken from the committed rows themselves, so they cannot differ from what is in the table.
    """
    bronze, ledger = lake.delta_table(at.table("bronze", name)), lake.delta_table(at.ledger(name))
    if bronze is None or ledger is None:
        return Taken(0, 0, 0, {})
    known = read(at, name)
    told, version = max(((row["chunk"], row["version"]) for row in known), default=(0, -1))
    commits = _chunk_commits(bronze, told, bronze.version() - version)
    if not commits:
        return Taken(0, 0, 0, {})
    counted = _count(bronze, told)
    files = lake.dataset(ledger).to_table(["path", "chunk"], filter=pc.field("chunk").isin(sorted(commits))).to_pylist()
    rows = [
        {
            **file, **counted.get((file["chunk"], file["path"]), NOTHING),
            **_trouble(commits[file["chunk"]], file["path"]),
            "version": commits[file["chunk"]].version,
            "ingested": datetime.fromtimestamp(commits[file["chunk"]].timestamp / 1000, UTC),
            "table_id": lake.table_id(bronze),
        }
        for file in files
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["chunk"], row["path"]))
    write_deltalake(at.outcome(name), pa.Table.from_pylist(rows, schema=OUTCOME), mode="append")
    sums = {key: sum(row[key] for row in rows) for key in NOTHING}
    return Taken(**sums, failed={row["path"]: row["error"] for row in rows if row["error"]})


def read(at: lake.Lake, name: str) -> list[dict[str, Any]]:
    """What became of each file that bronze table ``name`` has taken in (schema ``OUTCOME``), in no order."""
    bronze, log = lake.delta_table(at.table("bronze", name)), lake.delta_table(at.outcome(name))
    if bronze is None or log is None:
        return []
    # Of a table that was deleted and made anew, the former one's files are another story.
    rows: list[dict[str, Any]] = (
        lake.dataset(log).to_table(filter=pc.field("table_id") == lake.table_id(bronze)).to_pylist()
    )
    return rows


def _trouble(commit: lake.Commit, path: str) -> dict[str, Any]:
    """Why a file failed (as bronze wrote it into its commit), and whether to try again what has not changed."""
    ours = commit.ours or {}
    error, retry = (ours.get("failed") or {}).get(path, (None, None))
    return {"error": error, "retry": retry, "definition": ours.get("definition")}


def failed(at: lake.Lake, name: str, definition: str) -> dict[str, bool]:
    """Paths of the files whose last reading failed, and whether to try them again though they have not changed.

    That is so if something kept them from being read that may be gone, and if the definition has been corrected since.

    Args:
        at: the lake.
        name: the bronze table.
        definition: the fingerprint of its definition now.
    """
    last = {row["path"]: row for row in sorted(read(at, name), key=lambda row: int(row["chunk"]))}
    return {path: bool(row["retry"]) or row["definition"] != definition for path, row in last.items() if row["error"]}


def behind(at: lake.Lake, name: str) -> bool:
    """Whether bronze has committed chunks that the outcome does not tell of: a run was killed between the two."""
    bronze = lake.delta_table(at.table("bronze", name))
    if bronze is None:
        return False
    told, version = max(((row["chunk"], row["version"]) for row in read(at, name)), default=(0, -1))
    return bool(_chunk_commits(bronze, told, bronze.version() - version))


def fates(at: lake.Lake, name: str) -> list[dict[str, Any]]:
    """The whole ledger of a bronze table, each entry with what became of it, in the order of reading.

    To the columns of ledger and outcome comes ``state``: ``waiting``; ``ingested``; ``failed`` (see ``error``);
    ``skipped`` (it was there before the table was, and ``includeExistingFiles`` is false); ``replaced`` (its rows gave
    way to those of the file that later landed under its name).
    """
    ledger = lake.delta_table(at.ledger(name))
    if ledger is None:
        return []
    became = {(row["chunk"], row["path"]): row for row in read(at, name)}
    entries = [
        {**dict.fromkeys(OUTCOME.names), **entry, **became.get((entry["chunk"], entry["path"]), {})}
        for entry in lake.dataset(ledger).to_table().to_pylist()
    ]
    entries.sort(key=lambda entry: (entry["chunk"], entry["modification_time"], entry["path"]))
    given_way: set[str] = set()
    for entry in reversed(entries):
        entry["state"] = _state(entry, entry["path"] in given_way)
        if entry["action"] == "replace" and entry["state"] == "ingested":
            given_way.add(entry["path"])
    return entries


def _state(entry: dict[str, Any], replaced: bool) -> str:
    if entry["action"] == "skip":
        return "skipped"
    if entry["version"] is None:
        return "waiting"
    return "failed" if entry["error"] else "replaced" if replaced else "ingested"


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
        "rescued": pc.field("_rescued_data").is_valid().cast(pa.int64()),
    }
    rows = lake.dataset(bronze).to_table(columns=columns, filter=pc.field("_chunk") > told)
    sums: list[tuple[str, str]] = [("corrupt", "count"), ("corrupt", "sum"), ("rescued", "sum")]
    return {
        (group["chunk"], lake.canonical(group["source_file"] or "")): {
            "rows": group["corrupt_count"], "corrupt": group["corrupt_sum"], "rescued": group["rescued_sum"],
        }
        for group in rows.group_by(["chunk", "source_file"]).aggregate(sums).to_pylist()
    }  # fmt: skip
