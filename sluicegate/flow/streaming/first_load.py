"""Load all rows of a source as one batch of an availableNow stream: first load or full refresh.

Delta's stream can start in two ways. From a snapshot, it sorts and numbers all data files by five Spark jobs before the
batch. From the first version of the change feed, it reads each commit without a job, with the same rows if every data
file was added by one of these commits and none was removed since.
https://docs.delta.io/latest/delta-streaming.html#specify-initial-position
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.flow import source_changes
from sluicegate.flow.model import AVAILABLE_NOW, Flow, Progress, name_of
from sluicegate.flow.source_changes import SourceChanges
from sluicegate.flow.streaming import delivery, source_stream
from sluicegate.flow.streaming.delivery import ExpectedRows
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import tables
from sluicegate.lake.table import Tables
from sluicegate.schema import columns
from sluicegate.spark import table_reader

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

# Commits of a source up to which its change feed is followed from the first version on.
SHORT_HISTORY = 100


@dataclass(frozen=True)
class FirstLoad:
    """First load of a flow's target.

    Attributes:
        session: the Spark session.
        flow: the flow, with one source.
        opened: handles of the tables.
        report: receives the trigger of the batch.
        apply: applies the rows, with their number by the source's log; None if unknown.
    """

    session: SparkSession
    flow: Flow
    opened: Tables
    report: TableReport
    apply: Callable[[DataFrame, Progress, ExpectedRows | None], None]

    def stream(self, load: Progress) -> str:
        """Run a stream over all rows of the source as of ``now.until``, and apply its one batch.

        Returns:
            why there is no such stream, so that a query has to read the rows; empty if they were applied.
        """
        if not source_changes.has_same_rows(self.flow.source, load.until, self.opened[self.flow.source].version):
            return self._stream_first_part(load)
        history = self._short_history(load)
        if history is not None and not self._stream_history(load, history):
            return ""
        return self._stream_snapshot(load)

    def _stream_first_part(self, load: Progress) -> str:
        """Stream rows up to an earlier version, if rows were only added until then; as ``stream``."""
        refusal = "its source has later versions, and its history up to this one has more changes than added rows"
        history = source_stream.counted_changes(self.flow, replace(load, since=-1))
        if history is None:
            return refusal
        source = self.flow.source
        if SourceChanges.read(source, -1, load.until, name=name_of(source)).why_revised:
            return refusal
        return self._stream_history(load, history)

    def _short_history(self, load: Progress) -> ExpectedRows | None:
        """Return the counts of the whole change feed; None if it is long, or has other files than the table."""
        if load.until >= SHORT_HISTORY:
            return None
        history = source_stream.counted_changes(self.flow, replace(load, since=-1))
        if history is None or not history.paths:
            return None
        if sorted(history.paths) == sorted(delivery.all_rows(self.flow.source, self._source_at(load.until)).paths):
            return history
        return None

    def _stream_history(self, load: Progress, history: ExpectedRows) -> str:
        """Stream the change feed from the first version up to ``now.until``; as ``stream``.

        Args:
            load: progress with the end of the batch.
            history: the rows of these versions, all of them added.
        """
        from_nothing = replace(load, since=-1)
        part = load.until < self.opened[self.flow.source].version
        most_files = None
        if part:
            most_files = sum(history.files.values())
        stream = source_stream.changes(self.session, self.flow, -1, most_files or None)

        def take(rows: DataFrame, checkpoint: Path) -> bool:
            expected, _ = source_stream.demand_all(checkpoint, self.flow, from_nothing, history)
            self.report.trigger = AVAILABLE_NOW
            # Another program may have committed to the source since: that is the next run's.
            added = rows.where(f"_change_type = 'insert' AND _commit_version <= {load.until}")
            self.apply(added.drop(*columns.CHANGE_COLUMNS), load, expected)
            return True

        try:
            taken = source_stream.take_first_batch(stream, self.flow, take, stops=part)
        except Exception as error:
            # What was compacted can be gone from the history, and be there as of the part's end.
            if not (source_stream.is_gap(error) or source_stream.is_file_gone(error) or _is_rewritten(error)):
                raise
            return "files of its source's history were deleted"
        if taken:
            return ""
        return "its source has no rows up to this version"

    def _stream_snapshot(self, load: Progress) -> str:
        """Stream the rows of the source's newest version; as ``stream``."""

        def take(rows: DataFrame, checkpoint: Path) -> bool:
            end = source_stream.end_of_all_rows(checkpoint)
            if end is None or not source_changes.has_same_rows(self.flow.source, load.until, end):
                return False
            self.report.trigger = AVAILABLE_NOW
            self.apply(rows, load, self._all_rows(load))
            return True

        stream = source_stream.all_rows(self.session, self.flow)
        try:
            whole = source_stream.take_first_batch(stream, self.flow, take)
        except Exception as error:
            if not _is_rewritten(error):
                raise
            return "Delta cannot stream its source: rows or columns of it were changed"
        if whole is None:
            self.report.trigger = AVAILABLE_NOW
            source = self.flow.source
            self.apply(table_reader.records(self.session, source, load.until, self.opened[source].delta), load, None)
        if whole is False:
            return "its source was changed while the stream was started"
        return ""

    def _all_rows(self, load: Progress) -> ExpectedRows | None:
        """Count the source's rows as of the batch's end by its log; None for another program's table.

        Row counts of other programs' commits may be wrong, and are not in every commit.
        """
        if self.flow.has_foreign_source:
            return None
        return delivery.all_rows(self.flow.source, self._source_at(load.until))

    def _source_at(self, version: int) -> DeltaTable:
        return self.opened.table_at(self.flow.source, version) or tables.table_at(self.flow.source, version)


def _is_rewritten(error: Exception) -> bool:
    return any(sign in str(error) for sign in source_changes.REWRITTEN)
