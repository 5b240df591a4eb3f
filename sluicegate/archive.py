"""The record of landed files that were taken away once their rows were committed (see clean_source.py). No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from sluicegate import fault, lake

TIME = pa.timestamp("us", "UTC")
ARCHIVE = pa.schema(
    [
        ("path", pa.string()), ("size", pa.int64()), ("modification_time", TIME),
        ("mode", pa.string()), ("place", pa.string()), ("archived", TIME), ("ledger_id", pa.string()),
    ]
)  # fmt: skip
KNOWN_BY = ARCHIVE.names[:3]

# What the record says of a file that is gone though it was neither moved nor deleted by us.
GONE = "GONE"

Facts = tuple[str, int, datetime]
"""Path, size and modification time: what a file is known by."""


def facts_of(row: Mapping[str, Any]) -> Facts:
    """What a file is known by."""
    return row["path"], row["size"], row["modification_time"]


def archived(at: lake.Lake, name: str) -> dict[Facts, dict[str, Any]]:
    """The files of bronze table ``name`` that were taken away, by what they were known by, as rows of ``ARCHIVE``."""
    ledger = lake.delta_table(at.ledger(name))
    found = None if ledger is None else _read(at, name, ledger)
    return {} if found is None else {facts_of(row): row for row in found.to_pylist()}


def table(at: lake.Lake, name: str) -> pa.Table:
    """The same files as a table (schema ``ARCHIVE``)."""
    ledger = lake.delta_table(at.ledger(name))
    found = None if ledger is None else _read(at, name, ledger)
    return ARCHIVE.empty_table() if found is None else found


def taken_away(at: lake.Lake, name: str, ledger: DeltaTable) -> pa.Table:
    """What these files were known by: a table of path, size and modification time."""
    found = _read(at, name, ledger)
    return (ARCHIVE.empty_table() if found is None else found).select(KNOWN_BY)


def note(at: lake.Lake, name: str, told: list[dict[str, Any]]) -> None:
    """Appends files that were taken away, with ``mode`` and ``place``."""
    ledger = lake.delta_table(at.ledger(name))
    if told and ledger is not None:
        rows = [{**row, "archived": datetime.now(UTC), "ledger_id": lake.table_id(ledger)} for row in told]
        write_deltalake(at.archive(name), pa.Table.from_pylist(rows, schema=ARCHIVE), mode="append")
        fault.point("clean.after_note")


def _read(at: lake.Lake, name: str, ledger: DeltaTable) -> pa.Table | None:
    log = lake.delta_table(at.archive(name))
    # Of a ledger that was deleted and made anew, the former one's files are another story.
    return log and lake.dataset(log).to_table(filter=pc.field("ledger_id") == lake.table_id(ledger))
