"""Rows that came and rows that went of the tables that a batch reads, and the keys that they touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.frames.record_ids import materialize
from sluicegate.frames.value_equality import exact, has_variants
from sluicegate.gold.affected.keys import Keys, tried
from sluicegate.schema.columns import CHANGE_COLUMNS, ENGINE_COLUMNS
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from sluicegate.flow.batch import Batch


@dataclass(frozen=True)
class ChangedRows:
    """Changes of one batch.

    Attributes:
        batch: the batch.
        current: all tables that the query reads as of the batch's end, by name; the first is the one that is followed.
    """

    batch: Batch
    current: Mapping[str, DataFrame]

    @cached_property
    def by_table(self) -> Mapping[str, DataFrame]:
        """Rows that came or went of each table that has other rows now, materialized."""
        return {name: rows for name, rows in self._feeds.items() if self._counts[name]}

    @cached_property
    def count(self) -> int:
        """Number of these rows; an update is two."""
        return sum(self._counts.values())

    def keys(self, keys: Keys) -> DataFrame | None:
        """Touched keys, materialized; None if no row is another, or only rows that the query does not read."""
        if not self.by_table:
            return None
        # Spark does not know how few these rows are, and would shuffle the tables that it joins them with.
        few = self.count <= thresholds.FEW
        changes = {name: F.broadcast(rows) if few else rows for name, rows in self.by_table.items()}
        with tried(self.batch.session):
            touched = keys.touched(changes, self.current)
            return None if touched is None else materialize(touched, few=False)

    @cached_property
    def _feeds(self) -> Mapping[str, DataFrame]:
        source, progress = next(iter(self.current)), self.batch.progress
        feeds = {source: self.batch.rows.where(f"_commit_version > {progress.since}")}
        feeds |= {name: self.batch.changes_of(name) for name in progress.changed}
        return {name: materialize(net(feed), few=False) for name, feed in feeds.items()}

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        counted = [
            rows.agg(F.lit(name).alias("name"), F.count("*").alias("rows")) for name, rows in self._feeds.items()
        ]
        return {name: rows for name, rows in reduce(DataFrame.unionAll, counted).collect()}


def net(changes: DataFrame) -> DataFrame:
    """Rows of a change feed that came more often than they went, or less often; each once.

    A table that was written anew with the same rows has none.
    """
    data_fields = [field for field in changes.schema if field.name not in {*CHANGE_COLUMNS, *ENGINE_COLUMNS}]
    columns = [quoted(field.name) for field in data_fields]
    if any(has_variants(field.dataType) for field in data_fields):
        return changes.select(*columns)
    sign = F.when(F.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
    identity = F.struct(*[exact(F.col(name), field.dataType).alias(f"c{n}") for n, (name, field) in
                     enumerate(zip(columns, data_fields, strict=True))])  # fmt: skip
    rows = changes.select(identity.alias("is"), F.struct(*columns).alias("row"), sign.alias("sign"))
    sums = rows.groupBy("is").agg(F.first("row").alias("row"), F.sum("sign").alias("sign")).where("sign <> 0")
    return sums.select("row.*")
