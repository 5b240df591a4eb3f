"""Find records that share a key, so that each affects the disposition of the others, transitively.

With keys a record is a row or a duplicate by what other records there are. So records of a table are evaluated
together with all that have, or had, one of their keys. Columns that an expectation calls unique bind as a key does.

A record that lost has no part in what is stored for its key, but in a history: there a delete ends what was, and a
superseded record has given values or an end to others. So its former key is followed as that of a stored row is.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.several import several_batch
from sluicegate.frames import data_skipping, lookup_changes
from sluicegate.frames.record_ids import Identities, materialize
from sluicegate.lake import layout, tables
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION, Disposition
from sluicegate.spark_sql.identifiers import quote_name

# Event time beside a uniqueness hash.
_TIME = "_event_time"


class BoundRecords:
    """Records of a table's sources with their rows; after ``add_others`` with all records that they bind.

    Args:
        evaluator: evaluator of the batch.
        lake: the lake.
        identities: identities of the records, already computed; there may be duplicates.

    Attributes:
        chosen: the records.
        records: those that still exist.
        rows: their evaluated rows, before keys are resolved.
    """

    def __init__(self, evaluator: RowEvaluator, lake: layout.Lake, identities: DataFrame) -> None:
        self._evaluator, self._batch = evaluator, evaluator.batch
        self._record_id, self._table = evaluator.record_id, self._batch.flow.target
        self._quarantine, self._set_aside = lake.quarantine(evaluator.name), lake.set_aside(evaluator.name)
        self.chosen, self.records, self.rows = self._evaluate_records(self._identities(identities))

    def add_others(self, former_keys: DataFrame | None = None) -> None:
        """Add every record that shares a current or former key with these (transitive closure).

        A stored row may have lost its key, which others may take then, and so may a delete; evaluated again they may
        have other keys than before, and these are followed as well.

        Args:
            former_keys: additional former keys of these records, in the columns of ``keys_of``.
        """
        keys = self._good_keys(self.rows)
        if former_keys is not None:
            keys = keys.unionByName(former_keys).distinct()
        followed_keys = keys
        while True:
            holders = self.chosen.materialize(self._records_with_keys(keys))
            others = self._identities(self.chosen.coalesce(holders.where("_chosen IS NULL").select(*self._record_id)))
            more_keys = holders.where("_chosen AND _decides").select("_key", *[_TIME for _ in self._time_columns])
            if others.count:
                others, records, rows = self._evaluate_records(others)
                all_of_them = self.chosen.frame.unionByName(others.frame)
                self.chosen = self._identities(all_of_them, self.chosen.rows + others.rows)
                self.records = self.chosen.coalesce(self.records.unionByName(records))
                self.rows = self.chosen.coalesce(self.rows.unionByName(rows))
                more_keys = more_keys.unionByName(self._good_keys(rows))
            keys = self.chosen.coalesce(more_keys).distinct().join(followed_keys, "_key", "left_anti")
            # Of those that came by one row the others may have had keys, too.
            if keys.isEmpty() and not (self._evaluator.many and others.count):
                return
            followed_keys = self.chosen.coalesce(followed_keys.unionByName(keys))

    def keys_of(self, rows: DataFrame) -> DataFrame:
        """Return the uniqueness hashes of rows, with the event time where it is among the columns of each of them."""
        return rows.select(self._evaluator.uniqueness_hashes.alias("_key"), *self._time_columns).distinct()

    def _identities(self, frame: DataFrame, rows: int = 0) -> Identities:
        return Identities(frame, self._record_id, rows)

    def _evaluate_records(self, identities: Identities) -> tuple[Identities, DataFrame, DataFrame]:
        """Return the identities, their existing records, and the evaluated rows."""
        records = identities.materialize(identities.rows_in(self._batch.records()))
        rows = materialize(self._evaluator.rows(records), few=False, adaptive=True)
        if self._evaluator.many:
            identities = identities.scale_to(rows.count())
        return identities, records, identities.coalesce(rows)

    def _good_keys(self, rows: DataFrame) -> DataFrame:
        return self.keys_of(rows.where(f"{DISPOSITION} = '{Disposition.WRITTEN}'"))

    @property
    def _time_columns(self) -> list[Column]:
        time = self._evaluator.bound_time
        if time is None:
            return []
        return [F.col(quote_name(time)).alias(_TIME)]

    def _records_with_keys(self, keys: DataFrame) -> DataFrame:
        """Return the records that have or had one of these keys (stored rows and losers), and all chosen ones."""
        has, had = self._evaluator.uniqueness_hashes.alias("_key"), F.col("_key")
        rows = [
            *[self._candidate_rows(t, keys) for t in self._evaluator.stored_frames(self._table)],
            *self._unique_violations(),
        ]
        frames = [t.select(*self._record_id, has, F.lit(True).alias("_decides"), *self._time_columns) for t in rows]
        unknown = []
        if self._time_columns:
            unknown = [F.lit(None).cast(keys.schema[_TIME].dataType).alias(_TIME)]
        lost = [self._is_decisive.alias("_decides"), *unknown]
        frames += [t.select(*self._record_id, had, *lost) for t in self._evaluator.stored_frames(self._set_aside)]
        chosen = self.chosen.coalesce(self.chosen.frame).distinct().withColumn("_chosen", F.lit(True))
        nothing = self._batch.records().select(*self._record_id).limit(0)
        none = nothing.select(
            *self._record_id, F.lit(None).cast("bigint").alias("_key"), F.lit(False).alias("_decides"), *unknown
        )
        every = reduce(lambda a, b: a.unionByName(b), frames, none)
        flagged = every.join(self.chosen.broadcast(chosen), [*self._record_id], "left")
        shares = self.chosen.broadcast(keys.select("_key").distinct().withColumn("_shares", F.lit(True)))
        return flagged.join(shares, "_key", "left").where("_chosen OR _shares").drop("_shares")

    @property
    def _is_decisive(self) -> Column:
        """Whether a record that was set aside had part in what became of others of its key."""
        if self._evaluator.history is None:
            return F.lit(False)
        return F.col("reason").isin("deleted", "superseded")

    def _candidate_rows(self, table: DataFrame, keys: DataFrame) -> DataFrame:
        """Return rows of the table that include all with one of these keys, and those of all chosen records.

        Rows of one key have one event time, if that is among the columns of each key: of a large table only the files
        with these hours are read.
        """
        time = self._evaluator.bound_time
        if self._evaluator.history is not None:
            return table  # of a record that was set aside the time is not known
        if time is None or time not in table.columns or tables.rows(self._evaluator.target) <= data_skipping.MANY_ROWS:
            return table
        if table.schema[time].dataType != keys.schema[_TIME].dataType:
            return table
        hours = data_skipping.hour_predicate(keys, _TIME, time)
        if hours is None:
            return table
        return table.where(hours | data_skipping.chunk_predicate(self.chosen.chunks))

    def _unique_violations(self) -> list[DataFrame]:
        """Return the quarantined rows that broke a ``unique`` expectation: they hold their keys, and win them."""
        if not self._evaluator.unique:
            return []
        broken = F.arrays_overlap("_failed_expectations", F.array(*map(F.lit, self._evaluator.unique)))
        return [rows.where(broken) for rows in self._evaluator.stored_frames(self._quarantine)]


def affected_records(evaluator: RowEvaluator, lookup: str, since: int) -> DataFrame:
    """Return the records that a lookup's changed rows affect, in each flow that reads it; there may be duplicates.

    Args:
        evaluator: evaluator of the batch.
        lookup: name of the lookup.
        since: version of the lookup after which changes count.
    """
    batch, record_id = evaluator.batch, evaluator.record_id
    # Not by LIMIT: plans in which one stands are taken for a choice among equal rows.
    parts = [batch.records().select(*record_id).where(F.lit(False))]
    for flow, maker in evaluator.table.makers.items():
        join_keys = None
        if maker.query:
            join_keys = maker.query.join_keys.get(lookup)
        if not join_keys or (flow and flow not in batch.progress.streams):
            continue
        if flow:
            records = several_batch.unpack_flow(batch.records(), flow)
        else:
            records = batch.records()
        changes = batch.changes_of(lookup, since)
        parts.append(lookup_changes.affected_records(records, changes, join_keys, ENGINE_COLUMNS, record_id))
    return reduce(lambda a, b: a.unionByName(b), parts)
