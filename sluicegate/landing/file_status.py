"""File status of each landed file, copied for good from bronze's log to ``_ledger/{table}_outcome``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.lake import layout, tables
from sluicegate.lake import log as lake_log
from sluicegate.lake.commits import compaction
from sluicegate.lake.table import Tables
from sluicegate.landing import on_record, status_log
from sluicegate.landing.file_states import OPENED, RENEWING, FileStatus, LedgerAction
from sluicegate.landing.moves import archive, moved_files
from sluicegate.landing.on_record import has_unrecorded_batches as has_unrecorded_batches
from sluicegate.landing.on_record import unrecorded_batches as unrecorded_batches
from sluicegate.landing.status_log import OUTCOME, TIME

BECAME = ["rows", "corrupt", "rescued", "error", "version", "ingested"]
STATUSES = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modification_time", TIME), ("action", pa.string()),
                   ("chunk", pa.int64()), ("discovered", TIME), *map(OUTCOME.field, BECAME),
                   ("state", pa.string()), ("archived", TIME), ("place", pa.string())])  # fmt: skip

# Files whose status is computed at a time.
AT_ONCE = 50_000
NOTHING = {"rows": 0, "corrupt": 0, "rescued": 0}


@dataclass(frozen=True)
class Taken:
    """Row counts and failed files of some ledger batches.

    Attributes:
        rows: records.
        corrupt: corrupt records among them.
        rescued: records among them with ``_rescued_data``.
        failed: files that could not be read, and why.
        empty: files that were read and have no record.
    """

    rows: int
    corrupt: int
    rescued: int
    failed: dict[str, str]
    empty: int = 0


def copy(lake: layout.Lake, name: str, opened: Tables | None = None) -> Taken:
    """Append the status of files in newly committed chunks to ``_ledger/{name}_outcome``.

    Counts come from the committed rows, so they cannot differ from the table.

    Args:
        lake: the lake.
        name: the bronze table.
        opened: table handles of the calling step.
    """
    opened = opened or Tables()
    bronze, ledger = opened[lake.table("bronze", name)].delta, opened[lake.ledger(name)].delta
    if bronze is None or ledger is None:
        return Taken(0, 0, 0, {})
    commits = on_record.chunk_commits(bronze, ledger, name, on_record.last_version(lake, name, bronze, opened))
    sums = dict(NOTHING)
    failed: dict[str, str] = {}
    empty = 0
    for some_commits in _split_commits(commits):
        rows = _rows(bronze, ledger, {chunk: commits[chunk] for chunk in some_commits})
        tables.write(lake.file_status(name), pa.Table.from_pylist(rows, schema=OUTCOME), mode="append")
        sums = {key: sums[key] + sum(row[key] for row in rows) for key in NOTHING}
        failed |= {row["path"]: row["error"] for row in rows if row["error"]}
        empty += sum(row["action"] in OPENED and not row["rows"] and not row["error"] for row in rows)
    if commits:
        _compact(lake.file_status(name))
        opened.refresh(lake.file_status(name))
    return Taken(**sums, failed=failed, empty=empty)


def _split_commits(commits: dict[int, lake_log.Commit]) -> Iterator[list[int]]:
    """Split ledger batches, in order, into parts of about ``AT_ONCE`` files to bound memory; a kill loses nothing."""
    part: list[int] = []
    files = 0
    for chunk in sorted(commits):
        part.append(chunk)
        files += commits[chunk].info.bronze.files
        if files >= AT_ONCE:
            yield part
            part, files = [], 0
    if part:
        yield part


def _rows(bronze: DeltaTable, ledger: DeltaTable, commits: dict[int, lake_log.Commit]) -> list[dict[str, Any]]:
    """Return status rows of the files in ledger batches (schema ``OUTCOME`` and ``action``)."""
    first, last = min(commits), max(commits)
    counted = _count(bronze, first, last)
    entries = tables.rows_above(ledger, "chunk", first - 1)
    mine = pc.field("chunk").isin(sorted(commits))
    rows = [
        {
            **file, **counted.get((file["chunk"], file["path"]), NOTHING),
            **_trouble(commits[file["chunk"]], file["path"]),
            "version": commits[file["chunk"]].version,
            "ingested": datetime.fromtimestamp(commits[file["chunk"]].timestamp / 1000, UTC),
            "table_id": tables.table_id(bronze),
        }
        for file in entries.to_table(["path", "chunk", "action"], filter=mine).to_pylist()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["chunk"], row["path"]))


def _compact(uri: str) -> None:
    log = tables.table_at(uri)
    with suppress(DeltaError):  # a concurrent run wrote: the next run compacts
        if compaction.compact_newest(log, "chunk", ("table_id",)):
            log.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)


def _trouble(commit: lake_log.Commit, path: str) -> dict[str, Any]:
    """Return the error of a file in bronze's commit, whether to retry the file unchanged, and its definition then."""
    error, retry = commit.info.bronze.failed.get(path, (None, None))
    return {"error": error, "retry": retry, "definition": commit.info.definition}


def failed_files(lake: layout.Lake, name: str, definition: str, opened: Tables | None = None) -> dict[str, bool]:
    """Return paths of the files whose last reading failed, and whether to retry each although it is unchanged.

    A file is retried if the cause may be gone, or if the definition has changed since.

    Args:
        lake: the lake.
        name: the bronze table.
        definition: fingerprint of the present definition.
        opened: table handles of the calling step.
    """
    opened = opened or Tables()
    log = opened[lake.file_status(name)].delta
    if log is None:
        return {}
    if on_record.has_no_failures(log):
        return {}
    columns = ["path", "chunk", "error", "retry", "definition"]
    wrong = status_log.read(lake, name, columns, pc.field("error").is_valid(), opened)
    if not wrong.num_rows:
        return {}
    since = (pc.field("chunk") >= pc.min(wrong["chunk"])) & pc.field("path").isin(wrong["path"].unique().to_pylist())
    last = {
        row["path"]: row for row in status_log.read(lake, name, columns, since, opened).sort_by("chunk").to_pylist()
    }
    return {path: bool(row["retry"]) or row["definition"] != definition for path, row in last.items() if row["error"]}


def unread_files(lake: layout.Lake, name: str, ledger: DeltaTable, opened: Tables) -> list[str]:
    """Return paths of files in ledger batches that bronze does not have, as after a rule refused the batch."""
    info = lake_log.info_of(opened[lake.table("bronze", name)].last_own_commit)
    newest = next((number for number in (info.until, info.bronze.chunk) if number is not None), -1)
    if newest >= ledger.version():
        return []
    waiting: list[str] = tables.rows_above(ledger, "chunk", newest).to_table(["path"])["path"].to_pylist()
    return waiting


def statuses(lake: layout.Lake, name: str) -> pa.Table:
    """Return all ledger entries of a bronze table with their file status, in the order of reading.

    Column ``state`` is ``waiting``; ``ingested``; ``failed`` (see ``error``); ``skipped`` (there before the table, and
    ``includeExistingFiles`` is false, or read by another pipeline, see landing/chosen/skip.py); ``replaced`` (a later
    read replaced its rows, or they were dropped; or a skipped file was read after all, or moved); ``dropped`` (by a
    reset, as the file was gone); ``archived`` (its rows are in the table; the file was removed at ``archived``, to
    ``place``); or ``moved`` (read from a former landing folder: its rows are under that path).
    """
    ledger = tables.delta_table(lake.ledger(name))
    if ledger is None:
        return STATUSES.empty_table()
    away = archive.table(lake, name, ledger)
    became = status_log.read(lake, name, ["path", "chunk", *BECAME])
    return _statuses(tables.dataset(ledger).to_table(), became, away, on_record.moved_away_paths(ledger))


def entry_statuses(lake: layout.Lake, name: str, entries: pa.Table, since: int, opened: Tables) -> pa.Table:
    """Return ledger entries with their file status, as in ``statuses``, in the order of reading.

    Args:
        lake: the lake.
        name: the bronze table.
        entries: rows of its ledger; each file needs its later entries, which may have replaced its rows.
        since: ledger batch from which the entries start, so that no earlier status is read.
        opened: table handles of the calling step.
    """
    ledger = opened[lake.ledger(name)].delta
    if ledger is None:
        return STATUSES.empty_table()
    became = status_log.read(lake, name, ["path", "chunk", *BECAME], pc.field("chunk") >= since, opened)
    away = None
    if opened[lake.archive(name)].delta is not None:
        away = archive.match_files(lake, name, ledger, entries)
    moved_away: set[str] = set()
    if pc.any(pc.equal(entries["action"], LedgerAction.SKIP)).as_py():
        moved_away = on_record.moved_away_paths(ledger)
    return _statuses(entries, became, archive.ARCHIVE.empty_table() if away is None else away, moved_away)


def _statuses(entries: pa.Table, became: pa.Table, away: pa.Table, moved_away: Collection[str]) -> pa.Table:
    order = [(column, "ascending") for column in ("chunk", "modification_time", "path")]
    entries = entries.sort_by(order)
    became = became.sort_by([("version", "descending")])
    # One status per file and batch, the newest if a killed run's status was copied twice.
    row = pc.index_in(_identity(entries, "chunk"), value_set=_identity(became, "chunk"))
    for column in BECAME:
        entries = entries.append_column(column, pc.take(became[column], row))
    with_states = _add_states(entries, _rename_entries(entries), archive.arrivals_of(entries, away), moved_away)
    return _add_archive(with_states, away).select(STATUSES.names).cast(STATUSES)


def _identity(files: pa.Table, *columns: str) -> pa.ChunkedArray:
    """Return the text key per file: its path and some number or time columns."""
    texts = [files[column].cast(pa.int64()).cast(pa.string()) for column in columns]
    return pc.binary_join_element_wise(*texts, files["path"], "/")


def _rename_entries(entries: pa.Table) -> pa.Table:
    """Give entries of files that were read again after a move of their folder the path that their rows have."""
    moved = entries.filter(pc.equal(entries["action"], LedgerAction.MOVED))["path"]
    reread = entries.filter(pc.is_in(entries["action"], pa.array(RENEWING)))["path"]
    names = moved_files.aliases(entries, set(moved.to_pylist()) & set(reread.to_pylist()))
    if not names:
        return entries
    indexes = pc.index_in(entries["path"], value_set=pa.array(list(names), pa.string()))
    paths = pc.coalesce(pc.take(pa.array(list(names.values()), pa.string()), indexes), entries["path"])
    return entries.set_column(entries.schema.get_field_index("path"), "path", paths)


def _add_states(
    entries: pa.Table, renamed: pa.Table, archived: Mapping[int, tuple[str, int]], moved_away: Collection[str]
) -> pa.Table:
    moved = pc.equal(entries["action"], LedgerAction.MOVED)
    skipped, dropped = pc.equal(entries["action"], LedgerAction.SKIP), pc.equal(entries["action"], LedgerAction.DROP)
    waiting = pc.is_null(entries["version"])
    read = pc.and_(pc.invert(pc.or_(pc.or_(pc.or_(skipped, moved), waiting), dropped)), pc.is_null(entries["error"]))
    # A damaged file counts as failed, yet its intact records are in the table.
    gave = pc.or_(read, pc.fill_null(pc.greater(entries["rows"], 0), False))
    renews = pc.is_in(entries["action"], value_set=pa.array(RENEWING))
    ends = pc.and_(renews, pc.or_(gave, pc.and_(dropped, pc.invert(waiting))))
    renamed = _restore_landed(renamed.append_column("arrival", _arrivals(renamed, ends)), archived)
    new = renamed.filter(ends).sort_by([("chunk", "descending")])
    heir = pc.take(new["chunk"], pc.index_in(_identity(renamed, "arrival"), value_set=_identity(new, "arrival")))
    # If a status row is missing, a later batch's shows that the file does not wait: batches are read in order.
    renewed = pc.fill_null(pc.greater(heir, entries["chunk"]), False)
    superseded = pc.and_(skipped, _has_later_entry(entries, moved_away))
    replaced = pc.or_(pc.and_(pc.or_(gave, waiting), renewed), superseded)
    waiting, skipped = pc.and_(waiting, pc.invert(replaced)), pc.and_(skipped, pc.invert(superseded))
    kinds = pc.make_struct(skipped, moved, waiting, dropped, replaced, read)
    words = (
        FileStatus.SKIPPED, FileStatus.MOVED, FileStatus.WAITING, FileStatus.DROPPED, FileStatus.REPLACED,
        FileStatus.INGESTED, FileStatus.FAILED,
    )  # fmt: skip
    return entries.append_column("state", pc.case_when(kinds, *words))


def _has_later_entry(entries: pa.Table, moved_away: Collection[str]) -> pa.ChunkedArray:
    """Return the mask of entries whose file has a later one, at its path or the path it moved to."""
    newest = entries.group_by("path").aggregate([("chunk", "max")])
    last_batch = pc.take(newest["chunk_max"], pc.index_in(entries["path"], value_set=newest["path"]))
    is_elsewhere = pc.is_in(entries["path"], value_set=pa.array(sorted(moved_away), pa.string()))
    return pc.or_(pc.less(entries["chunk"], last_batch), is_elsewhere)


def _restore_landed(entries: pa.Table, archived: Mapping[int, tuple[str, int]]) -> pa.Table:
    """Return entries with the paths and arrivals that some rows have as they landed."""
    if not archived:
        return entries
    place = pc.index_in(pa.array(range(entries.num_rows), pa.int64()), value_set=pa.array(list(archived), pa.int64()))
    for column, values in zip(("path", "arrival"), zip(*archived.values(), strict=True), strict=True):
        recorded = entries[column].combine_chunks()
        changed = pc.coalesce(pc.take(pa.array(values, recorded.type), place), recorded)
        entries = entries.set_column(entries.schema.get_field_index(column), column, changed)
    return entries


def _arrivals(entries: pa.Table, ends: pa.ChunkedArray) -> pa.Array:
    """Return the number of the arrival that each entry belongs to, counted from 0 per path (see landing/arrivals.py).

    Readings of one content are one arrival if it was overwritten since.

    Args:
        entries: the entries, in the order of their batches.
        ends: mask of the entries that end what was read before them.
    """
    read = entries.filter(pc.equal(entries["action"], LedgerAction.READ))["path"].value_counts()
    several = read.field("values").filter(pc.greater(read.field("counts"), 1))
    counted = [0] * entries.num_rows
    former: dict[str, list[tuple[int, archive.Facts]]] = {}
    rows = pc.indices_nonzero(pc.is_in(entries["path"], value_set=several))
    entries_of_rows = entries.select([*archive.KEYS, "action"]).take(rows).to_pylist()
    for row, is_end, entry in zip(rows.to_pylist(), ends.take(rows).to_pylist(), entries_of_rows, strict=True):
        before, facts = former.setdefault(entry["path"], []), archive.facts_of(entry)
        if before:
            last = counted[before[-1][0]]
        else:
            last = -1
        counted[row] = last + (entry["action"] == LedgerAction.READ)
        if is_end and before and before[-1][1] != facts:
            for earlier, content in reversed(before):
                if content != before[-1][1]:
                    break
                counted[earlier] = counted[row]
        before.append((row, facts))
    return pa.array(counted, pa.int64())


def _add_archive(entries: pa.Table, away: pa.Table) -> pa.Table:
    """Return entries with ``archived`` and ``place``, and state ``archived`` for ingested files that were removed."""
    away = away.sort_by([("archived", "descending")])
    facts = ("size", "modification_time")
    row = pc.index_in(_identity(entries, *facts), value_set=_identity(away, *facts))
    is_archived = pc.and_(pc.equal(entries["state"], FileStatus.INGESTED), pc.is_valid(row))
    row = pc.if_else(is_archived, row, None)
    states = pc.if_else(is_archived, FileStatus.ARCHIVED, entries["state"])
    entries = entries.set_column(entries.schema.get_field_index("state"), "state", states)
    for column in ("archived", "place"):
        entries = entries.append_column(column, pc.take(away[column], row))
    return entries


def manifests(bronze: DeltaTable, ledger: DeltaTable, name: str) -> dict[tuple[int, str], int]:
    """Return record counts by ledger batch and path, as far as bronze's log goes back."""
    counts: dict[tuple[int, str], int] = {}
    for chunk, commit in on_record.chunk_commits(bronze, ledger, name, -1).items():
        counts |= {(chunk, path): int(records) for path, records in commit.info.bronze.manifest.items()}
    return counts


def rows_of(bronze: DeltaTable, chunk: int) -> dict[str, int]:
    """Return the row count per file of a ledger batch."""
    return {path: group["rows"] for (_, path), group in _count(bronze, chunk, chunk).items()}


def _count(bronze: DeltaTable, first: int, last: int) -> dict[tuple[int, str], dict[str, int]]:
    columns = {
        "chunk": pc.field("_chunk"),
        "source_file": pc.field("source_file"),
        "corrupt": pc.field("_corrupt_record").is_valid().cast(pa.int64()),
        "rescued": pc.field("_rescued_data").is_valid().cast(pa.int64()),
    }
    rows = tables.rows_above(bronze, "_chunk", first - 1).to_table(columns=columns, filter=pc.field("_chunk") <= last)
    sums: list[tuple[str, str]] = [("corrupt", "count"), ("corrupt", "sum"), ("rescued", "sum")]
    return {
        (group["chunk"], layout.to_ledger_path(group["source_file"] or "")): {
            "rows": group["corrupt_count"], "corrupt": group["corrupt_sum"], "rescued": group["rescued_sum"],
        }
        for group in rows.group_by(["chunk", "source_file"]).aggregate(sums).to_pylist()
    }  # fmt: skip
