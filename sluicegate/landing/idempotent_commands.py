"""Idempotent commands: a command enters its files once, however often it is repeated before it has ended.

A forced copy appends rows once more, so a second attempt must know what the first, killed at any instant, has entered.
The ledger's commit has a ``txnAppId`` derived from the command, and so has a commit of ``_ledger/{table}_outcome`` once
the command has ended. If the first is newer than the second, the command has begun and not ended, and what it entered
is not entered again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction

from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits.commit_info import CommitInfo, LedgerFacts
from sluicegate.storage.listings import FILES


@dataclass(frozen=True)
class Command:
    """A command and its unfinished attempts.

    Attributes:
        name: hash of the command's arguments.
        chunks: ledger batches entered by attempts that did not end.
    """

    name: str
    chunks: tuple[int, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Commit metadata by which a later attempt finds the earlier ones."""
        return {"name": self.name, "chunks": list(self.chunks)}

    def transaction(self, ledger: DeltaTable, chunk: int) -> Transaction:
        """Return the Delta transaction that marks a ledger commit as this command's."""
        return Transaction(_app_id(self.name, ledger), chunk)


def name_of(arguments: Mapping[str, Any]) -> str:
    """Return the name of a command: a hash of its arguments."""
    text = json.dumps(arguments, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unfinished_command(lake: layout.Lake, table: str, name: str) -> Command:
    """Return the command with the ledger batches of its unfinished attempts."""
    ledger, outcome = tables.delta_table(lake.ledger(table)), tables.delta_table(lake.file_status(table))
    if ledger is None:
        return Command(name)
    app = _app_id(name, ledger)
    last, ended = tables.txn_version(ledger, app), tables.txn_version(outcome, app)
    if last is None or (ended is not None and ended >= last):
        return Command(name)
    return Command(name, (*_earlier_batches(ledger, last), last))


def record_end(lake: layout.Lake, table: str, name: str) -> None:
    """Record the end of a command, so that a repetition is a new command."""
    ledger, outcome = tables.delta_table(lake.ledger(table)), tables.delta_table(lake.file_status(table))
    if ledger is None or outcome is None or (last := tables.txn_version(ledger, _app_id(name, ledger))) is None:
        return
    note = CommitProperties(app_transactions=[Transaction(_app_id(name, ledger), last)])
    outcome.create_write_transaction([], mode="append", schema=outcome.schema(), commit_properties=note)


def exclude_entered(files: pa.Table, command: Command, lake: layout.Lake, table: str) -> pa.Table:
    """Remove files that the command has entered, if they are unchanged or wait to be read."""
    ledger = tables.delta_table(lake.ledger(table))
    if ledger is None or not command.chunks:
        return files
    entered = tables.dataset(ledger).to_table([*FILES.names, "chunk"], filter=pc.field("chunk").isin(command.chunks))
    waiting = entered.filter(pc.greater(entered["chunk"], _bronze_offset(lake, table, ledger)))
    files = files.filter(pc.invert(pc.is_in(files["path"], value_set=waiting["path"])))
    return files.join(entered.select(FILES.names), keys=FILES.names, join_type="left anti").cast(FILES)


def has_waiting_batches(lake: layout.Lake, table: str) -> bool:
    """Return whether a killed command left ledger batches that wait to be read."""
    ledger = tables.delta_table(lake.ledger(table))
    return ledger is not None and ledger.version() > max(_bronze_offset(lake, table, ledger), 0)


def _app_id(name: str, ledger: DeltaTable) -> str:
    return f"sluicegate.command.{name}@{tables.table_id(ledger)}"


def _earlier_batches(ledger: DeltaTable, chunk: int) -> list[int]:
    """Return ledger batches of earlier attempts, as recorded in the commit of a batch."""
    for action in log.actions(ledger.table_uri, chunk, added=False):
        if info := CommitInfo.from_user_metadata(action.get("commitInfo", {}).get("userMetadata")):
            return list(map(int, info[LedgerFacts.command.key]["chunks"]))
    return []


def _bronze_offset(lake: layout.Lake, table: str, ledger: DeltaTable) -> int:
    """Return the offset of bronze in the ledger: its last committed batch; -1 before the first."""
    bronze = tables.delta_table(lake.table("bronze", table))
    if bronze is None:
        return -1
    app, past = offsets.app_id("bronze", table, ledger), offsets.restore_history(bronze)
    offset = offsets.committed_offset(bronze, app, past).offset
    if offset is None:
        return -1
    return offset
