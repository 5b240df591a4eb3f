"""Reasons why the next run makes a table again whole, though it could follow changes else. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluicegate.flow import foreseen_types, source_changes, stream_progress
from sluicegate.flow.model import Flow, name_of
from sluicegate.lake import former_versions, log, offsets
from sluicegate.lake.table import Table
from sluicegate.lake.tables import table_id

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What becomes of a table whose former versions may have what it is not to have any more.
NEW_TABLE = "so it becomes a new table, and its former versions are deleted"


@dataclass(frozen=True)
class Identity:
    """What records are known by besides their place: whether by a number, and by the flow that brought them."""

    of_many: bool
    of_flows: bool


def why_restored(past: offsets.Lineage) -> str:
    """Sentence about the last RESTORE of a table."""
    return f"it was restored in version {past.restores[-1].at}"


def why_whole(
    flow: Flow,
    source: DeltaTable,
    past: offsets.Lineage,
    offset: int | None,
    stamps: Mapping[str, str],
    identity: Identity,
) -> str:
    """Reason for a full refresh of the target; empty when the changes since the offset are enough."""
    name, last = name_of(flow.source), past.ours
    if flow.rebuildable and past.news and last is not None:
        return why_restored(past)
    if flow.foreign:
        return source_changes.why_whole(flow, source, last, offset)
    if stream_progress.recorded(last) is not None:
        return "one flow fills it now"
    if offset is None:
        return f"{name} is not the table that it was filled from"
    if not flow.rebuildable:
        return ""
    if last is None or last.ours is None:
        return "its log no longer tells what it was made from"
    other = _why_other(flow, source, last) or why_numbered(flow, last, identity)
    return other or _why_changed(flow, source, last, offset, stamps)


def why_numbered(flow: Flow, last: log.Commit, identity: Identity) -> str:
    """Reason, if rows of the target are to be known by another identity than those that it has; empty if not.

    Args:
        flow: the flow.
        last: our last commit to the target.
        identity: what records of the source are known by.
    """
    if not flow.by_record:
        return ""
    source, ours = name_of(flow.source), last.ours or {}
    if bool(ours.get("numbered")) != (flow.many or identity.of_many):
        if identity.of_many:
            return f"a record of {source} gives many rows now"
        return "a record gives many rows now" if flow.many else "a record gives one row now"
    if bool(ours.get("by_flow")) == identity.of_flows:
        return ""
    return f"several flows fill {source} now" if identity.of_flows else f"one flow fills {source} now"


def why_stored(flow: Flow, target: Table) -> str:
    """Reason, if rows of the target are not comparable with those of today's definition; empty if they are."""
    past = target.restores
    if flow.stored is None or past is None or past.ours is None:
        return ""
    return flow.stored.change(past.ours, foreseen_types.stored(target.delta))


def command(flow: Flow, target: Table) -> str:
    """The command for a full refresh that its changed definition takes, where rows have values of former lookups."""
    return flow.stored.command if flow.stored is not None and flow.as_of_run and why_stored(flow, target) else ""


def why_inputs(flow: Flow, stamps: Mapping[str, str], last: log.Commit) -> str:
    """Reason, if lookups or other inputs changed in a way that leaves the affected records unknown; empty if none did.

    Args:
        flow: the flow.
        stamps: the inputs, each as its id and version.
        last: our last commit to the target.
    """
    changed = [
        name for name, stamp in stamps.items() if name not in flow.as_of_run and _rebuilt(flow, name, stamp, last)
    ]
    return f"{', '.join(changed)} changed" if changed else ""


def _why_other(flow: Flow, source: DeltaTable, last: log.Commit) -> str:
    """Reason, if the target was made by another definition, or of another table; empty if it was not."""
    ours, new_table = last.ours or {}, f", {NEW_TABLE}" if flow.forgets else ""
    if ours.get("source_id", table_id(source)) != table_id(source):
        # The offset is that of this table, but rows of another one have come since: it was moved away and back.
        return f"{name_of(flow.source)} is not the table that it was filled from last"
    if flow.fingerprint and ours.get("fingerprint") != flow.fingerprint:
        return f"its definition changed{new_table}"
    if flow.key and ours.get("key") != flow.key:
        return f"the key of its pseudonyms changed{new_table}"
    left = flow.forgets and former_versions.are_left(flow.target, last)
    return "a run was stopped before it had deleted its former versions" if left else ""


def _why_changed(flow: Flow, source: DeltaTable, last: log.Commit, offset: int, stamps: Mapping[str, str]) -> str:
    """Reason, if what changed since the offset cannot be followed; empty if it can."""
    if reason := why_inputs(flow, stamps, last):
        return reason
    name = name_of(flow.source)
    if flow.added:
        return source_changes.rewritten(flow.source, name, offset, source.version())
    if not (flow.by_record or flow.row_deltas):
        return source_changes.revised(name, source, offset)
    replaced = source_changes.overwritten(name, source, offset)
    return replaced or source_changes.other_columns(flow.source, name, offset, source.version())


def _rebuilt(flow: Flow, name: str, stamp: str, last: log.Commit) -> bool:
    """Whether an input changed in a way that leaves the affected records unknown."""
    before = (last.ours or {}).get("inputs", {}).get(name, "")
    (was, _, then), (now, _, version) = before.rpartition("@"), stamp.rpartition("@")
    if before == stamp:
        return False
    if was == now and int(then) < int(version) and source_changes.same_rows(flow.inputs[name], int(then), int(version)):
        return False
    if name not in flow.followed or was != now or int(then) > int(version):
        return True
    # A table that was made again may have other columns, over which Delta reads no change feed.
    return not source_changes.grew(flow.inputs[name], int(then), int(version))
