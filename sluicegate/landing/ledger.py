"""Ledger: every file that was ever entered, in ledger batches, by compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import _faults
from sluicegate.lake import tables
from sluicegate.lake.commits.commit_info import CommitInfo, LedgerFacts
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.idempotent_commands import Command
from sluicegate.storage.listings import FILES

LEDGER = pa.schema(
    [
        *FILES,
        pa.field("action", pa.string(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("discovered", pa.timestamp("us", "UTC"), nullable=False),
    ]
)


def add_action(action: LedgerAction, files: pa.Table) -> pa.Table:
    """Return files with column ``action``."""
    return files.append_column(LEDGER.field("action"), pa.repeat(pa.scalar(action), files.num_rows))


def sort_files(files: pa.Table) -> pa.Table:
    """Sort files into reading order: by modification time, then path."""
    return files.sort_by([("modification_time", "ascending"), ("path", "ascending")])


def _create(ledger_uri: str, files: pa.Table, folders: Sequence[str] = ()) -> DeltaTable:
    return create(ledger_uri, files, {LedgerFacts.folders.key: folders})


def create(ledger_uri: str, files: pa.Table, facts: Mapping[str, Any]) -> DeltaTable:
    """Create a ledger with its first entries, in one commit.

    Raises:
        CommitFailedError: a concurrent run created it. (With retries, or with ``mode="ignore"``, the slower one would
            commit the metadata a second time, and the table would have another id from then on.)
    """
    try:
        tables.write(
            ledger_uri,
            files,
            mode="error",
            # The ledger is read by change feed, and its log is never cleaned: batch numbers are its versions.
            configuration={"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 36500 days"},
            commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=_custom_metadata(facts)),
        )
    except DeltaError as error:
        raise CommitFailedError(str(error)) from error
    return tables.table_at(ledger_uri, version=0)


def chunks(files: pa.Table, max_files: int, max_bytes: int | None) -> list[pa.Table]:
    """Split files into ledger batches of at most ``max_files`` files and some ``max_bytes`` bytes.

    A batch has at least one file; as in Auto Loader, ``max_bytes`` is soft: the file that passes it is included.
    """
    batches, start, weight = [], 0, 0
    for index, size in enumerate(files["size"].to_pylist()):
        weight += size
        if index + 1 - start >= max_files or (max_bytes is not None and weight >= max_bytes):
            batches.append(files.slice(start, index + 1 - start))
            start, weight = index + 1, 0
    if start < files.num_rows:
        batches.append(files.slice(start))
    return batches


def _append(
    ledger: DeltaTable,
    files: pa.Table,
    copy_options: Mapping[str, Any],
    command: Command | None = None,
    folders: Sequence[str] = (),
) -> None:
    facts = {
        LedgerFacts.copy.key: copy_options,
        LedgerFacts.command.key: command.facts() if command else None,
        LedgerFacts.folders.key: folders,
    }
    append(ledger, files, facts, command)


def append(ledger: DeltaTable, files: pa.Table, facts: Mapping[str, Any], command: Command | None = None) -> None:
    """Append a ledger batch by compare-and-set, as the version after the loaded one.

    Raises:
        CommitFailedError: another run has committed that version.
    """
    number = ledger.version() + 1
    _faults.point("ledger.before_commit")
    transactions = None
    if command:
        transactions = [command.transaction(ledger, number)]
    # A retry would give the batch another version.
    properties = CommitProperties(
        max_commit_retries=0, custom_metadata=_custom_metadata(facts), app_transactions=transactions
    )
    tables.write(ledger, stamp_rows(files, number), mode="append", commit_properties=properties)
    # The table is loaded at our own commit now, not at the newest: if another run has entered files since, the next
    # compare-and-set must fail.
    _faults.point("ledger.after_commit")


def _custom_metadata(facts: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the ledger's commit metadata, without empty facts."""
    return CommitInfo({key: value for key, value in facts.items() if value}).properties()


def stamp_rows(files: pa.Table, chunk: int) -> pa.Table:
    """Return files as ledger rows, with batch number and time of discovery."""
    constants = {
        "chunk": pa.scalar(chunk, pa.int64()),
        "discovered": pa.scalar(datetime.now(UTC), LEDGER.field("discovered").type),
    }
    for column, value in constants.items():
        files = files.append_column(LEDGER.field(column), pa.repeat(value, files.num_rows))
    return files.cast(LEDGER)
