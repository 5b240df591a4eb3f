"""Reprocess records that changed or were deleted, and those that a lookup, an interval or a replay affects.

Stored rows are found by identity in the table and in both side tables; current rows are compared with them, and only
the difference is written. With keys, the selection is first closed under them: if a winner is removed, records that
lost against it are evaluated as well, so that one of them replaces it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.flow.model import name_of
from sluicegate.frames import small_writes
from sluicegate.frames.difference.merge import OP, difference, merge, merged_rows
from sluicegate.frames.record_ids import materialize
from sluicegate.frames.rules import rejected
from sluicegate.frames.rules.table_rules import WouldBe
from sluicegate.lake import layout, tables
from sluicegate.lake.commits.commit_info import CommitStep
from sluicegate.schema.columns import FLOW
from sluicegate.silver import many_rows, several_flows, table_rules
from sluicegate.silver.bound_records import BoundRecords, affected_records
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import Disposition
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.selected_records import selected_identities
from sluicegate.silver.side_tables import quarantine
from sluicegate.silver.side_tables.left_out import add_left_out_rows
from sluicegate.silver.table_changes import SilverChanges, TableChange

# In place of a kind of change: rows that the records had.
_STORED = "stored"

_KINDS = ("insert", "update", "delete")


def apply(evaluator: RowEvaluator, at: layout.Lake) -> None:
    """Reprocess the batch's records, whatever rows they have now.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``, or too many break another rule; only these are written.
        FanOut: the query returns several rows for one record without ``rows: many``; nothing is written.
        AccountingError: records are missing from the query's result; nothing is written.
    """
    _Reprocessing(evaluator, at).apply()


@dataclass
class _Reprocessing:
    evaluator: RowEvaluator
    at: layout.Lake
    op: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.batch, self.name = self.evaluator.batch, self.evaluator.name
        self.table = self.batch.flow.target
        self.quarantine, self.set_aside = self.at.quarantine(self.name), self.at.set_aside(self.name)
        self.record_id, self.row_id = self.evaluator.record_id, self.evaluator.row_id

    def apply(self) -> None:
        bound = BoundRecords(self.evaluator, self.at, materialize(self._chosen_records(), few=False))
        if self.evaluator.bound_columns:
            bound.add_others()
        self.chosen, self.records = bound.chosen, bound.records
        rows = self.chosen.materialize(self.evaluator.settle(bound.rows, None))
        reconciliation = Reconciliation.from_rows(self.evaluator, rows, *self._count_records())
        keep = self.chosen.materialize
        rows, reconciliation = add_left_out_rows(self.evaluator, rows, self.records, reconciliation, keep)
        reconciliation.demand_rules(rows)
        changes = self._changes(self._expected_rows(rows, reconciliation))
        reconciliation.fill(self.batch.report)
        self._write(changes, reconciliation)

    # --- which records -----------------------------------------------------------------------------------------------

    def _chosen_records(self) -> DataFrame:
        """Return the identities of all records to reprocess; there may be duplicates."""
        batch, now = self.batch, self.batch.progress
        parts = [batch.rows.select(*self.record_id)]
        parts += [affected_records(self.evaluator, name, since) for name, since in now.changed.items()]
        if now.replaced_flows:
            parts += self._records_of_flows(now.replaced_flows)
        if now.retry:
            retried = [rule for rule, its in self.evaluator.table.expectations.items() if its.retry]
            broken = F.arrays_overlap("_failed_expectations", F.array(*map(F.lit, retried)))
            quarantined = self.evaluator.stored_frames(self.quarantine)
            parts += [rows.where(broken).select(*self.record_id) for rows in quarantined]
        if now.repair:
            parts.append(self._stranded_records())
        if batch.choice is not None:
            parts.append(selected_identities(batch.choice, self.evaluator, self.at))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _records_of_flows(self, flows: Sequence[str]) -> list[DataFrame]:
        """Return the records of some flows in the table and its side tables."""
        its = several_flows.flow_of(F.col(FLOW)).isin(*flows)
        uris = (self.table, self.quarantine, self.set_aside)
        return [f.where(its).select(*self.record_id) for uri in uris for f in self.evaluator.stored_frames(uri)]

    def _stranded_records(self) -> DataFrame:
        """Return records that a stopped run left in two tables or none, or that a side table has and the source lost.

        In none are records whose rows in a side table were lost by a power cut.

        The table itself changed in one commit or not at all: it has nothing that the source had lost by its offset.
        Of records that give many rows those count as well whose rows it had begun to exchange.
        """
        aside = [
            f.select(*self.row_id)
            for uri in (self.quarantine, self.set_aside)
            for f in self.evaluator.stored_frames(uri)
        ]
        rows = [f.select(*self.row_id) for f in self.evaluator.stored_frames(self.table)]
        if not (rows or aside):
            return self.batch.records().select(*self.record_id).limit(0)
        every = reduce(lambda a, b: a.unionByName(b), [*rows, *aside])
        twice = every.groupBy(*self.row_id).count().where("count > 1")
        lost = [frame.join(self.batch.records(), [*self.record_id], "left_anti") for frame in aside]
        lost.append(self.batch.records().join(every, [*self.record_id], "left_anti"))
        begun: list[DataFrame] = []
        if self.evaluator.many:
            begun = [many_rows.begun_records(f, self.record_id) for f in self.evaluator.stored_frames(self.set_aside)]
        return reduce(lambda a, b: a.unionByName(b), [f.select(*self.record_id) for f in (twice, *lost, *begun)])

    # --- what they make now ------------------------------------------------------------------------------------------

    def _count_records(self) -> tuple[int, dict[str, int]]:
        """Return the number of records, and by flow if there are several."""
        if not self.evaluator.table.flows_or_branches:
            return self.records.count(), {}
        of_flow = several_flows.flow_of(F.col(FLOW)).alias("_flow")
        its = {row[0]: row[1] for row in self.records.groupBy(of_flow).count().collect()}
        return sum(its.values()), its

    # --- what changes by it ------------------------------------------------------------------------------------------

    def _expected_rows(self, rows: DataFrame, reconciliation: Reconciliation) -> dict[str, DataFrame]:
        """Return the expected rows of the records in each table, by address."""
        without_row = None
        if reconciliation.filtered_records:
            without_row = self.records.join(rows, [*self.record_id], "left_anti")
        quarantined = reconciliation.sums[Disposition.QUARANTINED]
        return {
            self.table: quarantine.good_rows(self.evaluator, rows),
            self.quarantine: quarantine.quarantine(self.evaluator, rows, self.records, quarantined),
            self.set_aside: quarantine.set_aside(self.evaluator, rows, without_row),
        }

    def _changes(self, expected: dict[str, DataFrame]) -> SilverChanges:
        """Return the rows to write to each table, counted in one job.

        Args:
            expected: expected rows of the records in each table, by address.
        """
        stored = {uri: self._rows_of_chosen(uri) for uri in expected}
        if self.evaluator.many:
            differences = self._differences_of_many(expected, stored)
        else:
            differences = {uri: self._difference(rows, stored[uri]) for uri, rows in expected.items()}
        counts = self._counts(differences, [rows for rows in stored.values() if rows is not None])
        if self.evaluator.leaves_former_rows:
            all_rows = sum(tables.rows(tables.delta_table(uri)) for uri in expected)
            self.evaluator.renewed = counts["", _STORED] == all_rows

        def table_change(uri: str) -> TableChange:
            return TableChange(uri, differences[uri], Counter({kind: counts[uri, kind] for kind in _KINDS}))

        return SilverChanges(table_change(self.table), table_change(self.quarantine), table_change(self.set_aside))

    def _rows_of_chosen(self, uri: str) -> DataFrame | None:
        """Return the rows of the chosen records in a table; None if it has no rows at all."""
        for table in self.evaluator.stored_frames(uri):
            return self.chosen.materialize(self.chosen.rows_in(table))
        return None

    def _difference(self, expected: DataFrame, stored: DataFrame | None) -> DataFrame:
        return self.chosen.materialize(difference(expected, stored, self.row_id))

    def _differences_of_many(
        self, expected: dict[str, DataFrame], stored: dict[str, DataFrame | None]
    ) -> dict[str, DataFrame]:
        """Return the rows to write to each table if records have many rows, including those that mark begun records."""
        begun, aside = None, stored[self.set_aside]
        if aside is not None:
            begun = many_rows.begun_records(aside, self.record_id)
            stored = stored | {self.set_aside: many_rows.final_rows(aside)}
        differences = {uri: self._difference(rows, stored[uri]) for uri, rows in expected.items()}
        aside = many_rows.flag_begun_records(differences, self.table, self.set_aside, begun, self.record_id)
        return differences | {self.set_aside: self.chosen.materialize(aside)}

    def _counts(self, differences: dict[str, DataFrame], stored: Sequence[DataFrame]) -> Counter[tuple[str, str]]:
        """Count the rows to write by address and kind, and the stored ones under no address if they are needed."""
        counted = [frame.groupBy(OP).count().withColumn("uri", F.lit(uri)) for uri, frame in differences.items()]
        if self.evaluator.leaves_former_rows:
            kind = F.lit(_STORED).alias(OP)
            counted += [frame.groupBy(kind).count().withColumn("uri", F.lit("")) for frame in stored]
        counts: Counter[tuple[str, str]] = Counter()
        for row in reduce(lambda a, b: a.unionByName(b), counted).collect():
            counts[row["uri"], row[OP]] += row["count"]
        return counts

    def _write(self, changes: SilverChanges, reconciliation: Reconciliation) -> None:
        self._report(changes.table)
        choice = self.batch.choice
        if choice is not None and choice.validate:
            return
        if not changes.has_changes and not self._offset_moves:
            self.batch.report.unchanged = True
            rejected.clear(self.batch)  # no commit of the table comes that would empty it
            return
        _faults.point("silver.before_commit")
        self.batch.demand_not_overtaken()
        ruled = table_rules.demand(self.evaluator, lambda: self._resulting_table(changes.table))
        self._enter_side_tables(changes)
        _faults.point("silver.between_commits")
        self.batch.demand_not_overtaken()
        self._commit_table(changes, reconciliation.facts() | ruled)
        _faults.point("silver.after_commit")
        self._leave_side_tables(changes)
        _faults.point("silver.after_removal")

    def _report(self, change: TableChange) -> None:
        report = self.batch.report
        report.inserted = change.counts["insert"]
        report.updated = change.counts["update"]
        report.deleted = change.counts["delete"]

    @property
    def _offset_moves(self) -> bool:
        """Whether the table's next commit has other facts than its last."""
        progress = self.batch.progress
        if progress.since != progress.until or progress.changed or progress.retry or progress.repair:
            return True
        return self.evaluator.has_former_rows != self.evaluator.leaves_former_rows

    def _enter_side_tables(self, changes: SilverChanges) -> None:
        """Write additions to the side tables before the table's commit."""
        order = changes.side_table_changes
        if self.evaluator.many:  # the set-aside first, as it says of which records the rows are being exchanged
            order = (changes.set_aside, changes.quarantine)
        for change in order:
            if change.upsert_count:
                with self.batch.commit(fenced=False, op=self.op, step=CommitStep.ENTER):
                    self._merge(change, ("insert", "update"))

    def _commit_table(self, changes: SilverChanges, facts: dict[str, Any]) -> None:
        """Write the table, in the commit with the offset.

        Args:
            changes: all changes; the commit names the changed side tables.
            facts: additional metadata of the commit.
        """
        enters = [name_of(change.uri) for change in changes.side_table_changes if change.upsert_count]
        leaves = [name_of(change.uri) for change in changes.side_table_changes if change.delete_count]
        with self.batch.commit(op=self.op, enters=enters, leaves=leaves, **facts):
            if changes.table.upsert_count or changes.table.delete_count:
                self._merge(changes.table, _KINDS)
            else:  # the offset moves, and the commit says that the side tables' changes are of a whole batch
                small_writes.commit_only(self.batch.session, self.table)

    def _leave_side_tables(self, changes: SilverChanges) -> None:
        """Delete rows that leave the side tables, the set-aside's last: see ``_enter_side_tables``."""
        for change in changes.side_table_changes:
            if change.delete_count:
                with self.batch.commit(fenced=False, op=self.op, step=CommitStep.LEAVE):
                    self._merge(change, ("delete",))

    def _resulting_table(self, change: TableChange) -> WouldBe:
        """Return the table as it would be after this batch."""
        comes = change.rows.where(F.col(OP) != "delete").drop(OP)
        rows = tables.rows(self.evaluator.target) + change.counts["insert"] - change.delete_count
        stored = self.evaluator.stored_frames(self.table)
        if not stored:
            return WouldBe(lambda: comes, lambda: rows, None)
        return WouldBe(lambda: merged_rows(stored[0], change.rows, self.row_id), lambda: rows, comes)

    def _merge(self, change: TableChange, kinds: Sequence[str]) -> None:
        if tables.delta_table(change.uri) is None:
            change.rows.where(F.col(OP).isin(*kinds)).drop(OP).write.format("delta").save(change.uri)
        else:
            merge(
                change.uri, change.rows, self.chosen.scale_to(change.upsert_count + change.delete_count), self.row_id,
                kinds,
            )  # fmt: skip
