"""Discovery: list landing and leave out the files of the ledger. No Spark: Airflow's sensor calls this too.

The ledger is an append-only Delta table, one row per file, one commit per *ledger batch*. A batch's number (column
``chunk``) is the version of the commit that entered it, so batches are totally ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.definition import BronzeTable
from sluicegate.errors import LandingMissing, StoreUnreachable, Where
from sluicegate.lake import layout
from sluicegate.lake.table import Tables
from sluicegate.landing import file_names, file_status, idempotent_commands, ledger_index
from sluicegate.landing import folders as landing_folders
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import archive, moved_files, moves_within
from sluicegate.storage import filesystems, listings, store_errors
from sluicegate.storage.listings import FILES
from sluicegate.storage.local_files import Admits

# Reader options that override the definition, and the files that are read with them.
Copied = tuple[Mapping[str, Any], pa.Table]

# Strategy that finds files for a table's ledger; ``discover`` is the default.
FileFinder = Callable[[str, "BronzeTable", layout.Lake], "Discovery"]


@dataclass(frozen=True)
class Listing:
    """Landing folder of a table as it was listed once.

    Attributes:
        place: the folder, and those that it was before.
        files: all files in it, finished or not (schema ``FILES``).
        refused: unreadable paths in it that the table might have taken, and why.
    """

    place: landing_folders.Home
    files: pa.Table
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Discovery:
    """Files found in a landing folder, compared with the ledger.

    Attributes:
        new: files to enter into the ledger, oldest first (schema ``FILES`` and ``action``).
        settling: files younger than the settle time; a later discovery takes them.
        changed: files in the ledger with another size or time now, not read again without ``allowOverwrites``; they
            are reported.
        copy_options: reader options that override the definition (``CopyOptions.facts``), for the ledger's commits.
        whole: whether ``new`` is one ledger batch, however many files it has.
        command: the command that enters them, if a repetition must know what it has already entered.
        refused: paths passed over, and why: unreadable folders (ending in ``/``) and files, and links that lead out of
            the landing folder.
        moved: entries for files already in the ledger under a former path; they are not read.
        folders: the current and former landing folders, newest first; empty if none was listed.
        copied: more files to enter, which are read with reader options of their own.
        remarks: sentences for the report of the run.
    """

    new: pa.Table
    settling: pa.Table
    changed: pa.Table
    copy_options: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    command: idempotent_commands.Command | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    moved: pa.Table = field(default_factory=moved_files.ENTERED.empty_table)
    folders: tuple[str, ...] = ()
    copied: Sequence[Copied] = ()
    remarks: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Paths of all files to enter."""
        return [
            path for files in (self.new, *(copies for _, copies in self.copied)) for path in files["path"].to_pylist()
        ]

    @property
    def skip_count(self) -> int:
        """Number of the files to enter that are not to be read."""
        return int(pc.sum(pc.equal(self.new["action"], LedgerAction.SKIP)).as_py() or 0)

    @property
    def bytes(self) -> int:
        """Total size of the files to read, in bytes."""
        return pc.sum(self.new.filter(pc.not_equal(self.new["action"], LedgerAction.SKIP))["size"]).as_py() or 0


def files_below(
    name: str,
    folder: str,
    emptied: Callable[[], bool] = lambda: False,
    admits: Admits = lambda _: True,
    skipped_paths: dict[str, str] | None = None,
) -> pa.Table:
    """Return all files in a folder and the folders below it, finished or not (schema ``FILES``).

    Args:
        name: the bronze table, for messages.
        folder: path or URI.
        emptied: function that says whether the ledger has files of a missing folder; called only for stores without
            folders.
        admits: predicate on names (see ``storage.listings.files``).
        skipped_paths: mapping that receives the skipped paths and the reasons.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
        StoreUnreachable: its store does not answer.
    """
    try:
        return listings.files(folder, admits, skipped_paths)
    except FileNotFoundError as error:
        hint = "create the folder"
        if not filesystems.has_folders(folder):
            if emptied():
                return FILES.empty_table()
            hint = "land a file in it"
        raise LandingMissing(
            f"the landing folder {folder} does not exist",
            where=Where(table=name, file=folder),
            hint=f"{hint}, or set the landing folder with --landing",
        ) from error
    except (OSError, ValueError, ImportError) as error:  # Arrow's errors, and fsspec's for a store it has no way to
        of_store = store_errors.translate_error(error)
        if isinstance(of_store, StoreUnreachable):  # a retry may help
            raise of_store from error
        raise LandingMissing(
            f"the landing folder {folder} cannot be listed",
            where=Where(table=name, file=getattr(error, "filename", None) or folder),
            cause=str(error),
            hint="check the folder's permissions, the credentials, the address and the network",
        ) from error


def list_landing(name: str, table: BronzeTable, lake: layout.Lake, opened: Tables | None = None) -> Listing:
    """List a landing folder; a missing S3 folder is empty if the ledger has files of it.

    S3 drops a folder with its last file.

    Args:
        name: the bronze table's name, for messages.
        table: its definition.
        lake: the lake with the ledger, if there is one yet.
        opened: table handles of the calling step.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    opened = opened or Tables()
    ledger = opened[lake.ledger(name)].delta
    place = landing_folders.home(lake, name, table.path, opened)
    return Listing(
        place,
        *_landed_files(name, table, place, lambda: ledger is not None and _has_entries_below(ledger, place.folder)),
    )


def discover(
    name: str,
    table: BronzeTable,
    lake: layout.Lake,
    current_time: datetime | None = None,
    opened: Tables | None = None,
    listing: Listing | None = None,
) -> Discovery:
    """List the landing folder without files that are in the ledger; write nothing.

    Hidden names (beginning with ``.`` or ``_``) and names of unfinished files are left out, as Spark and Hadoop do.

    Args:
        name: the bronze table's name, for messages.
        table: its definition.
        lake: the lake with the ledger, if there is one yet.
        current_time: UTC time by which files must be ``settleSeconds`` old, by default the current time. A file with a
            later time has it from another clock and counts as settled: it would wait for ever.
        opened: table handles of the calling step.
        listing: listing of the folder, if there is one already.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    opened = opened or Tables()
    ledger = opened[lake.ledger(name)].delta
    listing = listing or list_landing(name, table, lake, opened)
    place, landed, refused = listing.place, listing.files, {**listing.refused}
    folder = place.folder
    admits = partial(admit_files, table=table, folder=folder)
    settled, settling = split_by_age(landed, table, current_time)
    settling = admits(settling)
    nothing = FILES.empty_table()
    details: dict[str, Any] = {"refused": refused, "folders": place.folders}
    if ledger is None:
        refused |= _companion_files(landed, table, folder)
        action, files = LedgerAction.READ, settled
        if not table.includeExistingFiles:
            action, files, settling = LedgerAction.SKIP, landed, nothing
        entries = landing_ledger.add_action(action, admits(files))
        return Discovery(landing_ledger.sort_files(entries), settling, nothing, **details)
    # Names are filtered last: of a large landing folder, nearly all files are in the ledger.
    new, changed, former = ledger_index.compare(ledger, settled)
    refused |= _companion_files(new, table, folder)
    new, changed = admits(new), admits(changed)
    # A file that lands under the name of an archived one is a new arrival, not a changed file.
    if not table.allowOverwrites and changed.num_rows:
        archived = archive.match_files(lake, name, ledger, former)
        new = pa.concat_tables([new, _select_paths(changed, archived["path"].to_pylist())])
        changed = _exclude_files(changed, archived)
    failed = file_status.failed_files(lake, name, table.fingerprint, opened)
    unknown = new
    if table.allowOverwrites:
        unknown = pa.concat_tables([new, changed])
    moved = moved_files.adopt_files(lake, name, ledger, place, unknown, failed)
    if table.allowOverwrites and place.former:
        unknown = _exclude_files(unknown, moved)
        renewed = moved_files.overwritten_entries(lake, name, ledger, place, unknown, moved)
        unmoved = _exclude_files(changed, moved)
        changed = _select_paths(unknown, [*unmoved["path"].to_pylist(), *renewed["path"].to_pylist()])
        new, moved = _exclude_files(new, renewed), pa.concat_tables([moved, renewed])
    new = _exclude_files(new, moved)
    within = moves_within.entries(lake, name, ledger, new, table.partitionColumns, failed)
    new, moved = _exclude_files(new, within), pa.concat_tables([moved, within])
    # A failed file is read again when it has changed, or when the cause may be gone. So is one that changed before it
    # was read: which of the two its ledger batch finds depends on when that is read.
    unread = []
    if changed.num_rows:
        unread = file_status.unread_files(lake, name, ledger, opened)
    reread = changed
    if not table.allowOverwrites:
        reread = _select_paths(changed, [*failed, *unread])
    remaining = _exclude_files(changed, reread)
    retried = _exclude_files(admits(_select_paths(settled, [path for path, retry in failed.items() if retry])), reread)
    entered = [
        landing_ledger.add_action(LedgerAction.READ, new),
        landing_ledger.add_action(LedgerAction.REPLACE, reread),
        landing_ledger.add_action(LedgerAction.REPLACE, retried),
    ]
    return Discovery(landing_ledger.sort_files(pa.concat_tables(entered)), settling, remaining, moved=moved, **details)


def admitted_files(name: str, table: BronzeTable, lake: layout.Lake) -> pa.Table:
    """Return all files of the landing folder that the definition admits (schema ``FILES``), for who reads files again.

    There a folder of S3 that is gone is an empty one, also if the ledger has no file of it.

    Raises:
        LandingMissing: the folder does not exist, or cannot be listed.
    """
    place = landing_folders.home(lake, name, table.path)
    return admit_files(_landed_files(name, table, place, lambda: True)[0], table, place.folder)


def _landed_files(
    name: str, table: BronzeTable, place: landing_folders.Home, emptied: Callable[[], bool]
) -> tuple[pa.Table, dict[str, str]]:
    """Return the files of a landing folder, and its unreadable paths that may be the table's."""
    refused: dict[str, str] = {}
    admits = file_names.name_filter(table.pathGlobFilter, place.only)
    files = files_below(name, place.folder, emptied, admits, refused)
    if place.only:
        files = _select_paths(files, [f"{place.folder}/{only_name}" for only_name in place.only])
    return files, {path: reason for path, reason in refused.items() if _is_relevant(path, place, admits)}


def _is_relevant(path: str, place: landing_folders.Home, admits: Admits) -> bool:
    name = path[len(place.folder) :].strip("/")
    if not path.endswith("/"):
        return admits(name)
    return not place.only and file_names.UNFINISHED_NAME.search(name) is None


def split_by_age(
    files: pa.Table, table: BronzeTable, current_time: datetime | None = None
) -> tuple[pa.Table, pa.Table]:
    """Split files into settled ones and ones younger than the settle time."""
    clock, settle = current_time or datetime.now(UTC), timedelta(seconds=table.settleSeconds)
    young = pc.and_(
        pc.greater(files["modification_time"], clock - settle),
        pc.less_equal(files["modification_time"], clock + settle),
    )
    if not pc.any(young).as_py():  # a million paths are not copied
        return files, files.slice(0, 0)
    return files.filter(pc.invert(young)), files.filter(young)


def admit_files(files: pa.Table, table: BronzeTable, folder: str) -> pa.Table:
    """Return files with finished names that the definition's glob and time filters admit."""
    names = file_names.relative_names(files, folder)
    files = files.filter(pc.and_(_data_file_mask(names, table), pc.invert(file_names.companion_mask(names))))
    if table.modifiedAfter:
        files = files.filter(pc.field("modification_time") > table.modifiedAfter)
    if table.modifiedBefore:
        return files.filter(pc.field("modification_time") < table.modifiedBefore)
    return files


def _data_file_mask(names: pa.ChunkedArray, table: BronzeTable) -> pa.ChunkedArray:
    return pc.and_(file_names.finished_mask(names), file_names.glob_mask(names, table.pathGlobFilter))


def _companion_files(files: pa.Table, table: BronzeTable, folder: str) -> dict[str, str]:
    """Return admitted files that programs wrote beside data files, each with the reason to skip it."""
    names = file_names.relative_names(files, folder)
    passed = files.filter(pc.and_(file_names.companion_mask(names), _data_file_mask(names, table)))
    return dict.fromkeys(passed["path"].to_pylist(), file_names.NO_DATA)


def _has_entries_below(ledger: DeltaTable, folder: str) -> bool:
    return bool(ledger_index.entries(ledger, *ledger_index.path_range(folder)).num_rows)


def _exclude_files(files: pa.Table, excluded_files: pa.Table) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files["path"], value_set=excluded_files["path"])))


def _select_paths(files: pa.Table, paths: Iterable[str]) -> pa.Table:
    return files.filter(pc.is_in(files["path"], value_set=pa.array(sorted(paths), pa.string())))
