"""Files of a bronze table, those in landing and those of the ledger, or what it has in place of files.

The states are those of ``landing.file_status.statuses``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.dashboard import ledger_files
from sluicegate.dashboard.ledger_files import (
    FAILED,
    LANDED,
    FilesRequest,
    LedgerFile,
    Page,
    file_of,
    page_of,
    version_of,
)
from sluicegate.dashboard.source import Answer, Source
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.definition.pipeline.model import bronze_table
from sluicegate.errors import PipelineMissing
from sluicegate.lake import layout, tables
from sluicegate.landing import file_status, status_log
from sluicegate.landing.file_states import FileStatus
from sluicegate.monitor import status


@dataclass(frozen=True)
class _Landing:
    """Files in landing that the ledger does not have as they are, when they were listed, or why they cannot be."""

    files: tuple[LedgerFile, ...] = ()
    listed: datetime | None = None
    error: str = ""

    @classmethod
    def from_answer(cls, answer: Answer[tuple[LedgerFile, ...]]) -> _Landing:
        if answer.error is not None:
            return cls(answer.value or (), None, answer.error.message)
        return cls(answer.value or (), answer.since)

    def counts(self) -> dict[str, int | None]:
        """Count the files by state, None while they are being listed."""
        if self.listed is None:
            return dict.fromkeys(LANDED)
        return {state: sum(file.state == state for file in self.files) for state in LANDED}


@dataclass(frozen=True)
class FileDetails:
    """Files of a bronze table.

    Attributes:
        pipeline: its pipeline.
        table: the bronze table.
        folder: the landing folder, as the definition has it.
        of_files: whether it reads files; what reads a Delta table or Kafka has versions or ranges of offsets here.
        entries: entries of the ledger.
        counts: files by state, those of landing and of the ledger; None for what takes too long to count.
        state: the state that is shown; empty for all.
        files: the files of this page, newest first.
        older: ledger batch before which the next page begins; None if this is the last one.
        listed: when landing was listed (UTC); None while that is being done.
        error: why landing cannot be listed.
        searching: whether the files are still being looked for: those in one state may lie anywhere in the ledger.
    """

    pipeline: str
    table: str
    folder: str
    of_files: bool
    entries: int
    counts: dict[str, int | None]
    state: str
    files: tuple[LedgerFile, ...]
    older: int | None
    listed: datetime | None
    error: str
    searching: bool = False


def file_details(
    source: Source, pipeline: Pipeline, name: str, state: str = "", before: int | None = None
) -> FileDetails:
    """Return a page of files.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        name: the bronze table.
        state: state of the files; empty for all.
        before: ledger batch before which the page's batches end.

    Raises:
        PipelineMissing: there is no such bronze table, or no such state.
    """
    table = bronze_table(pipeline, name)
    if state and state not in {*FileStatus}:
        raise PipelineMissing("unknown file state")
    request = FilesRequest(source, source.lake(pipeline), name, table, state, before)
    if table.reads_files:
        return _landed_details(request, pipeline)
    if table.kafka:
        return _range_details(request, pipeline)
    return _version_details(request, pipeline)


def _landed_details(request: FilesRequest, pipeline: Pipeline) -> FileDetails:
    """Return the files of landing that are not in the ledger, then those of the ledger."""
    source, name = request.source, request.name
    entries = source.rows(request.ledger)
    answer = source.compute_soon(("landed", pipeline.name, name), lambda: _landed_files(pipeline, name))
    landing = _Landing.from_answer(answer)
    counts = _counts(request, entries)
    entered = counts.pop(FileStatus.WAITING, 0) or 0  # and not in bronze yet
    counts |= landing.counts()
    waiting = counts[FileStatus.WAITING]
    if waiting is not None:
        counts[FileStatus.WAITING] = waiting + entered
    return _view(request, pipeline, landing, entries, counts)


def _range_details(request: FilesRequest, pipeline: Pipeline) -> FileDetails:
    """Return ranges of offsets of Kafka's topics in place of files."""
    entries = _ranges(request.source, request.ledger)
    return _view(request, pipeline, _Landing(), entries, _counts(request, entries))


def _view(
    request: FilesRequest, pipeline: Pipeline, landing: _Landing, entries: int, counts: dict[str, int | None]
) -> FileDetails:
    """Return the view of a table with a ledger.

    Raises:
        UserError: the page of the ledger cannot be read.
    """
    files: tuple[LedgerFile, ...] = ()
    if request.is_only_landed or request.before is None:
        files = request.newest_files(landing.files)
    page, searching = Page(), False
    if not request.is_only_landed:
        request.source.dataset(request.lake.file_status(request.name))
        answer = page_of(request)
        if answer.error is not None:
            raise answer.error
        page, searching = answer.value or Page(), answer.value is None
    return FileDetails(
        pipeline=pipeline.name, table=request.name, folder=request.table.path or "",
        of_files=request.table.reads_files, entries=entries, counts=counts, state=request.state,
        files=files + page.files, older=page.older, listed=landing.listed, error=landing.error, searching=searching,
    )  # fmt: skip


def _version_details(request: FilesRequest, pipeline: Pipeline) -> FileDetails:
    """Return the versions of a Delta table that each run read, and those that wait, in place of files."""
    source, name, path = request.source, request.name, request.table.path
    stamp = tuple(version_of(source.table(uri)) for uri in (request.lake.table("bronze", name), path))
    answer = source.compute_soon(("versions", pipeline.name, name, stamp), lambda: _versions(pipeline, name))
    runs = answer.value or ()
    matching = [
        run for run in runs if request.shows(run) and (request.before is None or _end_version(run) < request.before)
    ]
    files = tuple(matching[: ledger_files.PAGE])
    error = ""
    if answer.error is not None:
        error = answer.error.message
    return FileDetails(
        pipeline=pipeline.name, table=name, folder=path, of_files=False, entries=len(runs),
        counts={state: sum(run.state == state for run in runs) for state in _OF_VERSIONS}, state=request.state,
        files=files, older=_end_version(files[-1]) if len(matching) > ledger_files.PAGE else None,
        listed=answer.since, error=error, searching=answer.value is None and not error,
    )  # fmt: skip


_OF_VERSIONS = (FileStatus.WAITING, FileStatus.INGESTED, FileStatus.REPLACED)


def _versions(pipeline: Pipeline, name: str) -> tuple[LedgerFile, ...]:
    return tuple(file_of(row) for row in reversed(status.files(name, pipeline, pipeline.settings).to_pylist()))


def _end_version(file: LedgerFile) -> int:
    """Return the version of its source at which a run ended."""
    if file.batch is not None:
        return file.batch
    return -1


def _ranges(source: Source, ledger: str) -> int:
    """Count the offset ranges of a ledger."""
    ranges = source.compute_once(
        ledger, "ranges", lambda table: status.nonempty_ranges(tables.dataset(table).to_table(["size"]))
    )
    if ranges is None:
        return 0
    return int(ranges.num_rows)


def _landed_files(pipeline: Pipeline, name: str) -> tuple[LedgerFile, ...]:
    """List the files in landing that are not in the ledger with the same content."""
    lake = layout.Lake(pipeline.settings.lake, pipeline.name)
    if tables.rows(tables.delta_table(lake.ledger(name))) <= ledger_files.FEW:
        files = status.files(name, pipeline, pipeline.settings, LANDED)
    else:
        files = _discover_files(pipeline, name, lake)
    rows = files.filter(pc.is_null(files["chunk"])).to_pylist()
    return tuple(file_of(row) for row in reversed(rows))


def _discover_files(pipeline: Pipeline, name: str, lake: layout.Lake) -> pa.Table:
    """Discover the files of ``status.files`` that landing alone has, without reading the ledger's files."""
    from sluicegate.landing import discovery

    discovered = discovery.discover(name, pipeline.bronze[name], lake)
    parts = [*status.of_landing(discovered), file_status.STATUSES.empty_table()]
    return pa.concat_tables(parts, promote_options="default")


def _counts(request: FilesRequest, entries: int) -> dict[str, int | None]:
    """Count the ledger's entries by state, in a long ledger only those that failed or wait."""
    source, lake, name = request.source, request.lake, request.name
    if entries <= ledger_files.FEW:
        uris = (lake.table("bronze", name), lake.file_status(name), lake.archive(name))
        stamp = tuple(source.rows(uri) for uri in uris)
        counts = source.compute_once(request.ledger, ("states", stamp), lambda _: _states(request.table, lake, name))
        return dict(counts or {})
    opened = source.table_handles()
    failed = source.compute_once(
        lake.file_status(name), "failed", lambda _: status_log.read(lake, name, ["path"], FAILED, opened).num_rows
    )
    bronze = version_of(source.table(lake.table("bronze", name)))
    waiting = source.compute_once(
        request.ledger, ("unread", bronze), lambda ledger: len(file_status.unread_files(lake, name, ledger, opened))
    )
    return {FileStatus.WAITING: waiting or 0, FileStatus.FAILED: failed or 0, FileStatus.INGESTED: None}


def _states(table: BronzeTable, lake: layout.Lake, name: str) -> dict[str, int | None]:
    counts = status.ledger_entries(name, table, lake)["state"].value_counts().to_pylist()
    return {count["values"]: count["counts"] for count in counts}
