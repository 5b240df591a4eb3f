"""Files of a ledger, newest first and a page at a time: of a million entries a page reads its own ledger batches.

Where ``landing.file_status.statuses`` reads the whole ledger, this reads the entries of a page, the statuses of their
batches, and the later entries of the same files, by which their rows were replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.dashboard.source import Answer, Source
from sluicegate.definition import BronzeTable
from sluicegate.lake import layout, tables
from sluicegate.landing import file_status, status_log
from sluicegate.landing.file_states import RENEWING, FileStatus, LedgerAction
from sluicegate.landing.moves import archive
from sluicegate.monitor import status

PAGE = 100
"""Files of a page, at least: the ledger batch of the last of them is there as a whole."""

FEW = 20_000
"""Entries of a ledger up to which the states of all are counted, and about which a page reads at most."""

LANDED = (FileStatus.WAITING, FileStatus.SETTLING, FileStatus.CHANGED, FileStatus.REFUSED)
"""States of files that are in landing and not in the ledger."""


FAILED = pc.field("error").is_valid()


@dataclass(frozen=True)
class LedgerFile:
    """A file.

    Attributes:
        path: its path.
        state: see ``landing.file_states.FileStatus``.
        size: its size in bytes.
        modified: its modification time (UTC).
        batch: its ledger batch; None for a file that is not in the ledger.
        discovered: when it was entered into the ledger (UTC).
        ingested: when bronze committed its rows (UTC).
        rows: its records.
        corrupt: those that cannot be parsed.
        rescued: those with values in ``_rescued_data``.
        error: why it could not be read.
        version: version of the bronze table that has its rows.
    """

    path: str
    state: str
    size: int | None = None
    modified: datetime | None = None
    batch: int | None = None
    discovered: datetime | None = None
    ingested: datetime | None = None
    rows: int | None = None
    corrupt: int | None = None
    rescued: int | None = None
    error: str = ""
    version: int | None = None

    @property
    def lag(self) -> float | None:
        """Seconds from its landing to its rows in bronze; None if clocks differ so that there are none."""
        if self.ingested is None or self.modified is None:
            return None
        seconds = (self.ingested - self.modified).total_seconds()
        if seconds >= 0:
            return seconds
        return None


@dataclass(frozen=True)
class Page:
    """Files of the ledger, newest first, and the ledger batch before which there are more."""

    files: tuple[LedgerFile, ...] = ()
    older: int | None = None


@dataclass(frozen=True)
class FilesRequest:
    """What is to be shown: files of a bronze table in one state (empty for all), of ledger batches before one."""

    source: Source
    lake: layout.Lake
    name: str
    table: BronzeTable
    state: str
    before: int | None

    @property
    def ledger(self) -> str:
        return self.lake.ledger(self.name)

    @property
    def is_only_landed(self) -> bool:
        """Whether the ledger has no files in this state."""
        return self.state in LANDED and self.state != FileStatus.WAITING

    def shows(self, file: LedgerFile) -> bool:
        return not self.state or file.state == self.state

    def newest_files(self, files: Iterable[LedgerFile]) -> tuple[LedgerFile, ...]:
        """Return the first files of the order of display, as many as fit on a page."""
        return tuple(islice(filter(self.shows, files), PAGE))


def page_of(request: FilesRequest) -> Answer[Page]:
    """Read the files of a page once for the versions of the tables that have them."""
    source, lake, name = request.source, request.lake, request.name
    uris = (request.ledger, lake.table("bronze", name), lake.file_status(name), lake.archive(name))
    versions = tuple(version_of(source.table(uri)) for uri in uris)
    key = ("files", lake, name, versions, request.state, request.before)
    if request.state:
        return source.compute_soon(key, lambda: _ledger_page(request))
    return Answer(source.compute_once(request.ledger, key, lambda _: _ledger_page(request)) or Page())


def _ledger_page(request: FilesRequest) -> Page:
    ledger = request.source.table(request.ledger)
    if ledger is None:
        return Page()
    if request.state == FileStatus.FAILED:
        return _failed_page(request)
    files: tuple[LedgerFile, ...] = ()
    oldest = request.before
    for first in _windows(ledger, request.before):
        oldest = first
        window = _window(request, first)
        files = tuple(filter(request.shows, reversed(window)))
        if len(files) >= PAGE or len(window) >= FEW:  # a state that hardly any file has is not sought in all of them
            break
    if oldest is None or oldest <= 0 or not _has_before(ledger, oldest):
        return Page(files)
    return Page(files, oldest)


def _windows(ledger: DeltaTable, before: int | None) -> Iterator[int]:
    """Yield first batches of ever larger windows that end before a batch; the first window has about ``PAGE`` files."""
    sizes = tables.statistics(ledger, "max.chunk", "num_records").to_pylist()
    newest = max((int(size["max.chunk"]) for size in sizes if size["max.chunk"] is not None), default=0)
    if before is None:
        end = newest + 1
    else:
        end = min(before, newest + 1)
    width = max(1, PAGE * (newest + 1) // max(1, sum(size["num_records"] or 0 for size in sizes)))
    while end > 0:
        yield max(0, end - width)
        if width >= end:
            return
        width *= 4


def _has_before(ledger: DeltaTable, batch: int) -> bool:
    """Return whether the ledger may have earlier batches; a data file without statistics may contain some."""
    first_batches = tables.statistics(ledger, "min.chunk")["min.chunk"].to_pylist()
    return any(first is None or first < batch for first in first_batches)


def _window(request: FilesRequest, first: int) -> list[LedgerFile]:
    """Return the files from one ledger batch up to the requested one, exclusive, in the order of reading."""
    before = request.before
    inside = pc.field("chunk") >= first
    if before is not None:
        inside = inside & (pc.field("chunk") < before)
    entries = tables.filter_rows(request.source.dataset(request.ledger), inside)
    if before is not None and entries.num_rows:
        entries = pa.concat_tables([entries, *_later_entries(request, entries, before)])
    statuses = file_status.entry_statuses(request.lake, request.name, entries, first, request.source.table_handles())
    if before is not None:
        statuses = statuses.filter(pc.less(statuses["chunk"], before))
    if request.table.kafka is not None:
        statuses = status.nonempty_ranges(statuses)
    return [file_of(row) for row in statuses.to_pylist()]


def _later_entries(request: FilesRequest, entries: pa.Table, before: int) -> list[pa.Table]:
    """Return later ledger entries of the files that were replaced, or read after being skipped."""
    ledger = request.source.dataset(request.ledger)
    skipped = entries.filter(pc.equal(entries["action"], LedgerAction.SKIP))["path"].unique()
    replacing = pc.field("action").isin(RENEWING) | pc.field("path").isin(skipped)
    replacements = tables.filter_rows(ledger, (pc.field("chunk") >= before) & replacing)["path"]
    addresses = pa.concat_arrays([entries["path"].combine_chunks(), _archive_addresses(request, entries)])
    replaced = replacements.filter(pc.is_in(replacements, value_set=addresses))
    if not len(replaced):
        return []
    return [
        tables.filter_rows(ledger, (pc.field("chunk") >= before) & pc.field("path").isin(replaced.unique().to_pylist()))
    ]


def _archive_addresses(request: FilesRequest, entries: pa.Table) -> pa.Array:
    """Return the archive addresses of entries, under which they may have been read again."""
    opened = request.source.table_handles()
    ledger, log = opened[request.ledger].delta, opened[request.lake.archive(request.name)].delta
    if ledger is None or log is None:
        return pa.array([], pa.string())
    return archive.match_files(request.lake, request.name, ledger, entries)["place"].combine_chunks().drop_null()


def _failed_page(request: FilesRequest) -> Page:
    """Return a page of the newest files that could not be read."""
    source, lake, name = request.source, request.lake, request.name
    failures = status_log.read(lake, name, ["path", "chunk"], FAILED, source.table_handles())
    if request.before is not None:
        failures = failures.filter(pc.less(failures["chunk"], request.before))
    newest = failures.sort_by([("chunk", "descending")]).slice(0, PAGE)
    if not newest.num_rows:
        return Page()
    batches = set(newest["chunk"].to_pylist())
    oldest = min(batches)
    # Each file with all that came later of it: what was read whole since is failed no more, but replaced.
    entries = tables.filter_rows(
        source.dataset(request.ledger), pc.field("path").isin(newest["path"].unique().to_pylist())
    )
    statuses = file_status.entry_statuses(lake, name, entries, oldest, source.table_handles()).to_pylist()
    files = [
        file_of(row) for row in reversed(statuses) if row["state"] == FileStatus.FAILED and row["chunk"] in batches
    ]
    return Page(tuple(files), oldest if failures.num_rows > PAGE else None)


def file_of(row: dict[str, Any]) -> LedgerFile:
    return LedgerFile(
        row["path"], row["state"], row.get("size"), row.get("modification_time"), row.get("chunk"),
        row.get("discovered"), row.get("ingested"), row.get("rows"), row.get("corrupt"), row.get("rescued"),
        row.get("error") or "", row.get("version"),
    )  # fmt: skip


def version_of(table: DeltaTable | None) -> tuple[str, int] | None:
    """Return id and version of a table, None without a table."""
    if table is None:
        return None
    return (tables.table_id(table), table.version())
