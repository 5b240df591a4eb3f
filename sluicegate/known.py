"""The ledger's entries put together in few files, so that a look at landing does not open one for each chunk.

It is a copy: where it is missing, or does not fit the ledger, the ledger itself is read. It is not made by OPTIMIZE of
the ledger: two of those at once double every row (delta-rs 1.6.6 takes the second for no conflict, without retries
too), and discoveries run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import DeltaError

from sluicegate import lake, tiers
from sluicegate.stores import FILES

# Files that are compared at a time.
AT_ONCE = 125_000

COLUMNS = [*FILES.names, "action", "chunk"]


# Rows that are read or left out together.
ROWS = WriterProperties(max_row_group_size=tiers.ROW_GROUP)


def compare(at: lake.Lake, name: str, ledger: DeltaTable, files: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The files that the ledger does not know, those that it knows otherwise (in size or time), and how it knows these.

    Of the entries of a path the newest counts: an older version of a file may come back. One whose rows were dropped is
    not known any more: it is read if it lands again. All have the schema ``FILES``.
    """
    new, changed, former = [], [], []
    for part in _parts(files):
        span = pc.min_max(part["path"]).as_py()
        last = entries(at, name, ledger, span["min"], span["max"])
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


def entries(at: lake.Lake, name: str, ledger: DeltaTable, first: str | None, last: str | None) -> pa.Table:
    """The ledger's entries of paths from ``first`` to ``last``, the newest first (``FILES``, action and chunk)."""
    if first is None or last is None:
        return pa.schema([*FILES, ("action", pa.string()), ("chunk", pa.int64())]).empty_table()
    span = (pc.field("path") >= first) & (pc.field("path") <= last)
    copy, upto = _copy(at, name, ledger)
    later = _in_order(lake.where(lake.above(ledger, "chunk", upto), span, COLUMNS))
    return (
        later
        if copy is None
        else pa.concat_tables([later, _in_order(lake.where(lake.above(copy, "chunk", -1), span, COLUMNS))])
    )


def keep(at: lake.Lake, name: str, ledger: DeltaTable) -> None:
    """Adds to the copy what the ledger has gained, when these are many chunks; what is in it is not written anew."""
    copy, upto = _copy(at, name, ledger)
    number = ledger.version()
    if number - upto < lake.MANY_FILES:
        return
    gained = _in_order(lake.above(ledger, "chunk", upto).to_table(COLUMNS))
    mark = Transaction(_app_id(ledger), number)
    with suppress(DeltaError):  # another run does the same at this moment
        if copy is None:
            lake.replace(
                lake.delta_table(at.known(name)), at.known(name), gained, writer_properties=ROWS, transaction=mark
            )
            return
        once = CommitProperties(max_commit_retries=0, app_transactions=[mark])
        lake.write(copy, gained, mode="append", writer_properties=ROWS, commit_properties=once)
        copy = lake.table_at(at.known(name))
        if tiers.put_together(copy, "chunk"):
            copy.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)


def since(ledger: DeltaTable, chunk: int, first: str, last: str) -> pa.Table:
    """The same, of the chunks after one."""
    span = (pc.field("path") >= first) & (pc.field("path") <= last)
    return _in_order(lake.where(lake.above(ledger, "chunk", chunk), span, COLUMNS))


def _in_order(found: pa.Table) -> pa.Table:
    """The newest first. They mostly lie so, and to sort a million paths takes as much memory again as they do."""
    chunk = found["chunk"].combine_chunks()
    if pc.all(pc.less_equal(chunk[1:], chunk[:-1]), min_count=0).as_py():
        return found
    return found.sort_by([("chunk", "descending")])


def _app_id(ledger: DeltaTable) -> str:
    return f"sluicegate.known@{lake.table_id(ledger)}"


def _copy(at: lake.Lake, name: str, ledger: DeltaTable) -> tuple[DeltaTable | None, int]:
    """The copy and the last chunk in it; None and -1 if there is none that fits the ledger."""
    copy = lake.delta_table(at.known(name))
    upto = lake.mark(copy, _app_id(ledger))
    if copy is None or upto is None:
        return None, -1
    # A ledger that was restored, or from which rows were deleted, no longer has what was copied.
    files = lake.statistics(ledger, "max.chunk", "num_records")
    copied = pc.sum(files.filter(pc.less_equal(files["max.chunk"], upto))["num_records"]).as_py()
    return (copy, upto) if copied == lake.rows(copy) else (None, -1)
