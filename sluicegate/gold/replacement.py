"""Replace all rows of a gold table: only those that differ are written, and appear in its change feed.

Two kinds of tables are replaced as a whole, as comparing or merging their rows would cost too much: tables with more
than ``thresholds.COMPARED`` rows, and tables in which most rows differ (``TableChanges.compare_all``). So are tables
that get other columns, types or clustering.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from sluicegate.flow import thresholds
from sluicegate.flow.batch import Batch
from sluicegate.gold import clustering
from sluicegate.gold.table_changes import TableChanges
from sluicegate.lake import tables
from sluicegate.spark import table_reader
from sluicegate.spark_sql.types import columns_of


def is_comparable(batch: Batch, expected: StructType, by: Sequence[str] = ()) -> bool:
    """Return whether the target's rows can be compared with expected ones, so that equal rows stay.

    Args:
        batch: the batch.
        expected: the expected columns.
        by: the new clustering columns of the table.
    """
    target = tables.delta_table(batch.flow.target)
    if target is None or tables.rows(target) > thresholds.COMPARED or not keeps_columns(batch, expected, target):
        return False
    return not batch.whole or clustering.current_columns(batch.session, batch.flow.target, target) == [*by]


def keeps_columns(batch: Batch, expected: StructType, target: DeltaTable | None = None) -> bool:
    """Return whether the target already has columns of these names and types.

    Args:
        batch: the batch.
        expected: the expected columns.
        target: the target, if already opened.
    """
    target = target or batch.opened[batch.flow.target].delta
    if target is not None and table_reader.is_plain(target):
        schema = table_reader.schema(target)
    else:
        schema = table_reader.read(batch.session, batch.flow.target, opened=target).schema
    return columns_of(schema) == columns_of(expected)


def changes(batch: Batch, expected: DataFrame, keys: Sequence[str], *, few: bool) -> TableChanges | None:
    """Compare the target with its expected rows; None if all of them should be replaced.

    Args:
        batch: the batch, whose target is comparable.
        expected: all expected rows, materialized.
        keys: columns that identify rows; none if only all columns together do.
        few: whether the expected rows are few.
    """
    target = batch.flow.target
    few = few and tables.rows(tables.delta_table(target)) <= thresholds.FEW
    return TableChanges.compare_all(target, expected, table_reader.read(batch.session, target), keys, few=few)
