"""Run one batch of a table: get its rows by a stream or a query, with the fallbacks.

Changes, and all rows of a first load, are read by an availableNow stream; by a query only where no stream is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.flow import histories, source_changes
from sluicegate.flow.batch import Batch, raise_readable
from sluicegate.flow.model import AVAILABLE_NOW, Flow, Progress, ProgressKind, name_of, query_trigger
from sluicegate.flow.several import several_batch
from sluicegate.flow.streaming import delivery, source_stream
from sluicegate.flow.streaming.delivery import Delivery, ExpectedRows
from sluicegate.flow.streaming.first_load import FirstLoad
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import tables
from sluicegate.lake.table import Tables
from sluicegate.schema import columns
from sluicegate.spark import connect, table_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sluicegate.flow.selection import Choice

# Types of Delta's columns of a change, in the order of ``CHANGE_COLUMNS``.
CHANGE_TYPES = ("string", "bigint", "timestamp")


@dataclass
class BatchRun:
    """Run of one batch; methods are in the order in which they are called.

    Attributes:
        session: the Spark session.
        flow: the flow.
        apply: applies the batch to the layer's table.
        facts: facts on the run for every commit.
        report: receives the trigger of the batch; the layer fills in the rest.
        choice: records to reprocess.
        opened: the handles of the step.
    """

    session: SparkSession
    flow: Flow
    apply: Callable[[Batch], None]
    facts: Mapping[str, Any]
    report: TableReport
    choice: Choice | None
    opened: Tables

    def catch_up(self, part: Progress, waiting: Progress) -> Progress:
        """Apply the changes, or do a full refresh if it is due or the changes are not available.

        Args:
            part: progress that this batch covers.
            waiting: progress up to all that waits.

        Returns:
            the progress that was made: all, if the part is not available.
        """
        if part.kind == ProgressKind.INCREMENTAL:
            gap = self.follow(part)
            if not gap:
                return part
            part = waiting = replace(waiting, kind=ProgressKind.FULL_REFRESH, why=gap)
        if part is waiting:
            self.rebuild(waiting)
            return waiting
        if not self.rebuild_part(part):
            self.rebuild(waiting)  # files of the version at which the part ends were cleaned away
            return waiting
        return part

    # --- changes -----------------------------------------------------------------------------------------------------

    def follow(self, part: Progress) -> str:
        """Apply the changes after the offset, and the records to reprocess, in one batch.

        Returns:
            why the changes are not available, so that a full refresh is due; empty if they were applied.
        """
        if self.flow.streams or part.since >= part.until:
            return self.reprocess(part)
        if reason := self._why_query(part):
            self.report.trigger = query_trigger(reason)
            return self.read_changes(part)
        return self.stream_changes(part)

    def reprocess(self, part: Progress) -> str:
        """Apply records to reprocess; with several flows, each finds its own. As ``follow``."""
        try:
            self._apply(self._empty_rows(part), part)
        except Exception as error:
            if source_stream.is_gap(error):
                return "the history of a table that it reads is no longer available"
            raise_readable(error, self.flow)
        return ""

    def stream_changes(self, part: Progress) -> str:
        """Run an availableNow stream over the changes after the offset, and apply its one batch. As ``follow``.

        Another program's table is always read so: Spark's stream tells added rows from those of rewritten files.
        """
        counted = source_stream.counted_changes(self.flow, part)
        most_files = None
        if counted is not None and part.until < self.opened[self.flow.source].version:
            most_files = sum(counted.files.values())
        stream = source_stream.changes(self.session, self.flow, part.since, most_files or None)

        def take(rows: DataFrame, checkpoint: Path) -> bool:
            self._take_changes(rows, checkpoint, part, counted)
            return True

        try:
            applied = source_stream.take_first_batch(stream, self.flow, take, stops=most_files is not None)
        except Exception as error:
            reason = self._why_gone(error) or self._why_rewritten(error)
            if not reason:
                raise_readable(error, self.flow)
            return reason
        if not applied:
            self._move_offset(part, counted, self.session.createDataFrame([], stream.schema))
        return ""

    def read_changes(self, part: Progress) -> str:
        """Apply the changes after the offset by a batch query, where there is no stream. As ``follow``.

        On a Spark Connect server, the function of a ``foreachBatch`` stream would run in a process of the server, away
        from this job's ledger, handles and locks. The same versions give the same rows, whose number is proved in the
        same way.
        """
        try:
            expected = self._expected_changes(part)
            self._apply(self._changes(part), part, expected)
        except Exception as error:
            reason = self._why_gone(error)
            if not reason:
                raise_readable(error, self.flow)
            return reason
        return ""

    def _why_query(self, part: Progress) -> str:
        """Return why a query reads the changes; empty if a stream does."""
        if self.flow.has_foreign_source and part.until < self.opened[self.flow.source].version:
            return "a stream of another program's table cannot end before its newest version"
        return self.flow.why_without_stream(remote=connect.is_remote(self.session))

    def _take_changes(self, rows: DataFrame, checkpoint: Path, part: Progress, counted: ExpectedRows | None) -> None:
        """Apply the first batch of a stream of changes."""
        expected, end = source_stream.demand_all(checkpoint, self.flow, part, counted)
        self.report.trigger = AVAILABLE_NOW
        if not self.flow.has_foreign_source:
            self._apply(self._limit_feed(rows, part, end), part, expected)
            return
        # Rows of a feed say which commit they are of; without one, all that came is taken in.
        source_changes.demand_additive(self.flow.source, part.until, end)
        self._apply(rows, replace(part, until=end), expected)

    def _move_offset(self, part: Progress, counted: ExpectedRows | None, no_rows: DataFrame) -> None:
        """Commit the offset past commits without changes, as of an OPTIMIZE."""
        expected = counted or self._expected_changes(part)
        self.report.trigger = AVAILABLE_NOW
        self._apply(self._feed_columns(no_rows), part, expected)

    def _why_rewritten(self, error: Exception) -> str:
        """Return the reason if another program's table changed during the read; the next run handles that."""
        if self.flow.has_foreign_source and any(sign in str(error) for sign in source_changes.REWRITTEN):
            return f"{name_of(self.flow.source)} was changed while it was read"
        return ""

    def _why_gone(self, error: Exception) -> str:
        """Return the reason if the changes are no longer available and a full refresh is possible."""
        if source_stream.is_gap(error) and self.flow.policy.rebuildable:
            return "the source's history is no longer available"
        return ""

    # --- all rows ----------------------------------------------------------------------------------------------------

    def rebuild(self, waiting: Progress) -> None:
        """Fully refresh the target from the source as of ``until``."""
        try:
            self._take_all(waiting)
        except Exception as error:
            raise_readable(error, self.flow)

    def rebuild_part(self, part: Progress) -> bool:
        """Fully refresh as of an earlier version; return False if that version is no longer available."""
        try:
            self._take_all(part)
        except Exception as error:
            if source_stream.is_gap(error) or source_stream.is_file_gone(error):
                return False
            raise_readable(error, self.flow)
        return True

    def _take_all(self, whole: Progress) -> None:
        """Apply all rows of the source, by a stream where there is one."""
        reason = self._why_query(whole)
        if not reason:
            reason = FirstLoad(self.session, self.flow, self.opened, self.report, self._apply).stream(whole)
        if reason:
            self.report.trigger = query_trigger(reason)
            self._apply(self._empty_rows(whole) if self.flow.streams else self._all_rows(whole), whole)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _changes(self, part: Progress) -> DataFrame:
        """Query the new rows of the source after the offset, or all of its changes."""
        source = self.flow.source
        if self.flow.has_foreign_source:
            return table_reader.added_rows(self.session, source, part.since, part.until)
        return self._feed_columns(table_reader.changes(self.session, source, part.since + 1, part.until))

    def _expected_changes(self, part: Progress) -> ExpectedRows:
        """Return the expected number of these rows by the source's log."""
        return delivery.expected_rows(self.flow.source, part.since, part.until, feed=not self.flow.has_foreign_source)

    def _limit_feed(self, rows: DataFrame, part: Progress, end: int) -> DataFrame:
        """Return the rows of a change feed that goes on to version ``end``, up to the end of the batch."""
        # With a condition on a version in it, the plan of each batch would be compiled anew.
        if end > part.until:
            rows = rows.where(f"_commit_version <= {part.until}")
        return self._feed_columns(rows)

    def _feed_columns(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a change feed with the columns that the layer expects."""
        if self.flow.policy.row_deltas:
            return rows
        return rows.drop(*columns.CHANGE_COLUMNS)

    def _all_rows(self, whole: Progress) -> DataFrame:
        """Return all rows of the source as of the batch's end."""
        source = self.flow.source
        return table_reader.records(self.session, source, whole.until, self.opened[source].delta)

    def _empty_rows(self, part: Progress) -> DataFrame:
        """Return an empty frame with the columns that the layer expects."""
        from pyspark.sql.functions import lit

        if self.flow.streams:
            return self.session.range(0)
        rows = self._all_rows(part).limit(0)
        if not self.flow.policy.row_deltas:
            return rows
        nulls = [lit(None).cast(type_name) for type_name in CHANGE_TYPES]
        return rows.withColumns(dict(zip(columns.CHANGE_COLUMNS, nulls, strict=True)))

    # --- the layer ---------------------------------------------------------------------------------------------------

    def _apply(self, rows: DataFrame, part: Progress, expected: ExpectedRows | None = None) -> None:
        """Have the layer apply rows, with the offset at which they end."""
        batch = self._batch(rows, part, expected)
        if self.flow.streams:
            batch = several_batch.batch_of(self.session, batch)
        self.apply(batch)

    def _batch(self, rows: DataFrame, part: Progress, expected: ExpectedRows | None) -> Batch:
        facts = self.facts
        if self.report.trigger:
            facts = {**facts, "trigger": self.report.trigger}
        identities = histories.facts(self.flow, part, self.opened)
        if part.kind != ProgressKind.FULL_REFRESH:
            delivered = Delivery(rows, self.flow, expected)
            reprocesses = part.reprocesses or self.choice is not None
            return Batch(
                delivered, delivered.read, False, reprocesses, part, self.flow, self.report, facts, self.choice,
                self.opened, commits_read=identities,
            )  # fmt: skip
        table = None
        if not self.flow.streams:
            table = self.opened.table_at(self.flow.source, part.until)
        delivered = Delivery(rows, self.flow, expected, table=table)
        read = delivered.read
        # Row counts of other programs' commits may be wrong, and are not in every commit.
        if not self.flow.has_foreign_source and not self.flow.streams:
            read = tables.rows(table)
        return Batch(
            delivered, read, True, False, part, self.flow, self.report, facts, None, self.opened,
            commits_read=identities,
        )  # fmt: skip
