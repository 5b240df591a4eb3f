"""Count the rows and bytes of commits from the Delta log; no data is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.lake import log, tables

# Metrics of a MERGE, without regard to case and underscores: rows inserted, updated and deleted.
_MERGED = ("numtargetrowsinserted", "numtargetrowsupdated", "numtargetrowsdeleted")


@dataclass(frozen=True)
class ChangeVolume:
    """Rows and bytes changed by some commits of a table.

    Attributes:
        inserted: inserted rows.
        updated: updated rows.
        deleted: deleted rows.
        changed: bytes of the files that the change data feed of these commits reads.
        written: bytes of the files that the commits wrote.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    changed: int = 0
    written: int = 0

    @property
    def rows(self) -> int:
        """Inserted, updated and deleted rows together."""
        return self.inserted + self.updated + self.deleted

    def __add__(self, other: ChangeVolume) -> ChangeVolume:
        return ChangeVolume(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def change_volume(uri: str, since: int, until: int) -> ChangeVolume | None:
    """Return the volume of the commits after version ``since``, up to ``until``; None if the log no longer has them."""
    volume = ChangeVolume()
    for version in range(since + 1, until + 1):
        commit = commit_volume(uri, version)
        if commit is None:
            return None
        volume += commit
    return volume


def commit_volume(uri: str, version: int) -> ChangeVolume | None:
    """Return the volume of one commit; None if the log no longer has it."""
    try:
        actions = list(log.actions(uri, version))
    except FileNotFoundError:
        return None
    added, removed, feed = ([action[kind] for action in actions if kind in action] for kind in ("add", "remove", "cdc"))
    added_data, removed_data = ([file for file in files if file.get("dataChange", True)] for files in (added, removed))
    inserted, updated, deleted = _rows(log.commit_info(actions), added_data, removed_data)
    changed = _bytes(feed or [*added_data, *removed_data])
    return ChangeVolume(inserted, updated, deleted, changed, written=_bytes([*added, *feed]))


def size(uri: str, version: int | None = None) -> int:
    """Return the bytes of a table's data files; 0 if there is no table."""
    table = tables.delta_table(uri, version)
    if table is None:
        return 0
    return sum(tables.statistics(table, "size_bytes")["size_bytes"].to_pylist())


def _rows(info: Mapping[str, Any], added: list[dict[str, Any]], removed: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Count inserted, updated and deleted rows, by metrics if available: rewritten files also have unchanged rows."""
    metrics = info.get("operationMetrics") or {}
    # Spark writes numDeletedRows, delta-rs num_deleted_rows.
    counts = {
        name.replace("_", "").lower(): max(int(value), 0)
        for name, value in metrics.items()
        if str(value).lstrip("-").isdecimal()
    }
    if counts.keys() >= {*_MERGED}:
        inserted, updated, deleted = map(counts.__getitem__, _MERGED)
        return inserted, updated, deleted
    inserted = 0
    if info.get("operation") not in ("DELETE", "UPDATE"):
        inserted = _records(added)
    updated = counts.get("numupdatedrows", 0)
    if "numdeletedrows" in counts:
        return inserted, updated, counts["numdeletedrows"]
    if updated:
        return inserted, updated, 0
    return inserted, 0, _records(removed)


def _records(files: list[dict[str, Any]]) -> int:
    return sum(int(json.loads(file.get("stats") or "{}").get("numRecords") or 0) for file in files)


def _bytes(files: list[dict[str, Any]]) -> int:
    return sum(int(file.get("size") or 0) for file in files)
