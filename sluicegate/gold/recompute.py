"""Recompute a gold query over the versions of a batch, for verify. Nothing is written."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import GoldTable
from sluicegate.flow.batch import Batch
from sluicegate.frames import record_ids
from sluicegate.gold.keys_since import KeysToCompare
from sluicegate.gold.partial_aggregates import select_groups
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.gold.rules import remaining_rows
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind


class Recomputation:
    """Expected rows of a table: all, or those of some groups or keys.

    Args:
        batch: batch of all rows of the versions that the table was built from.
        name: the table.
        table: definition of the table.
        keys: the groups or keys; None for all rows.
    """

    def __init__(self, batch: Batch, name: str, table: GoldTable, keys: KeysToCompare | None = None) -> None:
        self._query, self._table = ProvedQuery(batch, name, table), table
        self._keys = _broadcast(keys) if keys is not None else None

    def plain_rows(self) -> DataFrame:
        """Return the rows of the user's query or function, without those that a rule drops."""
        if self._keys is None:
            return remaining_rows(self._table, self._query.full_result)
        return remaining_rows(self._table, self._query._plain_rows(self._keys))

    def exact_rows(self) -> tuple[DataFrame, set[str] | None] | None:
        """Return the rows with sums rounded once, and the columns with sums (None: unknown); None without rounding."""
        query = self._query
        if query.refresh_strategy.kind == StrategyKind.INCREMENTAL:
            if not query._computes_from_state:
                return None
            if self._keys is None:
                rows = query._rows_from_state
            else:
                rows = query._rows_of_groups(self._keys)
            return remaining_rows(self._table, rows), query._partials.rounded_outputs
        if query._rounded_partials is None:
            return None
        if self._keys is None:
            rows = query._exact_query(query._rows)
        else:
            rows = query._rows_of_groups(self._keys)
        return remaining_rows(self._table, rows), None

    def stored_rows(self, rows: DataFrame) -> DataFrame:
        """Return the table's rows that are compared."""
        if self._keys is None:
            return rows
        return select_groups(rows, self._keys, self._query.affected_key_columns, self._query.keys)


def _broadcast(keys: KeysToCompare) -> DataFrame:
    """Broadcast the keys unless there are too many."""
    if keys.count > record_ids.SENT:
        return keys.rows
    return F.broadcast(keys.rows)
