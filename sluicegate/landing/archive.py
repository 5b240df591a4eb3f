"""Archive log: landed files moved or deleted after their rows were committed (clean_source.py). No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction

from sluicegate import _faults
from sluicegate.lake import layout, tables

TIME = pa.timestamp("us", "UTC")
ARCHIVE = pa.schema(
    [
        ("path", pa.string()), ("size", pa.int64()), ("modification_time", TIME),
        ("mode", pa.string()), ("place", pa.string()), ("archived", TIME), ("ledger_id", pa.string()),
    ]
)  # fmt: skip

# Identity of a landed file.
KEYS = ["path", "size", "modification_time"]
ARCHIVE_KEYS = pa.schema([ARCHIVE.field(key) for key in KEYS])

# `mode` of a file that is gone though we neither moved nor deleted it.
GONE = "GONE"

Facts = tuple[str, int, datetime]
"""Identity of a landed file: path, size and modification time."""


def facts_of(row: Mapping[str, Any]) -> Facts:
    """Identity of a file: path, size and modification time."""
    return row["path"], row["size"], row["modification_time"]


def table(at: layout.Lake, name: str, ledger: DeltaTable) -> pa.Table:
    """Archived files of bronze table ``name`` (schema ``ARCHIVE``)."""
    log = tables.delta_table(at.archive(name))
    # After the ledger is deleted and re-created, rows of the former ledger do not count.
    mine = pc.field("ledger_id") == tables.table_id(ledger)
    return ARCHIVE.empty_table() if log is None else tables.where(tables.dataset(log), mine)


def among(at: layout.Lake, name: str, ledger: DeltaTable, files: pa.Table) -> pa.Table:
    """Archive rows of ``files`` (columns of ``FILES``), matched by path, size and modification time.

    The range of modification times is pushed down, so that few of a million archived rows are read.
    """
    log = tables.delta_table(at.archive(name))
    if log is None or not files.num_rows:
        return ARCHIVE.empty_table()
    span = pc.min_max(files["modification_time"]).as_py()
    mine = pc.field("ledger_id") == tables.table_id(ledger)
    mine &= pc.field("modification_time") >= pa.scalar(span["min"], TIME)
    mine &= pc.field("modification_time") <= pa.scalar(span["max"], TIME)
    wanted = pa.array(files["path"].to_pylist(), pa.string())
    found = tables.where(tables.dataset(log), mine & pc.field("path").isin(wanted))
    return found.join(files.select(KEYS), keys=KEYS, join_type="left semi")


def of(at: layout.Lake, name: str, entries: list[Facts]) -> dict[Facts, dict[str, Any]]:
    """Archive rows of those of ``entries`` that were archived, by identity."""
    ledger = tables.delta_table(at.ledger(name))
    if ledger is None:
        return {}
    files = pa.Table.from_pylist([dict(zip(KEYS, facts, strict=True)) for facts in entries], ARCHIVE_KEYS)
    return {facts_of(row): row for row in among(at, name, ledger, files).to_pylist()}


def by_facts(at: layout.Lake, name: str) -> dict[Facts, dict[str, Any]]:
    """Archived files of a bronze table, by identity."""
    ledger = tables.delta_table(at.ledger(name))
    return {} if ledger is None else {facts_of(row): row for row in table(at, name, ledger).to_pylist()}


class Places:
    """Set of archive addresses in use; each lookup is a filtered read, so a million of them are never loaded."""

    def __init__(self, at: layout.Lake, name: str) -> None:
        self._log, self._new = tables.delta_table(at.archive(name)), set[str]()

    def __contains__(self, place: object) -> bool:
        if place in self._new or self._log is None:
            return place in self._new
        found = tables.dataset(self._log).head(1, columns=["place"], filter=pc.field("place") == place)
        return bool(found.num_rows)

    def add(self, place: str | None) -> None:
        """Add an address; ``None`` is ignored."""
        self._new |= {place} if place else set()


def done(at: layout.Lake, name: str, ledger: DeltaTable, folder: str) -> int:
    """Ledger batch up to which a landing folder is cleaned, from the archive log's ``txnVersion``; -1 before any."""
    upto = tables.txn_version(tables.delta_table(at.archive(name)), _app_id(ledger, folder))
    return -1 if upto is None else upto


def _app_id(ledger: DeltaTable, folder: str) -> str:
    return f"sluicegate.clean@{tables.table_id(ledger)}@{folder}"


def note(at: layout.Lake, name: str, moved: list[dict[str, Any]], upto: tuple[str, int] | None = None) -> None:
    """Append moved or deleted files, with ``mode`` and ``place``, to the archive log.

    Args:
        at: the lake.
        name: the bronze table.
        moved: the files.
        upto: landing folder and the ledger batch up to which it is cleaned, if known.
    """
    ledger = tables.delta_table(at.ledger(name))
    if moved and ledger is not None:
        rows = [{**row, "archived": datetime.now(UTC), "ledger_id": tables.table_id(ledger)} for row in moved]
        transactions = [Transaction(_app_id(ledger, upto[0]), upto[1])] if upto else None
        said = CommitProperties(app_transactions=transactions)
        tables.write(
            at.archive(name), pa.Table.from_pylist(rows, schema=ARCHIVE), mode="append", commit_properties=said
        )
        _faults.point("clean.after_note")
