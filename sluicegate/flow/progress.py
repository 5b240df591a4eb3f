"""How far a flow has come, and what a run is to do about it. Read by delta-rs; no Spark, some 10 ms a table.

How far a flow has come is written in its *target's own Delta log*: each commit carries a transaction id
(``txnAppId``) and ``txnVersion`` = the version of the source that the batch ends at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from sluicegate.bronze import delta_source
from sluicegate.errors import SluicegateError, Where
from sluicegate.lake import offsets, tables

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from sluicegate.sql.refresh.strategy import Upkeep

# Commits that only add rows, or none. Any other (DELETE, UPDATE, MERGE, RESTORE…) changes rows of the source that were
# applied already: these are applied again, or the target is made again where it does not know which rows they made.
ADDITIVE = {"WRITE", "STREAMING UPDATE", "CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
            "CHANGE COLUMN", "UPDATE SCHEMA", "OPTIMIZE", "VACUUM START", "VACUUM END", "CLUSTER BY"}  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """One way into one table.

    Attributes:
        layer: bronze, silver or gold.
        table: name of the table it fills.
        source: URI of the Delta table whose changes it follows.
        target: URI of the table it fills.
        inputs: the other tables it reads, name to URI; when one of them changes, the target is made again.
        followed: the inputs of whose changes it is known which records they touch: only these are applied again.
        as_of_run: the inputs whose changes matter to later records only, and to quarantined ones if ``retries``.
        retries: whether the target judges quarantined records again when one of these changes.
        beside: URIs of the tables that are written together with the target, before or after it.
        by_record: whether the target knows by identity which records its rows were made of.
        fingerprint: of what computes the table; the target is made again when it differs. Empty: not looked at.
        key: fingerprint of the key that its pseudonyms are made with; the target is made again when it differs.
            Empty: it has none, or the key is not known to this process.
        private: whether values may be personal data, so that no message can quote one.
        rebuildable: whether the target can be made again from the source (bronze cannot: files may be gone).
        signed: whether the target takes in what rows were as well as what they are now: any change of the source is
            then one that it can follow.
        added: whether it can take in new rows only; after any other change of the source the target is made again.
        upkeep: how the target is kept up to date, if it is a gold table.
        foreign: whether the source is a table of other programs': it may have no change data feed, and change in any
            way (see bronze/delta_source.py).
    """

    layer: str
    table: str
    source: str
    target: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()
    as_of_run: frozenset[str] = frozenset()
    retries: bool = False
    beside: tuple[str, ...] = ()
    by_record: bool = False
    fingerprint: str = ""
    key: str = ""
    private: bool = False
    rebuildable: bool = True
    signed: bool = False
    added: bool = False
    foreign: bool = False
    upkeep: Upkeep | None = None


@dataclass(frozen=True)
class Progress:
    """How far a flow has come, and what is to be done.

    Attributes:
        kind: ``idle``; ``blocked``: a table that it needs does not exist yet; ``incremental``: take the changes after
            ``since`` up to ``until``; ``whole``: make the target again from the source as of ``until``.
        since: the mark: version of the source that the target has taken in; -1 before the first.
        until: version of the source now.
        versions: version of each other input now; the batch reads exactly these.
        stamps: table id and version of each other input, as they are recorded.
        app_id: under which the mark is kept; it has the source's table id in it, so a source that was deleted and
            made again is not mistaken for the one that the mark speaks of, and the epoch (see lake/offsets.py).
        seen: version of the target when its marks were read; -1 before the first.
        restores: each RESTORE of the target, as its commits are to tell them.
        why: reason of a rebuild, of applying records again, or of waiting.
        revised: whether the source changed or lost rows that were applied already.
        changed: the followed inputs that changed, each with the version that was read last.
        retry: whether an input changed for which quarantined records are to be judged again.
        repair: whether a run was stopped between two of its commits, so that records may stand in two places.
        of_the_run: whether nothing changed, and a run makes the target again only since it depends on when that is.
    """

    kind: Literal["idle", "blocked", "incremental", "whole"]
    since: int = -1
    until: int = -1
    versions: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)
    app_id: str = ""
    seen: int = -1
    restores: Sequence[Sequence[int | None]] = ()
    why: str = ""
    revised: bool = False
    changed: Mapping[str, int] = field(default_factory=dict)
    retry: bool = False
    repair: bool = False
    of_the_run: bool = False

    @property
    def again(self) -> bool:
        """Whether records may have to be applied that were applied before."""
        return self.revised or bool(self.changed) or self.retry or self.repair

    @property
    def work(self) -> bool:
        """Whether a run would do anything."""
        return self.kind in ("incremental", "whole")

    @property
    def waits(self) -> bool:
        """Whether something came or changed that it has not taken in: a run that began only for time begins forever."""
        return self.work and not self.of_the_run

    def anew(self) -> Progress:
        """The same where a person asked for the target to be made again whole."""
        asked = "a full refresh was asked for"
        return replace(self, kind="whole", why=asked) if self.kind in ("idle", "incremental") else self


def progress(flow: Flow) -> Progress:
    """Reads the marks. No Spark; some 10 ms.

    Raises:
        NotADeltaTable: there are files, but no table, at one of the addresses.
        LandingMissing: the source is a table of other programs', and is not there.
        SluicegateError: the source is older than what was taken from it, or is another table than the one that the
            target was filled from and the target cannot be made again from it.
    """
    source, target = tables.delta_table(flow.source), tables.delta_table(flow.target)
    if source is None and flow.foreign:
        raise delta_source.missing(flow)
    if source is None:
        return Progress("blocked", why=f"{name_of(flow.source)} has no rows yet")
    versions: dict[str, int] = {}
    stamps: dict[str, str] = {}
    for name, uri in flow.inputs.items():
        table = tables.delta_table(uri)
        if table is None:
            return Progress("blocked", why=f"it joins {name}, which has no rows yet")
        versions[name] = table.version()
        stamps[name] = f"{tables.table_id(table)}@{table.version()}"
    past = offsets.lineage(target) if target is not None else None
    app_id = offsets.app_id(flow.layer, flow.table, source)
    reached = offsets.reach(target, app_id, None if flow.rebuildable else past)
    mark, until = reached.mark, source.version()
    since = -1 if mark is None else mark
    why = _why_whole(flow, source, past, mark, stamps) if past is not None else ""
    _demand_a_way(flow, mark, until, why)
    seen, restores = (target.version(), past.facts()) if target is not None and past is not None else (-1, [])
    now = Progress("idle", since, until, versions, stamps, reached.app_id, seen, restores, why)
    if not flow.rebuildable:  # the first version of a ledger is made without files
        if past is not None and past.news:
            why = f"it was restored in version {past.restores[-1].at}: what it lacks since is read again"
        return replace(now, kind="idle" if until in (0, since) else "incremental", why=why)
    # The first time, too: what the source once was and is no more does not belong into the target.
    if why or mark is None or past is None or past.ours is None:
        return replace(now, kind="whole")
    if not flow.by_record:
        changed = {name: was for name, was in _changed(stamps, past.ours).items() if name in flow.followed}
        why = f"{', '.join(sorted(changed))} changed" if changed else ""
        work = since < until or bool(changed)
        if moment := past.ours.ours.get("of_the_run") if past.ours.ours else None:
            return replace(now, kind="whole", why=f"it depends on when it is run: {moment}", of_the_run=not work)
        return replace(now, kind="incremental" if work else "idle", changed=changed, why=why)
    return _by_record(flow, now, source, past.ours)


def _by_record(flow: Flow, now: Progress, source: DeltaTable, last: tables.Commit) -> Progress:
    """What is to be done for a target that knows which records its rows were made of."""
    stopped = _stopped(flow, last)
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


def _stopped(flow: Flow, last: tables.Commit) -> Mapping[str, Any] | None:
    """What a run that was stopped said of itself in a table beside the target; None if the last one came to its end.

    A run first writes what comes into the tables beside, then the target, then takes away beside what has left.
    """
    ours = last.ours or {}
    for uri in flow.beside:
        commit = tables.last_commit_of_ours(tables.delta_table(uri))
        said = commit.ours if commit is not None else None
        if said is not None and int(said.get("seen", -1)) >= last.version:
            return said  # it began after the target's last commit, and never wrote the target
        left = name_of(uri) in ours.get("leaves", ())
        if left and (said is None or (said.get("op"), said.get("step")) != (ours.get("op"), "leave")):
            return ours
    return None


def _changed(stamps: Mapping[str, str], last: tables.Commit) -> dict[str, int]:
    """The inputs that have another version now than the last commit was computed with, and that version."""
    before = (last.ours or {}).get("inputs", {})
    was = {name: before.get(name, "@-1") for name in stamps}
    return {name: int(was[name].rpartition("@")[2]) for name, stamp in stamps.items() if was[name] != stamp}


def _demand_a_way(flow: Flow, mark: int | None, until: int, why: str) -> None:
    if mark is not None and mark > until:
        # Delta keeps the higher of two marks, so later changes of the source would be taken for known.
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
    flow: Flow, source: DeltaTable, past: offsets.Lineage, mark: int | None, stamps: Mapping[str, str]
) -> str:
    """Why the target must be made again from the source; empty when the changes since the mark are enough."""
    name, last = name_of(flow.source), past.ours
    if flow.rebuildable and past.news and last is not None:
        return f"it was restored in version {past.restores[-1].at}"
    if flow.foreign:
        return delta_source.why_whole(flow, source, last, mark)
    if mark is None:
        return f"{name} is not the table that it was filled from"
    if not flow.rebuildable:
        return ""
    if last is None or last.ours is None:
        return "its log no longer tells what it was made from"
    if flow.fingerprint and last.ours.get("fingerprint") != flow.fingerprint:
        return "its definition changed"
    if flow.key and last.ours.get("key") != flow.key:
        return "the key of its pseudonyms changed"
    changed = [n for n, stamp in stamps.items() if n not in flow.as_of_run and _made_anew(flow, n, stamp, last)]
    if changed:
        return f"{', '.join(changed)} changed"
    if flow.added:
        return delta_source.rewritten(flow.source, name, mark, source.version())
    return _overwritten(name, source, mark) if flow.by_record or flow.signed else _rewritten(name, source, mark)


def _made_anew(flow: Flow, name: str, stamp: str, last: tables.Commit) -> bool:
    """Whether an input changed in a way of which it is not known which records it touches."""
    before = (last.ours or {}).get("inputs", {}).get(name, "")
    (was, _, then), (now, _, version) = before.rpartition("@"), stamp.rpartition("@")
    return before != stamp and (name not in flow.followed or was != now or int(then) > int(version))


def _overwritten(name: str, source: DeltaTable, mark: int) -> str:
    """Whether a commit after the mark replaced all rows of the source; empty if none did."""
    for commit in _since(source, mark):
        if commit.overwrites and not commit.partly:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _rewritten(name: str, source: DeltaTable, mark: int) -> str:
    """What the source's commits after the mark did besides adding rows; empty if nothing."""
    for commit in _since(source, mark):
        if commit.operation not in ADDITIVE or commit.overwrites:
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _since(table: DeltaTable, mark: int) -> Iterator[tables.Commit]:
    found = tables.commits(table, table.version() - mark) if mark < table.version() else iter(())
    return (commit for commit in found if commit.version > mark)


def name_of(uri: str) -> str:
    """The last part of a table's address."""
    return uri.rstrip("/").rsplit("/", 1)[-1]
