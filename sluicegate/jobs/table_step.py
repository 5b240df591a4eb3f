"""Steps by which a job fills one table: a strategy for each kind of table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from sluicegate.flow import loop
from sluicegate.lake import layout
from sluicegate.lake.table import Tables
from sluicegate.lake.table_description import NOTE, difference, is_described, missing_columns
from sluicegate.landing import discovery, file_status, intake, kafka_ledger, readers
from sluicegate.landing.kafka_ledger import TopicOffsets
from sluicegate.landing.moves import clean_source
from sluicegate.schema import history
from sluicegate.spark import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.flow.batch import Batch
    from sluicegate.flow.model import Flow
    from sluicegate.flow.selection import Choice
    from sluicegate.flow.table_report import TableReport


@dataclass
class TableStep:
    """Step for one table of a job; its methods are called in this order.

    Attributes:
        name: the table.
        flow: flow that fills it.
        pipeline: the definition.
        lake: the lake.
        finder: discovery of landed files; None for the usual one.
        opened: handles for the whole step, each opened once until ``refresh``.
        refreshes: whether a full refresh rebuilds the table from its source. A table of files cannot, as files may be
            gone: they are entered once more instead.
    """

    name: str
    flow: Flow
    pipeline: Pipeline
    lake: layout.Lake
    finder: discovery.FileFinder | None = None
    opened: Tables = field(default_factory=Tables)
    refreshes: ClassVar[bool] = True

    def prepare(self, session: Callable[[], SparkSession]) -> None:
        """Do what must precede the read of the table's progress.

        Args:
            session: opens the table's session; most tables do not need it here.
        """

    def fill(
        self, session: SparkSession, facts: Mapping[str, Any], choice: Choice | None, *, full_refresh: bool
    ) -> TableReport:
        """Bring the table up to date with its source; only called if there is work.

        Args:
            session: the table's session.
            facts: who runs this, for every commit.
            choice: records to reprocess in the same batch.
            full_refresh: whether to refresh the table in full even if nothing requires it.
        """
        return loop.run(session, self.flow, self.apply(), facts, choice, full_refresh=full_refresh, opened=self.opened)

    def apply(self) -> Callable[[Batch], None]:
        """Return the layer's function for a batch; imported on call, since an idle job needs no Spark."""
        raise NotImplementedError

    def complete(self, report: TableReport) -> None:
        """Add to the report what the step knows besides the batch."""

    def describe(self, session: Callable[[], SparkSession]) -> list[str]:
        """Set the comments and properties of the definition on the table; return lines for people.

        Without a difference only the log is read, and nothing if the definition has no description.

        Args:
            session: opens the table's session.
        """
        target, description = self.opened[self.flow.target], self.flow.description
        if not (description or is_described(target.delta)):
            return []
        target.refresh()
        if target.delta is None:
            return []
        lines = [
            f"         {self.name} has no column {missing}, but its definition has a comment on it"
            for missing in missing_columns(target.delta, description)
        ]
        change = difference(target.delta, description)
        if change is None:
            return lines
        from sluicegate.spark import describe

        before = target.delta.metadata().configuration.get(NOTE)
        describe.describe(session(), self.flow.target, change, before)
        return [*lines, f"         {change} set"]

    def clean_up(self) -> list[str]:
        """Do the work after the report; return lines for people."""
        return []


@dataclass
class _Bronze(TableStep):
    @property
    def table(self) -> BronzeTable:
        """Definition of the table."""
        return self.pipeline.bronze[self.name]

    def fill(
        self, session: SparkSession, facts: Mapping[str, Any], choice: Choice | None, *, full_refresh: bool
    ) -> TableReport:
        """Fill the table, then record its columns."""
        report = super().fill(session, facts, choice, full_refresh=full_refresh)
        history.record_versions(self.lake, self.name, self.opened)
        return report


@dataclass
class _BronzeOfLedger(_Bronze):
    """Bronze table with a ledger: arrivals are entered first, and their status is recorded last."""

    refreshes: ClassVar[bool] = False
    loaded: file_status.Taken | None = field(default=None, init=False)

    def fill(
        self, session: SparkSession, facts: Mapping[str, Any], choice: Choice | None, *, full_refresh: bool
    ) -> TableReport:
        """Fill the table and record the status of the files, also of batches before one that failed."""
        try:
            return super().fill(session, facts, choice, full_refresh=full_refresh)
        finally:
            self.loaded = file_status.copy(self.lake, self.name, self.opened)

    def complete(self, report: TableReport) -> None:
        """Count rows by the status of their files."""
        if self.loaded is not None and report.state == "written":
            report.read = report.written = self.loaded.rows
            report.corrupt, report.rescued, report.failed = (
                self.loaded.corrupt, self.loaded.rescued, self.loaded.failed
            )  # fmt: skip


@dataclass
class BronzeOfFiles(_BronzeOfLedger):
    """Bronze table of landed files."""

    landed: discovery.Discovery = field(init=False)

    def prepare(self, session: Callable[[], SparkSession]) -> None:
        """Record the results of a killed run, which discovery needs; enter new files."""
        file_status.copy(self.lake, self.name, self.opened)
        self.landed = intake.enter(self.name, self.table, self.lake, self.finder, self.opened)

    def apply(self) -> Callable[[Batch], None]:
        """Read the files of each new ledger batch into one commit."""
        from sluicegate.bronze import ingest

        return partial(ingest.apply, name=self.name, table=self.table, at=self.lake)

    def complete(self, report: TableReport) -> None:
        """Count rows by the status of their files, and the skipped files in landing."""
        super().complete(report)
        report.changed_files, report.moved_files = self.landed.changed.num_rows, self.landed.moved.num_rows
        report.refused = dict(self.landed.refused)
        report.warnings += self.landed.remarks
        if self.loaded is not None and report.state == "written":
            report.empty_files = self.loaded.empty

    def clean_up(self) -> list[str]:
        """Move or delete files whose rows are committed, as ``cleanSource`` says."""
        readers_of = partial(readers.other_readers, self.pipeline)
        cleaned = clean_source.clean(self.name, self.table, self.lake, readers_of=readers_of)
        return cleaned.remarks(self.name, self.table)


@dataclass
class BronzeOfKafka(_BronzeOfLedger):
    """Bronze table of Kafka's records: offset ranges are entered into its ledger."""

    offsets: TopicOffsets = field(init=False)
    arrivals: kafka_ledger.Arrivals = field(init=False)

    def prepare(self, session: Callable[[], SparkSession]) -> None:
        """Read the brokers' offsets once, and enter the new ones."""
        source = self.table.topic_source
        jars.demand_kafka(self.name)
        file_status.copy(self.lake, self.name, self.opened)
        from sluicegate.bronze import kafka_brokers

        self.offsets = kafka_brokers.offsets(session(), self.name, source)
        self.arrivals = kafka_ledger.enter(self.name, source, self.lake.ledger(self.name), self.offsets)
        self.opened.refresh(self.lake.ledger(self.name))

    def apply(self) -> Callable[[Batch], None]:
        """Read the ranges of each new ledger batch into one commit."""
        from sluicegate.bronze import kafka_source

        return partial(kafka_source.apply, name=self.name, table=self.table, at=self.lake, there=self.offsets)

    def complete(self, report: TableReport) -> None:
        """Count rows, and warn of records that were deleted: they are not files that could land again."""
        super().complete(report)
        report.warnings += [f"{path}: {reason}" for path, reason in report.failed.items()]
        report.warnings += [
            f"skipped {offsets.size:,} offsets whose records were deleted: {offsets.path}"
            for offsets in self.arrivals.lost
        ]
        report.failed = {}


@dataclass
class BronzeOfDelta(_Bronze):
    """Bronze table that follows another program's Delta table, without ledger and files."""

    def apply(self) -> Callable[[Batch], None]:
        """Append the source's new rows, or replace all."""
        from sluicegate.bronze import delta_source

        return partial(delta_source.apply, name=self.name, table=self.table)


@dataclass
class Silver(TableStep):
    """Silver table."""

    def apply(self) -> Callable[[Batch], None]:
        """Evaluate records, and write each to the table, its quarantine or the set-aside."""
        from sluicegate.silver import process

        return partial(process.apply, name=self.name, table=self.pipeline.silver[self.name], at=self.lake)


@dataclass
class Deidentified(TableStep):
    """De-identified copy of a silver table."""

    def apply(self) -> Callable[[Batch], None]:
        """Apply the changes of the silver table's rows."""
        from sluicegate.silver.side_tables import deidentified

        source = self.pipeline.silver[self.pipeline.deidentified_tables[self.name]]
        return partial(deidentified.apply, name=self.name, table=source, at=self.lake)


@dataclass
class Gold(TableStep):
    """Gold table that is refreshed from changes."""

    def apply(self) -> Callable[[Batch], None]:
        """Refresh the table by its refresh strategy."""
        from sluicegate.gold import refresh

        return partial(refresh.apply, name=self.name, table=self.pipeline.gold[self.name], lake=self.lake)


@dataclass
class StreamingGold(TableStep):
    """Gold table with a ``mode``: a streaming aggregation, whose loop is Spark's own."""

    def fill(
        self, session: SparkSession, facts: Mapping[str, Any], choice: Choice | None, *, full_refresh: bool
    ) -> TableReport:
        """Continue from the stream's checkpoint, or start from scratch."""
        from sluicegate.gold import streaming

        table = self.pipeline.gold[self.name]
        return streaming.run(session, self.flow, table, self.lake, facts, full_refresh=full_refresh)


def step_of(
    layer: str, flow: Flow, pipeline: Pipeline, lake: layout.Lake, finder: discovery.FileFinder | None = None
) -> TableStep:
    """Return the step of a table, by its layer and its kind."""
    kinds = {"bronze": _bronze_step, "silver": _silver_step, "gold": _gold_step}
    return kinds[layer](flow.table, pipeline)(flow.table, flow, pipeline, lake, finder)


def _bronze_step(name: str, pipeline: Pipeline) -> type[TableStep]:
    table = pipeline.bronze[name]
    if table.kafka is not None:
        return BronzeOfKafka
    if table.reads_files:
        return BronzeOfFiles
    return BronzeOfDelta


def _silver_step(name: str, pipeline: Pipeline) -> type[TableStep]:
    if name in pipeline.deidentified_tables:
        return Deidentified
    return Silver


def _gold_step(name: str, pipeline: Pipeline) -> type[TableStep]:
    if pipeline.gold[name].mode:
        return StreamingGold
    return Gold
