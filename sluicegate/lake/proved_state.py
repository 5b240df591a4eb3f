"""State of a table when it was proved: version, commit, and size and time of each data file.

Delta never changes a data file. So rows in unchanged files, under a log that still has the proved commit, are the
proved rows. New rows are in files that did not exist, whoever wrote them; deleted rows are in the change feed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from sluicegate.lake import layout, offsets, tables
from sluicegate.lake.commits import commit_identity
from sluicegate.storage import filesystems, listings
from sluicegate.storage.concurrent import map_concurrently

# Size of a file, and when it was changed, in microseconds since 1970 UTC.
Facts = tuple[int, int]


@dataclass(frozen=True)
class ProvedState:
    """State of a table when it was proved.

    Attributes:
        table_id: ID of the table; a re-created table has another.
        version: its version.
        entry: digest of the log entry of that version.
        restores: each RESTORE of it up to then.
        files: size and time of each of its data files, by their paths in the log.
    """

    table_id: str
    version: int
    entry: str
    restores: list[list[int | None]]
    files: Mapping[str, Facts]

    @classmethod
    def from_table(cls, table: DeltaTable) -> ProvedState | None:
        """Return the state of a table; None where it could not show changes.

        None if rows are not in data files alone or under other names, or if the log no longer has the commit.

        Raises:
            OSError: the store cannot be reached.
        """
        entry = commit_identity.entry_digest(layout.address(table.table_uri), table.version())
        protocol = table.protocol()
        unsupported = {"deletionVectors", "columnMapping"} & {*(protocol.reader_features or ())}
        if entry is None or unsupported or protocol.min_reader_version == 2:
            return None
        listed = _list_files(table)
        paths = tables.statistics(table, "path")["path"].to_pylist()
        if not listed.keys() >= {*paths}:  # a clone has files of other tables
            return None
        files = {path: listed[path] for path in paths}
        return cls(tables.table_id(table), table.version(), entry, offsets.restore_history(table).facts(), files)

    def is_history_of(self, table: DeltaTable) -> bool:
        """Return whether a table continues this state: it is the same, has the log entry, and was not restored since.

        A run that repeats a commit of its own makes one of the same identity, which may have other rows.

        Raises:
            OSError: the store cannot be reached.
        """
        if tables.table_id(table) != self.table_id or table.version() < self.version:
            return False
        if commit_identity.entry_digest(layout.address(table.table_uri), self.version) != self.entry:
            return False
        return offsets.restore_history(table).facts() == self.restores

    def new_files(self, later: ProvedState) -> list[str] | None:
        """Return the data files that a later state adds; None if a file was changed in place.

        Rows that a later commit has copied from a file are in new files. So it does not matter what that file is now.
        """
        if any(self.files[path] != facts for path, facts in later.files.items() if path in self.files):
            return None
        return sorted(later.files.keys() - self.files.keys())

    def replaced_files(self, uri: str, later: ProvedState) -> list[str] | None:
        """Return the data files that a later state lacks; None if one of them was changed.

        Rows are distinguished by these files only if they are still as proved: copying a file copies changed values,
        too.

        Raises:
            OSError: the store cannot be reached.
        """
        paths = sorted(self.files.keys() - later.files.keys())
        folder = uri.rstrip("/")
        places = [f"{folder}/{unquote(path)}" for path in paths]
        files = map(_facts, places) if layout.is_local(uri) else map_concurrently(_facts, places)
        if any(facts != self.files[path] for path, facts in zip(paths, files, strict=True)):
            return None
        return paths

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON can store it."""
        return {**self.__dict__, "files": {path: list(facts) for path, facts in self.files.items()}}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> ProvedState:
        """Restore a state from ``as_dict``."""
        return cls(**{**facts, "files": {path: (size, time) for path, (size, time) in facts["files"].items()}})


def _facts(place: str) -> Facts | None:
    """Return the size and time of a file; None if it is missing."""
    file = filesystems.file_facts(place)
    if file is None:
        return None
    size, moment = file
    return size, (moment - filesystems.EPOCH) // timedelta(microseconds=1)


def _list_files(table: DeltaTable) -> dict[str, Facts]:
    """Return the size and time of each file of a table, by its path in the log."""
    address = layout.address(table.table_uri)
    fs, folder = filesystems.open_store(address)
    listed = listings.files(address)
    root = f"{filesystems.uri(fs, folder).rstrip('/')}/"
    times = listed["modification_time"].cast("int64").to_pylist()
    facts = zip(listed["path"].to_pylist(), listed["size"].to_pylist(), times, strict=True)
    facts_by_path = {path.removeprefix(root): (size, time) for path, size, time in facts}
    logged = tables.statistics(table, "path")["path"].to_pylist()
    for path in logged:
        if path not in facts_by_path and unquote(path) in facts_by_path:
            facts_by_path[path] = facts_by_path[unquote(path)]
    return facts_by_path
