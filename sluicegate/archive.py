"""The record of landed files that were taken away once their rows were committed (see clean_source.py). No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate import fault, lake

TIME = pa.timestamp("us", "UTC")
ARCHIVE = pa.schema(
    [
        ("path", pa.string()), ("size", pa.int64()), ("modification_time", TIME),
        ("mode", pa.string()), ("place", pa.string()), ("archived", TIME), ("ledger_id", pa.string()),
    ]
)  # fmt: skip

# What the record says of a file that is gone though it was neither moved nor deleted by us.
GONE = "GONE"

Facts = tuple[str, int, datetime]
"""Path, size and modification time: what a file is known by."""


def facts_of(row: Mapping[str, Any]) -> Facts:
    """What a file is known by."""
    return row["path"], row["size"], row["modification_time"]


def table(at: lake.Lake, name: str, ledger: DeltaTable) -> pa.Table:
    """The files of bronze table ``name`` that were taken away (schema ``ARCHIVE``)."""
    log = lake.delta_table(at.archive(name))
    # Of a ledger that was deleted and made anew, the former one's files are another story.
    mine = pc.field("ledger_id") == lake.table_id(ledger)
    return ARCHIVE.empty_table() if log is None else lake.dataset(log).to_table(filter=mine)


def by_facts(at: lake.Lake, name: str) -> dict[Facts, dict[str, Any]]:
    """The same files, by what they were known by."""
    ledger = lake.delta_table(at.ledger(name))
    return {} if ledger is None else {facts_of(row): row for row in table(at, name, ledger).to_pylist()}


def note(at: lake.Lake, name: str, told: list[dict[str, Any]]) -> None:
    """Appends files that were taken away, with ``mode`` and ``place``."""
    ledger = lake.delta_table(at.ledger(name))
    if told and ledger is not None:
        rows = [{**row, "archived": datetime.now(UTC), "ledger_id": lake.table_id(ledger)} for row in told]
        lake.write(at.archive(name), pa.Table.from_pylist(rows, schema=ARCHIVE), mode="append")
        fault.point("clean.after_note")
