"""The ledger: each file that was ever entered, in chunks, by compare-and-set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sluicegate import _faults
from sluicegate.lake import log, tables
from sluicegate.landing import folders as landing_folders
from sluicegate.landing import idempotent_commands
from sluicegate.landing.moved_files import MOVED
from sluicegate.storage.filesystems import FILES

LEDGER = pa.schema(
    [
        *FILES,
        pa.field("action", pa.string(), nullable=False),
        pa.field("chunk", pa.int64(), nullable=False),
        pa.field("discovered", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# What bronze is to do with a file of the ledger: READ it, REPLACE the rows that it gave before, or SKIP it. In a chunk
# with RESET or DROP the table is made anew: RESET files are read again, and of DROP files the rows go. MOVED is one
# that was known below a former landing folder (see landing/folders.py).
READ, REPLACE, SKIP, RESET, DROP = "read", "replace", "skip", "reset", "drop"

# Entries whose files are not to be opened.
UNREAD = (SKIP, DROP, MOVED)


def to(action: str, files: pa.Table) -> pa.Table:
    """Files with what bronze is to do with them."""
    return files.append_column(LEDGER.field("action"), pa.repeat(pa.scalar(action), files.num_rows))


def in_order(files: pa.Table) -> pa.Table:
    """Files in the order in which they are read."""
    return files.sort_by([("modification_time", "ascending"), ("path", "ascending")])


def _create(ledger_uri: str, files: pa.Table, folders: Sequence[str] = ()) -> DeltaTable:
    """A new ledger, in one commit with the files that it has from the start.

    Raises:
        CommitFailedError: another run made it at the same moment. (With retries, or with ``mode="ignore"``, the slower
            one would put a second metadata commit on top, and the table would have another id from then on.)
    """
    try:
        tables.write(
            ledger_uri,
            files,
            mode="error",
            # The ledger is read as a stream of changes, and its history is never cleaned away: chunks are its versions.
            configuration={"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 36500 days"},
            commit_properties=CommitProperties(
                max_commit_retries=0, custom_metadata=_said({landing_folders.KEY: folders})
            ),
        )
    except DeltaError as error:
        raise CommitFailedError(str(error)) from error
    return tables.table_at(ledger_uri, version=0)


def chunks(files: pa.Table, max_files: int, max_bytes: int | None) -> list[pa.Table]:
    """Cuts files into chunks of at most ``max_files`` files and some ``max_bytes`` bytes.

    A chunk has at least one file; as in Auto Loader, ``max_bytes`` is soft: the file that passes it still belongs.
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
    how: Mapping[str, Any],
    command: idempotent_commands.Command | None = None,
    folders: Sequence[str] = (),
) -> None:
    """Enters a chunk, as exactly the version after the one that the ledger is loaded at.

    Raises:
        CommitFailedError: another run has made that version.
    """
    number = ledger.version() + 1
    _faults.point("ledger.before_commit")
    said_of = {"copy": how, idempotent_commands.KEY: command.facts() if command else None, landing_folders.KEY: folders}
    transactions = [command.transaction(ledger, number)] if command else None
    # With retries the chunk would be given another version.
    properties = CommitProperties(max_commit_retries=0, custom_metadata=_said(said_of), app_transactions=transactions)
    tables.write(ledger, _stamped(files, number), mode="append", commit_properties=properties)
    _faults.point("ledger.after_commit")
    # Exactly our own commit, not the newest: if another run has entered files, the next compare-and-set must fail.
    if ledger.version() != number:
        ledger.load_as_version(number)


def _said(facts: Mapping[str, Any]) -> dict[str, str] | None:
    """What a commit of the ledger is to tell, without what there is nothing of."""
    there = {key: said for key, said in facts.items() if said}
    return {"userMetadata": json.dumps({log.METADATA: there})} if there else None


def _stamped(files: pa.Table, chunk: int) -> pa.Table:
    """Files as rows of the ledger."""
    constants = {
        "chunk": pa.scalar(chunk, pa.int64()),
        "discovered": pa.scalar(datetime.now(UTC), LEDGER.field("discovered").type),
    }
    for column, value in constants.items():
        files = files.append_column(LEDGER.field(column), pa.repeat(value, files.num_rows))
    return files.cast(LEDGER)
