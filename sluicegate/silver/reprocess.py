"""Reprocessing of records: those that changed or went, and those that a lookup, an interval or a replay affects.

Their stored rows are found by identity in the table and in both side tables; the rows that they have now are compared
with these, and only the difference is written. With keys the selection is closed under them first: where a winner
goes, the records that lost against it are evaluated as well, so that one of them takes its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.flow import stream_batch
from sluicegate.flow.model import name_of
from sluicegate.frames import data_skipping, lookup_changes, rejected, small_writes
from sluicegate.frames.merge import OP, difference, merge, merged
from sluicegate.frames.record_ids import Identities, materialize
from sluicegate.frames.table_rules import WouldBe
from sluicegate.lake import layout, tables
from sluicegate.schema.columns import ENGINE_COLUMNS, FLOW
from sluicegate.silver import many_rows, quarantine, several_flows, table_rules
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.left_out import with_left_out
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.selected_records import selected
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Event time beside a uniqueness hash.
_TIME = "_event_time"

# In place of a kind of change: rows that the records had.
_STORED = "stored"


def apply(evaluator: RowEvaluator, at: layout.Lake) -> None:
    """Reprocesses the batch's records, whatever rows they have.

    Raises:
        ExpectationFailed: rows break an ``expect_or_fail``, or too many another rule; nothing is written but them.
        FanOut: the query makes several rows of one record, and the table has not ``rows: many``; nothing is written.
        AccountingError: records are missing from what the query gave; nothing is written.
    """
    _Reprocessing(evaluator, at).apply()


@dataclass(frozen=True)
class _Change:
    """Rows to write into one of the three tables, with ``OP``, and their number by kind."""

    uri: str
    rows: DataFrame
    counts: dict[str, int]

    @property
    def comes(self) -> int:
        return self.counts.get("insert", 0) + self.counts.get("update", 0)

    @property
    def leaves(self) -> int:
        return self.counts.get("delete", 0)


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
        self.chosen = self._identities(materialize(self._chosen(), few=False))
        self.chosen, self.records, self.rows = self._evaluated(self.chosen)
        if self.evaluator.bound:
            self._add_others()
        rows = self.chosen.materialize(self.evaluator.settled(self.rows, None))
        reconciliation = Reconciliation.of(self.evaluator, rows, *self._counted())
        rows, reconciliation = with_left_out(
            self.evaluator, rows, self.records, reconciliation, self.chosen.materialize
        )
        reconciliation.demand_rules(rows)
        left_out = self.records.join(rows, [*self.record_id], "left_anti") if reconciliation.filtered else None
        makes = {
            self.table: quarantine.good(self.evaluator, rows),
            self.quarantine: quarantine.quarantine(
                self.evaluator, rows, self.records, reconciliation.sums["quarantine"]
            ),
            self.set_aside: quarantine.set_aside(self.evaluator, rows, left_out),
        }
        changes = self._changes(makes)
        reconciliation.fill(self.batch.report)
        self._write(changes, reconciliation)

    # --- which records -----------------------------------------------------------------------------------------------

    def _chosen(self) -> DataFrame:
        """Identities of all records to reprocess; some may come twice."""
        batch, now = self.batch, self.batch.progress
        parts = [batch.rows.select(*self.record_id)]
        parts += [self._touched(name) for name in now.changed]
        parts += self._of_flows(now.replaced) if now.replaced else []
        if now.retry:
            retried = [rule for rule, its in self.evaluator.table.expectations.items() if its.retry]
            broken = F.arrays_overlap("_failed_expectations", F.array(*map(F.lit, retried)))
            parts += [frame.where(broken).select(*self.record_id) for frame in self.evaluator.there(self.quarantine)]
        if now.repair:
            parts.append(self._left_behind())
        if batch.choice is not None:
            parts.append(selected(batch.choice, self.evaluator, self.at))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _touched(self, lookup: str) -> DataFrame:
        """Records that changed rows of a lookup touch, in each flow that reads it."""
        batch, table, parts = self.batch, self.evaluator.table, [self._nothing()]
        for flow, maker in table.makers.items():
            join_keys = maker.query.join_keys.get(lookup) if maker.query else None
            if not join_keys or (flow and flow not in batch.progress.streams):
                continue
            records = stream_batch.unpacked(batch.records(), flow) if flow else batch.records()
            changes = batch.changes_of(lookup)
            parts.append(lookup_changes.touched(records, changes, join_keys, ENGINE_COLUMNS, self.record_id))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _of_flows(self, flows: Sequence[str]) -> list[DataFrame]:
        """Records of some flows as the table and its side tables have them."""
        its = several_flows.flow_of(F.col(FLOW)).isin(*flows)
        uris = (self.table, self.quarantine, self.set_aside)
        return [f.where(its).select(*self.record_id) for uri in uris for f in self.evaluator.there(uri)]

    def _left_behind(self) -> DataFrame:
        """Records that a stopped run left in two tables or in none, or in a side table though the source has lost them.

        In none are those whose rows in a side table a power cut has taken back.

        The table itself changed in one commit or not at all: it has nothing that the source had lost by its offset.
        Of records that give many rows those count as well whose rows it had begun to exchange.
        """
        aside = [f.select(*self.row_id) for uri in (self.quarantine, self.set_aside) for f in self.evaluator.there(uri)]
        rows = [f.select(*self.row_id) for f in self.evaluator.there(self.table)]
        if not (rows or aside):
            return self._nothing()
        every = reduce(lambda a, b: a.unionByName(b), [*rows, *aside])
        twice = every.groupBy(*self.row_id).count().where("count > 1")
        lost = [frame.join(self.batch.records(), [*self.record_id], "left_anti") for frame in aside]
        lost.append(self.batch.records().join(every, [*self.record_id], "left_anti"))
        begun = [many_rows.begun(f, self.record_id) for f in self._set_aside()] if self.evaluator.many else []
        return reduce(lambda a, b: a.unionByName(b), [f.select(*self.record_id) for f in (twice, *lost, *begun)])

    def _set_aside(self) -> list[DataFrame]:
        return self.evaluator.there(self.set_aside)

    def _identities(self, frame: DataFrame, rows: int = 0) -> Identities:
        return Identities(frame, self.record_id, rows)

    def _nothing(self) -> DataFrame:
        """No identities at all."""
        return self.batch.records().select(*self.record_id).limit(0)

    # --- what they make now ------------------------------------------------------------------------------------------

    def _evaluated(self, identities: Identities) -> tuple[Identities, DataFrame, DataFrame]:
        """The identities, the records of them that are still there, and their evaluated rows."""
        records = identities.materialize(identities.rows_in(self.batch.records()))
        rows = materialize(self.evaluator.rows(records), few=False, adaptive=True)
        if self.evaluator.many:
            identities = identities.having(rows.count())
        return identities, records, identities.together(rows)

    def _counted(self) -> tuple[int, dict[str, int]]:
        """Number of the records, and that of each flow where there are several."""
        if not self.evaluator.table.several:
            return self.records.count(), {}
        of_flow = several_flows.flow_of(F.col(FLOW)).alias("_flow")
        its = {row[0]: row[1] for row in self.records.groupBy(of_flow).count().collect()}
        return sum(its.values()), its

    def _add_others(self) -> None:
        """Also re-evaluate every record that shares a current or former key with the batch (transitive closure).

        Columns that an expectation calls unique bind records as a key does. A stored row may have lost its key, which
        others may take then; evaluated again they may have other keys than before, and these are followed as well.
        """
        keys = seen = self._good_keys(self.rows)
        while True:
            found = self.chosen.materialize(self._with_keys(keys))
            others = self._identities(self.chosen.together(found.where("_chosen IS NULL").select(*self.record_id)))
            had = found.where("_chosen AND _holds").select("_key", *[_TIME for _ in self._time])
            if others.count:
                others, records, rows = self._evaluated(others)
                all_of_them = self.chosen.frame.unionByName(others.frame)
                self.chosen = self._identities(all_of_them, self.chosen.rows + others.rows)
                self.records = self.chosen.together(self.records.unionByName(records))
                self.rows = self.chosen.together(self.rows.unionByName(rows))
                had = had.unionByName(self._good_keys(rows))
            keys = self.chosen.together(had).distinct().join(seen, "_key", "left_anti")
            # Of those that came by one row the others may have had keys, too.
            if keys.isEmpty() and not (self.evaluator.many and others.count):
                return
            seen = self.chosen.together(seen.unionByName(keys))

    def _good_keys(self, rows: DataFrame) -> DataFrame:
        """Uniqueness hashes of the good rows, with the event time where it is among the columns of each of them."""
        return rows.where(f"{DISPOSITION} = 'good'").select(self.evaluator.bonds.alias("_key"), *self._time).distinct()

    @property
    def _time(self) -> list[Column]:
        time = self.evaluator.bound_time
        return [F.col(quoted(time)).alias(_TIME)] if time is not None else []

    def _with_keys(self, keys: DataFrame) -> DataFrame:
        """Records that have or had one of these keys (stored rows and those that lost), and all chosen ones."""
        has, had = self.evaluator.bonds.alias("_key"), F.col("_key")
        rows = [*[self._near(t, keys) for t in self.evaluator.there(self.table)], *self._doubles()]
        frames = [t.select(*self.record_id, has, F.lit(True).alias("_holds"), *self._time) for t in rows]
        unknown = [F.lit(None).cast(keys.schema[_TIME].dataType).alias(_TIME)] if self._time else []
        lost = [F.lit(False).alias("_holds"), *unknown]
        frames += [t.select(*self.record_id, had, *lost) for t in self.evaluator.there(self.set_aside)]
        chosen = self.chosen.together(self.chosen.frame).distinct().withColumn("_chosen", F.lit(True))
        none = self._nothing().select(*self.record_id, F.lit(None).cast("bigint").alias("_key"), *lost)
        every = reduce(lambda a, b: a.unionByName(b), frames, none)
        flagged = every.join(self.chosen.sent(chosen), [*self.record_id], "left")
        shares = self.chosen.sent(keys.select("_key").distinct().withColumn("_shares", F.lit(True)))
        return flagged.join(shares, "_key", "left").where("_chosen OR _shares").drop("_shares")

    def _near(self, table: DataFrame, keys: DataFrame) -> DataFrame:
        """Rows of the table among which are all that share one of these keys, and those of all chosen records.

        Rows of one key have one event time, if that is among the columns of each key: of a large table only the files
        with these hours are read.
        """
        time = self.evaluator.bound_time
        if time is None or time not in table.columns or tables.rows(self.evaluator.target) <= data_skipping.MANY_ROWS:
            return table
        if table.schema[time].dataType != keys.schema[_TIME].dataType:
            return table
        hours = data_skipping.same_hours(keys, _TIME, time)
        return table if hours is None else table.where(hours | data_skipping.of_chunks(self.chosen.chunks))

    def _doubles(self) -> list[DataFrame]:
        """Quarantined rows that broke an expectation ``unique``: they hold their keys, and win them."""
        broken = F.arrays_overlap("_failed_expectations", F.array(*map(F.lit, self.evaluator.unique)))
        return [t.where(broken) for t in self.evaluator.there(self.quarantine)] if self.evaluator.unique else []

    # --- what changes by it ------------------------------------------------------------------------------------------

    def _changes(self, makes: dict[str, DataFrame]) -> dict[str, _Change]:
        """Rows to write into each table, counted in one job."""
        found, stored = {}, []
        many, former = self.evaluator.many, None
        for uri, new in makes.items():
            old = [self.chosen.materialize(self.chosen.rows_in(table)) for table in self.evaluator.there(uri)]
            stored += old
            if many and uri == self.set_aside and old:
                old, former = [many_rows.without_begun(old[0])], many_rows.begun(old[0], self.record_id)
            found[uri] = self.chosen.materialize(difference(new, old[0] if old else None, self.row_id))
        if many:
            aside = many_rows.with_begun(found, self.table, self.set_aside, former, self.record_id)
            found[self.set_aside] = self.chosen.materialize(aside)
        counted = [frame.groupBy(OP).count().withColumn("uri", F.lit(uri)) for uri, frame in found.items()]
        if self.evaluator.leaves_others:
            counted += [
                frame.groupBy(F.lit(_STORED).alias(OP)).count().withColumn("uri", F.lit("")) for frame in stored
            ]
        counts = reduce(lambda a, b: a.unionByName(b), counted).collect()
        if self.evaluator.leaves_others:
            all_rows = sum(tables.rows(tables.delta_table(uri)) for uri in found)
            self.evaluator.renewed = sum(row["count"] for row in counts if row[OP] == _STORED) == all_rows
        return {
            uri: _Change(uri, frame, {row[OP]: row["count"] for row in counts if row["uri"] == uri})
            for uri, frame in found.items()
        }

    def _write(self, changes: dict[str, _Change], reconciliation: Reconciliation) -> None:
        table, others = changes[self.table], [changes[self.quarantine], changes[self.set_aside]]
        report, now = self.batch.report, self.batch.progress
        report.inserted, report.updated, report.deleted = (
            table.counts.get(kind, 0) for kind in ("insert", "update", "delete")
        )
        if self.batch.choice is not None and self.batch.choice.validate:
            return
        work = any(change.comes or change.leaves for change in (table, *others))
        news = now.changed or now.retry or now.repair or self.evaluator.of_others != self.evaluator.made_by["mixed"]
        if not work and now.since == now.until and not news:
            report.unchanged = True
            rejected.clear(self.batch)  # no commit of the table comes that would empty it
            return
        _faults.point("silver.before_commit")
        self.batch.demand_not_overtaken()
        ruled = table_rules.demand(self.evaluator, self._would_be(table))
        # The set-aside first, as it says of which records the rows are being exchanged, and last when rows leave.
        for change in reversed(others) if self.evaluator.many else others:
            if change.comes:
                with self.batch.commit(fenced=False, op=self.op, step="enter"):
                    self._merge(change, ("insert", "update"))
        _faults.point("silver.between_commits")
        self.batch.demand_not_overtaken()
        enters = [name_of(change.uri) for change in others if change.comes]
        leaves = [name_of(change.uri) for change in others if change.leaves]
        with self.batch.commit(op=self.op, enters=enters, leaves=leaves, **reconciliation.facts(), **ruled):
            if table.comes or table.leaves:
                self._merge(table, ("insert", "update", "delete"))
            else:  # the offset moves, and the commit says that the side tables' changes are of a whole batch
                small_writes.commit_only(self.batch.session, self.table)
        _faults.point("silver.after_commit")
        for change in others:
            if change.leaves:
                with self.batch.commit(fenced=False, op=self.op, step="leave"):
                    self._merge(change, ("delete",))
        _faults.point("silver.after_removal")

    def _would_be(self, change: _Change) -> WouldBe:
        """What the table would be after this batch."""
        comes = change.rows.where(F.col(OP) != "delete").drop(OP)
        there = self.evaluator.there(self.table)
        before = tables.rows(self.evaluator.target) + change.counts.get("insert", 0) - change.leaves
        if not there:
            return WouldBe(lambda: comes, lambda: before, None)
        return WouldBe(lambda: merged(there[0], change.rows, self.row_id), lambda: before, comes)

    def _merge(self, change: _Change, kinds: Sequence[str]) -> None:
        if tables.delta_table(change.uri) is None:
            change.rows.where(F.col(OP).isin(*kinds)).drop(OP).write.format("delta").save(change.uri)
        else:
            merge(change.uri, change.rows, self.chosen.having(change.comes + change.leaves), self.row_id, kinds)
