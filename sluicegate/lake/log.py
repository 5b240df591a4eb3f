"""Delta log of a table: commits, their actions, and our commit metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from sluicegate.storage import filesystems

# Key of our facts in a commit's userMetadata: other writers have metadata of their own.
METADATA = "sluicegate"


@dataclass(frozen=True)
class Commit:
    """One commit of a table, with our metadata.

    Attributes:
        version: the table's version that the commit made.
        timestamp: commit time, milliseconds since 1970 UTC.
        operation: Delta's name for it: WRITE, MERGE, RESTORE…
        ours: our facts from userMetadata; None if another program wrote the commit.
        rows_written: rows that the commit wrote, if Delta counted them.
        overwrites: whether it was an overwrite.
        partly: whether the overwrite had a predicate (``replaceWhere``).
        restored_to: target version of a RESTORE by version.
    """

    version: int
    timestamp: int
    operation: str
    ours: dict[str, Any] | None
    rows_written: int | None
    overwrites: bool
    partly: bool
    restored_to: int | None = None


def commits(table: DeltaTable, limit: int | None = None) -> Iterator[Commit]:
    """Commits that the table's log still has, newest first."""
    for entry in table.history(limit):
        metrics = entry.get("operationMetrics") or {}
        parameters = entry.get("operationParameters") or {}
        restored = parameters.get("version") if entry.get("operation") == "RESTORE" else None
        counted = metrics.get("numOutputRows", metrics.get("num_added_rows"))
        yield Commit(
            version=int(entry["version"]),
            timestamp=int(entry.get("timestamp") or 0),
            operation=str(entry.get("operation")),
            ours=_ours(entry.get("userMetadata")),
            rows_written=None if counted is None else int(counted),
            overwrites=str(parameters.get("mode", "Append")) == "Overwrite",
            partly=str(parameters.get("predicate") or "[]") not in ("[]", "true"),
            restored_to=None if restored is None else int(restored),
        )


def actions(uri: str, version: int, *, added: bool = True) -> Iterator[dict[str, Any]]:
    """Actions of a commit, as in Delta's protocol.

    Args:
        uri: the table.
        version: the version that the commit made.
        added: whether to include ``add`` actions.

    Raises:
        FileNotFoundError: the log no longer has it.
    """
    fs, folder = filesystems.opened(uri)
    with fs.open(f"{folder}/_delta_log/{version:020d}.json", "rt", encoding="utf-8") as log:
        yield from (json.loads(line) for line in log if line.strip() and (added or not line.startswith('{"add"')))


def _ours(user_metadata: str | None) -> dict[str, Any] | None:
    try:
        facts = json.loads(user_metadata or "null")
    except ValueError:
        return None
    ours = facts.get(METADATA) if isinstance(facts, dict) else None
    return ours if isinstance(ours, dict) else None


def last_commit_of_ours(table: DeltaTable | None) -> Commit | None:
    """Newest commit made by one of our runs; None if the log has none any more."""
    if table is None:
        return None
    # Nearly always the newest commit; the whole log is read only if others write the table as well.
    for limit in (5, None):
        for commit in commits(table, limit):
            if commit.ours is not None:
                return commit
    return None
