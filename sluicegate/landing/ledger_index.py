"""Lookup of landed files in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES

# Files looked up at a time.
AT_ONCE = 125_000

COLUMNS = [*FILES.names, "action", "chunk"]


def compare(ledger: DeltaTable, files: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Split files into new and changed (in size or time), and return the former entries of the changed ones, too.

    The newest entry of a path counts: an older version of a file may come back. A file whose rows were dropped is new
    if it lands again. Files that are unchanged since their entry are left out. All three have the schema ``FILES``.
    """
    new, changed, former = [], [], []
    for part in _parts(files):
        span = pc.min_max(part["path"]).as_py()
        last = entries(ledger, span["min"], span["max"])
        entry = pc.index_in(part["path"], value_set=last["path"])  # the first of equal ones
        dropped = pc.fill_null(pc.equal(pc.take(last["action"], entry), LedgerAction.DROP), False)
        unknown = pc.or_(pc.is_null(entry), dropped)
        same = [pc.equal(part[column], pc.take(last[column], entry)) for column in ("size", "modification_time")]
        other = pc.and_(pc.invert(pc.and_(*same)), pc.invert(unknown))  # null, so filtered out, without an entry
        new.append(part.filter(unknown))
        changed.append(part.filter(other))
        former.append(last.take(entry.filter(other)).select(FILES.names))
    return pa.concat_tables(new), pa.concat_tables(changed), pa.concat_tables(former).cast(FILES)


def _parts(files: pa.Table) -> Iterator[pa.Table]:
    """Split files by path range: a lookup takes several times the memory of the paths."""
    if files.num_rows <= AT_ONCE:
        yield files
        return
    drawn = files["path"].take(pa.array(range(0, files.num_rows, AT_ONCE // 100))).to_pylist()
    bounds = [None, *sorted(drawn)[100::100], None]
    for first, last in pairwise(bounds):
        if first:
            inside = pc.field("path") >= first
        else:
            inside = pc.scalar(True)
        yield files.filter(inside & (pc.field("path") < last) if last else inside)


def path_range(folder: str) -> tuple[str, str]:
    """Return the range of paths that files in or below a folder can have."""
    start = folder.rstrip("/")
    return f"{start}/", f"{start}0"  # 0 is the character after /


def entries(ledger: DeltaTable, first: str | None, last: str | None, after: int = -1) -> pa.Table:
    """Return ledger entries with paths from ``first`` to ``last``, newest first (``FILES``, action and batch).

    Args:
        ledger: the ledger.
        first: first path of the range.
        last: last path of the range; without bounds there are no entries.
        after: ledger batch after which the entries start.
    """
    if first is None or last is None:
        return pa.schema([*FILES, ("action", pa.string()), ("chunk", pa.int64())]).empty_table()
    span = (pc.field("path") >= first) & (pc.field("path") <= last)
    return _sort_newest_first(tables.filter_rows(tables.rows_above(ledger, "chunk", after), span, COLUMNS))


def _sort_newest_first(rows: pa.Table) -> pa.Table:
    """Sort entries newest first, unless they are already: sorting a million paths doubles their memory."""
    chunk = rows["chunk"].combine_chunks()
    if pc.all(pc.less_equal(chunk[1:], chunk[:-1]), min_count=0).as_py():
        return rows
    return rows.sort_by([("chunk", "descending")])
