"""The log of file statuses, ``_ledger/{table}_outcome``: its columns, and its rows that still hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.lake import layout, offsets, tables
from sluicegate.lake.table import Tables

TIME = pa.timestamp("us", "UTC")
OUTCOME = pa.schema(
    [
        ("path", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("corrupt", pa.int64()),
        ("rescued", pa.int64()), ("error", pa.string()), ("retry", pa.bool_()), ("definition", pa.string()),
        ("version", pa.int64()), ("ingested", TIME), ("table_id", pa.string()),
    ]
)  # fmt: skip


def read(lake: layout.Lake, name: str, columns: list[str], where: Any = None, opened: Tables | None = None) -> pa.Table:
    """Return the outcome of the files that bronze table ``name`` has read (schema ``OUTCOME``), in no order.

    Args:
        lake: the lake.
        name: the bronze table.
        columns: columns to read; a million files have a million paths.
        where: pyarrow expression for the rows to read, by which files of the log may stay unopened.
        opened: table handles of the calling step.
    """
    opened = opened or Tables()
    bronze, log = opened[lake.table("bronze", name)].delta, opened[lake.file_status(name)].delta
    ledger = opened[lake.ledger(name)].delta
    if bronze is None or log is None or ledger is None:
        return OUTCOME.empty_table().select(columns)
    # After bronze is deleted and re-created, rows of the former table do not count.
    mine = pc.field("table_id") == tables.table_id(bronze)
    past = offsets.restore_history(bronze)
    recorded, condition = opened[lake.file_status(name)].dataset, mine
    if where is not None:
        condition = mine & where
    if not past.restores:
        return tables.filter_rows(recorded, condition, columns)
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), past).offset
    rows = offsets.surviving_rows(tables.filter_rows(recorded, mine).to_pylist(), past, offset)
    standing = pa.Table.from_pylist(list(rows), schema=OUTCOME)
    return standing.filter(condition).select(columns)
