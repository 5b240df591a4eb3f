"""Silver: typed, joined and checked rows, one for each key. Every record of the source ends in one place.

There is one operation, to apply records: evaluate them by the current definition, delete their former rows, and insert
their current ones. New records have no former rows, which is the short path, here; ``silver/reprocess.py`` has the long
one. In both, a batch first writes additions to the side tables (quarantine, set-aside), then the table, whose commit
has the offset and closes the batch, and last deletes from the side tables. So after a kill a record may be in two
places, but never in none, and the commits show this to the next run.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.definition import SilverTable
from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch, overtaken_error
from sluicegate.flow.model import name_of
from sluicegate.frames import data_skipping, small_writes
from sluicegate.frames.difference.merge import OP, merge
from sluicegate.frames.record_ids import Identities, materialize
from sluicegate.frames.rules import failing_rules
from sluicegate.frames.rules.table_rules import WouldBe
from sluicegate.lake import former_versions, layout, tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.silver import new_table, reprocess, table_rules
from sluicegate.silver.columns import changed_columns
from sluicegate.silver.columns.changed_columns import ColumnsChanged
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION, Disposition
from sluicegate.silver.keys.deduplicate import REPLACED, replaced_identity
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.side_tables import left_out, quarantine
from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import quote_name


def apply(batch: Batch, name: str, table: SilverTable, at: layout.Lake) -> None:
    """Evaluate the batch's records and write each to the table of its disposition.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``, or too many break another rule; only these are written.
        FanOut: the query returns several rows for one record without ``rows: many``; nothing is written.
        AccountingError: records are missing from the query's result; nothing is written.
        QueryError: a value makes a rule fail; nothing is written.
        UserError: a selection is only validated, and the table needs a full refresh.
        SchemaMismatch: the table needs a full refresh, and has values of lookups as of former runs.
    """
    if table.apply_changes_from_snapshot and not batch.whole:
        changed_columns.demand_refresh(batch, "its snapshots are always processed together")
        batch = batch.widen_to_all_rows()  # a snapshot speaks of every key, also of those that are not in it
    evaluator = RowEvaluator(batch, name, table)
    if reason := changed_columns.why_missing_column(evaluator):
        evaluator = _widen_to_all_records(evaluator, reason)
    put(evaluator, at)


def _widen_to_all_records(evaluator: RowEvaluator, reason: str) -> RowEvaluator:
    """Return the evaluator over all records of the source, to replace the table, with the reason in the report."""
    changed_columns.demand_refresh(evaluator.batch, reason)
    report = evaluator.batch.report
    report.state, report.why = "rebuilt", reason
    everything = copy(evaluator)
    everything.batch = evaluator.batch.widen_to_all_rows()
    return everything


def put(evaluator: RowEvaluator, lake: layout.Lake) -> None:
    """Write the rows of an evaluator's batch to the tables of their dispositions; see ``apply``.

    If the current definition gives other column types than stored, all rows are rebuilt.
    """
    try:
        _put_naming_rules(evaluator, lake)
    except ColumnsChanged as change:  # before the batch has written anything
        _put_naming_rules(_widen_to_all_records(evaluator, change.reason), lake)


def _put_naming_rules(evaluator: RowEvaluator, lake: layout.Lake) -> None:
    table, deletes = evaluator.table, None
    if table.apply_changes:
        deletes = table.apply_changes.delete_condition
    with failing_rules.name_failing_rule(lambda: evaluator.unruled, table.expectations, evaluator.batch.flow, deletes):
        _put(evaluator, lake)


def _put(evaluator: RowEvaluator, lake: layout.Lake) -> None:
    batch = evaluator.batch
    needs_stored_rows = evaluator.history is not None or evaluator.unique
    if batch.reprocesses or (needs_stored_rows and not batch.whole):
        reprocess.apply(evaluator, lake)
        return
    with ExitStack() as persisted:
        work = _NewRecords(batch, evaluator, lake, persisted)
        rows = work.keep(work.settle())
        reconciliation = Reconciliation.from_rows(evaluator, rows, batch.read, batch.counts_by_flow)
        if batch.may_have_rescued:
            rows, reconciliation = left_out.add_left_out_rows(evaluator, rows, batch.rows, reconciliation, work.keep)
        reconciliation.demand_rules(rows)
        work.write(rows, reconciliation)


@dataclass
class _NewRecords:
    """Batch of records without rows, or of all records."""

    batch: Batch
    evaluator: RowEvaluator
    lake: layout.Lake
    persisted: ExitStack
    op: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.few = not self.batch.whole and self.batch.read <= thresholds.FEW

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persist a frame that is read more than once until the batch is applied.

        A persisted frame that a server evicts from its cache would be recomputed with other random numbers or times
        than in the counted rows.
        """
        if self.few or connect.is_remote(self.batch.session):
            materialized = materialize(frame, few=False, adaptive=True)
            # Few records may give more rows than one partition, a broadcast or the driver is for.
            if self.few and self.evaluator.many:
                self.few = materialized.count() <= thresholds.FEW
            if not self.few:
                return materialized
            return materialized.coalesce(1)
        cached = frame.persist()
        self.persisted.callback(cached.unpersist)
        return cached

    def settle(self) -> DataFrame:
        """Return the evaluated rows, deduplicated by key."""
        self.evaluator.rescues = self.batch.may_have_rescued
        rows, keys = self.evaluator.rows(self.batch.rows_by_flow or self.batch.rows), self.evaluator.keys
        stored_count = tables.rows(self.evaluator.target)
        if not keys or self.batch.whole or not stored_count:
            return self.evaluator.settle(rows, None)
        [stored] = self.evaluator.stored_frames(self.batch.flow.target)
        if self.few or stored_count > data_skipping.MANY_ROWS:
            rows = self.keep(rows)
        if stored_count > data_skipping.MANY_ROWS:
            stored = data_skipping.candidate_rows(stored, rows, self.evaluator.table.event_time, keys)
        if self.few:
            of_batch = F.broadcast(rows.select(*map(quote_name, keys)))
            stored = F.broadcast(stored.join(of_batch, [*keys], "left_semi"))
        return self.evaluator.settle(rows, stored)

    def write(self, rows: DataFrame, reconciliation: Reconciliation) -> None:
        """Write quarantine, set-aside and the table, in this order."""
        reconciliation.fill(self.batch.report)
        _faults.point("silver.before_commit")
        self.batch.demand_not_overtaken()
        ruled = table_rules.demand(self.evaluator, lambda: self._resulting_table(rows, reconciliation))
        enters = self._write_side_tables(rows, reconciliation)
        _faults.point("silver.between_commits")
        self.batch.demand_not_overtaken()
        facts = {"enters": enters, **reconciliation.facts(), **ruled}
        with self.batch.commit(op=self.op, **facts, **self._fact_of_new_table()):
            self._write_table(rows, reconciliation)
        _faults.point("silver.after_commit")
        if self.batch.replaces_table:
            new_table.begin(self.batch, op=self.op, **facts)

    def _fact_of_new_table(self) -> dict[str, Any]:
        """Return the commit fact of a new table in place of the former one."""
        if not self.batch.replaces_table:
            return {}
        return former_versions.fact(begins=False)

    def _resulting_table(self, rows: DataFrame, reconciliation: Reconciliation) -> WouldBe:
        """Return the table as it would be after this batch."""
        good, sums = quarantine.good_rows(self.evaluator, rows), reconciliation.sums
        if self.batch.whole:
            return WouldBe(lambda: good, lambda: sums[Disposition.WRITTEN], None)
        stored = self.evaluator.stored_frames(self.batch.flow.target)
        if not stored:
            return WouldBe(lambda: good, lambda: sums[Disposition.WRITTEN], None)

        def all_rows() -> DataFrame:
            table, row_id = stored[0], self.evaluator.row_id
            if sums["replaced"]:
                table = table.join(self._replaced_rows(rows), [*row_id], "left_anti")
            return table.unionByName(good, allowMissingColumns=True)

        count = tables.rows(self.evaluator.target) + sums[Disposition.WRITTEN] - sums["replaced"]
        return WouldBe(all_rows, lambda: count, good)

    def _replaced_rows(self, rows: DataFrame) -> DataFrame:
        """Return the identities of stored rows that winners of the batch replace."""
        row_id = self.evaluator.row_id
        winners = rows.where(f"{DISPOSITION} = '{Disposition.WRITTEN}' AND {REPLACED[0]} IS NOT NULL")
        identity = zip(replaced_identity(row_id), row_id, strict=True)
        return winners.select(*[F.col(former).alias(column) for former, column in identity])

    def _write_table(self, rows: DataFrame, reconciliation: Reconciliation) -> None:
        uri, row_id = self.batch.flow.target, self.evaluator.row_id
        good = self.batch.add_comments(quarantine.good_rows(self.evaluator, rows))
        if self.batch.replaces_table:
            new_table.replace(good, uri)
        elif self.batch.whole:
            good.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(uri)
        elif reconciliation.sums["replaced"]:
            deletes = self._replaced_rows(rows).withColumn(OP, F.lit("delete"))
            inserts = good.withColumn(OP, F.lit("insert"))
            changes = materialize(inserts.unionByName(deletes, allowMissingColumns=True), few=self.few)
            merge(uri, changes, Identities(changes.select(*row_id), row_id), row_id)
        else:  # winners' keys are known not to be in the table: nothing to match
            small_writes.append(good, uri, few=self.few)

    def _write_side_tables(self, rows: DataFrame, reconciliation: Reconciliation) -> list[str]:
        """Write the rows added to the side tables; return the names of those that changed."""
        name, left_out = self.evaluator.name, None
        if reconciliation.filtered_records:
            left_out = self.batch.rows.join(rows, [*self.evaluator.record_id], "left_anti")
        count = reconciliation.sums[Disposition.QUARANTINED]
        quarantined = quarantine.quarantine(self.evaluator, rows, self.batch.rows, count)
        set_aside = quarantine.set_aside(self.evaluator, rows, left_out)
        side_tables = [
            (self.lake.quarantine(name), quarantined, count),
            (self.lake.set_aside(name), set_aside, reconciliation.set_aside_count),
        ]
        return [name_of(uri) for uri, frame, number in side_tables if self._write_side_table(uri, frame, number)]

    def _write_side_table(self, uri: str, frame: DataFrame, count: int) -> bool:
        """Write rows of a side table; return False if there are none."""
        table, version = tables.delta_table(uri), -1
        if table is not None:
            version = table.version()
        # What side tables have at a full refresh is of a former table.
        replaces = table is not None and self.batch.whole
        if not (count or replaces):
            return False
        # A server may still write for a run whose client is gone, also a table that was not there to be fenced. Delta
        # would take ours behind it, since our offset may be greater; the next run finds records that are in it twice.
        if not self.batch.whole and self.batch.opened[uri].version != version:
            raise overtaken_error(name_of(uri), uri)
        # A replacement must happen although this offset may have been committed before a kill, with other rows.
        with self.batch.commit(fenced=not replaces, op=self.op, step=CommitStep.ENTER):
            if replaces:
                frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(uri)
            elif table is None:
                self._create_side_table(uri, frame)
            else:
                small_writes.append(frame, uri, few=self.few)
        return True

    def _create_side_table(self, uri: str, frame: DataFrame) -> None:
        """Create a side table unless another run has."""
        try:
            frame.write.format("delta").mode("error").save(uri)
        except AnalysisException as error:
            if tables.delta_table(uri) is None:
                raise
            raise overtaken_error(name_of(uri), uri) from error
