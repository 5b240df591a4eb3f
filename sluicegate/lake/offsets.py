"""What a table's log says of its past: how far a flow has come, and which commits a RESTORE has undone.

RESTORE brings back a table's rows, but not its transaction ids: from then on its marks say more than its rows. So the
app id of a flow that cannot simply make its target again carries the *restore epoch*, the version of the last RESTORE
in the target's log; in a new epoch the flow goes on from the mark as of the version that was restored. Our own commits
carry the restores that they know of, since Delta forgets its history after 30 days.
https://docs.delta.io/latest/delta-utility.html#restore-a-delta-table-to-an-earlier-state
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import log, tables


@dataclass(frozen=True)
class Restore:
    """One RESTORE of a table.

    Attributes:
        to: the version that was restored; None if the log does not tell any more.
        at: the version that the RESTORE made: the epoch that it began.
    """

    to: int | None
    at: int


@dataclass(frozen=True)
class Lineage:
    """The past of a table as far as it still counts.

    Attributes:
        restores: all of them, oldest first.
        ours: the newest commit that a run of ours made; None when there is none in the log any more.
        news: whether there was a RESTORE that this commit does not know of.
    """

    restores: tuple[Restore, ...]
    ours: log.Commit | None
    news: bool

    def facts(self) -> list[list[int | None]]:
        """The restores as a commit of ours carries them."""
        return [[restore.to, restore.at] for restore in self.restores]

    def stands(self, version: int) -> bool:
        """Whether what the commit of this version did has not been undone."""
        upto: int | None = None
        for restore in reversed(self.restores):
            if restore.to is None or (upto is not None and restore.at > upto):
                continue
            if restore.to < version <= restore.at:
                return False
            upto = restore.to
        return True

    def last(self, version: int) -> Restore | None:
        """The newest RESTORE as of a version; None if there had been none."""
        return next((restore for restore in reversed(self.restores) if restore.at <= version), None)


def lineage(table: DeltaTable) -> Lineage:
    """Reads a table's past: nearly always no more than its newest commits, some milliseconds."""
    for limit in (5, None):
        found: list[Restore] = []
        ours: log.Commit | None = None
        oldest = seen = -1
        for commit in log.commits(table, limit):
            oldest = commit.version
            if ours is not None and oldest <= seen:
                break
            if commit.operation == "RESTORE":
                to = _restored(table, commit) if commit.restored_to is None else commit.restored_to
                found.append(Restore(to, oldest))
            elif ours is None and commit.ours is not None:
                # The commit knows the restores before it, but not one that came while it was being made.
                ours, seen = commit, int(commit.ours.get("seen", oldest - 1))
        if ours is not None and oldest <= seen + 1:
            break
    recorded = [Restore(to, at) for to, at in ((ours.ours or {}).get("restores") or [])] if ours else []
    if ours is None and oldest > 0:
        # Nobody knows any more which restores there were: from here on a new epoch counts.
        found.append(Restore(None, table.version()))
    return Lineage(tuple(sorted({*recorded, *found}, key=lambda restore: restore.at)), ours, bool(found))


def _restored(table: DeltaTable, commit: log.Commit) -> int | None:
    """The version that a RESTORE by time brought back: the one with the very files. The time is not told with its zone.

    Returns:
        None if no version that is left has these files.
    """
    files = _files(table.table_uri, commit.version)
    for version in range(commit.version - 1, -1, -1):
        try:
            if _files(table.table_uri, version) == files:
                return version
        except DeltaError:  # older ones are not there either
            return None
    return None


def _files(uri: str, version: int) -> set[str]:
    return set(tables.table_at(uri, version=version).file_uris())


@dataclass(frozen=True)
class CommittedOffset:
    """How far a flow into a table has come.

    Attributes:
        app_id: under which its next commits keep the mark.
        offset: the version of the source that the target has taken in; None before the first.
    """

    app_id: str
    offset: int | None


def app_id(layer: str, name: str, source: DeltaTable) -> str:
    """Names a flow; a source that was deleted and made again has another id, and is not mistaken for the former."""
    return f"sluicegate.{layer}.{name}@{tables.table_id(source)}"


def committed_offset(table: DeltaTable | None, app: str, line: Lineage | None) -> CommittedOffset:
    """The mark of a flow whose target may have been restored.

    Args:
        table: the target; None if it is not there yet.
        app: the flow's ``app_id``.
        line: the target's past; None if restores do not matter, since the target is made again from its source.
    """
    if table is None or line is None or not line.restores:
        return CommittedOffset(app, tables.txn_version(table, app))
    return CommittedOffset(_of_epoch(app, line.restores[-1]), _as_of(table, app, line))


def _of_epoch(app: str, restore: Restore | None) -> str:
    return app if restore is None else f"{app}#{restore.at}"


def _as_of(table: DeltaTable, app: str, line: Lineage) -> int | None:
    """The mark that belongs to the rows of a table: as of the version that was restored, if nothing came since."""
    while True:
        restore = line.last(table.version())
        offset = tables.txn_version(table, _of_epoch(app, restore))
        if offset is not None or restore is None:
            return offset if offset is not None or newest_chunk(table) is not None else -1
        try:
            if restore.to is not None:
                table = tables.table_at(table.table_uri, version=restore.to)
                continue
        except DeltaError:
            pass
        # Each chunk is one commit, in order: of those behind the newest with rows, the table has no row.
        newest = newest_chunk(table)
        return -1 if newest is None else newest


def newest_chunk(table: DeltaTable, after: int = -1) -> int | None:
    """The greatest ``_chunk`` after one among a bronze table's rows; None without such rows."""
    if "_chunk" not in {field.name for field in table.schema().fields}:
        return None
    newest: int | None = pc.max(
        tables.dataset(table).to_table(["_chunk"], filter=pc.field("_chunk") > after)["_chunk"]
    ).as_py()
    return newest


def standing(rows: list[dict[str, Any]], line: Lineage, offset: int | None) -> Iterator[dict[str, Any]]:
    """Of records about chunks, with ``chunk`` and ``version`` of the commit, those that no RESTORE has undone."""
    newest: dict[int, int] = {}
    surviving = [row for row in rows if row["chunk"] <= (offset or 0) and line.stands(row["version"])]
    for row in surviving:  # where the log does not tell which versions were undone, what was told last counts
        newest[row["chunk"]] = max(newest.get(row["chunk"], -1), row["version"])
    return (row for row in surviving if row["version"] == newest[row["chunk"]])
