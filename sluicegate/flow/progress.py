"""Read the offset of a flow, and decide what a run does. By delta-rs, without Spark, in some 10 ms a table.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltalake import DeltaTable

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow import full_refresh, histories, prerequisites, source_changes
from sluicegate.flow.full_refresh import Identity, SourceState
from sluicegate.flow.model import Flow, Progress, ProgressKind, StreamProgress, name_of
from sluicegate.flow.several import several_progress
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits.commit_info import BatchMode, CommitInfo, CommitStep
from sluicegate.lake.table import Table, Tables
from sluicegate.lake.tables import table_id
from sluicegate.schema.columns import FLOW, ROW


def progress(flow: Flow, opened: Tables | None = None) -> Progress:
    """Return the progress of a flow. No Spark; some 10 ms.

    Args:
        flow: the flow.
        opened: the handles of the current step; by default each table is opened at its newest version.

    Raises:
        NotADeltaTable: an address has files, but no Delta table.
        LandingMissing: the source, another program's table, does not exist.
        SluicegateError: the source is older than the offset, or another table than the one that the
            target was filled from, or has another history now, and the target cannot be rebuilt.
    """
    opened = opened or Tables()
    # The target first: of a run that commits to both in between, an offset without its version of the source would
    # look like a source that was put back to an older state.
    opened[flow.target].open()
    source = opened[flow.source].delta
    if source is None and flow.has_foreign_source:
        raise prerequisites.missing_source_error(flow)
    if reason := prerequisites.why_blocked(flow, opened):
        return Progress(ProgressKind.BLOCKED, why=reason)
    past = histories.comparable_history(flow, opened[flow.target].restores, opened)
    inputs = _inputs(flow, past, opened)
    versions = {name: version for name, (_, version) in inputs.items()}
    stamps = {name: f"{table_id(table)}@{version}" for name, (table, version) in inputs.items()}
    unread = Progress(ProgressKind.IDLE, versions=versions, stamps=stamps, seen=opened[flow.target].version)
    if source is None or flow.streams:
        return _progress_of_flows(flow, unread, past, opened)
    return _source_progress(flow, unread, source, past, opened)


# --- a table that follows one other ----------------------------------------------------------------------------------


def _source_progress(
    flow: Flow, unread: Progress, source: DeltaTable, past: offsets.RestoreHistory | None, opened: Tables
) -> Progress:
    """Return the progress of a table that follows one other.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        source: the table that it follows.
        past: the target's history.
        opened: the handles of the step.
    """
    target = opened[flow.target]
    committed = _committed_offset(flow, source, target, past)
    since = -1
    if committed.offset is not None:
        since = committed.offset
    until = source_changes.newest_version(source, since)
    changes = _changes(flow, source, committed.offset)
    state = SourceState(source, committed.offset, changes, unread.stamps, _identity(flow, source))
    reason = full_refresh.why_whole(flow, past, state) or full_refresh.why_stored(flow, target)
    if committed.offset is not None and committed.offset > until:
        raise histories.older_source_error(flow, flow.source)
    reason = _why_replaced(flow, past, opened) or reason
    _demand_ledger(flow, reason)
    read = replace(
        unread, since=since, until=until, app_id=committed.app_id, restores=[] if past is None else past.facts(),
        why=reason, of_many=state.identity.of_many, of_flows=state.identity.of_flows,
    )  # fmt: skip
    if not flow.policy.rebuildable:
        return _ledger_progress(read, past)
    # The first time, too: rows that the source once had and has no more do not belong in the target.
    if reason or committed.offset is None or past is None or past.ours is None:
        return replace(read, kind=ProgressKind.FULL_REFRESH, command=full_refresh.command(flow, target))
    if not flow.policy.by_record:
        return _query_progress(flow, read, past.ours, opened)
    reasons = []
    if changes.why_revised:
        reasons = [changes.why_revised]
    return _record_progress(flow, read, reasons, past.ours, opened)


def _committed_offset(
    flow: Flow, source: DeltaTable, target: Table, past: offsets.RestoreHistory | None
) -> offsets.CommittedOffset:
    """Return the offset of a flow; restores of a target that can be refreshed in full are ignored."""
    restores = None
    if not flow.policy.rebuildable:
        restores = past
    return offsets.committed_offset(target.delta, offsets.app_id(flow.layer, flow.table, source), restores)


def _changes(flow: Flow, source: DeltaTable, offset: int | None) -> SourceChanges:
    """Return the commits of the source after the offset; none of a ledger, which only ever grows."""
    name = name_of(flow.source)
    if offset is None or not flow.policy.rebuildable:
        return SourceChanges(name)
    return SourceChanges.read(flow.source, offset, source.version(), name=name)


def _identity(flow: Flow, source: DeltaTable) -> Identity:
    """Return how records of the source are identified; nothing if the target does not need it."""
    if not flow.policy.by_record:
        return Identity(of_many=False, of_flows=False)
    columns = _column_names(source)
    return Identity(of_many=ROW in columns, of_flows=FLOW in columns)


def _why_replaced(flow: Flow, past: offsets.RestoreHistory | None, opened: Tables) -> str:
    """Return the reason if the source has another history than the one that was read.

    Raises:
        SluicegateError: the target may have the only copy of rows.
    """
    version = histories.replaced_source_version(flow, opened, None if past is None else past.ours)
    if version is None:
        return ""
    # Gold is what its queries give, and bronze what its source has; but silver may have records that bronze has lost.
    if not (flow.has_foreign_source or flow.layer == "gold"):
        raise histories.replaced_source_error(flow, flow.source, version)
    return histories.why_replaced(flow.source, version)


def _demand_ledger(flow: Flow, reason: str) -> None:
    """Refuse a full refresh of a table that cannot be rebuilt."""
    if reason and not flow.policy.rebuildable:
        raise SluicegateError(
            f"{flow.table} cannot continue: {reason}",
            where=Where(table=flow.table, file=flow.source),
            hint="restore the ledger, or move the table away: the next run then reads all landed files again",
        )


def _ledger_progress(read: Progress, past: offsets.RestoreHistory | None) -> Progress:
    """Return the progress of bronze over its ledger, whose first version has no files."""
    if past is not None and past.news:
        read = replace(read, why=f"{full_refresh.why_restored(past)}: rows that the RESTORE removed are read again")
    if read.until in (0, read.since):
        return replace(read, kind=ProgressKind.IDLE)
    return replace(read, kind=ProgressKind.INCREMENTAL)


def _query_progress(flow: Flow, read: Progress, last: log.Commit, opened: Tables) -> Progress:
    """Return the progress of a target without record identities: gold, and bronze of Delta tables."""
    inputs = _changed_inputs(read.stamps, last)
    changed = {name: version for name, version in inputs.items() if name in flow.policy.followed}
    if changed:
        reason = f"{', '.join(sorted(changed))} changed"
    else:
        reason = _why_rules(flow, last, opened, idle=read.since == read.until)
    work = read.since < read.until or bool(reason)
    if moment := last.info.gold.of_the_run:
        why = f"its result depends on the time of the run: {moment}"
        return replace(read, kind=ProgressKind.FULL_REFRESH, why=why, of_the_run=not work)
    return replace(read, kind=_kind(work), changed=changed, why=reason)


def _why_rules(flow: Flow, last: log.Commit, opened: Tables, *, idle: bool) -> str:
    """Return why the target's rows must be checked again though none may have changed; empty if they need not.

    Args:
        flow: the flow.
        last: our last commit to the target.
        opened: the handles of the step.
        idle: whether there is nothing else to do.
    """
    if flow.layer != "gold":
        return ""
    if last.info.rules != flow.rules:
        return "its rules changed"
    # Another rule refused these rows, and is taken back: nothing else would empty what stands rejected.
    if idle and opened[layout.rejected_table(flow.target)].rows:
        return "its rejected rows are accepted now"
    return ""


# --- a table that several flows fill ---------------------------------------------------------------------------------


def _progress_of_flows(flow: Flow, unread: Progress, past: offsets.RestoreHistory | None, opened: Tables) -> Progress:
    """Return the progress of a table with several flows.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        past: the target's history.
        opened: the handles of the step.
    """
    last = _commit_with_facts(past)
    if reason := several_progress.why_source_lost(flow, opened, last):
        return Progress(ProgressKind.BLOCKED, why=reason)
    streams = several_progress.progress_of(flow, opened, last)
    read = _batch_offsets(flow, unread, last, streams, opened)
    if past is None:
        return replace(read, kind=ProgressKind.FULL_REFRESH)
    read = replace(read, restores=past.facts())
    if past.news and last is not None:
        return replace(read, kind=ProgressKind.FULL_REFRESH, why=full_refresh.why_restored(past))
    if last is not None and several_progress.recorded_offsets(last) is None:
        return replace(read, kind=ProgressKind.FULL_REFRESH, why="it is filled by several flows now")
    if last is None or read.since < 0:
        return replace(read, kind=ProgressKind.FULL_REFRESH, why="its log no longer records what it was built from")
    if reason := _why_flows_whole(flow, read, last):
        return replace(read, kind=ProgressKind.FULL_REFRESH, why=reason)
    target = opened[flow.target]
    if reason := full_refresh.why_stored(flow, target):
        return replace(read, kind=ProgressKind.FULL_REFRESH, why=reason, command=full_refresh.command(flow, target))
    if not read.removed and not any(stream.has_work for stream in streams.values()):
        read = replace(read, until=read.since)
    by_record = _record_progress(flow, read, _flow_remarks(read), last, opened)
    return replace(by_record, revised=any(stream.revised for stream in streams.values()))


def _commit_with_facts(past: offsets.RestoreHistory | None) -> log.Commit | None:
    """Return our last commit to the target, if it records its inputs."""
    if past is None or past.ours is None or past.ours.ours is None:
        return None
    return past.ours


def _batch_offsets(
    flow: Flow, unread: Progress, last: log.Commit | None, streams: Mapping[str, StreamProgress], opened: Tables
) -> Progress:
    """Return the offsets of a table with several flows: its own counts batches.

    Args:
        flow: the flow of the table.
        unread: the versions of its lookups, and of the target.
        last: our last commit to the target.
        streams: progress of the flows whose sources exist.
        opened: the handles of the step.
    """
    target, app_id = opened[flow.target], several_progress.app_id(flow)
    batch = tables.txn_version(target.delta, app_id)
    newest = several_progress.newest_batch([target, *_side_tables(flow, opened)], app_id)
    sources = [opened[flow.streams[name]].delta for name in streams]
    recorded = several_progress.recorded_offsets(last) or {}
    return replace(
        unread, since=-1 if batch is None else batch, until=newest + 1, app_id=app_id, streams=streams, of_flows=True,
        of_many=any(ROW in _column_names(source) for source in sources if source is not None),
        removed=tuple(name for name in recorded if name not in flow.streams),
    )  # fmt: skip


def _why_flows_whole(flow: Flow, read: Progress, last: log.Commit) -> str:
    """Return why a table with several flows needs a full refresh; empty if the changes are enough."""
    if reason := full_refresh.why_inputs(flow, _former_inputs(flow, read.stamps, last), last):
        return reason
    return full_refresh.why_numbered(flow, last, Identity(of_many=read.of_many, of_flows=True))


def _flow_remarks(read: Progress) -> list[str]:
    """Return remarks on the flows besides their new rows."""
    reasons = [stream.why for stream in read.streams.values() if stream.why]
    reasons += [f"the flow {name} is new" for name, stream in read.streams.items() if not stream.known]
    return reasons + [f"the flow {name} is no longer in the definition" for name in read.removed]


# --- records and inputs ----------------------------------------------------------------------------------------------


def _record_progress(flow: Flow, read: Progress, reasons: Sequence[str], last: log.Commit, opened: Tables) -> Progress:
    """Return the progress of a target with record identities.

    Args:
        flow: the flow.
        read: its offset, and the version of its source.
        reasons: remarks on changes of the source besides new rows, for which processed records are reprocessed.
        last: our last commit to the target.
        opened: the handles of the step.
    """
    stopped = _stopped_run(last, _side_tables(flow, opened))
    if stopped is not None and stopped.mode == BatchMode.FULL_REFRESH:
        return replace(read, kind=ProgressKind.FULL_REFRESH, why="a run was stopped during its full refresh")
    inputs = _changed_inputs(_former_inputs(flow, read.stamps, last), last)
    changed = {name: version for name, version in inputs.items() if name in flow.policy.followed}
    retry = flow.policy.retries and not flow.as_of_run.isdisjoint(inputs)
    sentences = list(reasons)
    if retry:
        sentences.insert(0, f"{', '.join(sorted(inputs))} changed")
    elif changed:
        sentences.insert(0, f"{', '.join(sorted(changed))} changed")
    if stopped is not None:
        sentences.append("a run was stopped before it finished")
    work = read.since < read.until or bool(sentences)
    return replace(
        read, kind=_kind(work), why="; ".join(sentences), revised=bool(reasons), changed=changed, retry=retry,
        repair=stopped is not None,
    )  # fmt: skip


def _kind(work: bool) -> ProgressKind:
    if work:
        return ProgressKind.INCREMENTAL
    return ProgressKind.IDLE


def _stopped_run(last: log.Commit, side_tables: Sequence[Table]) -> CommitInfo | None:
    """Return what a stopped run recorded in a side table; None if the last run finished.

    A run first writes what enters the side tables, then the target, then deletes what leaves the side tables. A power
    cut may take back the first of these and leave the second.
    """
    info = last.info
    for table in side_tables:
        commit = table.last_own_commit
        side_info = None
        if commit is not None:
            side_info = commit.ours
        if side_info is not None and side_info.seen is not None and side_info.seen >= last.version:
            return side_info  # it began after the target's last commit, and never wrote the target
        name = name_of(table.uri)
        if name in info.silver.enters and not _has_entered(table, side_info, info):
            return info
        if name in info.silver.leaves and not _has_left(side_info, info):
            return info
    return None


def _has_entered(side_table: Table, side_info: CommitInfo | None, info: CommitInfo) -> bool:
    """Return whether a side table has the rows that a run writes first."""
    if side_table.delta is None:
        return False
    return side_info is None or side_info.silver.op == info.silver.op


def _has_left(side_info: CommitInfo | None, info: CommitInfo) -> bool:
    """Return whether a run has done its last deletion from a side table."""
    if side_info is None or side_info.step != CommitStep.LEAVE:
        return False
    return side_info.silver.op == info.silver.op


def _inputs(flow: Flow, past: offsets.RestoreHistory | None, opened: Tables) -> dict[str, tuple[DeltaTable, int]]:
    """Return the existing other inputs, with the version to read of each."""
    recorded = log.info_of(_commit_with_facts(past)).inputs
    inputs: dict[str, tuple[DeltaTable, int]] = {}
    for name, uri in flow.inputs.items():
        table = opened[uri].delta
        if table is None:
            continue
        recorded_id, _, version = recorded.get(name, "@-1").rpartition("@")
        if recorded_id == table_id(table):
            read = int(version)
        else:
            read = -1
        inputs[name] = (table, source_changes.newest_version(table, read))
    return inputs


def _former_inputs(flow: Flow, stamps: Mapping[str, str], last: log.Commit) -> Mapping[str, str]:
    """Return the inputs that rows of the target may depend on; a new flow's lookups are excluded."""
    if not flow.streams:
        return stamps
    return {name: stamp for name, stamp in stamps.items() if name in last.info.inputs}


def _changed_inputs(stamps: Mapping[str, str], last: log.Commit) -> dict[str, int]:
    """Return the inputs whose version changed since the last commit, with the version of that commit."""
    recorded = {name: last.info.inputs.get(name, "@-1") for name in stamps}
    return {name: int(recorded[name].rpartition("@")[2]) for name in stamps if recorded[name] != stamps[name]}


def _side_tables(flow: Flow, opened: Tables) -> list[Table]:
    return [opened[uri] for uri in flow.side_tables]


def _column_names(table: DeltaTable) -> set[str]:
    return {field.name for field in table.schema().fields}
