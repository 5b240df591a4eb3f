"""Offset of a flow, and what a run is to do about it. Read by delta-rs; no Spark, some 10 ms a table.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow import foreseen_types, histories, source_changes, stream_progress
from sluicegate.flow.model import Flow, Progress, name_of
from sluicegate.lake import former_versions, layout, log, offsets, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.lake.tables import table_id
from sluicegate.schema.columns import FLOW, ROW, data_columns

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What becomes of a table whose former versions may have what it is not to have any more.
NEW_TABLE = "so it becomes a new table, and its former versions are deleted"


def progress(flow: Flow, opened: Tables | None = None) -> Progress:
    """Reads the offsets. No Spark; some 10 ms.

    Args:
        flow: the flow.
        opened: the handles of the step that this is a part of; by default each table is opened at its newest version.

    Raises:
        NotADeltaTable: there are files, but no table, at one of the addresses.
        LandingMissing: the source is a table of other programs', and is not there.
        SluicegateError: the source is older than what was taken from it, or it is another table than the one that the
            target was filled from, or has another history now, and the target cannot be made again from it.
    """
    opened = opened or Tables()
    target = opened[flow.target]
    # The target first: of a run that commits to both in between, an offset without its version of the source would
    # look like a source that was put back to an older state.
    target.open()
    source = opened[flow.source].delta
    if source is None and flow.foreign:
        raise source_changes.missing(flow)
    if not any(opened[uri].delta for uri in flow.sources):
        return Progress("blocked", why=_no_source(flow))
    if why := _waits(flow, opened):
        return Progress("blocked", why=why)
    past = histories.comparable(flow, target.restores, opened)
    inputs = _inputs(flow, past, opened)
    versions = {name: version for name, (_, version) in inputs.items()}
    stamps = {name: f"{table_id(table)}@{version}" for name, (table, version) in inputs.items()}
    if source is None or flow.streams:
        now = Progress("idle", versions=versions, stamps=stamps, seen=target.version)
        return _of_streams(flow, now, past, opened)
    app_id = offsets.app_id(flow.layer, flow.table, source)
    committed = offsets.committed_offset(target.delta, app_id, None if flow.rebuildable else past)
    offset = committed.offset
    since = -1 if offset is None else offset
    until = source_changes.newest(source, since)
    of_many, of_flows = (flow.by_record and name in _columns(source) for name in (ROW, FLOW))
    identity = _Identity(of_many=of_many, of_flows=of_flows)
    why = _why_whole(flow, source, past, offset, stamps, identity) if past is not None else ""
    why = why or _why_stored(flow, target)
    replaced = histories.source_replaced(flow, opened, past.ours if past is not None else None)
    _demand_possible(flow, offset, until, why, replaced)
    why = why if replaced is None else histories.why(flow.source, replaced)
    restores = past.facts() if past is not None else []
    now = Progress(
        "idle", since, until, versions, stamps, committed.app_id, target.version, restores, why,
        of_many=of_many, of_flows=of_flows,
    )  # fmt: skip
    if not flow.rebuildable:  # the first version of a ledger is made without files
        if past is not None and past.news:
            why = f"it was restored in version {past.restores[-1].at}: what it lacks since is read again"
        return replace(now, kind="idle" if until in (0, since) else "incremental", why=why)
    # The first time, too: rows that the source once had and has no more do not belong in the target.
    if why or offset is None or past is None or past.ours is None:
        return replace(now, kind="whole", command=_command(flow, target))
    if not flow.by_record:
        changed = {name: was for name, was in _changed(stamps, past.ours).items() if name in flow.followed}
        why = f"{', '.join(sorted(changed))} changed" if changed else ""
        why = why or _why_held(flow, past.ours, opened, idle=since == until)
        work = since < until or bool(why)
        if moment := past.ours.ours.get("of_the_run") if past.ours.ours else None:
            return replace(now, kind="whole", why=f"it depends on when it is run: {moment}", of_the_run=not work)
        return replace(now, kind="incremental" if work else "idle", changed=changed, why=why)
    why = source_changes.revised(name_of(flow.source), source, now.since)
    return _by_record(flow, now, [why] if why else [], past.ours, [opened[uri] for uri in flow.side_tables])


def _inputs(flow: Flow, past: offsets.Lineage | None, opened: Tables) -> dict[str, tuple[DeltaTable, int]]:
    """The other inputs that are there, with the version that a batch is to read of each."""
    recorded = (past.ours.ours or {}).get("inputs", {}) if past is not None and past.ours is not None else {}
    found: dict[str, tuple[DeltaTable, int]] = {}
    for name, uri in flow.inputs.items():
        if (table := opened[uri].delta) is not None:
            was, _, then = recorded.get(name, "@-1").rpartition("@")
            found[name] = (table, source_changes.newest(table, int(then) if was == table_id(table) else -1))
    return found


def _columns(table: DeltaTable) -> set[str]:
    return {field.name for field in table.schema().fields}


def _of_streams(flow: Flow, now: Progress, past: offsets.Lineage | None, opened: Tables) -> Progress:
    """Progress of a table that several flows of the definition fill.

    Args:
        flow: the flow of the table.
        now: the versions of its lookups, and of the target.
        past: the target's history.
        opened: the handles of the step.
    """
    target, app_id = opened[flow.target], stream_progress.app_id(flow)
    last = past.ours if past is not None and past.ours is not None and past.ours.ours is not None else None
    before = stream_progress.recorded(last)
    if gone := stream_progress.gone(flow, opened, last):
        return Progress("blocked", why=gone)
    streams = stream_progress.progress_of(flow, opened, last)
    since = tables.txn_version(target.delta, app_id)
    newest = stream_progress.newest_batch([target, *(opened[uri] for uri in flow.side_tables)], app_id)
    sources = [opened[flow.streams[name]].delta for name in streams]
    now = replace(
        now, since=-1 if since is None else since, until=newest + 1, app_id=app_id,
        restores=past.facts() if past is not None else [], streams=streams, of_flows=True,
        of_many=any(ROW in _columns(source) for source in sources if source is not None),
        removed=tuple(name for name in before or () if name not in flow.streams),
    )  # fmt: skip
    if past is None:
        return replace(now, kind="whole")
    if past.news and last is not None:
        return replace(now, kind="whole", why=f"it was restored in version {past.restores[-1].at}")
    if last is None or since is None or before is None:
        several = last is not None and before is None
        reason = "several flows fill it now" if several else "its log no longer tells what it was made from"
        return replace(now, kind="whole", why=reason)
    read = _read_before(flow, now.stamps, last)
    changed = [n for n, stamp in read.items() if n not in flow.as_of_run and _rebuilt(flow, n, stamp, last)]
    why = f"{', '.join(changed)} changed" if changed else ""
    why = why or _why_numbered(flow, last, _Identity(of_many=now.of_many, of_flows=True))
    if why:
        return replace(now, kind="whole", why=why)
    if why := _why_stored(flow, target):
        return replace(now, kind="whole", why=why, command=_command(flow, target))
    reasons = [one.why for one in streams.values() if one.why]
    reasons += [f"the flow {name} is new" for name, one in streams.items() if not one.known]
    reasons += [f"the flow {name} is no longer in the definition" for name in now.removed]
    moves = any(one.work for one in streams.values()) or bool(now.removed)
    now = replace(now, until=now.until if moves else now.since)
    revised = any(one.revised for one in streams.values())
    return replace(
        _by_record(flow, now, reasons, last, [opened[uri] for uri in flow.side_tables]), revised=revised
    )  # fmt: skip


def _why_held(flow: Flow, last: log.Commit, opened: Tables, *, idle: bool) -> str:
    """Reason to hold the target's rows to its rules though none may have changed; empty if there is none.

    Args:
        flow: the flow.
        last: our last commit to the target.
        opened: the handles of the step.
        idle: whether nothing else is to be done.
    """
    if flow.layer != "gold":
        return ""
    if (last.ours or {}).get("rules", "") != flow.rules:
        return "its rules changed"
    # Another rule refused these rows, and is taken back: nothing else would empty what stands rejected.
    return "it is refused no more" if idle and opened[layout.rejected(flow.target)].rows else ""


def _no_source(flow: Flow) -> str:
    if not flow.rebuildable:
        return "nothing has been read yet"
    return f"{' and '.join(map(name_of, flow.sources))} has no rows yet"


def _waits(flow: Flow, opened: Tables) -> str:
    """Why a flow cannot begin, as a table that it or a rule of it reads is not there yet; empty if all are."""
    if missing := [name for name, uri in flow.inputs.items() if opened[uri].delta is None]:
        return f"it joins {missing[0]}, which has no rows yet"
    missing = [name for name, uri in flow.references.items() if opened[uri].delta is None]
    if missing:
        return f"a rule of it reads {missing[0]}, which has no rows yet"
    source = opened[flow.source]
    if not flow.makes or source.delta is None:
        return ""
    gone, flows = stream_progress.lacking(flow, source, data_columns(_columns(source.delta)))
    if not (gone and flows):
        return ""
    said = f"{name_of(flow.source)} has no column {', '.join(gone)} yet, which is to be de-identified: its flow"
    return f"{said} {flows[0]} may make it, and waits for its own source (in the table's `schema` it is there at once)"


def _by_record(
    flow: Flow, now: Progress, reasons: Sequence[str], last: log.Commit, side_tables: Sequence[Table]
) -> Progress:
    """What is to be done for a target that knows which records its rows were made of.

    Args:
        flow: the flow.
        now: its offset, and where its source is.
        reasons: what is to be said of changes of the source besides new rows: applied records are reprocessed then.
        last: our last commit to the target.
        side_tables: the tables beside the target.
    """
    stopped = _stopped(last, side_tables)
    if stopped is not None and stopped.get("mode") == "whole":
        return replace(now, kind="whole", why="a run that made it again was stopped")
    news = _changed(_read_before(flow, now.stamps, last), last)
    changed = {name: version for name, version in news.items() if name in flow.followed}
    retry = flow.retries and not flow.as_of_run.isdisjoint(news)
    why = [f"{', '.join(sorted(news if retry else changed))} changed"] if changed or retry else []
    why += reasons
    why += ["a run was stopped in the middle"] if stopped is not None else []
    work = now.since < now.until or bool(why)
    return replace(
        now, kind="incremental" if work else "idle", why="; ".join(why), revised=bool(reasons), changed=changed,
        retry=retry, repair=stopped is not None,
    )  # fmt: skip


def _stopped(last: log.Commit, side_tables: Sequence[Table]) -> Mapping[str, Any] | None:
    """What a run that was stopped said of itself in a table beside the target; None if the last one came to its end.

    A run first writes what enters the side tables, then the target, then deletes what leaves the side tables. A power
    cut may take back the first of these and leave the second.
    """
    ours = last.ours or {}
    for table in side_tables:
        commit = table.last_commit_of_ours
        said = commit.ours if commit is not None else None
        if said is not None and int(said.get("seen", -1)) >= last.version:
            return said  # it began after the target's last commit, and never wrote the target
        entered = name_of(table.uri) in ours.get("enters", ())
        if entered and (table.delta is None or (said is not None and said.get("op") != ours.get("op"))):
            return ours
        left = name_of(table.uri) in ours.get("leaves", ())
        if left and (said is None or (said.get("op"), said.get("step")) != (ours.get("op"), "leave")):
            return ours
    return None


def _read_before(flow: Flow, stamps: Mapping[str, str], last: log.Commit) -> Mapping[str, str]:
    """Inputs that rows of the target may have been made with; of several flows one may be new, with its lookups."""
    before = (last.ours or {}).get("inputs", {})
    return {name: stamp for name, stamp in stamps.items() if name in before} if flow.streams else stamps


def _changed(stamps: Mapping[str, str], last: log.Commit) -> dict[str, int]:
    """Inputs with another version than the last commit was computed with, and that commit's version of them."""
    before = (last.ours or {}).get("inputs", {})
    was = {name: before.get(name, "@-1") for name in stamps}
    return {name: int(was[name].rpartition("@")[2]) for name, stamp in stamps.items() if was[name] != stamp}


def _demand_possible(flow: Flow, offset: int | None, until: int, why: str, replaced: int | None) -> None:
    if offset is not None and offset > until:
        raise histories.older(flow, flow.source)
    # Gold is what its queries give, and bronze what its source has; but silver may have records that bronze has lost.
    if replaced is not None and not (flow.foreign or flow.layer == "gold"):
        raise histories.refused(flow, flow.source, replaced)
    if why and not flow.rebuildable:
        raise SluicegateError(
            f"{flow.table} cannot go on: {why}",
            where=Where(table=flow.table, file=flow.source),
            hint="restore the ledger, or move the table away to read all landed files again",
        )


def _why_whole(
    flow: Flow,
    source: DeltaTable,
    past: offsets.Lineage,
    offset: int | None,
    stamps: Mapping[str, str],
    identity: _Identity,
) -> str:
    """Reason for a full refresh of the target; empty when the changes since the offset are enough."""
    name, last = name_of(flow.source), past.ours
    if flow.rebuildable and past.news and last is not None:
        return f"it was restored in version {past.restores[-1].at}"
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
    other = _why_other(flow, source, last) or _why_numbered(flow, last, identity)
    return other or _why_changed(flow, source, last, offset, stamps)


@dataclass(frozen=True)
class _Identity:
    """What records are known by besides their place: whether by a number, and by the flow that brought them."""

    of_many: bool
    of_flows: bool


def _why_numbered(flow: Flow, last: log.Commit, identity: _Identity) -> str:
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


def _why_stored(flow: Flow, target: Table) -> str:
    """Reason, if rows of the target are not comparable with those of today's definition; empty if they are."""
    past = target.restores
    if flow.stored is None or past is None or past.ours is None:
        return ""
    return flow.stored.change(past.ours, foreseen_types.stored(target.delta))


def _command(flow: Flow, target: Table) -> str:
    """The command for a full refresh that its changed definition takes, where rows have values of former lookups."""
    return flow.stored.command if flow.stored is not None and flow.as_of_run and _why_stored(flow, target) else ""


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
    name = name_of(flow.source)
    changed = [n for n, stamp in stamps.items() if n not in flow.as_of_run and _rebuilt(flow, n, stamp, last)]
    if changed:
        return f"{', '.join(changed)} changed"
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
