"""``cleanSource``: keep, archive or delete landed files once their rows are committed.

Auto Loader's ``cloudFiles.cleanSource``, with its meaning: only after the commit, only once the retention has passed
since then, and by the current definition. A file is removed only if its size and modification time, checked right
before, are those that were read. Removals are announced in ``_ledger/{table}_archive`` before the first of them, and
recorded there after the last. After a kill in between, the next run records those that were carried out, whatever has
landed under their names since.

Before a removal the file systems of a local lake are synced: a removal that outlives a power cut while the rows, or its
announcement, do not would lose them.
https://docs.databricks.com/aws/en/ingestion/cloud-object-storage/auto-loader/options
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from sluicegate import _faults
from sluicegate.console import files
from sluicegate.definition import BronzeTable
from sluicegate.lake import layout
from sluicegate.lake.table import Tables
from sluicegate.landing import folders, ledger_index, status_log
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.file_states import OPENED, RemovalMode
from sluicegate.landing.moves import archive, file_moves
from sluicegate.landing.readers import LandingReader, Readers, no_readers
from sluicegate.storage import durable, filesystems
from sluicegate.storage.listings import FILES

# Removed files recorded by one commit of the archive log.
BATCH = 500

DUE = pa.schema([*FILES, ("chunk", pa.int64())])


@dataclass
class Cleaned:
    """Result of one cleaning.

    Attributes:
        removed: number of files moved or deleted.
        failed_removals: files that could not be removed, with the reason.
        unsynced: why nothing was removed, as the lake could not be brought to disk; empty if it was.
        unread: number of files that stay until another table has read them, by what has to be so.
    """

    removed: int = 0
    failed_removals: dict[str, str] = field(default_factory=dict)
    unsynced: str = ""
    unread: dict[str, int] = field(default_factory=dict)

    def remarks(self, name: str, table: BronzeTable) -> list[str]:
        """List remarks on the number of removed files, and on up to five that could not be removed."""
        if self.unsynced:
            reason = f"because its rows are not yet synced to disk: {self.unsynced}"
            return [f"         no file of {name} was removed, {reason}"]
        where = "deleted"
        if table.cleanSource == "MOVE":
            where = f"moved to {table.cleanSourceMoveDestination}"
        lines = []
        if self.removed:
            lines = [f"         {files(self.removed)} of {name} {where} after the commit of their rows"]
        lines += [f"         {files(n)} of {name} not removed until {event}" for event, n in self.unread.items()]
        failures = list(self.failed_removals.items())[:5]
        return lines + [f"         {path} could not be removed: {reason}" for path, reason in failures]


def clean(
    name: str,
    table: BronzeTable,
    lake: layout.Lake,
    current_time: datetime | None = None,
    readers_of: Readers = no_readers,
) -> Cleaned:
    """Move or delete files of a bronze table after their retention. Requires the pipeline's lock. No Spark.

    Args:
        name: the bronze table.
        table: its definition.
        lake: the lake.
        current_time: the time (UTC; the clock's by default).
        readers_of: tables that read the same files; what one of them has not read stays.
    """
    report = Cleaned()
    # Opened anew on purpose, not by the handles of a step: since it looked, a RESTORE may have undone rows whose files
    # are the only ones that have them.
    opened = Tables()
    if not _record_announced(name, table, lake, opened):
        return report  # another run takes away the same files
    due_files = files_due(name, table, lake, current_time, opened)
    if not due_files.num_rows:
        return report
    folder = folders.home(lake, name, table.path, opened).folder
    readers = readers_of(name)
    unread = _unread_by_others(due_files, folder, readers, report)
    read = due_files.filter(pc.invert(pc.is_in(due_files["path"], value_set=pa.array(sorted(unread), pa.string()))))
    waiting = read.select(FILES.names).to_pylist()
    taken = archive.ArchiveAddresses(lake, name)
    for start in range(0, len(waiting), BATCH):
        removals = _plan_removals(table, folder, waiting[start : start + BATCH], taken, report)
        try:
            archive.announce(lake, name, removals)
        except CommitFailedError:
            return report  # another run takes away the same files
        _faults.point("clean.after_announcement")
        try:
            _sync(name, lake, folder, readers)
        except OSError as error:
            report.unsynced = str(error)
            return report
        moved = [row for removal in removals if (row := _carry_out(removal, report))]
        cleaned = None
        if start + BATCH >= len(waiting):
            before = _batch_before(due_files, {*report.failed_removals, *unread})
            cleaned = (folder, min(before, _batch_before_young(name, table, lake, current_time)))
        if not archive.note(lake, name, moved, cleaned):
            return report
    return report


def _batch_before(due_files: pa.Table, stays: Collection[str]) -> int:
    """Return the ledger batch before the first with a file that stays, or the last one if none stays."""
    staying = due_files.filter(pc.is_in(due_files["path"], value_set=pa.array(sorted(stays), pa.string())))["chunk"]
    if not len(staying):
        return int(pc.max(due_files["chunk"]).as_py())
    return int(pc.min(staying).as_py()) - 1


def _unread_by_others(due_files: pa.Table, folder: str, readers: Sequence[LandingReader], report: Cleaned) -> set[str]:
    """Return paths of files that another table is still to read; ``report`` gets their number by table."""
    still_unread: set[str] = set()
    for reader in readers:
        if unread := reader.unread_paths(due_files, folder):
            report.unread[reader.condition] = len(unread)
            still_unread |= unread
    return still_unread


def _record_announced(name: str, table: BronzeTable, lake: layout.Lake, opened: Tables) -> bool:
    """Record the removals that a killed run had carried out; the others are due as before.

    Returns:
        whether no removal stays announced.
    """
    removals = _announced_removals(name, table, lake, opened)
    if not removals:
        return True
    is_recorded = archive.note(lake, name, [removal for removal in removals if archive.is_removed(removal)])
    opened.refresh(lake.archive(name))
    return is_recorded


def _announced_removals(name: str, table: BronzeTable, lake: layout.Lake, opened: Tables) -> list[dict[str, Any]]:
    if table.cleanSource == "OFF" or (ledger := opened[lake.ledger(name)].delta) is None:
        return []
    rows = archive.announced_removals(opened[lake.archive(name)].delta, ledger)
    return [{key: row[key] for key in (*FILES.names, "mode", "place")} for row in rows]


def _sync(name: str, lake: layout.Lake, folder: str, readers: Sequence[LandingReader]) -> None:
    """Sync to disk the only traces of a removed file: its rows and its entries in the ledgers.

    Rows of other tables that read the file may be in lakes on other disks. With MOVE, files are renamed on their own
    disk, so their content is brought to disk as well.

    Raises:
        OSError: a file system does not confirm that the data is on disk.
    """
    of_readers = [(reader.lake.table("bronze", reader.name), reader.lake.ledger(reader.name)) for reader in readers]
    tables = (
        lake.table("bronze", name), lake.ledger(name), lake.file_status(name), lake.archive(name), *chain(*of_readers),
    )  # fmt: skip
    # A log or a table may be a link to another disk.
    places = (layout.address(place) for table in tables for place in (table, f"{table}/_delta_log"))
    durable.sync_file_systems([*places, layout.address(lake.root), folder])


def _retention_limit(table: BronzeTable, current_time: datetime | None) -> pa.Scalar:
    """Return the latest commit time at which a file's retention has passed."""
    return pa.scalar((current_time or datetime.now(UTC)) - table.cleanSourceRetentionDuration, archive.TIME)


def _batch_before_young(name: str, table: BronzeTable, lake: layout.Lake, current_time: datetime | None) -> int:
    """Return the last ledger batch before the first one with files still under retention."""
    under_retention = pc.field("ingested") > _retention_limit(table, current_time)
    young = status_log.read(lake, name, ["chunk"], under_retention)["chunk"]
    if not len(young):
        return 2**62
    return int(pc.min(young).as_py()) - 1


def files_due(
    name: str, table: BronzeTable, lake: layout.Lake, current_time: datetime | None = None, opened: Tables | None = None
) -> pa.Table:
    """Return the files whose rows are older than the retention and that are not removed yet (``FILES`` and chunk).

    Batches that are cleaned already are not read again: see ``landing.archive.done``.
    """
    opened = opened or Tables()
    if table.cleanSource == "OFF" or (ledger := opened[lake.ledger(name)].delta) is None:
        return DUE.empty_table()
    folder = folders.home(lake, name, table.path, opened).folder
    since = archive.cleaned_batch(lake, name, ledger, folder, opened)
    whole = (
        pc.field("error").is_null()
        & (pc.field("ingested") <= _retention_limit(table, current_time))
        & (pc.field("chunk") > since)
    )
    read = status_log.read(lake, name, ["path", "chunk"], whole, opened)
    if not read.num_rows:
        return DUE.empty_table()
    entries = ledger_index.entries(ledger, *ledger_index.path_range(folder), after=since)
    # Entries come newest first; only the newest entry of a path can describe the file that is there now.
    paths = entries["path"].unique()
    last = entries.take(pc.index_in(paths, value_set=entries["path"]))
    last = last.filter(pc.is_in(last["action"], pa.array(OPENED)))
    due_files = last.join(read, keys=["path", "chunk"], join_type="left semi").select(DUE.names)
    moved = archive.match_files(lake, name, ledger, due_files)
    if moved.num_rows:
        due_files = due_files.join(moved, keys=FILES.names, join_type="left anti")
    return landing_ledger.sort_files(due_files.select(DUE.names).cast(DUE))


def _plan_removals(
    table: BronzeTable, folder: str, files: Sequence[dict[str, Any]], taken: archive.ArchiveAddresses, cleaned: Cleaned
) -> list[dict[str, Any]]:
    """Return archive rows of the files to move or delete, with their destinations, without those that stay."""
    removals = []
    for file in files:
        try:
            removal = _removal(table, folder, file, taken)
        except Exception as error:  # each store has errors of its own, and the rows are safe
            cleaned.failed_removals[file["path"]] = str(error)
            continue
        if removal is not None:
            taken.add(removal["place"])
            removals.append(removal)
    return removals


def _removal(table: BronzeTable, folder: str, file: dict[str, Any], taken: Container[str]) -> dict[str, Any] | None:
    if filesystems.file_facts(file["path"]) not in (None, (file["size"], file["modification_time"])):
        return None  # another file by now; the next discovery decides about it
    if table.cleanSource == "DELETE":
        return {**file, "mode": RemovalMode.DELETE, "place": None}
    relative = file["path"][len(folder) :].lstrip("/")
    place = file_moves.destination(file, f"{str(table.cleanSourceMoveDestination).rstrip('/')}/{relative}", taken)
    return {**file, "mode": RemovalMode.MOVE if place else RemovalMode.GONE, "place": place}


def _carry_out(removal: dict[str, Any], cleaned: Cleaned) -> dict[str, Any] | None:
    """Move or delete a file and return its archive row; None if it stays."""
    path = removal["path"]
    try:
        file_now = filesystems.file_facts(path)
        if file_now not in (None, (removal["size"], removal["modification_time"])):
            return None  # it was written again since it was announced
        if removal["mode"] == RemovalMode.MOVE:
            removal = file_moves.move(removal)
        elif file_now is not None:
            fs, root = filesystems.open_store(path)
            fs.rm_file(root)
    except file_moves.Changed:
        return None
    except Exception as error:  # each store has errors of its own, and the rows are safe
        cleaned.failed_removals[path] = str(error)
        return None
    _faults.point("clean.after_removal")
    cleaned.removed += file_now is not None
    return removal


def sweep(
    tables: Mapping[str, BronzeTable],
    lake: layout.Lake,
    holding: Callable[[], Any],
    tell: Callable[[str], None],
    readers_of: Readers = no_readers,
) -> None:
    """Clean all bronze tables of a pipeline, taking its lock only if files are due.

    Args:
        tables: the bronze tables.
        lake: the lake.
        holding: makes the lock, a context manager.
        tell: receives each report line.
        readers_of: tables that read the same files.
    """
    waiting = {name: table for name, table in tables.items() if _has_work(name, table, lake)}
    if waiting:
        with holding():
            for name, table in waiting.items():
                for line in clean(name, table, lake, readers_of=readers_of).remarks(name, table):
                    tell(line)


def _has_work(name: str, table: BronzeTable, lake: layout.Lake) -> bool:
    opened = Tables()
    if _announced_removals(name, table, lake, opened):
        return True
    return bool(files_due(name, table, lake, opened=opened).num_rows)
