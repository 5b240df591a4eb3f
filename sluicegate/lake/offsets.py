"""Committed offsets of flows, and the RESTORE history of a table, from its log.

RESTORE brings back a table's rows, but not its transaction ids: from then on its offsets are ahead of its rows. So the
app id of a flow that cannot fully refresh its target has the *restore epoch*, the version of the last RESTORE in the
target's log; in a new epoch the flow resumes from the offset as of the restored version. Our commits record the
restores that they know of, since Delta's history is cleaned after 30 days.
https://docs.delta.io/latest/delta-utility.html#restore-a-delta-table-to-an-earlier-state
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import log, tables


@dataclass(frozen=True)
class Restore:
    """One RESTORE of a table.

    Attributes:
        to: the version that was restored; None if unknown.
        at: the version of the RESTORE itself: its restore epoch.
    """

    to: int | None
    at: int


@dataclass(frozen=True)
class RestoreHistory:
    """RESTORE history of a table.

    Attributes:
        restores: all restores, oldest first.
        ours: newest commit of our runs; None if the log has none.
        news: whether there was a RESTORE that this commit does not record.
    """

    restores: tuple[Restore, ...]
    ours: log.Commit | None
    news: bool

    def facts(self) -> list[list[int | None]]:
        """Return the restores as our commit metadata records them."""
        return [[restore.to, restore.at] for restore in self.restores]

    def keeps_commit(self, version: int) -> bool:
        """Return whether the commit of a version was not undone by a RESTORE."""
        upto: int | None = None
        for restore in reversed(self.restores):
            if restore.to is None or (upto is not None and restore.at > upto):
                continue
            if restore.to < version <= restore.at:
                return False
            upto = restore.to
        return True

    def last_restore(self, version: int) -> Restore | None:
        """Return the newest RESTORE as of a version; None if there was none."""
        return next((restore for restore in reversed(self.restores) if restore.at <= version), None)


def restore_history(table: DeltaTable) -> RestoreHistory:
    """Read the RESTORE history of a table: nearly always from its newest commits alone, in some milliseconds."""
    newest = _newest_commits(table, 5)
    if not newest.are_complete:
        newest = _newest_commits(table, None)
    recorded, unrecorded = newest.recorded_restores, newest.restores
    if newest.of_run is None and newest.oldest > 0:
        # The log no longer shows which restores there were: a new epoch begins here.
        unrecorded.append(Restore(None, table.version()))
    restores = sorted({*recorded, *unrecorded}, key=lambda restore: restore.at)
    return RestoreHistory(tuple(restores), newest.of_run, bool(unrecorded))


@dataclass
class _NewestCommits:
    """RESTORE history in the newest commits of a table.

    Attributes:
        of_run: the newest commit of one of our runs; None if there is none among them.
        recorded_upto: version up to which this commit records the restores.
        restores: later restores, newest first.
        oldest: version of the oldest commit that was read.
    """

    of_run: log.Commit | None = None
    recorded_upto: int = -1
    restores: list[Restore] = field(default_factory=list)
    oldest: int = -1

    @property
    def are_complete(self) -> bool:
        """Whether a commit of a run records all restores before these commits."""
        return self.of_run is not None and self.oldest <= self.recorded_upto + 1

    @property
    def recorded_restores(self) -> list[Restore]:
        """Restores that the commit of the run records."""
        if self.of_run is None or self.of_run.ours is None:
            return []
        return [Restore(to, version) for to, version in self.of_run.ours.restores]


def _newest_commits(table: DeltaTable, limit: int | None) -> _NewestCommits:
    """Read the newest commits of a table up to a limit, or to one whose run records the restores."""
    newest = _NewestCommits()
    for commit in log.commits(table, limit):
        newest.oldest = commit.version
        if newest.of_run is not None and commit.version <= newest.recorded_upto:
            break
        if commit.operation == "RESTORE":
            restored = commit.restored_to
            if restored is None:
                restored = _version_of_files(table, commit)
            newest.restores.append(Restore(restored, commit.version))
        elif newest.of_run is None and commit.ours is not None:
            # The commit records the restores before it, but not one that came while it was being made.
            newest.of_run = commit
            newest.recorded_upto = commit.version - 1
            if commit.ours.seen is not None:
                newest.recorded_upto = commit.ours.seen
    return newest


def _version_of_files(table: DeltaTable, commit: log.Commit) -> int | None:
    """Find the version that a RESTORE by timestamp brought back by its files: the logged time has no zone.

    Returns:
        None if no remaining version has these files.
    """
    files = _files(table.table_uri, commit.version)
    for version in range(commit.version - 1, -1, -1):
        try:
            if _files(table.table_uri, version) == files:
                return version
        except DeltaError:  # older versions are gone, too
            return None
    return None


def _files(uri: str, version: int) -> set[str]:
    return set(tables.table_at(uri, version=version).file_uris())


@dataclass(frozen=True)
class CommittedOffset:
    """Offset of a flow, as committed in its target.

    Attributes:
        app_id: ``txnAppId`` of its next commits.
        offset: source version up to which the target is up to date; None before the first.
    """

    app_id: str
    offset: int | None


def app_id(layer: str, name: str, source: DeltaTable) -> str:
    """Return the ``txnAppId`` of a flow, with the source's table id, so that a re-created source starts a new flow."""
    return f"sluicegate.{layer}.{name}@{tables.table_id(source)}"


def committed_offset(table: DeltaTable | None, app: str, line: RestoreHistory | None) -> CommittedOffset:
    """Return the committed offset of a flow whose target may have been restored.

    Args:
        table: the target; None if it does not exist yet.
        app: the flow's ``app_id``.
        line: the target's RESTORE history; None if restores do not matter, since they lead to a full refresh.
    """
    if table is None or line is None or not line.restores:
        return CommittedOffset(app, tables.txn_version(table, app))
    return CommittedOffset(_epoch_app_id(app, line.restores[-1]), _matching_offset(table, app, line))


def _epoch_app_id(app: str, restore: Restore | None) -> str:
    if restore is None:
        return app
    return f"{app}#{restore.at}"


def _matching_offset(table: DeltaTable, app: str, line: RestoreHistory) -> int | None:
    """Return the offset that matches a table's rows: as of the restored version, if nothing was committed since."""
    while True:
        restore = line.last_restore(table.version())
        offset = tables.txn_version(table, _epoch_app_id(app, restore))
        if offset is not None:
            return offset
        if restore is None or restore.to is None:
            break
        try:
            table = tables.table_at(table.table_uri, version=restore.to)
        except DeltaError:
            break
    newest = newest_chunk(table)
    if newest is None:
        return -1
    if restore is None:  # no offset is recorded of the rows that it has
        return None
    # Each ledger batch is one commit, in order: the table has no rows of batches after the newest with rows.
    return newest


def newest_chunk(table: DeltaTable, after: int = -1) -> int | None:
    """Return the greatest ``_chunk`` above ``after`` in a bronze table; None if there is none."""
    import pyarrow.compute as pc

    if "_chunk" not in {field.name for field in table.schema().fields}:
        return None
    newest: int | None = pc.max(
        tables.dataset(table).to_table(["_chunk"], filter=pc.field("_chunk") > after)["_chunk"]
    ).as_py()
    return newest


def surviving_rows(rows: list[dict[str, Any]], line: RestoreHistory, offset: int | None) -> Iterator[dict[str, Any]]:
    """Yield rows on ledger batches (``chunk``, and the commit's ``version``) that no RESTORE undid."""
    newest: dict[int, int] = {}
    surviving = [row for row in rows if row["chunk"] <= (offset or 0) and line.keeps_commit(row["version"])]
    for row in surviving:  # if it is unknown which versions were undone, the newest row counts
        newest[row["chunk"]] = max(newest.get(row["chunk"], -1), row["version"])
    return (row for row in surviving if row["version"] == newest[row["chunk"]])
