"""A command that enters its files once, however often it is repeated before it has ended.

A forced copy brings the rows of files once more, so its second try must know the first, which may have been killed at
any instant: the ledger's commit carries Delta's transaction id, named after what the command says, and so does a commit
of ``_ledger/{table}_outcome`` once the command has ended. Where the first is newer than the second, the command has
begun and not ended, and what it entered is not entered again.
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
from sluicegate.storage.filesystems import FILES

KEY = "command"
"""Under which the chunks of earlier tries stand among our facts in a commit of the ledger."""


@dataclass(frozen=True)
class Command:
    """A command and how far it came before.

    Attributes:
        name: the same for the same command, and another for any other.
        chunks: what tries of it have entered that did not end.
    """

    name: str
    chunks: tuple[int, ...] = ()

    def facts(self) -> dict[str, Any]:
        """What the ledger's commit is to say, for a later try."""
        return {"name": self.name, "chunks": list(self.chunks)}

    def transaction(self, ledger: DeltaTable, chunk: int) -> Transaction:
        """What marks a commit of the ledger as one of this command."""
        return Transaction(_app_id(self.name, ledger), chunk)


def name_of(said: Mapping[str, Any]) -> str:
    """The name of a command that says this."""
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def begun(at: layout.Lake, table: str, name: str) -> Command:
    """A command with what its tries have entered that did not end."""
    ledger, outcome = tables.delta_table(at.ledger(table)), tables.delta_table(at.outcome(table))
    if ledger is None:
        return Command(name)
    app = _app_id(name, ledger)
    last, ended = tables.txn_version(ledger, app), tables.txn_version(outcome, app)
    if last is None or (ended is not None and ended >= last):
        return Command(name)
    return Command(name, (*_earlier(ledger, last), last))


def ended(at: layout.Lake, table: str, name: str) -> None:
    """Notes that a command has ended: from now on the same one is another."""
    ledger, outcome = tables.delta_table(at.ledger(table)), tables.delta_table(at.outcome(table))
    if ledger is None or outcome is None or (last := tables.txn_version(ledger, _app_id(name, ledger))) is None:
        return
    note = CommitProperties(app_transactions=[Transaction(_app_id(name, ledger), last)])
    outcome.create_write_transaction([], mode="append", schema=outcome.schema(), commit_properties=note)


def without_entered(files: pa.Table, command: Command, at: layout.Lake, table: str) -> pa.Table:
    """Files but for those that the command has entered: as they are now, or where they still wait to be read."""
    ledger = tables.delta_table(at.ledger(table))
    if ledger is None or not command.chunks:
        return files
    entered = tables.dataset(ledger).to_table([*FILES.names, "chunk"], filter=pc.field("chunk").isin(command.chunks))
    waiting = entered.filter(pc.greater(entered["chunk"], _taken_in(at, table, ledger)))
    files = files.filter(pc.invert(pc.is_in(files["path"], value_set=waiting["path"])))
    return files.join(entered.select(FILES.names), keys=FILES.names, join_type="left anti").cast(FILES)


def waits(at: layout.Lake, table: str) -> bool:
    """Whether files of the ledger wait to be read: a command was killed before it came to that."""
    ledger = tables.delta_table(at.ledger(table))
    return ledger is not None and ledger.version() > max(_taken_in(at, table, ledger), 0)


def _app_id(name: str, ledger: DeltaTable) -> str:
    return f"sluicegate.command.{name}@{tables.table_id(ledger)}"


def _earlier(ledger: DeltaTable, chunk: int) -> list[int]:
    """The chunks that the commit of a chunk names as those of earlier tries."""
    for action in log.actions(ledger.table_uri, chunk, added=False):
        if said := action.get("commitInfo", {}).get("userMetadata"):
            return [int(number) for number in json.loads(said)[log.METADATA][KEY]["chunks"]]
    return []


def _taken_in(at: layout.Lake, table: str, ledger: DeltaTable) -> int:
    """The last chunk that bronze has taken in; -1 before the first."""
    bronze = tables.delta_table(at.table("bronze", table))
    if bronze is None:
        return -1
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", table, ledger), offsets.lineage(bronze)).offset
    return -1 if offset is None else offset
