"""Former paths of files whose landing folder was moved."""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import layout, tables
from sluicegate.landing import file_status, ledger_index
from sluicegate.landing.file_names import relative
from sluicegate.storage import listings
from sluicegate.storage.listings import FILES

if TYPE_CHECKING:
    from sluicegate.landing.folders import Home

# Action of an entry whose file the ledger has below a former landing folder, with that size and time; its rows stay.
MOVED = "moved"

ENTERED = pa.schema([*FILES, pa.field("action", pa.string(), nullable=False)])


def aliases(ledger: DeltaTable | pa.Table, paths: Collection[str]) -> dict[str, str]:
    """Former path, which their rows may have, of files that were moved with their landing folder.

    Args:
        ledger: the ledger, or all of its entries.
        paths: the files.
    """
    if not paths:
        return {}
    mine = pc.field("path").isin(pa.array(sorted(paths), pa.string()))
    moved = _facts(ledger, mine & (pc.field("action") == MOVED))
    if not moved.num_rows:
        return {}
    alike = pc.field("size").isin(moved["size"].unique()) & pc.field("modification_time").isin(
        moved["modification_time"].unique()
    )
    former: dict[tuple[int, object], list[str]] = {}
    for row in _facts(ledger, alike & (pc.field("action") != MOVED)).to_pylist():
        former.setdefault((row["size"], row["modification_time"]), []).append(row["path"])
    found = {}
    for row in moved.to_pylist():
        of_it = [path for path in former.get((row["size"], row["modification_time"]), ()) if path != row["path"]]
        best = max(of_it, key=lambda path: _common(path, row["path"]), default="")
        if _common(best, row["path"]):
            found[row["path"]] = best
    return found


def _facts(ledger: DeltaTable | pa.Table, where: pc.Expression) -> pa.Table:
    entries = ledger.filter(where) if isinstance(ledger, pa.Table) else tables.where(tables.dataset(ledger), where)
    return entries.select(FILES.names)


def _common(one: str, other: str) -> int:
    """Number of equal trailing components of two paths."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


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
        return listings.files(folder)["path"].combine_chunks()
    except (OSError, ValueError, ImportError):
        return pa.array([], pa.string())
