"""Landing folder of a ledger: its canonical spelling, and the former folders it was moved from.

The ledger identifies a file by its path, and one place has several spellings. So the landing folder is spelled as the
ledger's paths begin, if that is the same place: ``s3a://`` for ``s3://``, a link to the folder for the folder. If the
folder was moved, a file with the relative name, size and time of a file in the ledger is that file. Each commit that
enters files records the current and former landing folders.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Tables
from sluicegate.landing import file_status, ledger_index
from sluicegate.landing.moved_files import MOVED
from sluicegate.storage import filesystems
from sluicegate.storage.filesystems import FILES

# Key of the landing folders, newest first, in our commit metadata of the ledger.
KEY = "folders"

ENTERED = pa.schema([*FILES, pa.field("action", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Home:
    """A landing folder, spelled as in the ledger.

    Attributes:
        folder: prefix of its files' paths.
        only: the file, if the address is that of a single file; empty for all.
        former: the landing folders before it, newest first.
    """

    folder: str
    only: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Current and former folders, newest first."""
        return self.folder, *self.former


def folder_of(address: str) -> tuple[str, tuple[str, ...]]:
    """Split an address into the folder, spelled as a prefix of its files' paths, and the file if it is a single one."""
    try:
        fs, root = filesystems.opened(address)
    except (OSError, ValueError, ImportError):
        return address, ()  # listing it will report the error
    if fs.isfile(root):
        above, _, file = root.rpartition("/")
        return filesystems.uri(fs, above), (file,)
    return filesystems.uri(fs, root), ()


def relative(files: pa.Table, folder: str) -> pa.ChunkedArray:
    """File names relative to their folder."""
    return pc.utf8_ltrim(pc.utf8_slice_codeunits(files["path"], len(folder)), "/")


def home(at: layout.Lake, name: str, address: str, opened: Tables | None = None) -> Home:
    """The landing folder of a bronze table with this address, as the table's ledger knows it."""
    folder, only = folder_of(address)
    ledger = (opened or Tables())[at.ledger(name)].delta
    folders = () if ledger is None else recorded_folders(ledger) or tuple(_spelled(ledger, folder))
    folder = next((known for known in folders if filesystems.is_same(known, folder)), folder)
    return Home(folder, only, tuple(one for one in folders if one != folder))


def recorded_folders(ledger: DeltaTable) -> tuple[str, ...]:
    """Landing folders recorded in the ledger, newest first; empty for a ledger of an older release."""
    newest = log.last_commit_of_ours(ledger)  # each of our commits repeats them; other programs' do not
    return tuple((newest.ours or {}).get(KEY, ())) if newest is not None else ()


def _spelled(ledger: DeltaTable, folder: str) -> Iterator[str]:
    """Spelling of a folder in the paths of a ledger without recorded folders; nothing if no path is in it."""
    start = f"{folder.rstrip('/')}/"
    newest = tables.above(ledger, "chunk", ledger.version() - 1).head(1, columns=["path"])["path"].to_pylist()
    if newest and newest[0].startswith(start):  # nearly always, and saves reading all paths
        yield folder
        return
    paths = ledger_index.entries(ledger, "", "\U0010ffff")["path"]
    if pc.any(pc.starts_with(paths, start)).as_py():
        yield folder
        return
    seen: set[str] = set()
    for path in pc.replace_substring_regex(paths, r"/[^/]*\z", "").unique().to_pylist():
        while path not in seen:
            seen.add(path)
            if filesystems.is_same(path, folder):
                yield path
                return
            path = posixpath.dirname(path)


def adopted(
    at: layout.Lake, name: str, ledger: DeltaTable, place: Home, files: pa.Table, failed: Collection[str]
) -> pa.Table:
    """Entries for new files that the ledger has below a former landing folder (schema ``ENTERED``).

    It is the same file if name below the folder, size and modification time agree: it was moved, or copied with its
    time. With another time it is read: if it was a copy its rows are duplicated, but if it was another file they would
    otherwise be lost.

    Args:
        at: the lake.
        name: the bronze table.
        ledger: its ledger.
        place: the landing folder.
        files: files below it that are not in the ledger.
        failed: paths of files that could not be read.
    """
    found = [ENTERED.empty_table()]
    for former in place.former:
        if files.num_rows and not _nested(former, place.folder):
            entries = _known_at(at, name, ledger, former, place, files, failed)
            found.append(entries)
            files = files.filter(pc.invert(pc.is_in(files["path"], value_set=entries["path"])))
    return pa.concat_tables(found)


def _nested(one: str, other: str) -> bool:
    """Whether one folder lies in the other, so that the ledger has their files under their own paths."""
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)


def _known_at(
    at: layout.Lake, name: str, ledger: DeltaTable, former: str, place: Home, files: pa.Table, failed: Collection[str]
) -> pa.Table:
    names = relative(files, place.folder)
    paths = pc.binary_join_element_wise(pa.scalar(former.rstrip("/")), names, "/")
    span = pc.min_max(paths).as_py()
    last = ledger_index.entries(ledger, span["min"], span["max"])
    entry = pc.index_in(paths, value_set=last["path"])  # the first of equal ones is the newest
    was = pa.table({"path": paths, **{c: pc.take(last[c], entry) for c in ("size", "modification_time", "action")}})
    alike = pc.and_(
        pc.equal(was["size"], files["size"]), pc.equal(was["modification_time"], files["modification_time"])
    )
    alike = pc.fill_null(pc.and_(alike, pc.not_equal(was["action"], "drop")), False)
    candidates = pa.array(paths.filter(alike).to_pylist(), pa.string())
    if not len(candidates):
        return ENTERED.empty_table()
    statuses = file_status.read(at, name, ["path", "rows"], pc.field("path").isin(candidates))
    # A file that failed without giving a row can be read here: nothing would be duplicated.
    empty = pa.array(sorted({*failed} - {*statuses.filter(pc.field("rows") > 0)["path"].to_pylist()}), pa.string())
    read = pc.is_in(paths, value_set=statuses["path"].combine_chunks())
    read = pc.or_(read, pc.is_in(was["action"], value_set=pa.array(["skip", MOVED])))
    waits = pc.and_(alike, pc.invert(read))
    if pc.any(waits).as_py():  # a waiting file is read from the former folder if it is still there, else from here
        read = pc.or_(read, pc.is_in(paths, value_set=_at(former)))
    selected = pc.and_(pc.and_(alike, read), pc.invert(pc.is_in(paths, value_set=empty)))
    entered = pa.table({"path": files["path"], "size": was["size"], "modification_time": was["modification_time"]})
    action = pc.if_else(pc.equal(was["action"], "skip"), "skip", MOVED)
    return entered.append_column("action", action).filter(selected).cast(ENTERED)


def _at(folder: str) -> pa.Array:
    """Paths of the files in a former landing folder; none if it is gone or cannot be listed."""
    try:
        return filesystems.files(folder)["path"].combine_chunks()
    except (OSError, ValueError, ImportError):
        return pa.array([], pa.string())
