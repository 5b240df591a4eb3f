"""Loop that every layer runs: offset, changes, batch, commit with the new offset.

Changes, and all rows of a first load, come by an availableNow stream; by a query only where there is none to be had.

A flow's offset is committed in its *target's own Delta log*: each commit carries a transaction id (``txnAppId``)
and ``txnVersion`` = the version of the source that the batch ends at. Rows and offset change in one atomic commit, so
there is nothing else that could be lost or disagree: the stream's checkpoint is a scratch folder.
Delta's documentation: https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.errors import UserError, Where
from sluicegate.flow import delivery, histories, parts, source_changes, source_stream, stream_batch
from sluicegate.flow.batch import Batch, raise_readable
from sluicegate.flow.definition_changes import refused
from sluicegate.flow.delivery import Delivery, ExpectedRows
from sluicegate.flow.first_load import FirstLoad
from sluicegate.flow.model import AVAILABLE_NOW, Flow, Progress, name_of, query_because
from sluicegate.flow.progress import progress
from sluicegate.flow.report import TableReport
from sluicegate.lake import tables
from sluicegate.lake.table import Tables
from sluicegate.schema import columns
from sluicegate.spark import connect, table_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """Brings a flow's target up to its source, by a stream over the changes or by a full refresh.

    In one batch, or where more waits than one is to take in, in several, each with its commit.

    Args:
        session: the Spark session.
        flow: the flow.
        apply: applies one batch to the layer's table.
        facts: who runs this, for every commit.
        choice: records that are to be applied again in the same batch.
        full_refresh: whether to make the target again whole, even if nothing calls for it.
        opened: the handles of the step that this is a part of; afterwards that of the target has what was committed.

    Raises:
        SluicegateError: whatever ``apply`` raises, with its class (Spark would lose it).
        QueryError: Spark refuses the query.
        UserError: a choice is only to be validated, and there is no table yet to compare with.
        SchemaMismatch: its definition changed so that it needs a full refresh which no run makes by itself.
    """
    opened = opened or Tables()
    # Read once more on purpose: a minute may have passed since, in which the session was started, and what others have
    # committed by now (a RESTORE of the target above all) is what this batch has to begin at.
    now = _now(flow, opened, choice)
    now = now.full_refresh() if full_refresh else now
    if now.command:
        raise refused(flow.table, now.why, ", ".join(sorted(flow.as_of_run)), now.command)
    if choice is not None and choice.validate and now.kind == "whole":
        raise UserError(
            f"{flow.table} gets a full refresh by the next run, so there is nothing to compare with",
            where=Where(table=flow.table),
            cause=now.why or "it has not been filled yet",
            hint="run the pipeline first",
        )
    if not now.work:
        return TableReport(flow.table, flow.layer, state=now.kind, why=now.why)
    started, target, reports = time.monotonic(), opened[flow.target], list[TableReport]()
    at_once = full_refresh or (choice is not None and choice.validate)
    try:
        while True:
            part = now if at_once else parts.first(flow, now, opened)
            report = TableReport(flow.table, flow.layer, state=part.kind, why=part.why)
            # The records that a person chose are applied once, with the last part.
            of_last = choice if part is now else None
            done = _Loop(session, flow, apply, facts, report, of_last, opened).bring_up(part, now)
            if report.state != "rebuilt":  # the layer may have found that changes alone do not do
                report.state, report.why = _state(done, of_last), done.why
            reports.append(report)
            if done.until == now.until and done.streams == now.streams:
                break
            say(f"  {flow.layer:<6} {flow.table:<28} {sum(one.read for one in reports):>9,} read so far")
            now = _now(flow, opened, choice)
            if not now.work:  # what it reads has changed since, and it waits, or has nothing to take in
                break
    finally:
        target.refresh()  # on purpose: what was committed is reported, of bronze also what was before a failure
    report = reduce(TableReport.followed_by, reports)
    report.seconds = time.monotonic() - started
    report.version, report.total = (None if target.delta is None else target.version), target.rows
    return report


def _now(flow: Flow, opened: Tables, choice: Choice | None) -> Progress:
    """Progress as it is now; records that a person chose are work, too."""
    opened.refresh()
    now = progress(flow, opened)
    return replace(now, kind="incremental") if choice is not None and now.kind == "idle" else now


def _state(done: Progress, choice: Choice | None) -> str:
    if done.kind == "whole":
        return "rebuilt" if done.since >= 0 or done.why else "written"
    if choice is not None and choice.validate:
        return "validated"
    return "again" if done.reprocesses or choice is not None else "written"


@dataclass
class _Loop:
    session: SparkSession
    flow: Flow
    apply: Callable[[Batch], None]
    facts: Mapping[str, Any]
    report: TableReport
    choice: Choice | None
    opened: Tables = field(default_factory=Tables)

    def bring_up(self, part: Progress, now: Progress) -> Progress:
        """Takes in the changes, or makes the target again if that is to be or they cannot be had.

        Args:
            part: what this batch is to take in.
            now: all that waits.

        Returns:
            what was done: all, if the part cannot be had.
        """
        partial = part is not now
        if part.kind == "incremental":
            if not (gap := self.follow(part)):
                return part
            part, partial = replace(now, kind="whole", why=gap), False
        if self.rebuild(part, of_part=partial):
            return part
        self.rebuild(now)  # files of the version at which the part ends were cleaned away
        return now

    def follow(self, now: Progress) -> str:
        """Applies the changes after the offset, and the records to reprocess, in one batch.

        Returns:
            why these changes cannot be had, so that a full refresh is due; empty if they were applied.
        """
        if now.since < now.until and not self.flow.streams:
            if why := self._no_stream(now):
                self.report.trigger = query_because(why)
                return self.read_changes(now)
            return self.stream_changes(now)
        try:
            self._apply(self._no_rows(now), now)  # several flows find what each of them has to take in
        except Exception as error:
            if source_stream.is_gap(error):
                return "the history of a table that it reads is gone"
            raise_readable(error, self.flow)
        return ""

    def _no_stream(self, now: Progress) -> str:
        """Reason why a query reads what is taken in; empty where a stream does."""
        if self.flow.foreign and now.until < self.opened[self.flow.source].version:
            return "a stream of a table of others cannot end before its newest version"
        return self.flow.without_stream(remote=connect.is_remote(self.session))

    def stream_changes(self, now: Progress) -> str:
        """Runs an availableNow stream over the changes after the offset; its one batch is applied.

        A table of others is always read so: Spark's stream tells rows that were added from those of rewritten files.

        Args:
            now: where the batch begins and ends.

        Returns:
            why these changes cannot be had, so that a full refresh is due; empty if they were applied.
        """
        counted = source_stream.counted_changes(self.flow, now)
        part = now.until < self.opened[self.flow.source].version
        most_files = sum(counted.files.values()) if part and counted is not None else None
        stream = source_stream.changes(self.session, self.flow, now.since, most_files or None)

        def take(rows: DataFrame, checkpoint: Path) -> bool:
            expected, end = source_stream.demand_all(checkpoint, self.flow, now, counted)
            self.report.trigger = AVAILABLE_NOW
            if self.flow.foreign:
                # Rows of a feed say which commit they are of; without one, all that came is taken in.
                source_changes.demand_additive(self.flow, now.until, end)
                self._apply(rows, replace(now, until=end), expected)
            else:
                self._apply(self._of_feed(rows, now), now, expected)
            return True

        try:
            applied = source_stream.take_first_batch(stream, self.flow, take, stops=most_files is not None)
        except Exception as error:
            if source_stream.is_gap(error) and self.flow.policy.rebuildable:
                return "the source's history is gone"
            if self.flow.foreign and any(sign in str(error) for sign in source_changes.REWRITTEN):
                # The snapshot is of before that; what it changed is the next run's.
                return f"{name_of(self.flow.source)} was changed while it was read"
            raise_readable(error, self.flow)
        if not applied:  # commits without any change in them, an OPTIMIZE for instance: only the offset moves
            expected = counted or delivery.expected_rows(
                self.flow.source, now.since, now.until, feed=not self.flow.foreign
            )
            self.report.trigger = AVAILABLE_NOW
            self._apply(self._of_feed(self.session.createDataFrame([], stream.schema), now), now, expected)
        return ""

    def read_changes(self, now: Progress) -> str:
        """Applies the changes after the offset as a batch query reads them, where there is no stream to be had.

        On a Spark Connect server the function of a ``foreachBatch`` stream would run in a process of the server, far
        from this job's ledger, handles and locks. The same versions give the same rows, and their number is proven in
        the same way.

        Args:
            now: where the batch begins and ends.

        Returns:
            why these changes cannot be had, so that a full refresh is due; empty if they were applied.
        """
        source = self.flow.source
        try:
            expected = delivery.expected_rows(source, now.since, now.until, feed=not self.flow.foreign)
            if self.flow.foreign:
                rows = table_reader.added_rows(self.session, source, now.since, now.until)
            else:
                rows = self._of_feed(table_reader.changes(self.session, source, now.since + 1, now.until), now)
            self._apply(rows, now, expected)
        except Exception as error:
            if source_stream.is_gap(error) and self.flow.policy.rebuildable:
                return "the source's history is gone"
            raise_readable(error, self.flow)
        return ""

    def _no_rows(self, now: Progress) -> DataFrame:
        from pyspark.sql.functions import lit

        if self.flow.streams:
            return self.session.range(0)
        rows = self._as_of_end(now).limit(0)
        types = ("string", "bigint", "timestamp") if self.flow.policy.row_deltas else ()
        of_feed = {c: lit(None).cast(kind) for c, kind in zip(columns.CHANGE_COLUMNS, types, strict=False)}
        return rows.withColumns(of_feed) if of_feed else rows

    def _of_feed(self, rows: DataFrame, now: Progress) -> DataFrame:
        # Another program may have committed to the source since the offsets were read: that is the next run's.
        ours = rows.where(f"_commit_version <= {now.until}")
        return ours if self.flow.policy.row_deltas else ours.drop(*columns.CHANGE_COLUMNS)

    def rebuild(self, now: Progress, *, of_part: bool = False) -> bool:
        """Makes a full refresh of the target from the source as of ``until``; False if that of a part cannot be had."""
        try:
            if why := self._no_stream(now) or self._first_load.stream(now):
                self.report.trigger = query_because(why)
                self._apply(self._no_rows(now) if self.flow.streams else self._as_of_end(now), now)
        except Exception as error:
            if of_part and (source_stream.is_gap(error) or source_stream.is_file_gone(error)):
                return False
            raise_readable(error, self.flow)
        return True

    @property
    def _first_load(self) -> FirstLoad:
        return FirstLoad(self.session, self.flow, self.opened, self.report, self._apply)

    def _as_of_end(self, now: Progress) -> DataFrame:
        """All rows of the source as of the batch's end."""
        source = self.flow.source
        return table_reader.records(self.session, source, now.until, self.opened[source].delta)

    def _apply(self, rows: DataFrame, now: Progress, expected: ExpectedRows | None = None) -> None:
        whole = now.kind == "whole"
        choice = None if whole else self.choice
        reprocesses = not whole and (now.reprocesses or choice is not None)
        table = self.opened.at(self.flow.source, now.until) if whole and not self.flow.streams else None
        given = Delivery(rows, self.flow, expected, table=table)
        # Row counts of other programs' commits may be wrong, and are not in every commit.
        counted = whole and not (self.flow.foreign or self.flow.streams)
        read = tables.rows(table) if counted else given.read
        made = Batch(
            given, read, whole, reprocesses, now, self.flow, self.report, self._facts, choice, self.opened,
            commits_read=histories.facts(self.flow, now, self.opened),
        )  # fmt: skip
        self.apply(stream_batch.batch_of(self.session, made) if self.flow.streams else made)

    @property
    def _facts(self) -> Mapping[str, Any]:
        return {**self.facts, "trigger": self.report.trigger} if self.report.trigger else self.facts
