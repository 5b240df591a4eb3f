"""Offset of a flow, and what a run is to do about it. Read by delta-rs; no Spark, some 10 ms a table.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow import full_refresh, histories, source_changes, stream_progress
from sluicegate.flow.model import Flow, Progress, StreamProgress, name_of
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.lake.tables import table_id
from sluicegate.schema.columns import FLOW, ROW, data_columns

if TYPE_CHECKING:
    from deltalake import DeltaTable


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
    # The target first: of a run that commits to both in between, an offset without its version of the source would
    # look like a source that was put back to an older state.
    opened[flow.target].open()
    source = opened[flow.source].delta
    if source is None and flow.foreign:
        raise source_changes.missing(flow)
    if reason := _blocked(flow, opened):
        return Progress("blocked", why=reason)
    past = histories.comparable(flow, opened[flow.target].restores, opened)
    inputs = _inputs(flow, past, opened)
    versions = {name: version for name, (_, version) in inputs.items()}
    stamps = {name: f"{table_id(table)}@{version}" for name, (table, version) in inputs.items()}
    unread = Progress("idle", versions=versions, stamps=stamps, seen=opened[flow.target].version)
    if source is None or flow.streams:
        return _of_streams(flow, unread, past, opened)
    return _of_source(flow, unread, source, past, opened)


def _blocked(flow: Flow, opened: Tables) -> str:
    """Reason why a flow waits for other tables; empty if it does not."""
    if not any(opened[uri].delta for uri in flow.sources):
        return _no_source(flow)
    return _waits(flow, opened)


def _of_source(
    flow: Flow, unread: Progress, source: DeltaTable, past: offsets.Lineage | None, opened: Tables
) -> Progress:
    """Progress of a table that follows one other.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        source: the table that it follows.
        past: the target's history.
        opened: the handles of the step.
    """
    target = opened[flow.target]
    app_id = offsets.app_id(flow.layer, flow.table, source)
    committed = offsets.committed_offset(target.delta, app_id, None if flow.rebuildable else past)
    since = -1 if committed.offset is None else committed.offset
    until = source_changes.newest(source, since)
    of_many, of_flows = (flow.by_record and name in _columns(source) for name in (ROW, FLOW))
    reason = ""
    if past is not None:
        identity = full_refresh.Identity(of_many=of_many, of_flows=of_flows)
        reason = full_refresh.why_whole(flow, source, past, committed.offset, unread.stamps, identity)
    reason = reason or full_refresh.why_stored(flow, target)
    replaced = histories.source_replaced(flow, opened, past.ours if past is not None else None)
    _demand_possible(flow, committed.offset, until, reason, replaced)
    if replaced is not None:
        reason = histories.why(flow.source, replaced)
    read = replace(
        unread, since=since, until=until, app_id=committed.app_id, restores=past.facts() if past is not None else [],
        why=reason, of_many=of_many, of_flows=of_flows,
    )  # fmt: skip
    if not flow.rebuildable:
        return _of_ledger(read, past)
    # The first time, too: rows that the source once had and has no more do not belong in the target.
    if reason or committed.offset is None or past is None or past.ours is None:
        return replace(read, kind="whole", command=full_refresh.command(flow, target))
    if not flow.by_record:
        return _of_query(flow, read, past.ours, opened)
    revised = source_changes.revised(name_of(flow.source), source, since)
    side_tables = [opened[uri] for uri in flow.side_tables]
    return _by_record(flow, read, [revised] if revised else [], past.ours, side_tables)


def _of_ledger(read: Progress, past: offsets.Lineage | None) -> Progress:
    """Progress of bronze over its ledger, whose first version is made without files."""
    if past is not None and past.news:
        read = replace(read, why=f"{full_refresh.why_restored(past)}: what it lacks since is read again")
    nothing_new = read.until in (0, read.since)
    return replace(read, kind="idle" if nothing_new else "incremental")


def _of_query(flow: Flow, read: Progress, last: log.Commit, opened: Tables) -> Progress:
    """Progress of a target that does not know of which records its rows were made: gold, and bronze of Delta tables."""
    changed = {name: version for name, version in _changed(read.stamps, last).items() if name in flow.followed}
    reason = f"{', '.join(sorted(changed))} changed" if changed else ""
    reason = reason or _why_held(flow, last, opened, idle=read.since == read.until)
    work = read.since < read.until or bool(reason)
    if moment := (last.ours or {}).get("of_the_run"):
        return replace(read, kind="whole", why=f"it depends on when it is run: {moment}", of_the_run=not work)
    return replace(read, kind="incremental" if work else "idle", changed=changed, why=reason)


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


def _of_streams(flow: Flow, unread: Progress, past: offsets.Lineage | None, opened: Tables) -> Progress:
    """Progress of a table that several flows of the definition fill.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        past: the target's history.
        opened: the handles of the step.
    """
    last = past.ours if past is not None and past.ours is not None and past.ours.ours is not None else None
    recorded = stream_progress.recorded(last)
    if reason := stream_progress.gone(flow, opened, last):
        return Progress("blocked", why=reason)
    streams = stream_progress.progress_of(flow, opened, last)
    read = _of_batches(flow, unread, recorded or {}, streams, opened)
    if past is None:
        return replace(read, kind="whole")
    read = replace(read, restores=past.facts())
    if past.news and last is not None:
        return replace(read, kind="whole", why=full_refresh.why_restored(past))
    if last is not None and recorded is None:
        return replace(read, kind="whole", why="several flows fill it now")
    if last is None or read.since < 0:
        return replace(read, kind="whole", why="its log no longer tells what it was made from")
    if reason := _why_flows_whole(flow, read, last):
        return replace(read, kind="whole", why=reason)
    target = opened[flow.target]
    if reason := full_refresh.why_stored(flow, target):
        return replace(read, kind="whole", why=reason, command=full_refresh.command(flow, target))
    moves = bool(read.removed) or any(stream.work for stream in streams.values())
    if not moves:
        read = replace(read, until=read.since)
    side_tables = [opened[uri] for uri in flow.side_tables]
    by_record = _by_record(flow, read, _news_of_flows(read), last, side_tables)
    return replace(by_record, revised=any(stream.revised for stream in streams.values()))


def _of_batches(
    flow: Flow, unread: Progress, recorded: Mapping[str, Any], streams: Mapping[str, StreamProgress], opened: Tables
) -> Progress:
    """Offsets of a table that several flows fill: its own count batches.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        recorded: offsets of the flows as its last commit has them.
        streams: progress of the flows whose sources are there.
        opened: the handles of the step.
    """
    target, app_id = opened[flow.target], stream_progress.app_id(flow)
    batch = tables.txn_version(target.delta, app_id)
    newest = stream_progress.newest_batch([target, *(opened[uri] for uri in flow.side_tables)], app_id)
    sources = [opened[flow.streams[name]].delta for name in streams]
    return replace(
        unread, since=-1 if batch is None else batch, until=newest + 1, app_id=app_id, streams=streams, of_flows=True,
        of_many=any(ROW in _columns(source) for source in sources if source is not None),
        removed=tuple(name for name in recorded if name not in flow.streams),
    )  # fmt: skip


def _why_flows_whole(flow: Flow, read: Progress, last: log.Commit) -> str:
    """Reason for a full refresh of a table that several flows fill; empty if what is new is enough."""
    if reason := full_refresh.why_inputs(flow, _read_before(flow, read.stamps, last), last):
        return reason
    return full_refresh.why_numbered(flow, last, full_refresh.Identity(of_many=read.of_many, of_flows=True))


def _news_of_flows(read: Progress) -> list[str]:
    """What is to be said of the flows besides their new rows."""
    reasons = [stream.why for stream in read.streams.values() if stream.why]
    reasons += [f"the flow {name} is new" for name, stream in read.streams.items() if not stream.known]
    return reasons + [f"the flow {name} is no longer in the definition" for name in read.removed]


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
