"""Decide whether the next run refreshes a table in full, and why. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from sluicegate.errors import SchemaMismatch, Where
from sluicegate.flow import source_changes
from sluicegate.flow.definitions import foreseen_types
from sluicegate.flow.model import Flow, name_of
from sluicegate.flow.several import several_progress
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.lake import former_versions, log, offsets
from sluicegate.lake.table import Table
from sluicegate.lake.tables import table_id

# What becomes of a table whose former versions may have what it is not to have any more.
NEW_TABLE = "so it is replaced by a new table, and its former versions are deleted"


@dataclass(frozen=True)
class Identity:
    """How records are identified besides their position: by a number, and by the flow."""

    of_many: bool
    of_flows: bool


@dataclass(frozen=True)
class SourceState:
    """State of a source that decides about a full refresh of its target.

    Attributes:
        source: the present source.
        offset: source version that the target has processed; None before the first.
        changes: the commits of the source after the offset.
        stamps: ID and version of each other input now.
        identity: how records of the source are identified.
    """

    source: DeltaTable
    offset: int | None
    changes: SourceChanges
    stamps: Mapping[str, str]
    identity: Identity


def why_restored(past: offsets.RestoreHistory) -> str:
    """Describe the last RESTORE of a table."""
    return f"it was restored in version {past.restores[-1].at}"


def why_whole(flow: Flow, past: offsets.RestoreHistory | None, state: SourceState) -> str:
    """Return why an existing target needs a full refresh; empty if the changes since the offset are enough."""
    if past is None:
        return ""
    last = past.ours
    if flow.policy.rebuildable and past.news and last is not None:
        return why_restored(past)
    if flow.has_foreign_source:
        return _why_foreign(flow, last, state) or flow.policy.why_full_refresh(state.changes)
    if several_progress.recorded_offsets(last) is not None:
        return "it is filled by one flow now"
    if state.offset is None:
        return f"{name_of(flow.source)} is not the table that it was filled from"
    if not flow.policy.rebuildable:
        return ""
    if last is None or last.ours is None:
        return "its log no longer records what it was built from"
    return (
        _why_other(flow, state.source, last)
        or why_numbered(flow, last, state.identity)
        or why_inputs(flow, state.stamps, last)
        or flow.policy.why_full_refresh(state.changes)
    )


def why_numbered(flow: Flow, last: log.Commit, identity: Identity) -> str:
    """Return the reason if the target's rows need another identity than they have; empty if not.

    Args:
        flow: the flow.
        last: our last commit to the target.
        identity: how records of the source are identified.
    """
    if not flow.policy.by_record:
        return ""
    source, info = name_of(flow.source), last.info
    if info.numbered != (flow.policy.many or identity.of_many):
        if identity.of_many:
            return f"a record of {source} may now give many rows"
        if flow.policy.many:
            return "a record may now give many rows"
        return "a record now gives one row"
    if info.by_flow == identity.of_flows:
        return ""
    if identity.of_flows:
        return f"{source} is filled by several flows now"
    return f"{source} is filled by one flow now"


def why_stored(flow: Flow, target: Table) -> str:
    """Return the reason if the target's rows cannot be compared with the current definition's; empty if they can."""
    past = target.restores
    if flow.stored_rows is None or past is None or past.ours is None:
        return ""
    return flow.stored_rows.why_incomparable(past.ours, foreseen_types.stored_types(target.delta))


def command(flow: Flow, target: Table) -> str:
    """Return the command for the full refresh by a changed definition, if rows keep values of former lookups."""
    if flow.stored_rows is None or not flow.as_of_run or not why_stored(flow, target):
        return ""
    return flow.stored_rows.command


def why_inputs(flow: Flow, stamps: Mapping[str, str], last: log.Commit) -> str:
    """Return the reason if changes of inputs do not identify the affected records; empty if none.

    Args:
        flow: the flow.
        stamps: ID and version of each input.
        last: our last commit to the target.
    """
    relevant = {name: stamp for name, stamp in stamps.items() if name not in flow.as_of_run}
    changed = [name for name, stamp in relevant.items() if not _can_follow(flow, name, stamp, last)]
    if changed:
        return f"{', '.join(changed)} changed"
    return ""


def _why_other(flow: Flow, source: DeltaTable, last: log.Commit) -> str:
    """Return the reason if the target has another definition or source; empty if not."""
    info, new_table = last.info, f", {NEW_TABLE}" if flow.policy.forgets else ""
    if info.source_id not in (None, table_id(source)):
        # The offset is that of this table, but rows of another one have come since: it was moved away and back.
        return f"{name_of(flow.source)} is not the table that it was filled from last"
    if flow.fingerprint and info.fingerprint != flow.fingerprint:
        return f"its definition changed{new_table}"
    if flow.key and info.key != flow.key:
        return f"the key of its pseudonyms changed{new_table}"
    if flow.policy.forgets and former_versions.are_left(flow.target, last):
        return "a run was stopped before it deleted the former versions"
    return ""


def _why_foreign(flow: Flow, last: log.Commit | None, state: SourceState) -> str:
    """Return the reason if a bronze table was filled from another Delta table; empty if not.

    Raises:
        SchemaMismatch: the bronze table has rows of another kind of source, which would be lost.
    """
    name = name_of(flow.source)
    filled_from = log.info_of(last).bronze.source
    if filled_from is None and (last is not None or state.offset is None):
        raise SchemaMismatch(
            f"{flow.table} has rows that did not come from a Delta table",
            where=Where(table=flow.table, file=flow.target),
            cause="its definition has format delta, which would replace the rows that were read before",
            hint=f"rename the table that reads {name}, or move {flow.target} away",
        )
    if last is None:
        return "its log no longer records what it was built from"
    if filled_from != table_id(state.source):
        return f"{name} is another table than the one that it was filled from"
    return ""


def _can_follow(flow: Flow, name: str, stamp: str, last: log.Commit) -> bool:
    """Return whether the records affected by an input's change are known, or it did not change."""
    recorded = last.info.inputs.get(name, "")
    if recorded == stamp:
        return True
    (former_id, _, read), (newest_id, _, newest) = recorded.rpartition("@"), stamp.rpartition("@")
    if former_id != newest_id or int(read) > int(newest):
        return False
    uri = flow.inputs[name]
    if int(read) < int(newest) and source_changes.has_same_rows(uri, int(read), int(newest)):
        return True
    if name not in flow.policy.followed:
        return False
    # A table that was made again may have other columns, over which Delta reads no change feed.
    return SourceChanges.read(uri, int(read), int(newest), name=name).only_adds_columns
