"""Archive log: landed files moved or deleted after their rows were committed (clean_source.py). No Spark.

Removals are announced before they are carried out, in the metadata of a commit without rows, and recorded afterwards.
Two transactions count announcements and records. If the first is ahead, a run was killed in between, and whether a file
was removed is seen from where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from sluicegate import _faults
from sluicegate.lake import layout, tables
from sluicegate.lake import log as lake_log
from sluicegate.lake.commits.commit_info import CommitInfo, LedgerFacts
from sluicegate.lake.table import Tables
from sluicegate.landing.file_states import RENEWING, LedgerAction
from sluicegate.storage import filesystems

TIME = pa.timestamp("us", "UTC")
ARCHIVE = pa.schema(
    [
        ("path", pa.string()), ("size", pa.int64()), ("modification_time", TIME),
        ("mode", pa.string()), ("place", pa.string()), ("archived", TIME), ("ledger_id", pa.string()),
    ]
)  # fmt: skip

# Identity of a landed file.
KEYS = ["path", "size", "modification_time"]
ARCHIVE_KEYS = pa.schema(list(map(ARCHIVE.field, KEYS)))

EPOCH = datetime.fromtimestamp(0, UTC)

# Identity of a landed file: path, size and modification time.
Facts = tuple[str, int, datetime]


def facts_of(row: Mapping[str, Any]) -> Facts:
    """Return the identity of a file: path, size and modification time."""
    return row["path"], row["size"], row["modification_time"]


def table(lake: layout.Lake, name: str, ledger: DeltaTable) -> pa.Table:
    """Return archived files of bronze table ``name`` (schema ``ARCHIVE``)."""
    log = tables.delta_table(lake.archive(name))
    if log is None:
        return ARCHIVE.empty_table()
    # After the ledger is deleted and re-created, rows of the former ledger do not count.
    mine = pc.field("ledger_id") == tables.table_id(ledger)
    return pa.concat_tables([tables.filter_rows(tables.dataset(log), mine), _unrecorded_rows(log, ledger)])


def match_files(lake: layout.Lake, name: str, ledger: DeltaTable, files: pa.Table) -> pa.Table:
    """Return the archive's rows of ``files`` (columns of ``FILES``), matched by path, size and modification time.

    The range of modification times is pushed down, so that few of a million archived rows are read.
    """
    log = tables.delta_table(lake.archive(name))
    if log is None or not files.num_rows:
        return ARCHIVE.empty_table()
    span = pc.min_max(files["modification_time"]).as_py()
    mine = pc.field("ledger_id") == tables.table_id(ledger)
    mine &= pc.field("modification_time") >= pa.scalar(span["min"], TIME)
    mine &= pc.field("modification_time") <= pa.scalar(span["max"], TIME)
    paths = pa.array(files["path"].to_pylist(), pa.string())
    moves = tables.filter_rows(tables.dataset(log), mine & pc.field("path").isin(paths))
    moves = pa.concat_tables([moves, _unrecorded_rows(log, ledger, {*paths.to_pylist()})])
    return moves.join(files.select(KEYS), keys=KEYS, join_type="left semi")


def archived_rows(lake: layout.Lake, name: str, entries: list[Facts]) -> dict[Facts, dict[str, Any]]:
    """Return the archive's rows of those of ``entries`` that were archived, by identity."""
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return {}
    files = pa.Table.from_pylist([dict(zip(KEYS, facts, strict=True)) for facts in entries], ARCHIVE_KEYS)
    return {facts_of(row): row for row in match_files(lake, name, ledger, files).to_pylist()}


def archived_by_facts(lake: layout.Lake, name: str) -> dict[Facts, dict[str, Any]]:
    """Return archived files of a bronze table, by identity."""
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return {}
    return {facts_of(row): row for row in table(lake, name, ledger).to_pylist()}


def landed_facts(lake: layout.Lake, name: str, ledger: DeltaTable, places: Iterable[str]) -> dict[str, Facts]:
    """Return files that were moved to some addresses, as they were in landing, by these addresses."""
    log = tables.delta_table(lake.archive(name))
    addresses = pa.array(sorted(places), pa.string())
    if log is None or not len(addresses):
        return {}
    mine = (pc.field("ledger_id") == tables.table_id(ledger)) & pc.field("place").isin(addresses)
    rows = tables.filter_rows(tables.dataset(log), mine).sort_by("archived").to_pylist()
    return {row["place"]: facts_of(row) for row in rows}


def arrivals_of(entries: pa.Table, away: pa.Table) -> dict[int, tuple[str, int]]:
    """Return path and arrival, as they landed, of files that were read again from the archive, by row."""
    renews = pc.is_in(entries["action"], value_set=pa.array(RENEWING))
    places = away["place"].combine_chunks().drop_null()
    rows = pc.indices_nonzero(pc.and_(renews, pc.is_in(entries["path"], value_set=places))).to_pylist()
    if not rows:
        return {}
    landed = {row["place"]: facts_of(row) for row in away.filter(pc.is_valid(away["place"])).to_pylist()}
    names = pa.array(sorted({path for path, _, _ in landed.values()}), pa.string())
    copied = {*entries.filter(pc.equal(entries["action"], LedgerAction.READ))["path"].to_pylist()} & landed.keys()
    begun: dict[str, int] = {}
    arrivals: dict[Facts, int] = {}
    for entry in entries.filter(pc.is_in(entries["path"], value_set=names)).to_pylist():
        begun[entry["path"]] = begun.get(entry["path"], -1) + (entry["action"] == LedgerAction.READ)
        arrivals[facts_of(entry)] = max(begun[entry["path"]], 0)
    by_row = {row: entries["path"][row].as_py() for row in rows}
    copies = {row: landed[place] for row, place in by_row.items() if place not in copied}
    return {row: (facts[0], arrivals[facts]) for row, facts in copies.items() if facts in arrivals}


class ArchiveAddresses:
    """Set of archive addresses in use; each lookup is a filtered read, so a million of them are never loaded."""

    def __init__(self, lake: layout.Lake, name: str) -> None:
        self._log, self._new = tables.delta_table(lake.archive(name)), set[str]()

    def __contains__(self, place: object) -> bool:
        if place in self._new or self._log is None:
            return place in self._new
        row = tables.dataset(self._log).head(1, columns=["place"], filter=pc.field("place") == place)
        return bool(row.num_rows)

    def add(self, place: str | None) -> None:
        """Add an address; ``None`` is ignored."""
        if place:
            self._new |= {place}


def cleaned_batch(lake: layout.Lake, name: str, ledger: DeltaTable, folder: str, opened: Tables | None = None) -> int:
    """Return the last cleaned ledger batch of a landing folder, by the archive log's ``txnVersion``; -1 before any."""
    upto = tables.txn_version((opened or Tables())[lake.archive(name)].delta, _app_id(ledger, folder))
    if upto is None:
        return -1
    return upto


def _app_id(ledger: DeltaTable, folder: str) -> str:
    return f"sluicegate.clean@{tables.table_id(ledger)}@{folder}"


def _announced_id(ledger: DeltaTable) -> str:
    return f"sluicegate.clean.announced@{tables.table_id(ledger)}"


def _recorded_id(ledger: DeltaTable) -> str:
    return f"sluicegate.clean.recorded@{tables.table_id(ledger)}"


def announce(lake: layout.Lake, name: str, removals: list[dict[str, Any]]) -> None:
    """Record files with ``mode`` and ``place`` before they are moved or deleted.

    Args:
        lake: the lake.
        name: the bronze table.
        removals: rows of the archive log, as ``note`` is given them.

    Raises:
        CommitFailedError: another run announces removals at the same time.
    """
    ledger = tables.delta_table(lake.ledger(name))
    if not removals or ledger is None:
        return
    log = tables.delta_table(lake.archive(name))
    if log is None:
        tables.write(lake.archive(name), ARCHIVE.empty_table(), mode="append")
        log = tables.table_at(lake.archive(name))
    rows = [{**row, "modification_time": _microseconds(row["modification_time"])} for row in removals]
    properties = CommitInfo.of({LedgerFacts.removals: rows}).properties()
    number = (tables.txn_version(log, _announced_id(ledger)) or 0) + 1
    mine = Transaction(_announced_id(ledger), number)
    _commit(log, CommitProperties(custom_metadata=properties, app_transactions=[mine]))


def _commit(log: DeltaTable, properties: CommitProperties) -> None:
    """Commit without rows."""
    log.create_write_transaction([], mode="append", schema=log.schema(), commit_properties=properties)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def announced_removals(log: DeltaTable | None, ledger: DeltaTable) -> list[dict[str, Any]]:
    """Return announced removals whose outcome no run has recorded (columns of ``ARCHIVE``)."""
    number = tables.txn_version(log, _announced_id(ledger))
    if log is None or number is None or number == tables.txn_version(log, _recorded_id(ledger)):
        return []
    for commit in lake_log.commits(log):
        rows = commit.info.ledger.removals
        if rows:
            when = datetime.fromtimestamp(commit.timestamp / 1000, UTC)
            facts = {"archived": when, "ledger_id": tables.table_id(ledger)}
            return [
                {**row, **facts, "modification_time": EPOCH + timedelta(microseconds=row["modification_time"])}
                for row in rows
            ]
    return []


def is_removed(removal: Mapping[str, Any]) -> bool:
    """Return whether an announced removal was carried out, by the files that are at its paths.

    If another file has landed under the name and the former was to be deleted, it counts as deleted: the other file is
    then read as a new arrival, and no row of the former is lost.
    """
    facts = (removal["size"], removal["modification_time"])
    path, place = removal["path"], removal["place"]
    if filesystems.file_facts(path) == facts:
        return False
    if place is None:
        return True
    copy = filesystems.file_facts(place)
    if layout.is_local(path) and layout.is_local(place):
        return copy == facts
    return copy is not None and copy[0] == removal["size"]  # a copy on another store has a time of its own


def _unrecorded_rows(log: DeltaTable, ledger: DeltaTable, paths: Iterable[str] | None = None) -> pa.Table:
    """Return rows of announced removals that were carried out, of all files or of ``paths`` (schema ``ARCHIVE``)."""
    rows = [row for row in announced_removals(log, ledger) if paths is None or row["path"] in paths]
    return pa.Table.from_pylist([row for row in rows if is_removed(row)], schema=ARCHIVE)


def note(lake: layout.Lake, name: str, moved: list[dict[str, Any]], upto: tuple[str, int] | None = None) -> bool:
    """Append moved or deleted files, with ``mode`` and ``place``, to the archive log; nothing stays announced.

    Args:
        lake: the lake.
        name: the bronze table.
        moved: the files.
        upto: landing folder and the ledger batch up to which it is cleaned, if known.

    Returns:
        False if another run committed meanwhile. The files stay announced then, and until a run has recorded them no
        other may be: a new announcement takes the place of the one before.
    """
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return True
    time, ledger_id = datetime.now(UTC), tables.table_id(ledger)
    rows = [{**row, "archived": time, "ledger_id": ledger_id} for row in moved]
    try:
        _record(lake.archive(name), ledger, rows, upto)
    except CommitFailedError:
        return False
    _faults.point("clean.after_note")
    return True


def _record(uri: str, ledger: DeltaTable, rows: list[dict[str, Any]], upto: tuple[str, int] | None) -> None:
    log = tables.delta_table(uri)
    number = tables.txn_version(log, _announced_id(ledger))
    waiting = number is not None and number != tables.txn_version(log, _recorded_id(ledger))
    if not rows and not waiting:
        return
    transactions = []
    if number is not None and waiting:
        transactions = [Transaction(_recorded_id(ledger), number)]
    if rows and upto:
        transactions.append(Transaction(_app_id(ledger, upto[0]), upto[1]))
    properties = CommitProperties(app_transactions=transactions or None)
    if rows or log is None:
        files = pa.Table.from_pylist(rows, schema=ARCHIVE)
        tables.write(log or uri, files, mode="append", commit_properties=properties)
        return
    _commit(log, properties)
