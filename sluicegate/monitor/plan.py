"""Plan of the next run, from landing, ledger and offsets: no Spark, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import dropwhile
from typing import TYPE_CHECKING

from sluicegate.console import files as files_
from sluicegate.console import human_bytes, inflect, quantity
from sluicegate.errors import LandingMissing, SluicegateError, StoreRefused, StoreUnreachable
from sluicegate.flow.flows import flows, open_all_tables
from sluicegate.flow.model import Flow, Progress, ProgressKind
from sluicegate.flow.progress import progress
from sluicegate.lake import layout
from sluicegate.lake.table import Table, Tables, TablesOfPoll
from sluicegate.lake.table_description import Change, difference
from sluicegate.landing import glance, on_record
from sluicegate.storage.store_errors import translate_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.settings import Settings

# Errors of a place that cannot be reached, of which a definition has no fault.
UNREACHED = (LandingMissing, StoreRefused, StoreUnreachable)


class TableState(StrEnum):
    """Whether a table has taken in what its inputs have.

    Attributes:
        UP_TO_DATE: no change of an input waits.
        BEHIND: an input has files, rows or versions that the table has not taken in.
        BLOCKED: it waits for something else than files or rows; ``progress.why`` says for what.
        UNASKED: only a run can find out what waits, as it is in Kafka.
    """

    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    BLOCKED = "blocked"
    UNASKED = "as its last run left it"


@dataclass(frozen=True)
class TableWork:
    """Work that waits for one table.

    Attributes:
        flow: its flow.
        progress: the flow's offsets and what follows from them.
        files: files that landed and are not in the ledger.
        bytes: their size.
        settling: files too young to be read.
        changed: files that changed after they were read.
        refused: files and folders in landing that are passed over: links that lead out of it, and what is unreadable.
        failed: files whose last reading failed and that the next run does not retry.
        skips: files that the next run, the first one, leaves out: ``includeExistingFiles`` is false.
        skipped: files that are in no table, as they were to be left out.
        behind: whether the status of files that a killed run read is not on record yet.
        versions: versions of a source Delta table that are not taken in yet.
        unknown: whether only a run can find out what waits, as only its JVM can ask Kafka's brokers.
        described: what comments and properties a run would change; None if none.
        problem: why it is not known what waits, where this was not to end the plan; None if it is known.
    """

    flow: Flow
    progress: Progress
    files: int = 0
    bytes: int = 0
    settling: int = 0
    changed: int = 0
    refused: int = 0
    failed: int = 0
    behind: bool = False
    skips: int = 0
    skipped: int = 0
    versions: int = 0
    unknown: bool = False
    described: Change | None = None
    problem: SluicegateError | None = None

    @property
    def layer(self) -> str:
        """Bronze, silver or gold."""
        return self.flow.layer

    @property
    def table(self) -> str:
        """Its name."""
        return self.flow.table

    @property
    def work(self) -> bool:
        """Whether a run would do anything for this table."""
        return self.progress.has_work or self.described is not None or self._has_news

    @property
    def _has_news(self) -> bool:
        """Whether there is something to read, or to put on record, that the flow's progress does not tell."""
        return any((self.files, self.skips, self.behind, self.unknown))

    @property
    def waits(self) -> bool:
        """Whether something arrived or changed that the table has not taken in, or may have."""
        return self.progress.has_waiting_changes or self._has_news

    @property
    def follows(self) -> bool:
        """Whether what waits is neither a file, nor a version of another program's table, nor in Kafka."""
        return self.waits and not any((self.files, self.skips, self.versions, self.unknown))

    @property
    def state(self) -> TableState:
        """Whether the table has taken in what its inputs have."""
        if self.progress.kind == ProgressKind.BLOCKED:
            return TableState.BLOCKED
        if self.unknown and not (self.progress.has_waiting_changes or self.behind):
            return TableState.UNASKED
        if self.waits:
            return TableState.BEHIND
        return TableState.UP_TO_DATE


@dataclass(frozen=True)
class Pending:
    """Work that waits for a pipeline."""

    tables: list[TableWork] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        """Whether all tables have taken in everything."""
        return not self.late_layers

    @property
    def layers(self) -> list[str]:
        """Layers that a run would start: from the first with work on, as work in one makes work in the next."""
        return self._layers_from(lambda table: table.work)

    @property
    def late_layers(self) -> list[str]:
        """Layers from the first whose source changed: the reason to begin a run (``layers`` also counts other work)."""
        return self._layers_from(lambda table: table.waits)

    def _layers_from(self, has: Callable[[TableWork], bool]) -> list[str]:
        layers = dropwhile(lambda layer: not any(map(has, self._layer_work(layer))), layout.LAYERS)
        return [*filter(self._layer_work, layers)]

    def select_tables(self, included: Callable[[str], bool]) -> Pending:
        """Return the work of selected tables, by name."""
        return Pending([table for table in self.tables if included(table.table)])

    def _layer_work(self, layer: str) -> list[TableWork]:
        return [table for table in self.tables if table.layer == layer]

    @property
    def files(self) -> int:
        """Files to read."""
        return sum(table.files for table in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes of these files."""
        return sum(table.bytes for table in self.tables)

    @property
    def settling(self) -> int:
        """Files too young to be read, which may still be being written."""
        return sum(table.settling for table in self.tables)

    @property
    def changed(self) -> int:
        """Files that changed after they were read."""
        return sum(table.changed for table in self.tables)

    def sentence(self) -> str:
        """Return the backlog in a sentence for people."""
        waiting = [*self._source_texts(), *self._table_texts(), *self._waiting_texts()]
        text = "nothing new: every landed file is in every table"
        if waiting:
            text = f"waiting: {'; '.join(waiting)}"
        if passed_over := self._left_out_texts():
            return f"{text}, but {' and '.join(passed_over)} (see `sluicegate files`)"
        return text

    def _source_texts(self) -> Iterator[str]:
        """Yield what is there to be read by bronze."""
        for table in self.tables:
            if table.files:
                yield f"{files_(table.files)} of {human_bytes(table.bytes)} for {table.table}"
        for table in self.tables:
            if table.skips:
                yield f"{files_(table.skips)} for {table.table} to be skipped"
        for table in self.tables:
            if table.versions:
                yield f"{quantity(table.versions, 'version')} of a Delta table for {table.table}"
        if unknown := [table.table for table in self.tables if table.unknown]:
            yield f"records of {', '.join(unknown)}, unknown until a run queries the brokers"

    def _table_texts(self) -> Iterator[str]:
        """Yield what is to be done besides reading."""
        if described := [table.table for table in self.tables if table.described is not None]:
            yield f"comments or properties of {', '.join(described)}"
        if behind := [table.table for table in self.tables if table.follows]:
            yield f"{', '.join(behind)} {inflect(len(behind), 'is', 'are')} behind"

    def _waiting_texts(self) -> Iterator[str]:
        """Yield what a run does not take in now."""
        if self.nothing and not self.settling:  # else what is read, now or soon, may well be what they wait for
            for table in self.tables:
                if table.progress.kind == ProgressKind.BLOCKED:
                    yield f"{table.table} waits: {table.progress.why}"
        if self.settling:
            yield f"{files_(self.settling)} still settling"
        if lost := [table.table for table in self.tables if table.problem is not None]:
            yield f"the backlog of {', '.join(lost)} is unknown"

    def _left_out_texts(self) -> list[str]:
        """Return the files that are in no table."""
        failed = sum(table.failed for table in self.tables)
        skipped = sum(table.skipped for table in self.tables)
        refused = sum(table.refused for table in self.tables)
        are, were = inflect(skipped, "is", "are"), inflect(refused, "was", "were")
        counted = [
            (self.changed, f"{files_(self.changed)} changed after being read"),
            (failed, f"{files_(failed)} could not be read"),
            (skipped, f"{files_(skipped)} {are} skipped and in no table until a `sluicegate reload`"),
            (refused, f"{refused:,} in landing {were} passed over"),
        ]
        return [text for count, text in counted if count]


def _unretried_files(failed: Mapping[str, bool], new: pa.Table) -> int:
    """Failed files that the next run does not retry: unchanged, or gone."""
    if not failed:
        return 0
    return len(failed.keys() - set(new["path"].to_pylist()))


def pending(pipeline: Pipeline, settings: Settings, opened: Tables | None = None, *, partly: bool = False) -> Pending:
    """Compare landing, ledger and offsets with what the tables have.

    Args:
        pipeline: the definition.
        settings: where things are.
        opened: the handles of the step that this is a part of, as ``open_all_tables`` gives them; by default those of a
            poll, which asks an object store for nothing that a job asks again.
        partly: whether to go on where a landing folder, or another program's table, cannot be reached.

    Raises:
        LandingMissing: a landing folder, or the Delta table that a bronze table reads, does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    work_to_do, opened = Pending(), opened or open_all_tables(pipeline, lake, TablesOfPoll())
    for layer in layout.LAYERS:
        for flow in flows(pipeline, lake, layer, opened).values():
            try:
                with translate_errors():
                    work = _table_work(pipeline, flow, lake, opened)
            except UNREACHED as error:
                if not partly or layer != "bronze":
                    raise
                work = TableWork(flow, Progress(ProgressKind.BLOCKED, why=error.message), problem=error)
            work_to_do.tables.append(replace(work, described=difference(opened[flow.target].delta, flow.description)))
    return work_to_do


def _table_work(pipeline: Pipeline, flow: Flow, lake: layout.Lake, opened: Tables) -> TableWork:
    """Return the work that waits for a table, without what comments and properties a run would change."""
    flow_progress = progress(flow, opened)
    if flow.has_foreign_source:
        versions = 0
        if flow_progress.has_work:
            versions = flow_progress.until - flow_progress.since
        return TableWork(flow, flow_progress, versions=versions)
    if flow.layer != "bronze":
        return TableWork(flow, flow_progress)
    table = pipeline.bronze[flow.table]
    if table.kafka is not None:
        behind = on_record.has_unrecorded_batches(lake, flow.table, opened)
        return TableWork(flow, flow_progress, behind=behind, unknown=True)
    return _file_work(flow, flow_progress, table, lake, opened)


def pending_without_lake(pipeline: Pipeline, settings: Settings, problem: SluicegateError) -> Pending:
    """Return the tables of a pipeline whose lake cannot be reached: how each is made, as its definition alone tells.

    Args:
        pipeline: the definition.
        settings: where things are.
        problem: why the lake cannot be reached.
    """
    lake, blocked = layout.Lake(settings.lake, pipeline.name), Progress(ProgressKind.BLOCKED, why=problem.message)
    each = (flows(pipeline, lake, layer, _Unopened()) for layer in layout.LAYERS)
    return Pending([TableWork(flow, blocked, problem=problem) for of_layer in each for flow in of_layer.values()])


class _Unopened(Tables):
    """Handles as of a lake without tables."""

    def __getitem__(self, uri: str) -> Table:
        handle = super().__getitem__(uri)
        handle.__dict__["delta"] = None
        return handle


def _file_work(flow: Flow, flow_progress: Progress, table: BronzeTable, lake: layout.Lake, opened: Tables) -> TableWork:
    """Return the work that waits for a bronze table of files."""
    name = flow.table
    behind = on_record.has_unrecorded_batches(lake, name, opened)
    skipped = on_record.skipped_files(opened[lake.ledger(name)].delta).files
    if glance.has_nothing_new(name, table, lake, opened):
        return TableWork(flow, flow_progress, behind=behind, skipped=skipped)
    # Not above: with nothing to do neither is needed, and pyarrow takes longer to import than all the rest.
    from sluicegate.landing import discovery, file_status

    discovered = discovery.discover(name, table, lake, opened=opened)
    new, settling, changed = (part.num_rows for part in (discovered.new, discovered.settling, discovered.changed))
    counts = (new - discovered.skip_count, discovered.bytes, settling, changed, len(discovered.refused))
    failed = _unretried_files(file_status.failed_files(lake, name, table.fingerprint, opened), discovered.new)
    return TableWork(flow, flow_progress, *counts, failed, behind, skips=discovered.skip_count, skipped=skipped)
