"""The folders that a ledger's files lie in: its landing folder in another spelling, and where it was before.

A file is known by its path, and a path is only one way to say where a file is. So the landing folder is spelled as the
ledger's paths begin, if that names the same place: ``s3a://`` for ``s3://``, a link to the folder for the folder. If it
has become another place, a file with the name below it, the size and the time of one that was known before is that
file. Each commit of a discovery tells which landing folders there were.
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

# Under which a commit of the ledger tells of the landing folders that there were, the newest first.
KEY = "folders"

ENTERED = pa.schema([*FILES, pa.field("action", pa.string(), nullable=False)])


@dataclass(frozen=True)
class Home:
    """A landing folder, as the ledger knows it.

    Attributes:
        folder: as the paths of its files begin.
        only: the files that are asked for, if the address is that of a file; empty for all.
        former: the landing folders before it, the newest first.
    """

    folder: str
    only: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """All of them, the newest first."""
        return self.folder, *self.former


def folder_of(address: str) -> tuple[str, tuple[str, ...]]:
    """A folder as the paths of its files begin, and the one file in it if the address is that of a file."""
    try:
        fs, root = filesystems.opened(address)
    except (OSError, ValueError, ImportError):
        return address, ()  # what is wrong with it is said when it is listed
    if fs.isfile(root):
        above, _, file = root.rpartition("/")
        return filesystems.uri(fs, above), (file,)
    return filesystems.uri(fs, root), ()


def relative(files: pa.Table, folder: str) -> pa.ChunkedArray:
    """The names of files below their folder."""
    return pc.utf8_ltrim(pc.utf8_slice_codeunits(files["path"], len(folder)), "/")


def home(at: layout.Lake, name: str, address: str, opened: Tables | None = None) -> Home:
    """The landing folder of a bronze table with this address, as the table's ledger knows it."""
    folder, only = folder_of(address)
    ledger = (opened or Tables())[at.ledger(name)].delta
    folders = () if ledger is None else recorded_folders(ledger) or tuple(_spelled(ledger, folder))
    folder = next((known for known in folders if filesystems.is_same(known, folder)), folder)
    return Home(folder, only, tuple(one for one in folders if one != folder))


def recorded_folders(ledger: DeltaTable) -> tuple[str, ...]:
    """The landing folders that a ledger tells of; empty if it does not: those of before were made without."""
    newest = log.last_commit_of_ours(ledger)  # each one carries it on; not those of other programs
    return tuple((newest.ours or {}).get(KEY, ())) if newest is not None else ()


def _spelled(ledger: DeltaTable, folder: str) -> Iterator[str]:
    """A folder as paths of a ledger begin that does not tell; nothing if none is in the folder."""
    start = f"{folder.rstrip('/')}/"
    newest = tables.above(ledger, "chunk", ledger.version() - 1).head(1, columns=["path"])["path"].to_pylist()
    if newest and newest[0].startswith(start):  # nearly always: not all paths need be looked at
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
    """Entries for those of some unknown files that were known below a former landing folder (schema ``ENTERED``).

    A file is known there if it has the same name below the folder, the same size and the same time: it was moved, or
    copied with its time. With another time it may be another file, and is read: its rows then stand twice if it was a
    copy, where they would be missing for ever if it was not.

    Args:
        at: the lake.
        name: the bronze table.
        ledger: its ledger.
        place: the landing folder.
        files: files below it that the ledger does not know.
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
    """Whether a folder lies in the other, so that their files are known by their own paths."""
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
    # Of one that could not be read at all there is nothing that a second reading would double.
    empty = pa.array(sorted({*failed} - {*statuses.filter(pc.field("rows") > 0)["path"].to_pylist()}), pa.string())
    read = pc.is_in(paths, value_set=statuses["path"].combine_chunks())
    read = pc.or_(read, pc.is_in(was["action"], value_set=pa.array(["skip", MOVED])))
    waits = pc.and_(alike, pc.invert(read))
    if pc.any(
        waits
    ).as_py():  # one that still waits is read there if it is there, and here if nobody will find it there
        read = pc.or_(read, pc.is_in(paths, value_set=_at(former)))
    selected = pc.and_(pc.and_(alike, read), pc.invert(pc.is_in(paths, value_set=empty)))
    entered = pa.table({"path": files["path"], "size": was["size"], "modification_time": was["modification_time"]})
    action = pc.if_else(pc.equal(was["action"], "skip"), "skip", MOVED)
    return entered.append_column("action", action).filter(selected).cast(ENTERED)


def _at(folder: str) -> pa.Array:
    """The paths of the files that are in a former landing folder; none if it is gone or out of reach."""
    try:
        return filesystems.files(folder)["path"].combine_chunks()
    except (OSError, ValueError, ImportError):
        return pa.array([], pa.string())
