"""Cluster a gold table by the ORDER BY of its query (liquid clustering), so that OPTIMIZE keeps like rows together.

Tried with Delta 4.4 on tables addressed by path: ``DataFrameWriter.clusterBy`` is ignored,
``DataFrameWriterV2.clusterBy`` is refused, and CREATE TABLE AS SELECT writes rows and clustering in one commit. Each
overwrite, INSERT OVERWRITE too, removes the clustering, except one with ``replaceWhere``; CREATE OR REPLACE keeps it,
but gives the table another ID. https://docs.delta.io/latest/delta-clustering.html
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from sluicegate.lake import tables
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.order_by import Ordering
from sluicegate.spark_sql.types import columns_of

# View of the rows to write.
_MADE = "_sluicegate_made"

# Most clustering columns that Delta takes.
MOST = 4

# Delta has statistics of the first so many columns, and clusters by no others.
COUNTED = 32

# Types with min/max statistics in Delta (``SkippingEligibleDataType``).
_COUNTED = {"tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}


def columns(ordering: Ordering, schema: StructType) -> list[str]:
    """Return the clustering columns for a table with this schema; none if the query orders by nothing suitable."""
    able = _columns_with_statistics(schema)
    chosen = dict.fromkeys(key.column for key in ordering.leading_keys(schema.names) if key.column in able)
    return list(chosen)[:MOST]


def current_columns(session: SparkSession, uri: str, table: DeltaTable) -> list[str]:
    """Return the present clustering columns of a table; Spark is asked only if there may be any."""
    if "clustering" not in (table.protocol().writer_features or ()):
        return []
    [detail] = session.sql(f"DESCRIBE DETAIL delta.{quote_name(uri)}").select("clusteringColumns").collect()
    return list(detail[0])


def sort_rows(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Sort each partition by the keys with statistics, so that few files can have a value."""
    able = _columns_with_statistics(rows.schema)
    order = [quote_name(key) for key in keys if key in able]
    if order:
        return rows.sortWithinPartitions(*order)
    return rows


def _columns_with_statistics(schema: StructType) -> set[str]:
    """Return the columns with minimum and maximum in Delta's statistics."""
    able: set[str] = set()
    before = 0
    for field in schema:
        before += _leaf_count(field.dataType)
        kind = field.dataType.simpleString()
        if before <= COUNTED and (kind in _COUNTED or kind.startswith("decimal")):
            able.add(field.name)
    return able


def _leaf_count(kind: DataType) -> int:
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        return sum(_leaf_count(field.dataType) for field in kind.fields)
    return 1


def replace(
    rows: DataFrame, uri: str, by: Sequence[str], commit: AbstractContextManager[None], *, recluster: bool
) -> None:
    """Replace all rows of a table, or make it, in one commit.

    Args:
        rows: the rows.
        uri: the table.
        by: clustering columns; none for a table without clustering.
        commit: context for the write that changes the rows.
        recluster: whether the table may have had other clustering columns.
    """
    session = rows.sparkSession
    exists = tables.delta_table(uri) is not None
    keeps_columns = (
        bool(by) and exists and columns_of(rows.schema) == columns_of(session.read.format("delta").load(uri).schema)
    )
    if keeps_columns and recluster:  # if a run is stopped after this, the next one writes the rows again
        _cluster(session, uri, by)
    writer = rows.write.format("delta").mode("overwrite")
    with commit:
        if by and not exists:
            rows.createOrReplaceTempView(_MADE)
            create = f"CREATE TABLE delta.{quote_name(uri)} USING delta CLUSTER BY ({_list(by)})"
            session.sql(f"{create} AS SELECT * FROM {_MADE}")
        elif keeps_columns:
            writer.option("replaceWhere", "true").save(uri)
        else:
            writer.option("overwriteSchema", "true").save(uri)
    if by and exists and not keeps_columns:
        _cluster(session, uri, by)


def _cluster(session: SparkSession, uri: str, by: Sequence[str]) -> None:
    session.sql(f"ALTER TABLE delta.{quote_name(uri)} CLUSTER BY ({_list(by)})")


def _list(columns: Sequence[str]) -> str:
    return ", ".join(map(quote_name, columns))
