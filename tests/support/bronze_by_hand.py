"""Bronze tables as the engine leaves them, with ledger and file status, written by delta-rs from given rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sluicegate.lake import log, offsets, tables
from sluicegate.landing import file_status, intake
from tests.conftest import Workspace

TIME = pa.timestamp("us", "UTC")
OURS = [
    pa.field("_rescued_data", pa.string()), pa.field("_corrupt_record", pa.string()), pa.field("receipt_time", TIME),
    pa.field("source_file", pa.string()), pa.field("_file_modification_time", TIME), pa.field("_chunk", pa.int64()),
    pa.field("_pos", pa.int64()),
]  # fmt: skip

Rows = dict[str, list[dict[str, Any]]]
"""Rows of each landed file, by its path."""


def ingested(workspace: Workspace, name: str, columns: dict[str, pa.DataType], rows: Rows) -> None:
    """Enters what has landed into the ledger, and commits rows as those of its files.

    Args:
        workspace: the workspace.
        name: the bronze table.
        columns: its data columns.
        rows: their values, and those of ``_rescued_data`` and ``_corrupt_record``.
    """
    table = workspace.definition.bronze[name]
    intake.enter(name, table, workspace.lake)
    ledger = DeltaTable(workspace.lake.ledger(name))
    entries = {row["path"]: row for row in tables.dataset(ledger).to_table().to_pylist()}
    schema = pa.schema([*(pa.field(column, kind) for column, kind in columns.items()), *OURS])
    made = [
        {
            **row, "receipt_time": datetime(2024, 5, 1, tzinfo=UTC), "source_file": f"file://{path}",
            "_file_modification_time": entries[path]["modification_time"], "_chunk": 1, "_pos": number,
        }
        for number, (path, row) in enumerate((path, row) for path in rows for row in rows[path])
    ]  # fmt: skip
    facts = {"chunk": 1, "until": 1, "files": len(rows), "definition": table.fingerprint}
    marks = [Transaction(offsets.app_id("bronze", name, ledger), 1)]
    said = CommitProperties({"userMetadata": json.dumps({log.METADATA: facts})}, app_transactions=marks)
    write_deltalake(workspace.uri(name), pa.Table.from_pylist(made, schema), commit_properties=said)
    file_status.copy(workspace.lake, name)


def rewritten(workspace: Workspace, name: str, rows: pa.Table) -> None:
    """Replaces a table's rows as somebody else would, with a proper entry in its log."""
    schema = DeltaTable(workspace.uri(name)).to_pyarrow_table().schema
    write_deltalake(workspace.uri(name), rows.cast(schema), mode="overwrite")
