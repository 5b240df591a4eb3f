"""The ledger's entries put together in one file, so that a look at landing does not open one for each chunk.

It is a copy: where it is missing, or does not fit the ledger, the ledger itself is read. It is not made by OPTIMIZE of
the ledger: two of those at once double every row (delta-rs 1.6.6 takes the second for no conflict, without retries
too), and discoveries run at the same time.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import DeltaError

from sluicegate import lake
from sluicegate.stores import FILES

COLUMNS = [*FILES.names, "chunk"]

# Rows that are read or left out together, by the range of their paths.
ROWS = WriterProperties(max_row_group_size=16_384)


def entries(at: lake.Lake, name: str, ledger: DeltaTable, first: str | None, last: str | None) -> pa.Table:
    """The ledger's entries of paths from ``first`` to ``last`` (schema ``FILES`` and ``chunk``), the newest first."""
    if first is None or last is None:
        return pa.schema([*FILES, ("chunk", pa.int64())]).empty_table()
    span = (pc.field("path") >= first) & (pc.field("path") <= last)
    copy, upto = _copy(at, name, ledger)
    found = [lake.above(ledger, "chunk", upto).to_table(COLUMNS, filter=span)]
    if copy is not None:
        found.append(lake.dataset(copy).to_table(COLUMNS, filter=span))
    return pa.concat_tables(found).sort_by([("chunk", "descending")])


def keep(at: lake.Lake, name: str, ledger: DeltaTable) -> None:
    """Makes the copy again when the ledger has gained many chunks since."""
    copy, upto = _copy(at, name, ledger)
    number = ledger.version()
    if number - upto < lake.MANY_FILES:
        return
    parts = [lake.above(ledger, "chunk", upto).to_table(COLUMNS)]
    parts += [lake.dataset(copy).to_table(COLUMNS)] if copy is not None else []
    with suppress(DeltaError):  # another run does the same at this moment
        lake.replace(
            lake.delta_table(at.known(name)), at.known(name), pa.concat_tables(parts),
            writer_properties=ROWS, transaction=Transaction(_app_id(ledger), number),
        )  # fmt: skip


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
