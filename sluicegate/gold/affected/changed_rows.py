"""Collect the inserted and deleted rows of a batch's tables, and the keys that they affect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.frames.changed_rows import net_changes
from sluicegate.frames.record_ids import materialize
from sluicegate.gold.affected.keys import Keys, lenient_session
from sluicegate.schema.columns import ENGINE_COLUMNS


@dataclass(frozen=True)
class ChangedRows:
    """Changes of one batch.

    Attributes:
        batch: the batch.
        current: all tables of the query as of the end of the batch, by name; the first is the followed one.
    """

    batch: Batch
    current: Mapping[str, DataFrame]

    @cached_property
    def rows_by_table(self) -> Mapping[str, DataFrame]:
        """Inserted and deleted rows of each changed table, materialized."""
        return {name: rows for name, rows in self._feeds.items() if self._counts[name]}

    @cached_property
    def count(self) -> int:
        """Number of changed rows; an update is two."""
        return sum(self._counts.values())

    def affected_keys(self, keys: Keys) -> DataFrame | None:
        """Return the affected keys, materialized; None if no row that the query reads changed."""
        if not self.rows_by_table:
            return None
        # Spark does not know how few these rows are, and would shuffle the tables that it joins them with.
        few = self.count <= thresholds.FEW
        changes = {name: F.broadcast(rows) if few else rows for name, rows in self.rows_by_table.items()}
        with lenient_session(self.batch.session):
            touched = keys.affected_keys(changes, self.current)
            if touched is None:
                return None
            return materialize(touched, few=False)

    @cached_property
    def _feeds(self) -> Mapping[str, DataFrame]:
        source, progress = next(iter(self.current)), self.batch.progress
        feeds = {source: self.batch.rows.where(f"_commit_version > {progress.since}")}
        feeds |= {name: self.batch.changes_of(name) for name in progress.changed}
        return {name: materialize(net_changes(feed, ENGINE_COLUMNS), few=False) for name, feed in feeds.items()}

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        counted = [
            rows.agg(F.lit(name).alias("name"), F.count("*").alias("rows")) for name, rows in self._feeds.items()
        ]
        return {name: rows for name, rows in reduce(DataFrame.unionAll, counted).collect()}
