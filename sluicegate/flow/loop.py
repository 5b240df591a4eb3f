"""Run the loop of every layer: offset, changes, batch, commit with the new offset.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at. Rows and offset change in one atomic commit, so
there is nothing else that could be lost or disagree: the stream's checkpoint is a scratch folder.
Delta's documentation: https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.errors import UserError, Where
from sluicegate.flow import parts
from sluicegate.flow.batch import Batch
from sluicegate.flow.batch_run import BatchRun
from sluicegate.flow.definitions.definition_changes import refused_refresh_error
from sluicegate.flow.model import Flow, Progress, ProgressKind
from sluicegate.flow.progress import progress
from sluicegate.flow.table_report import TableReport
from sluicegate.lake.table import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.flow.selection import Choice


def run(
    session: SparkSession,
    flow: Flow,
    apply: Callable[[Batch], None],
    facts: Mapping[str, Any],
    choice: Choice | None = None,
    *,
    full_refresh: bool = False,
    opened: Tables | None = None,
) -> TableReport:
    """Update a flow's target from its source, by a stream over the changes or by a full refresh.

    Work is done in one batch, or in several with a commit each if more waits than fits in one.

    Args:
        session: the Spark session.
        flow: the flow.
        apply: applies one batch to the layer's table.
        facts: facts on the run for every commit.
        choice: records to reprocess in the same batch.
        full_refresh: whether to refresh the target in full even if nothing requires it.
        opened: the handles of the current step; afterwards the target's handle has the commits.

    Raises:
        SluicegateError: errors of ``apply``, in their own type (Spark would lose it).
        QueryError: Spark rejects the query.
        UserError: a selection is only validated, and there is no table yet to compare with.
        SchemaMismatch: the changed definition needs a full refresh that only a person may start.
    """
    return TableRun(session, flow, apply, facts, choice, opened or Tables()).run(full_refresh=full_refresh)


@dataclass
class TableRun:
    """Run of one table; methods are in the order in which they are called."""

    session: SparkSession
    flow: Flow
    apply: Callable[[Batch], None]
    facts: Mapping[str, Any]
    choice: Choice | None
    opened: Tables

    def run(self, *, full_refresh: bool) -> TableReport:
        """Process what waits, batch by batch; see ``run`` above."""
        # Read once more on purpose: a minute may have passed since, in which the session was started, and what others
        # have committed by now (a RESTORE of the target above all) is what this batch has to begin at.
        waiting = self._waiting_progress()
        if full_refresh:
            waiting = waiting.to_full_refresh()
        self._demand_possible(waiting)
        if not waiting.has_work:
            return TableReport(self.flow.table, self.flow.layer, state=waiting.kind, why=waiting.why)
        started = time.monotonic()
        try:
            if full_refresh or self._is_validation:
                reports = [self._batch(waiting, waiting)[0]]
            else:
                reports = list(self._batches(waiting))
        finally:
            # On purpose: what was committed is reported, of bronze also what was before a failure.
            self.opened[self.flow.target].refresh()
        return self._report(reports, time.monotonic() - started)

    def _waiting_progress(self) -> Progress:
        """Return the present progress; selected records are work, too."""
        self.opened.refresh()
        waiting = progress(self.flow, self.opened)
        if self.choice is not None and waiting.kind == ProgressKind.IDLE:
            return replace(waiting, kind=ProgressKind.INCREMENTAL)
        return waiting

    @property
    def _is_validation(self) -> bool:
        """Whether records are only evaluated for display (``--validate``)."""
        return self.choice is not None and self.choice.validate

    def _demand_possible(self, waiting: Progress) -> None:
        """Refuse a full refresh that only a person may start, and validation against a table to be replaced."""
        if waiting.command:
            lookups = ", ".join(sorted(self.flow.as_of_run))
            raise refused_refresh_error(self.flow.table, waiting.why, lookups, waiting.command)
        if self._is_validation and waiting.kind == ProgressKind.FULL_REFRESH:
            raise UserError(
                f"the next run does a full refresh of {self.flow.table}, so there is nothing to compare with",
                where=Where(table=self.flow.table),
                cause=waiting.why or "it has not been filled yet",
                hint="run the pipeline first",
            )

    def _batches(self, waiting: Progress) -> Iterator[TableReport]:
        """Process part after part; yield the report of each.

        The table's inputs may change between two parts: then it may wait, or have nothing left to process.
        """
        read = 0
        while waiting.has_work:
            report, taken = self._batch(parts.first_part(self.flow, waiting, self.opened), waiting)
            yield report
            if taken.until == waiting.until and taken.streams == waiting.streams:
                return
            read += report.read
            say(f"  {self.flow.layer:<6} {self.flow.table:<28} {read:>9,} read so far")
            waiting = self._waiting_progress()

    def _batch(self, part: Progress, waiting: Progress) -> tuple[TableReport, Progress]:
        """Process a part of what waits; all of it, if the part is not available.

        Returns:
            the report, and the progress that was made.
        """
        report = TableReport(self.flow.table, self.flow.layer, state=part.kind, why=part.why)
        # The records that a person chose are applied once, with the last part.
        choice = None
        if part is waiting:
            choice = self.choice
        batch = BatchRun(self.session, self.flow, self.apply, self.facts, report, choice, self.opened)
        taken = batch.catch_up(part, waiting)
        if report.state != "rebuilt":  # the layer may have noticed that changes alone do not do
            report.state, report.why = _state(taken, choice), taken.why
        return report, taken

    def _report(self, reports: list[TableReport], seconds: float) -> TableReport:
        """Combine the reports of all batches, with the table's final state."""
        target, report = self.opened[self.flow.target], reduce(TableReport.combine_with, reports)
        report.seconds, report.total = seconds, target.rows
        report.version = None
        if target.delta is not None:
            report.version = target.version
        return report


def _state(taken: Progress, choice: Choice | None) -> str:
    """Return the state of a table after a batch, in the words of a report."""
    if taken.kind == ProgressKind.FULL_REFRESH:
        if taken.since >= 0 or taken.why:
            return "rebuilt"
        return "written"
    if choice is not None and choice.validate:
        return "validated"
    if choice is not None or taken.reprocesses:
        return "again"
    return "written"
