"""The rows by which what a gold query reads has changed: of the table that it follows, and of those that it joins.

A row that comes counts 1, one that goes counts -1. Where a joined table changed, the rows with the keys that changed
there go as they were joined before, and come as they are joined now (Gupta and Mumick, "Maintenance of Materialized
Views", 1995, section 3; told for any join of which each result belongs to one row of the first table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.frames import lookup_changes
from sluicegate.frames.lookup_changes import TOUCHED
from sluicegate.frames.record_ids import materialize
from sluicegate.gold.partial_aggregates import SIGN
from sluicegate.schema import columns
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.sql.refresh.joins import view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sluicegate.flow.batch import Batch
    from sluicegate.sql.join_keys import JoinKey


def join(batch: Batch, joins: Mapping[str, tuple[JoinKey, ...]], before: Mapping[str, int] | None = None) -> None:
    """Makes the views of joined tables (sql/refresh/joins.py) as of the batch's end, or the versions in ``before``."""
    for name in joins:
        batch.pinned(name, (before or {}).get(name)).createOrReplaceTempView(view(name))


@dataclass(frozen=True)
class Changes:
    """What came and went.

    Attributes:
        batch: the batch.
        joins: the joined tables, each with how it is tied to the rows.
        since: version of the followed table that is known already.
        before: version of each joined table that has changed which is known already.
    """

    batch: Batch
    joins: Mapping[str, tuple[JoinKey, ...]]
    since: int
    before: Mapping[str, int]

    def over(self, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """What is made of all these rows, with ``SIGN``, while the views of joined tables are as they were for them."""
        parts = []
        for rows, before in self._parts:
            join(self.batch, self.joins, before)
            parts.append(make(rows))
        join(self.batch, self.joins)
        return reduce(lambda a, b: a.unionByName(b), parts)

    @cached_property
    def count(self) -> int:
        """How many they are; a changed row is two."""
        return self._own.count() + (2 * self._moved.count() if self.before else 0)

    @cached_property
    def _own(self) -> DataFrame:
        """Rows of the followed table itself."""
        came = F.col("_change_type").isin("insert", "update_postimage")
        rows = self.batch.rows.where(f"_commit_version > {self.since}")
        return rows.withColumn(SIGN, F.when(came, 1).otherwise(-1)).drop(*columns.CHANGE_COLUMNS, *ENGINE_COLUMNS)

    @cached_property
    def _keys(self) -> list[tuple[DataFrame, JoinKey]]:
        """The keys of what changed in joined tables, for each way that these are tied to the rows."""
        changes = {name: self.batch.changes_of(name, version) for name, version in self.before.items()}
        found = [(lookup_changes.net(frame, join_key.columns, ENGINE_COLUMNS), join_key)
                 for name, frame in changes.items() for join_key in self.joins[name]]  # fmt: skip
        return [(materialize(keys, few=False), join_key) for keys, join_key in found]

    @cached_property
    def _moved(self) -> DataFrame:
        """The rows, as they are now, that have such a key."""
        return materialize(lookup_changes.touching(self.batch.pinned_source(), self._keys), few=False)

    @cached_property
    def _parts(self) -> list[tuple[DataFrame, Mapping[str, int]]]:
        """The rows, each over which versions of joined tables."""
        if not self.before:
            return [(self._own, {})]
        own = lookup_changes.flagged(self._own, self._keys)
        other, still = (own.where(of).drop(TOUCHED) for of in (TOUCHED, f"NOT {TOUCHED}"))
        came, went = (self._moved.withColumn(SIGN, F.lit(sign)) for sign in (1, -1))
        # As they were: as they are now, without what came of them since, with what went.
        return [(still.unionByName(came), {}), (went.unionByName(other), self.before)]
