"""The record of landed files that were taken away once their rows were committed (clean_source.py). No Spark."""

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

# What a file is known by.
KEYS = ["path", "size", "modification_time"]
ARCHIVE_KEYS = pa.schema([ARCHIVE.field(key) for key in KEYS])

# What the record says of a file that is gone though it was neither moved nor deleted by us.
GONE = "GONE"

Facts = tuple[str, int, datetime]
"""Path, size and modification time: what a file is known by."""


def facts_of(row: Mapping[str, Any]) -> Facts:
    """What a file is known by."""
    return row["path"], row["size"], row["modification_time"]


def table(at: layout.Lake, name: str, ledger: DeltaTable) -> pa.Table:
    """The files of bronze table ``name`` that were taken away (schema ``ARCHIVE``)."""
    log = tables.delta_table(at.archive(name))
    # Of a ledger that was deleted and made anew, the former one's files are another story.
    mine = pc.field("ledger_id") == tables.table_id(ledger)
    return ARCHIVE.empty_table() if log is None else tables.where(tables.dataset(log), mine)


def among(at: layout.Lake, name: str, ledger: DeltaTable, files: pa.Table) -> pa.Table:
    """The rows of some files that were taken away, by what they were known by; ``files`` has the columns of ``FILES``.

    Of a million that were taken away, those of other times are not read.
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
    """The rows of those of some files that were taken away."""
    ledger = tables.delta_table(at.ledger(name))
    if ledger is None:
        return {}
    files = pa.Table.from_pylist([dict(zip(KEYS, facts, strict=True)) for facts in entries], ARCHIVE_KEYS)
    return {facts_of(row): row for row in among(at, name, ledger, files).to_pylist()}


def by_facts(at: layout.Lake, name: str) -> dict[Facts, dict[str, Any]]:
    """The same files, by what they were known by."""
    ledger = tables.delta_table(at.ledger(name))
    return {} if ledger is None else {facts_of(row): row for row in table(at, name, ledger).to_pylist()}


class Places:
    """The addresses that files were moved to, asked for one by one: a million of them are not read for a few."""

    def __init__(self, at: layout.Lake, name: str) -> None:
        self._log, self._new = tables.delta_table(at.archive(name)), set[str]()

    def __contains__(self, place: object) -> bool:
        if place in self._new or self._log is None:
            return place in self._new
        found = tables.dataset(self._log).head(1, columns=["place"], filter=pc.field("place") == place)
        return bool(found.num_rows)

    def add(self, place: str | None) -> None:
        """One more."""
        self._new |= {place} if place else set()


def done(at: layout.Lake, name: str, ledger: DeltaTable, folder: str) -> int:
    """The last chunk of which, as of all before it, no file of a landing folder is left to be taken away; else -1."""
    upto = tables.txn_version(tables.delta_table(at.archive(name)), _app_id(ledger, folder))
    return -1 if upto is None else upto


def _app_id(ledger: DeltaTable, folder: str) -> str:
    return f"sluicegate.clean@{tables.table_id(ledger)}@{folder}"


def note(at: layout.Lake, name: str, moved: list[dict[str, Any]], upto: tuple[str, int] | None = None) -> None:
    """Appends files that were taken away, with ``mode`` and ``place``.

    Args:
        at: the lake.
        name: the bronze table.
        moved: the files.
        upto: of which landing folder nothing is left to be done up to which chunk, where that is known by now.
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
