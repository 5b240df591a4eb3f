"""Gold as a classic streaming aggregation (``mode``): Structured Streaming, with state in its checkpoint.

All other flows can lose their checkpoint; this one needs it, and its batch IDs are meaningless with any other. So each
commit of the table names the checkpoint (Spark's query ID) and the batch. A checkpoint is continued only if the table's
last commit names it. Any other is removed, and the table gets a full refresh from the current source.

Spark records the end of a batch before it runs, and that it is done afterwards; the table's commit lies in between. A
batch that runs again after its commit is only computed, since its state must be written, and changes nothing.

A batch's rows are materialized before they are written: by then Spark has counted the rows delivered to it, which must
be as many as the source's log says (see flow/streaming/delivery.py).
https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#output-modes
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluicegate import _faults
from sluicegate.definition import GoldTable
from sluicegate.definition.checks.streaming_query import Unkeyed, keys
from sluicegate.errors import QueryError, SluicegateError, UserError, Where
from sluicegate.flow import histories, source_changes, thresholds
from sluicegate.flow.batch import Batch, raise_readable
from sluicegate.flow.model import Flow, Progress, ProgressKind, name_of
from sluicegate.flow.progress import progress
from sluicegate.flow.streaming import delivery
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.streaming.foreach_batch import run_available
from sluicegate.flow.streaming.source_stream import GAP
from sluicegate.flow.streaming.stream_checkpoint import Checkpoint
from sluicegate.flow.table_report import TableReport
from sluicegate.frames import stored_types
from sluicegate.frames.difference.merge import difference, merged_rows
from sluicegate.frames.record_ids import materialize
from sluicegate.gold import query_analysis, replacement
from sluicegate.gold.partial_aggregates import select_groups
from sluicegate.gold.rules import GoldRules
from sluicegate.gold.table_changes import TableChanges
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Tables
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.spark import connect, table_reader
from sluicegate.spark.session import override_settings

# Name of the metric in which Spark counts the rows delivered to a batch.
DELIVERED = "sluicegate_delivered"

# Spark's error conditions for a checkpoint that is damaged, or of another query or table.
STALE = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE_", "STATEFUL_OPERATOR", "MALFORMED_STATE", "MALFORMED_CHECKPOINT",
         "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "INCOMPATIBLE_STATE")  # fmt: skip


def run(
    session: SparkSession,
    flow: Flow,
    table: GoldTable,
    lake: layout.Lake,
    facts: Mapping[str, Any],
    *,
    full_refresh: bool = False,
) -> TableReport:
    """Update a gold table with a ``mode`` from its source.

    Args:
        session: the Spark session.
        flow: the flow.
        table: the definition of its table.
        lake: the lake.
        facts: facts on the run for every commit.
        full_refresh: whether to do a full refresh even if nothing requires it.

    Raises:
        QueryError: Spark rejects the query, or rejects it in this mode.
        ExpectationFailed: a rule refuses the rows of a batch; the table is unchanged.
        UserError: the session is on a Spark Connect server.
    """
    if connect.is_remote(session):
        raise UserError(
            f"{flow.table} has a mode, which Spark Connect does not support",
            where=Where(table=flow.table),
            cause="its stream's function needs the ledger, the locks and the checkpoint of this job",
            hint="run its pipeline with spark-submit and a --master",
        )
    started, waiting = time.monotonic(), progress(flow)
    if full_refresh:
        waiting = waiting.to_full_refresh()
    report = TableReport(flow.table, flow.layer, state=waiting.kind, why=waiting.why)
    if not waiting.has_work:
        return report
    waiting = _Stream(session, flow, table, lake, facts, report).catch_up(waiting)
    report.state, report.why = "written", waiting.why
    if waiting.kind == ProgressKind.FULL_REFRESH and (waiting.since >= 0 or waiting.why):
        report.state = "rebuilt"
    report.seconds = time.monotonic() - started
    target = tables.delta_table(flow.target)
    report.version = None
    if target:
        report.version = target.version()
    report.written = report.total = tables.rows(target)
    return report


@dataclass(frozen=True)
class _Done:
    """Finished batch: query, number, and source version at its end."""

    query: str
    batch: int
    until: int


@dataclass
class _Stream:
    session: SparkSession
    flow: Flow
    table: GoldTable
    lake: layout.Lake
    facts: Mapping[str, Any]
    report: TableReport
    done: _Done | None = field(init=False, default=None)  # the newest batch that the table has
    last: _Done | None = None  # the newest one that was run
    offset: int = -1  # offset that this run has committed
    rebuilding: bool = False  # whether this is a full refresh of which nothing is written yet

    def __post_init__(self) -> None:
        stream = log.info_of(log.last_own_commit(tables.delta_table(self.flow.target))).gold.stream
        if stream:
            self.done = _Done(**stream)
        self.checkpoint = Checkpoint(self.lake.checkpoint(self.flow.table))

    def why_unfit(self) -> str:
        """Return why the checkpoint cannot be continued; empty if it can."""
        if self.done is None:
            return "its log does not record its checkpoint"
        query = self.checkpoint.query()
        if query is None:
            return "its checkpoint is missing"
        if query != self.done.query:
            return "its checkpoint is not the one that the table was built with"
        if self.done.batch >= 0 and self.checkpoint.end(self.done.batch) != self.done.until:
            return "its checkpoint is older than the table"
        number = self.done.batch + 1
        while self.checkpoint.is_done(number):
            # Each batch that can give rows has its commit, so these were in a table that was restored since.
            if self.table.mode == "append" or self.checkpoint.end(number) != self.done.until:
                return "its checkpoint is newer than the table"
            number += 1
        if self.checkpoint.is_begun(number) and self.checkpoint.end(number) is None:
            return "its checkpoint ends a batch in the middle of a version"
        return ""

    # --- runs --------------------------------------------------------------------------------------------------------

    def catch_up(self, waiting: Progress) -> Progress:
        """Process what waits; return its progress, or a full refresh if that was due instead."""
        if waiting.kind == ProgressKind.INCREMENTAL:
            reason = self.why_unfit() or self.process_changes(waiting)
            if not reason:
                return waiting
            waiting = replace(waiting, kind=ProgressKind.FULL_REFRESH, why=reason)
        self.begin_full_refresh(waiting)
        return waiting

    def begin_full_refresh(self, progress: Progress) -> None:
        """Remove the checkpoint, and rebuild the table from the whole source."""
        self.checkpoint.remove()
        self.done, self.last, self.rebuilding = None, None, True
        try:
            self._run(progress)
        except Exception as error:
            raise_readable(error, self.flow)

    def process_changes(self, progress: Progress) -> str:
        """Process new rows of the source; return why a full refresh is due instead, else nothing."""
        try:
            self._run(progress)
        except Exception as error:
            if any(sign in str(error) for sign in (*source_changes.REWRITTEN, *GAP)):
                return f"{name_of(self.flow.source)} has changes other than new rows"
            if any(sign in str(error) for sign in STALE):
                return "the state in its checkpoint cannot be read"
            raise_readable(error, self.flow)
        return ""

    def _run(self, progress: Progress) -> None:
        """Run the stream until nothing is left, and commit the offset."""
        # The progress of every batch must be kept: late rows are counted from it.
        with override_settings(self.session, {"spark.sql.streaming.numRecentProgressUpdates": "100"}):
            result = self._result()
            writer = result.writeStream.queryName(self.flow.stream_name).outputMode(str(self.table.mode))
            take = partial(self._batch, progress=progress)
            query = run_available(writer, take, self.checkpoint.location, private=self.flow.private)
            for batch in query.recentProgress:
                self.report.read += int(batch["numInputRows"])
                late = [int(operator["numRowsDroppedByWatermark"]) for operator in batch["stateOperators"]]
                self.report.late += sum(late)
        self._close(result.schema, progress)

    def _result(self) -> DataFrame:
        """Return the user's query over the source as a stream, with its watermark."""
        name = self.table.query.tables[0]
        rows = self.session.readStream.format("delta").options(**source_changes.STREAM).load(self.flow.source)
        rows = rows.observe(DELIVERED, F.count(F.lit(1)).alias("rows")).drop(*ENGINE_COLUMNS)
        if self.table.mode == "update":
            try:
                self.keys = keys(self.table.query, rows.columns)
            except Unkeyed as error:
                raise QueryError(error.message, where=Where(table=self.flow.table), hint=error.hint) from None
        for column, delay in self.table.withWatermark.items():
            rows = rows.withWatermark(column, f"{int(delay.total_seconds() * 1000)} milliseconds")
        view = f"_sluicegate_{self.flow.table}_{name}"
        rows.createOrReplaceTempView(view)
        result = self.session.sql(self.table.query.text_over_views({name: view}))
        query_analysis.keep_nulls_of_maps(result, [rows], self.table.query.text)
        return result

    # --- batches -----------------------------------------------------------------------------------------------------

    def _batch(self, rows: DataFrame, number: int, *, progress: Progress) -> None:
        """Process a batch of the stream: write its rows, unless the table has them or can have none."""
        query, until = self._query_and_end(number)
        before = None
        if number > 0:
            before = self.checkpoint.end(number - 1)
        without_data = before == until
        self.last = _Done(query, number, until)
        is_stored = self.done is not None and self.done.batch >= number
        if is_stored or (without_data and self.table.mode == "update"):  # only updates state
            rows.write.format("noop").mode("overwrite").save()
            return
        rows = materialize(rows, few=False)
        self._demand_all_delivered(self._delivered_count(query), -1 if before is None else before, until)
        batch = self._as_batch(rows, progress, until)
        if self.table.mode == "append":
            self._append(rows, batch, without_data=without_data)
        elif self.table.mode == "complete" or self.rebuilding:
            self._write(rows, batch, "overwrite")
        else:
            self._merge(rows, batch)

    def _query_and_end(self, number: int) -> tuple[str, int]:
        """Return Spark's query ID, and the source version at the end of a batch."""
        query, until = self.checkpoint.query(), self.checkpoint.end(number)
        if query is not None and until is None:
            raise delivery.truncated_batch_error(self.flow, f"batch {number} ends in the middle of a version")
        if query is None or until is None:
            raise SluicegateError(
                f"the checkpoint of {self.flow.table} was removed while it was in use",
                where=Where(table=self.flow.table, file=self.checkpoint.address),
                hint="run again: the next run does a full refresh",
            )
        return query, until

    def _append(self, rows: DataFrame, batch: Batch, *, without_data: bool) -> None:
        """Append the rows of a batch; in a full refresh they are the table's first."""
        if self.rebuilding and rows.isEmpty():  # its rows come with a later batch, and are to come in one commit
            return
        # The batch without data writes what the watermark has passed: an offset before that would leave it out.
        self._write(rows, batch, "overwrite" if self.rebuilding else "append", fenced=without_data)

    def _demand_all_delivered(self, delivered: int, since: int, until: int) -> None:
        """Check that Spark delivered all rows of the source between two versions; -1 is before the first.

        Raises:
            AccountingError: the numbers differ.
        """
        # Only the first batch begins with all that the source has; others get what commits added.
        source = self.flow.source
        if since >= 0:
            expected = delivery.expected_rows(source, since, until, feed=False).count
        else:
            expected = delivery.rows_at(source, until)
        delivery.demand_same(self.flow, delivered, expected or 0)

    def _delivered_count(self, query: str) -> int:
        """Return the rows delivered to the running batch, by asking Spark: its report comes only afterwards."""
        running: Any = self.session.streams.get(query)
        metrics = running._jsq.streamingQuery().lastExecution().observedMetrics()
        if metrics.contains(DELIVERED):
            return int(metrics.apply(DELIVERED).getLong(0))
        return 0

    def _as_batch(self, rows: DataFrame, progress: Progress, until: int) -> Batch:
        whole, progress = progress.kind == ProgressKind.FULL_REFRESH, replace(progress, until=until)
        return Batch(
            Delivery(rows, self.flow), 0, whole, False, progress, self.flow, self.report, self.facts,
            commits_read=histories.facts(self.flow, progress, Tables()),
        )  # fmt: skip

    def _write(self, rows: DataFrame, batch: Batch, write_mode: str, *, fenced: bool = True) -> None:
        """Write rows in one commit, with the offset if ``fenced``."""
        replaces, rules = write_mode == "overwrite", self._rules(batch)
        evaluated = rules.evaluate(rows, few=False)
        rows = rules.remaining_rows(evaluated)
        if replaces and replacement.is_comparable(batch, rows.schema):
            few = rows.count() <= thresholds.FEW
            by = []
            if self.table.mode == "update":
                by = self.keys
            changes = replacement.changes(batch, rows, by, few=few)
            if changes is not None:
                rules.demand(evaluated, None, lambda: rows, changes.upserted_rows)
                self._write_changes(changes, batch, rules, fenced=fenced)
                return
        if replaces:
            target = None
        else:
            target = table_reader.read(batch.session, self.flow.target)
        former = None if target is None else target.limit(0)  # rows that come take no other's place
        rules.demand(evaluated, former, lambda: rows if target is None else target.unionByName(rows))
        _faults.point("gold.before_commit")
        if not replaces:
            stored_types.demand_same(rows.schema, self.flow.target)
        with batch.commit(fenced=fenced, **self._commit_facts(), **rules.facts):
            writer = batch.add_comments(rows).write.format("delta").mode(write_mode)
            writer.option("overwriteSchema" if replaces else "mergeSchema", "true").save(self.flow.target)
        self._record_commit(batch, fenced=fenced)

    def _merge(self, rows: DataFrame, batch: Batch) -> None:
        """Merge the affected groups into the table."""
        few, rules = rows.count() <= thresholds.FEW, self._rules(batch)
        target = table_reader.read(batch.session, self.flow.target)
        former = select_groups(target, F.broadcast(rows) if few else rows, self.keys)
        evaluated = rules.evaluate(rows, few=few)
        changes = materialize(difference(rules.remaining_rows(evaluated), former, self.keys), few=few)
        if changes.isEmpty():
            self._write(rows.limit(0), batch, "append")
            return
        rules.demand(evaluated, former, lambda: merged_rows(target, changes, self.keys))
        merging = TableChanges(self.flow.target, changes, self.keys, counted=False, few=few)
        self._write_changes(merging, batch, rules, fenced=True)

    def _write_changes(self, changes: TableChanges, batch: Batch, rules: GoldRules, *, fenced: bool) -> None:
        """Write the rows that differ in one commit, with the offset if ``fenced``."""
        _faults.point("gold.before_commit")
        with batch.commit(fenced=fenced, **self._commit_facts(), **rules.facts):
            changes.write(None)
        self._record_commit(batch, fenced=fenced)

    def _rules(self, batch: Batch) -> GoldRules:
        return GoldRules(batch, self.flow.table, self.table)

    def _commit_facts(self) -> dict[str, Any]:
        return {"strategy": f"mode {self.table.mode}", "stream": vars(self.last) if self.last else None}

    def _record_commit(self, batch: Batch, *, fenced: bool) -> None:
        _faults.point("gold.after_commit")
        self.done, self.rebuilding = self.last, False
        if fenced:
            self.offset = batch.progress.until

    def _close(self, schema: StructType, progress: Progress) -> None:
        """Commit the offset if no batch did, as none came or none was known to be the last."""
        if self.offset >= progress.until and not self.rebuilding:
            return
        self.last = self.last or self.done or _Done(self.checkpoint.query() or "", -1, -1)
        self._demand_all_delivered(
            0, self.last.until, progress.until
        )  # no batch ended there: then nothing can have come since
        rows = self.session.createDataFrame([], schema)
        batch = self._as_batch(rows, progress, max(progress.until, self.last.until))
        self._write(rows, batch, "overwrite" if self.rebuilding else "append")
