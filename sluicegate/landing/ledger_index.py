"""Which of the files that lie in landing the ledger knows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.storage.filesystems import FILES

# Files that are compared at a time.
AT_ONCE = 125_000

COLUMNS = [*FILES.names, "action", "chunk"]


def compare(ledger: DeltaTable, files: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The files that the ledger does not know, those that it knows otherwise (in size or time), and how it knows these.

    Of the entries of a path the newest counts: an older version of a file may come back. One whose rows were dropped is
    not known any more: it is read if it lands again. All have the schema ``FILES``.
    """
    new, changed, former = [], [], []
    for part in _parts(files):
        span = pc.min_max(part["path"]).as_py()
        last = entries(ledger, span["min"], span["max"])
        entry = pc.index_in(part["path"], value_set=last["path"])  # the first of equal ones
        unknown = pc.or_(pc.is_null(entry), pc.fill_null(pc.equal(pc.take(last["action"], entry), "drop"), False))
        same = [pc.equal(part[column], pc.take(last[column], entry)) for column in ("size", "modification_time")]
        other = pc.and_(pc.invert(pc.and_(*same)), pc.invert(unknown))  # null, and left out, where there is no entry
        new.append(part.filter(unknown))
        changed.append(part.filter(other))
        former.append(last.take(entry.filter(other)).select(FILES.names))
    return pa.concat_tables(new), pa.concat_tables(changed), pa.concat_tables(former).cast(FILES)


def _parts(files: pa.Table) -> Iterator[pa.Table]:
    """The files in parts by ranges of their paths: to look up paths takes several times the memory that they do."""
    if files.num_rows <= AT_ONCE:
        yield files
        return
    drawn = files["path"].take(pa.array(range(0, files.num_rows, AT_ONCE // 100))).to_pylist()
    bounds = [None, *sorted(drawn)[100::100], None]
    for first, last in pairwise(bounds):
        inside = pc.field("path") >= first if first else pc.scalar(True)
        yield files.filter(inside & (pc.field("path") < last) if last else inside)


def below(folder: str) -> tuple[str, str]:
    """The first and the last path that a file in a folder, or in one below it, can have."""
    start = folder.rstrip("/")
    return f"{start}/", f"{start}0"  # 0 is the letter behind /


def entries(ledger: DeltaTable, first: str | None, last: str | None, after: int = -1) -> pa.Table:
    """The ledger's entries of paths from ``first`` to ``last``, the newest first (``FILES``, action and chunk).

    Args:
        ledger: the ledger.
        first: the first of the paths, in their order.
        last: the last of them; if there is none, there are no entries.
        after: only of the chunks after this one.
    """
    if first is None or last is None:
        return pa.schema([*FILES, ("action", pa.string()), ("chunk", pa.int64())]).empty_table()
    span = (pc.field("path") >= first) & (pc.field("path") <= last)
    return _in_order(tables.where(tables.above(ledger, "chunk", after), span, COLUMNS))


def _in_order(found: pa.Table) -> pa.Table:
    """The newest first. They mostly lie so, and to sort a million paths takes as much memory again as they do."""
    chunk = found["chunk"].combine_chunks()
    if pc.all(pc.less_equal(chunk[1:], chunk[:-1]), min_count=0).as_py():
        return found
    return found.sort_by([("chunk", "descending")])
