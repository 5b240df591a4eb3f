"""Query of a gold table with the changes of a batch: how many rows, and which keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.frames import data_skipping
from sluicegate.gold import group_state
from sluicegate.gold.affected.changed_rows import ChangedRows
from sluicegate.gold.affected.operators import TouchesAll
from sluicegate.gold.partial_aggregates import groups_of, select_groups
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.gold.row_deltas import RowDeltas
from sluicegate.lake import tables as lake_tables
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind


@dataclass(frozen=True)
class TouchedKeys:
    """Keys whose rows a batch replaces.

    Attributes:
        all_because: why all rows are affected, or the affected ones unknown; empty if keys identify them.
        rows: the keys, materialized; None if all rows are affected.
        count: number of keys.
    """

    all_because: str = ""
    rows: DataFrame | None = None
    count: int = 0


class ChangedQuery(ProvedQuery):
    """Query with the changes of the batch, each counted once on first use."""

    @cached_property
    def _total_rows(self) -> int:
        """Number of rows of all tables that the query reads."""
        progress, flow = self.batch.progress, self.batch.flow
        versions = {uri: progress.versions[name] for name, uri in flow.inputs.items()}
        count = self.batch.opened.rows_at(flow.source, progress.until)
        return count + sum(self.batch.opened.rows_at(uri, version) for uri, version in versions.items())

    @cached_property
    def _is_small(self) -> bool:
        """Whether reading everything costs less than keeping state, unless ``refresh`` demands state."""
        return self._total_rows <= thresholds.SMALL and self.table.refresh != "incremental"

    @cached_property
    def _row_deltas(self) -> RowDeltas:
        """Row deltas since the last batch."""
        return RowDeltas(self.batch, self.grouped.joins, self.batch.progress.since, self.batch.progress.changed)

    @property
    def affected_groups(self) -> DataFrame:
        """Distinct groups of the row deltas."""
        return self._row_deltas.apply(partial(groups_of, self.grouped)).distinct()

    @cached_property
    def _changed_rows(self) -> ChangedRows:
        """Inserted and deleted rows of the query's tables."""
        return ChangedRows(self.batch, self._tables_read)

    @cached_property
    def _changed_count(self) -> int:
        """Number of row deltas since the last batch (an update is two); for small tables, by the log."""
        if self._is_small:
            return self.batch.read
        if self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS:
            return self._changed_rows.count
        return self._row_deltas.count

    @property
    def _has_few_changes(self) -> bool:
        """Whether few rows changed, and few rows of the table are affected."""
        if self._is_small:
            return True
        if not self._few_keys:
            return False
        return self.refresh_strategy.kind != StrategyKind.AFFECTED_KEYS or self._touched_rows <= thresholds.FEW

    @property
    def _few_keys(self) -> bool:
        """Whether few rows changed, and few keys are affected; each of them may have many rows."""
        if self._is_small:
            return True
        if (
            self.refresh_strategy.kind == StrategyKind.AFFECTED_KEYS
            and self._certain_affected_keys.count > thresholds.FEW
        ):
            return False
        return self._changed_count <= thresholds.FEW

    def _broadcast(self, frame: DataFrame) -> DataFrame:
        """Broadcast a frame of changes or keys if it has few rows."""
        if self._few_keys:
            return F.broadcast(frame)
        return frame

    @cached_property
    def _touched_rows(self) -> int:
        """Number of rows of the table with affected keys; of these keys if they are more, as new ones get rows, too."""
        touched = self._certain_affected_keys.rows
        if touched is None:
            raise LookupError("the affected keys are unknown")
        if not self._certain_affected_keys.count:
            return 0
        target = table_reader.read(self.batch.session, self.batch.flow.target)
        near = self._near(target, touched)
        if near:
            target = target.where(near(""))
        stored = select_groups(target, self._broadcast(touched), self.affected_key_columns, self.keys)
        return max(stored.count(), self._certain_affected_keys.count)

    def _near(self, target: DataFrame, touched: DataFrame) -> Callable[[str], Column] | None:
        """Return the predicate for the affected rows of the table; None if it would skip no file."""
        rows = lake_tables.rows(lake_tables.delta_table(self.batch.flow.target))
        if not self._few_keys or rows <= group_state.IN_A_FILE:
            return None
        for group, key in zip(self.affected_key_columns, self.keys, strict=True):
            if target.schema[key].dataType == touched.schema[group].dataType:
                near = data_skipping.value_predicate(touched, group)
                if near is not None:
                    return lambda prefix, key=key, near=near: near(F.col(prefix + quote_name(key)))  # type: ignore[misc]
        return None

    @cached_property
    def _certain_affected_keys(self) -> TouchedKeys:
        """Keys that the batch affects."""
        last = self.batch.opened[self.batch.flow.target].last_own_commit
        columns = None
        if last is not None:
            columns = last.info.gold.columns
        # Version 0.1.0 recorded all columns of the tables, in place of those that are read.
        if columns not in (self.columns_fingerprint, self.fingerprint_of_all_columns):
            return TouchedKeys("the columns that it reads changed, or may have changed")
        return self.affected_keys

    @cached_property
    def affected_keys(self) -> TouchedKeys:
        """Keys that the batch affects, if the columns of the tables are unchanged."""
        if reason := self._keys_of_the_plan.why_blocked(self._changed_rows.rows_by_table):
            return TouchedKeys(reason)
        try:
            keys = self._changed_rows.affected_keys(self._keys_of_the_plan)
        except TouchesAll as error:
            return TouchedKeys(str(error.args[0]))
        if keys is None:  # the tables were written anew, with the rows that they had
            names = zip(self.keys, self.affected_key_columns, strict=True)
            keys = self.full_result.select(*[F.col(quote_name(key)).alias(name) for key, name in names]).limit(0)
        return TouchedKeys(rows=keys, count=keys.count())
