"""Landing folder of a ledger: its canonical spelling, and the former folders it was moved from.

The ledger identifies a file by its path, and one place has several spellings. So the landing folder is spelled as the
ledger's paths begin, if that is the same place: ``s3a://`` for ``s3://``, a link to the folder for the folder. If the
folder was moved, a file with the relative name, size and time of a file in the ledger is that file. Each commit that
enters files records the current and former landing folders.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from deltalake import DeltaTable

from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Tables
from sluicegate.storage import filesystems


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
    if (path := filesystems.to_local_path(address)) is not None:
        if not os.path.isfile(path):
            return (path, ())
        return _split_path(path)
    try:
        fs, root = filesystems.open_store(address)
    except (OSError, ValueError, ImportError):
        return address, ()  # listing it will report the error
    if fs.isfile(root):
        above, only = _split_path(root)
        return filesystems.uri(fs, above), only
    return filesystems.uri(fs, root), ()


def _split_path(path: str) -> tuple[str, tuple[str, ...]]:
    above, _, file = path.rpartition("/")
    return above, (file,)


def home(lake: layout.Lake, name: str, address: str, opened: Tables | None = None) -> Home:
    """Return the landing folder of a bronze table with this address, as the table's ledger knows it."""
    folder, only = folder_of(address)
    ledger = (opened or Tables())[lake.ledger(name)].delta
    folders: tuple[str, ...] = ()
    if ledger is not None:
        folders = recorded_folders(ledger) or tuple(_recorded_spelling(ledger, folder))
    folder = next((known_folder for known_folder in folders if filesystems.is_same(known_folder, folder)), folder)
    return Home(folder, only, tuple(other for other in folders if other != folder))


def recorded_folders(ledger: DeltaTable) -> tuple[str, ...]:
    """Return the landing folders in the ledger, newest first; empty for a ledger of an older release."""
    newest = log.last_own_commit(ledger)  # each of our commits repeats them; other programs' do not
    return tuple(log.info_of(newest).ledger.folders)


def _recorded_spelling(ledger: DeltaTable, folder: str) -> Iterator[str]:
    """Yield the spelling of a folder in the paths of a ledger without recorded folders, if any path is in it."""
    import pyarrow.compute as pc

    from sluicegate.landing import ledger_index

    start = f"{folder.rstrip('/')}/"
    newest = tables.rows_above(ledger, "chunk", ledger.version() - 1).head(1, columns=["path"])["path"].to_pylist()
    if newest and newest[0].startswith(start):  # nearly always, and saves reading all paths
        yield folder
        return
    paths = ledger_index.entries(ledger, "", "\U0010ffff")["path"]
    if pc.any(pc.starts_with(paths, start)).as_py():
        yield folder
        return
    spelled: set[str] = set()
    for path in pc.replace_substring_regex(paths, r"/[^/]*\z", "").unique().to_pylist():
        while path not in spelled:
            spelled.add(path)
            if filesystems.is_same(path, folder):
                yield path
                return
            path = posixpath.dirname(path)
