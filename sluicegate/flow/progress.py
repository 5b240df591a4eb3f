"""Offset of a flow, and what a run is to do about it. Read by delta-rs; no Spark, some 10 ms a table.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow import source_changes
from sluicegate.flow.model import Flow, Progress, name_of
from sluicegate.lake import log, offsets
from sluicegate.lake.table import Table, Tables
from sluicegate.lake.tables import table_id
from sluicegate.schema.columns import ROW

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Commits that only add rows, or none. Any other (DELETE, UPDATE, MERGE, RESTORE…) changes rows of the source that were
# applied already: these are reprocessed, or the target gets a full refresh where it does not know which rows they made.
ADDITIVE = {"WRITE", "STREAMING UPDATE", "CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
            "CHANGE COLUMN", "UPDATE SCHEMA", "UPDATE TABLE METADATA", "OPTIMIZE", "VACUUM START", "VACUUM END",
            "CLUSTER BY"}  # fmt: skip


def progress(flow: Flow, opened: Tables | None = None) -> Progress:
    """Reads the offsets. No Spark; some 10 ms.

    Args:
        flow: the flow.
        opened: the handles of the step that this is a part of; by default each table is opened at its newest version.

    Raises:
        NotADeltaTable: there are files, but no table, at one of the addresses.
        LandingMissing: the source is a table of other programs', and is not there.
        SluicegateError: the source is older than what was taken from it, or is another table than the one that the
            target was filled from and the target cannot be made again from it.
    """
    opened = opened or Tables()
    target = opened[flow.target]
    # The target first: of a run that commits to both in between, an offset without its version of the source would
    # look like a source that was put back to an older state.
    target.open()
    source = opened[flow.source].delta
    if source is None and flow.foreign:
        raise source_changes.missing(flow)
    if source is None:
        return Progress("blocked", why=f"{name_of(flow.source)} has no rows yet")
    if why := _waits(flow, opened):
        return Progress("blocked", why=why)
    pinned = {name: opened[uri].delta for name, uri in flow.inputs.items()}
    versions = {name: table.version() for name, table in pinned.items() if table is not None}
    stamps = {name: f"{table_id(table)}@{table.version()}" for name, table in pinned.items() if table is not None}
    past = target.restores
    app_id = offsets.app_id(flow.layer, flow.table, source)
    committed = offsets.committed_offset(target.delta, app_id, None if flow.rebuildable else past)
    offset, until = committed.offset, source.version()
    since = -1 if offset is None else offset
    of_many = flow.by_record and ROW in {field.name for field in source.schema().fields}
    why = _why_whole(flow, source, past, offset, stamps, of_many=of_many) if past is not None else ""
    _demand_possible(flow, offset, until, why)
    restores = past.facts() if past is not None else []
    now = Progress(
        "idle", since, until, versions, stamps, committed.app_id, target.version, restores, why, of_many=of_many
    )
    if not flow.rebuildable:  # the first version of a ledger is made without files
        if past is not None and past.news:
            why = f"it was restored in version {past.restores[-1].at}: what it lacks since is read again"
        return replace(now, kind="idle" if until in (0, since) else "incremental", why=why)
    # The first time, too: rows that the source once had and has no more do not belong in the target.
    if why or offset is None or past is None or past.ours is None:
        return replace(now, kind="whole")
    if not flow.by_record:
        changed = {name: was for name, was in _changed(stamps, past.ours).items() if name in flow.followed}
        why = f"{', '.join(sorted(changed))} changed" if changed else ""
        why = why or ("its rules changed" if _has_other_rules(flow, past.ours) else "")
        work = since < until or bool(why)
        if moment := past.ours.ours.get("of_the_run") if past.ours.ours else None:
            return replace(now, kind="whole", why=f"it depends on when it is run: {moment}", of_the_run=not work)
        return replace(now, kind="incremental" if work else "idle", changed=changed, why=why)
    return _by_record(flow, now, source, past.ours, [opened[uri] for uri in flow.side_tables])


def _has_other_rules(flow: Flow, last: log.Commit) -> bool:
    """Whether the rows that the target has were committed under other rules than today's."""
    return flow.layer == "gold" and (last.ours or {}).get("rules", "") != flow.rules


def _waits(flow: Flow, opened: Tables) -> str:
    """Why a flow cannot begin, as a table that it or a rule of it reads is not there yet; empty if all are."""
    if missing := [name for name, uri in flow.inputs.items() if opened[uri].delta is None]:
        return f"it joins {missing[0]}, which has no rows yet"
    missing = [name for name, uri in flow.references.items() if opened[uri].delta is None]
    return f"a rule of it reads {missing[0]}, which has no rows yet" if missing else ""


def _by_record(
    flow: Flow, now: Progress, source: DeltaTable, last: log.Commit, side_tables: Sequence[Table]
) -> Progress:
    """What is to be done for a target that knows which records its rows were made of."""
    stopped = _stopped(last, side_tables)
    if stopped is not None and stopped.get("mode") == "whole":
        return replace(now, kind="whole", why="a run that made it again was stopped")
    news = _changed(now.stamps, last)
    changed = {name: version for name, version in news.items() if name in flow.followed}
    retry = flow.retries and not flow.as_of_run.isdisjoint(news)
    why = [f"{', '.join(sorted(news if retry else changed))} changed"] if changed or retry else []
    rewritten = _rewritten(name_of(flow.source), source, now.since)
    why += [rewritten] if rewritten else []
    why += ["a run was stopped in the middle"] if stopped is not None else []
    work = now.since < now.until or bool(why)
    return replace(
        now, kind="incremental" if work else "idle", why="; ".join(why), revised=bool(rewritten), changed=changed,
        retry=retry, repair=stopped is not None,
    )  # fmt: skip


def _stopped(last: log.Commit, side_tables: Sequence[Table]) -> Mapping[str, Any] | None:
    """What a run that was stopped said of itself in a table beside the target; None if the last one came to its end.

    A run first writes what enters the side tables, then the target, then deletes what leaves the side tables.
    """
    ours = last.ours or {}
    for table in side_tables:
        commit = table.last_commit_of_ours
        said = commit.ours if commit is not None else None
        if said is not None and int(said.get("seen", -1)) >= last.version:
            return said  # it began after the target's last commit, and never wrote the target
        left = name_of(table.uri) in ours.get("leaves", ())
        if left and (said is None or (said.get("op"), said.get("step")) != (ours.get("op"), "leave")):
            return ours
    return None


def _changed(stamps: Mapping[str, str], last: log.Commit) -> dict[str, int]:
    """Inputs with another version than the last commit was computed with, and that commit's version of them."""
    before = (last.ours or {}).get("inputs", {})
    was = {name: before.get(name, "@-1") for name in stamps}
    return {name: int(was[name].rpartition("@")[2]) for name, stamp in stamps.items() if was[name] != stamp}


def _demand_possible(flow: Flow, offset: int | None, until: int, why: str) -> None:
    if offset is not None and offset > until:
        # Delta keeps the higher of two offsets, so later changes of the source would be taken for known.
        raise SluicegateError(
            f"{flow.table} cannot go on: {name_of(flow.source)} is older than what was taken from it",
            where=Where(table=flow.table, file=flow.source),
            hint=f"move {flow.target} away: it is made again from what {name_of(flow.source)} holds now",
        )
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
    *,
    of_many: bool,
) -> str:
    """Reason for a full refresh of the target; empty when the changes since the offset are enough."""
    name, last = name_of(flow.source), past.ours
    if flow.rebuildable and past.news and last is not None:
        return f"it was restored in version {past.restores[-1].at}"
    if flow.foreign:
        return source_changes.why_whole(flow, source, last, offset)
    if offset is None:
        return f"{name} is not the table that it was filled from"
    if not flow.rebuildable:
        return ""
    if last is None or last.ours is None:
        return "its log no longer tells what it was made from"
    other = _why_other(flow, source, last) or _why_numbered(flow, last, of_many=of_many)
    return other or _why_changed(flow, source, last, offset, stamps)


def _why_numbered(flow: Flow, last: log.Commit, *, of_many: bool) -> str:
    """Reason, if rows of the target are to be known by another identity than those that it has; empty if not.

    Args:
        flow: the flow.
        last: our last commit to the target.
        of_many: whether rows of the source have numbers within their records.
    """
    if not flow.by_record or bool((last.ours or {}).get("numbered")) == (flow.many or of_many):
        return ""
    source = name_of(flow.source)
    if of_many:
        return f"a record of {source} gives many rows now"
    return "a record gives many rows now" if flow.many else "a record gives one row now"


def _why_other(flow: Flow, source: DeltaTable, last: log.Commit) -> str:
    """Reason, if the target was made by another definition, or of another table; empty if it was not."""
    ours = last.ours or {}
    if ours.get("source_id", table_id(source)) != table_id(source):
        # The offset is that of this table, but rows of another one have come since: it was moved away and back.
        return f"{name_of(flow.source)} is not the table that it was filled from last"
    if flow.fingerprint and ours.get("fingerprint") != flow.fingerprint:
        return "its definition changed"
    return "the key of its pseudonyms changed" if flow.key and ours.get("key") != flow.key else ""


def _why_changed(flow: Flow, source: DeltaTable, last: log.Commit, offset: int, stamps: Mapping[str, str]) -> str:
    """Reason, if what changed since the offset cannot be followed; empty if it can."""
    name = name_of(flow.source)
    changed = [n for n, stamp in stamps.items() if n not in flow.as_of_run and _rebuilt(flow, n, stamp, last)]
    if changed:
        return f"{', '.join(changed)} changed"
    if flow.added:
        return source_changes.rewritten(flow.source, name, offset, source.version())
    return _overwritten(name, source, offset) if flow.by_record or flow.row_deltas else _rewritten(name, source, offset)


def _rebuilt(flow: Flow, name: str, stamp: str, last: log.Commit) -> bool:
    """Whether an input changed in a way that leaves the affected records unknown."""
    before = (last.ours or {}).get("inputs", {}).get(name, "")
    (was, _, then), (now, _, version) = before.rpartition("@"), stamp.rpartition("@")
    if before == stamp:
        return False
    if name not in flow.followed or was != now or int(then) > int(version):
        return True
    # Silver gains columns only. A gold table that is made again may have others, over which no change feed is read.
    of_gold = flow.layer == "gold" and flow.of_own_layer(name)
    return of_gold and not source_changes.grew(flow.inputs[name], int(then), int(version))


def _overwritten(name: str, source: DeltaTable, offset: int) -> str:
    """Reason, if a commit after the offset replaced all rows of the source; empty if none did."""
    for commit in _since(source, offset):
        if commit.overwrites and not commit.partly:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _rewritten(name: str, source: DeltaTable, offset: int) -> str:
    """Reason, if a commit after the offset did more than add rows to the source; empty if none did."""
    for commit in _since(source, offset):
        if commit.operation not in ADDITIVE or commit.overwrites:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _since(table: DeltaTable, offset: int) -> Iterator[log.Commit]:
    found = log.commits(table, table.version() - offset) if offset < table.version() else iter(())
    return (commit for commit in found if commit.version > offset)
