"""Row deltas (+1/-1) of the followed table and of the tables joined to it.

If a joined table changed, rows with the changed keys are deleted as joined before, and inserted as joined now (Gupta
and Mumick, "Maintenance of Materialized Views", 1995, section 3; described for any join in which each result belongs to
one row of the first table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.batch import Batch
from sluicegate.frames import lookup_changes
from sluicegate.frames.lookup_changes import TOUCHED
from sluicegate.frames.record_ids import materialize
from sluicegate.gold.partial_aggregates import SIGN
from sluicegate.schema import columns
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.spark_sql.join_keys import JoinKey
from sluicegate.spark_sql.refresh.joins import view


def create_join_views(
    batch: Batch, joins: Mapping[str, tuple[JoinKey, ...]], before: Mapping[str, int] | None = None
) -> None:
    """Create views of joined tables (refresh/joins.py) as of the end of the batch, or the versions in ``before``."""
    for name in joins:
        batch.pinned_input(name, (before or {}).get(name)).createOrReplaceTempView(view(name))


@dataclass(frozen=True)
class RowDeltas:
    """Row deltas of one refresh.

    Attributes:
        batch: the batch.
        joins: the joined tables, each with its join keys.
        since: version of the followed table that was processed already.
        before: for each changed joined table, the version that was processed already.
    """

    batch: Batch
    joins: Mapping[str, tuple[JoinKey, ...]]
    since: int
    before: Mapping[str, int]

    def apply(self, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return the result of ``make`` over all row deltas, each part with its versions of joined tables."""
        parts = []
        for rows, before in self._parts:
            create_join_views(self.batch, self.joins, before)
            parts.append(make(rows))
        create_join_views(self.batch, self.joins)
        return reduce(lambda a, b: a.unionByName(b), parts)

    @cached_property
    def count(self) -> int:
        """Number of row deltas; an update is two."""
        return self._own_deltas.count() + (2 * self._moved_rows.count() if self.before else 0)

    @cached_property
    def _own_deltas(self) -> DataFrame:
        """Row deltas of the followed table itself."""
        inserted = F.col("_change_type").isin("insert", "update_postimage")
        rows = self.batch.rows.where(f"_commit_version > {self.since}")
        return rows.withColumn(SIGN, F.when(inserted, 1).otherwise(-1)).drop(*columns.CHANGE_COLUMNS, *ENGINE_COLUMNS)

    @cached_property
    def _keys(self) -> list[tuple[DataFrame, JoinKey]]:
        """Changed keys of the joined tables, for each join key."""
        changes = {name: self.batch.changes_of(name, version) for name, version in self.before.items()}
        key_changes = [(lookup_changes.changed_keys(frame, join_key.columns, ENGINE_COLUMNS), join_key)
                 for name, frame in changes.items() for join_key in self.joins[name]]  # fmt: skip
        return [(materialize(keys, few=False), join_key) for keys, join_key in key_changes]

    @cached_property
    def _moved_rows(self) -> DataFrame:
        """Current rows of the followed table that match a changed key."""
        return materialize(lookup_changes.matching_rows(self.batch.pinned_source(), self._keys), few=False)

    @cached_property
    def _parts(self) -> list[tuple[DataFrame, Mapping[str, int]]]:
        """Row deltas, each part with its versions of joined tables."""
        if not self.before:
            return [(self._own_deltas, {})]
        flagged = lookup_changes.flag_matches(self._own_deltas, self._keys)
        other, still = (flagged.where(of).drop(TOUCHED) for of in (TOUCHED, f"NOT {TOUCHED}"))
        inserted, deleted = (self._moved_rows.withColumn(SIGN, F.lit(sign)) for sign in (1, -1))
        # Rows as they were: as they are now, without those inserted since, with those deleted.
        return [(still.unionByName(inserted), {}), (deleted.unionByName(other), self.before)]
