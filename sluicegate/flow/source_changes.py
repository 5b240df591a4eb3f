"""Changes of another Delta table, as a source, since it was read: only added rows or columns, or more?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.errors import LandingMissing, SchemaMismatch, Where
from sluicegate.lake import log, tables

if TYPE_CHECKING:
    from sluicegate.flow.model import Flow


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


def overwritten(name: str, source: DeltaTable, offset: int) -> str:
    """Reason, if a commit after the offset replaced all rows of the source; empty if none did."""
    for commit in _since(source, offset):
        if commit.overwrites and not commit.partly:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def revised(name: str, source: DeltaTable, offset: int) -> str:
    """Reason, if a commit after the offset did more than add rows to the source; empty if none did."""
    for commit in _since(source, offset):
        if commit.operation not in ADDITIVE or commit.overwrites:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _since(table: DeltaTable, offset: int) -> Iterator[log.Commit]:
    found = log.commits(table, table.version() - offset) if offset < table.version() else iter(())
    return (commit for commit in found if commit.version > offset)


def newest(table: DeltaTable, read: int) -> int:
    """Version of a table that is to be read next; the one that was read last, if nothing but fences came after it.

    Args:
        table: the table.
        read: the version that was read last; -1 if none was.
    """
    version = table.version()
    if not 0 <= read < version or not next(iter(log.commits(table, 1))).fence:
        return version
    # Not for long: behind an offset that does not move, entries of the log are cleaned away that it still needs.
    began = (time.time() - FENCE_SECONDS) * 1000
    return read if all(commit.fence and commit.timestamp > began for commit in _since(table, read)) else version


def missing(flow: Flow) -> LandingMissing:
    """Error for a source that is not there."""
    return LandingMissing(
        f"there is no Delta table at {flow.source}",
        where=Where(table=flow.table, file=flow.source),
        hint="correct its path, or make the table first",
    )


def why_whole(flow: Flow, source: DeltaTable, last: log.Commit | None, offset: int | None) -> str:
    """Reason for a full refresh of the bronze table; empty when the rows added since the offset are enough.

    Args:
        flow: the flow.
        source: its source now.
        last: the newest commit of ours in the bronze table's log.
        offset: version of the source that the bronze table has taken in.

    Raises:
        SchemaMismatch: the bronze table has rows of another kind of source, which would be lost.
    """
    name = flow.source.rstrip("/").rsplit("/", 1)[-1]
    filled_from = (last.ours or {}).get("source") if last else None
    if filled_from is None and (last is not None or offset is None):
        raise SchemaMismatch(
            f"{flow.table} has rows that did not come from a Delta table",
            where=Where(table=flow.table, file=flow.target),
            cause="its definition says format delta, and what was read before would give way to that table's rows",
            hint=f"give the table that reads {name} another name, or move {flow.target} away",
        )
    if last is None:
        return "its log no longer tells what it was made from"
    if filled_from != tables.table_id(source):
        return f"{name} is another table than the one that it was filled from"
    return "" if offset is None else rewritten(flow.source, name, offset, source.version())


def demand_additive(flow: Flow, until: int, end: int) -> None:
    """Checks that commits which came while the source was read only added rows, too.

    Raises:
        RuntimeError: they did not.
    """
    if why := rewritten(flow.source, flow.source, until, end):
        raise RuntimeError(f"{REWRITTEN[0]}: {why}")


def rewritten(uri: str, name: str, offset: int, until: int) -> str:
    """Reason, if a commit after the offset did more than add rows; empty if none did."""
    before: dict[str, Any] | None = None
    for version in range(offset + 1, until + 1):
        try:
            actions = list(log.actions(uri, version, added=False))
        except FileNotFoundError:
            return f"the history of {name} is gone up to version {version}"
        operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), "another program")
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            return f"{name} was changed by {operation} in version {version}"
        for after in (json.loads(action["metaData"]["schemaString"]) for action in actions if "metaData" in action):
            before = before or _columns_at(uri, offset)
            if before is None or not _grew(before, after):
                return f"the columns of {name} were changed by {operation} in version {version}"
            before = after
    return ""


def same_rows(uri: str, since: int, until: int) -> bool:
    """Whether the commits after a version changed no row and no column of a table, but its comments or files only."""
    for version in range(since + 1, until + 1):
        try:
            actions = list(log.actions(uri, version))
        except FileNotFoundError:
            return False
        files = [action[kind] for action in actions for kind in ("add", "remove", "cdc") if kind in action]
        if any(file.get("dataChange", True) for file in files):
            return False
        if any("metaData" in action for action in actions):
            before, after = _columns_at(uri, version - 1), _columns_at(uri, version)
            if not (_grew(before, after) and _grew(after, before)):
                return False
    return True


def grew(uri: str, since: int, until: int) -> bool:
    """Whether a table only gained columns after a version, in each commit; not if that is no longer known.

    Where one lost a column or changed its type, Delta reads no change feed, even if a later one put that right.
    """
    before: dict[str, Any] | None = None
    for version in range(since + 1, until + 1):
        try:
            changed = [action["metaData"] for action in log.actions(uri, version, added=False) if "metaData" in action]
        except FileNotFoundError:
            return False
        for after in (json.loads(one["schemaString"]) for one in changed):
            before = before or _columns_at(uri, since)
            if before is None or not _grew(before, after):
                return False
            before = after
    return True


def other_columns(uri: str, name: str, offset: int, until: int) -> str:
    """Reason, if a commit after the offset took a column away, renamed it or changed its type; empty if none did.

    Over such a commit Delta reads no change feed, whether or not the column is read by anybody. A history that is gone
    in part is found out by who reads it.
    """
    before: dict[str, Any] | None = None
    for version in range(offset + 1, until + 1):
        try:
            actions = list(log.actions(uri, version, added=False))
        except FileNotFoundError:
            return ""
        for action in actions:
            if "metaData" not in action:
                continue
            after = json.loads(action["metaData"]["schemaString"])
            before = before or _columns_at(uri, offset)
            if before is not None and not _grew(before, after):
                operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), "")
                return f"the columns of {name} were changed by {operation or 'another program'} in version {version}"
            before = after
    return ""


def _columns_at(uri: str, version: int) -> dict[str, Any] | None:
    """The source's columns as of a version, as Delta writes them; None if that is no longer known."""
    try:
        columns: dict[str, Any] = json.loads(tables.table_at(uri, version=version).schema().to_json())
    except DeltaError:
        return None
    return columns


def _grew(before: Any, after: Any) -> bool:
    """Whether a type is as it was, but for new fields; data written before then reads as it did."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return bool(before == after)
    if before.get("type") != "struct" or after.get("type") != "struct":
        # Arrays and maps; whether an element may be NULL changes nothing that is there.
        parts = ("type", "elementType", "keyType", "valueType")
        return all(_grew(before.get(part), after.get(part)) for part in parts)
    now = {field["name"]: field for field in after["fields"]}
    return all(
        field["name"] in now and _physical(field) == _physical(now[field["name"]])
        and _grew(field["type"], now[field["name"]]["type"])
        for field in before["fields"]
    )  # fmt: skip


def _physical(field: dict[str, Any]) -> Any:
    """Name of a field in the data files: a column that was dropped and made again has another."""
    return (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])
