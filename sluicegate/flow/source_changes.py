"""Classify the changes of a source since it was read: only added rows or columns, or more?

The log is read in one pass, each commit once. What a run does is then decided from that one value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import layout, log, tables
from sluicegate.storage.concurrent import map_concurrently

# Columns of a table, as Delta writes them in its log.
Schema = Mapping[str, Any]

# One batch, whatever has come: Delta's own limit, 1000 files, could end it in the middle of a commit.
STREAM = {"maxFilesPerTrigger": str(2**31 - 1)}

# Commits that only add rows, or none. Any other (DELETE, UPDATE, MERGE, RESTORE…) changes rows of the source that were
# applied already: these are reprocessed, or the target gets a full refresh where it does not know which rows they made.
ADDITIVE = {"WRITE", "STREAMING UPDATE", "CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
            "CHANGE COLUMN", "CHANGE COLUMNS", "UPDATE SCHEMA", "UPDATE TABLE METADATA", "OPTIMIZE",
            "VACUUM START", "VACUUM END", "CLUSTER BY"}  # fmt: skip

# Seconds for which a fence does not count as a version to be read: far less than Delta keeps the entries of its logs.
FENCE_SECONDS = 3 * 24 * 3600

# Error conditions, Spark's and ours, for a commit that did more than add rows, or for changed columns.
REWRITTEN = ("SLUICEGATE_SOURCE_REWRITTEN", "DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
             "DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
             "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING", "DELTA_BLOCK_COLUMN_MAPPING")  # fmt: skip


class ColumnChange(Enum):
    """Effect of a commit on columns: earlier data reads unchanged only if it is ``ADDITIVE``."""

    ADDITIVE = "as they were, but for new ones"
    OTHER = "one was taken away, renamed, or has another type"
    UNKNOWN = "the columns before are no longer known"


@dataclass(frozen=True)
class CommitChanges:
    """Changes by one commit.

    Attributes:
        version: version of the commit.
        operation: Delta's name of the operation, or a word for it in a sentence.
        only_adds: whether the operation is of a kind that only adds rows.
        replaces_all: whether it was an overwrite of the whole table.
        removes_rows: whether it removed data files with rows.
        schemas: columns that it gave the table; empty if unchanged.
        columns: its effect on the columns.
    """

    version: int
    operation: str
    only_adds: bool
    replaces_all: bool
    removes_rows: bool
    schemas: Sequence[Schema] = ()
    columns: ColumnChange = ColumnChange.ADDITIVE

    @classmethod
    def read(cls, uri: str, version: int) -> CommitChanges | None:
        """Read a commit; None if the log no longer has it."""
        try:
            actions = list(log.actions(uri, version, added=False))
        except FileNotFoundError:
            return None
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        commit = log.commit_of(version, info)
        removals = [action["remove"] for action in actions if "remove" in action]
        return cls(
            version,
            info.get("operation") or "another program",
            only_adds=commit.operation in ADDITIVE and not commit.overwrites,
            replaces_all=commit.overwrites and not commit.partly,
            removes_rows=any(removal.get("dataChange", True) for removal in removals),
            schemas=[json.loads(action["metaData"]["schemaString"]) for action in actions if "metaData" in action],
        )


@dataclass(frozen=True)
class SourceChanges:
    """Changes by the commits of some versions of a source.

    Each reason is a sentence for people about the commit that requires more than processing new rows; empty if there is
    none.

    Attributes:
        name: name of the table in the reasons.
        commits: the commits that the log still has, oldest first.
        gone: versions of commits that were cleaned up.
    """

    name: str
    commits: Sequence[CommitChanges] = ()
    gone: Sequence[int] = ()

    @classmethod
    def read(cls, uri: str, offset: int, until: int, *, name: str) -> SourceChanges:
        """Read the commits after a version, up to another one.

        Args:
            uri: the table.
            offset: the version that was processed last.
            until: the last version to read.
            name: name of the table in sentences.
        """
        versions = range(offset + 1, until + 1)
        if not versions:
            return cls(name)
        entries = _read_commits(uri, versions)
        commits = [commit for commit in entries if commit is not None]
        gone = [version for version, commit in zip(versions, entries, strict=True) if commit is None]
        return cls(name, list(_add_column_changes(commits, uri, offset)), gone)

    @property
    def why_overwritten(self) -> str:
        """Reason if a commit replaced all rows, by the newest one."""
        for commit in self._commits_newest_first():
            if commit.replaces_all:
                return self._change_sentence(commit)
        return ""

    @property
    def why_revised(self) -> str:
        """Reason if a commit may have done more than add rows, by its operation; the newest one."""
        for commit in self._commits_newest_first():
            if not commit.only_adds:
                return self._change_sentence(commit)
        return ""

    @property
    def why_rewritten(self) -> str:
        """Reason if a commit removed rows or changed columns, or is gone and may have."""
        for commit in self._commits_before_gap():
            if commit.removes_rows:
                return self._change_sentence(commit)
            if commit.columns is not ColumnChange.ADDITIVE:
                return self._column_change_sentence(commit)
        if self.gone:
            return f"the history of {self.name} is no longer available up to version {self.gone[0]}"
        return ""

    @property
    def why_other_columns(self) -> str:
        """Reason if a commit dropped or renamed a column, or changed its type.

        Delta reads no change feed over such a commit, whether or not anybody reads the column. Missing parts of the
        history are detected on reading.
        """
        for commit in self._commits_before_gap():
            if commit.columns is ColumnChange.OTHER:
                return self._column_change_sentence(commit)
        return ""

    @property
    def only_adds_columns(self) -> bool:
        """Whether all commits at most added columns; False if unknown.

        If a commit dropped a column or changed its type, Delta reads no change feed, even if a later one reverted that.
        """
        return not self.gone and all(commit.columns is ColumnChange.ADDITIVE for commit in self.commits)

    def _commits_newest_first(self) -> Iterator[CommitChanges]:
        """Yield the commits after the last missing one, newest first."""
        if self.gone:
            oldest = self.gone[-1]
        else:
            oldest = -1
        return (commit for commit in reversed(self.commits) if commit.version > oldest)

    def _commits_before_gap(self) -> Iterator[CommitChanges]:
        """Yield the commits before the first missing one, oldest first."""
        if not self.gone:
            return iter(self.commits)
        return (commit for commit in self.commits if commit.version < self.gone[0])

    def _change_sentence(self, commit: CommitChanges) -> str:
        return f"{self.name} was changed by {commit.operation} in version {commit.version}"

    def _column_change_sentence(self, commit: CommitChanges) -> str:
        return f"the columns of {self.name} were changed by {commit.operation} in version {commit.version}"


def _read_commits(uri: str, versions: Sequence[int]) -> list[CommitChanges | None]:
    """Return commits by version, None for missing ones; read concurrently on remote stores."""
    read = partial(CommitChanges.read, uri)
    if layout.is_local(uri):
        return list(map(read, versions))
    return map_concurrently(read, versions)


def _add_column_changes(commits: Sequence[CommitChanges], uri: str, offset: int) -> Iterator[CommitChanges]:
    """Yield the commits with their effect on the columns before them."""
    before: Schema | None = None
    for commit in commits:
        columns = ColumnChange.ADDITIVE
        for schema in commit.schemas:
            if before is None and offset >= 0:
                before = _columns_at(uri, offset)
            if before is not None and not only_adds_fields(before, schema):
                columns = ColumnChange.OTHER
            if before is None and offset >= 0:  # else there was no table before
                columns = ColumnChange.UNKNOWN
            before = schema
        yield replace(commit, columns=columns)


def newest_version(table: DeltaTable, read: int) -> int:
    """Return the version to read next; the last one read, if only fences followed.

    Args:
        table: the table.
        read: the version that was read last; -1 for none.
    """
    version = table.version()
    if not 0 <= read < version or not next(iter(log.commits(table, 1))).fence:
        return version
    # Not for long: behind an offset that does not move, entries of the log are cleaned away that it still needs.
    oldest = (time.time() - FENCE_SECONDS) * 1000
    later = [commit for commit in log.commits(table, version - read) if commit.version > read]
    if all(commit.fence and commit.timestamp > oldest for commit in later):
        return read
    return version


def demand_additive(source: str, until: int, end: int) -> None:
    """Check that commits which came while the source was read only added rows, too.

    Raises:
        RuntimeError: a commit did more than add rows.
    """
    if reason := SourceChanges.read(source, until, end, name=source).why_rewritten:
        raise RuntimeError(f"{REWRITTEN[0]}: {reason}")


def has_same_rows(uri: str, since: int, until: int) -> bool:
    """Return whether the commits after a version changed no rows or columns, only comments or files."""
    return all(_keeps_rows(uri, version) for version in range(since + 1, until + 1))


def _keeps_rows(uri: str, version: int) -> bool:
    """Return whether a commit changed no rows or columns; False if the log no longer has it."""
    try:
        actions = list(log.actions(uri, version))
    except FileNotFoundError:
        return False
    files = [action[kind] for action in actions for kind in ("add", "remove", "cdc") if kind in action]
    if any(file.get("dataChange", True) for file in files):
        return False
    if not any("metaData" in action for action in actions):
        return True
    before, after = _columns_at(uri, version - 1), _columns_at(uri, version)
    return only_adds_fields(before, after) and only_adds_fields(after, before)


def _columns_at(uri: str, version: int) -> Schema | None:
    """Return the columns of a table as of a version; None if unknown."""
    try:
        columns: Schema = json.loads(tables.table_at(uri, version=version).schema().to_json())
    except DeltaError:
        return None
    return columns


def only_adds_fields(before: Any, after: Any) -> bool:
    """Return whether a type only gained fields, so that earlier data reads unchanged."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return bool(before == after)
    if before.get("type") != "struct" or after.get("type") != "struct":
        # Arrays and maps; whether an element may be NULL changes nothing that is there.
        parts = ("type", "elementType", "keyType", "valueType")
        return all(only_adds_fields(before.get(part), after.get(part)) for part in parts)
    fields = {field["name"]: field for field in after["fields"]}
    return all(_keeps_field(field, fields.get(field["name"])) for field in before["fields"])


def _keeps_field(before: Schema, after: Schema | None) -> bool:
    """Return whether a field is the same in the data files, with a type that only gained fields."""
    if after is None or _physical_name(before) != _physical_name(after):
        return False
    return only_adds_fields(before["type"], after["type"])


def _physical_name(field: Schema) -> Any:
    """Return a field's name in the data files; a column that was dropped and added again has another."""
    return (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])
