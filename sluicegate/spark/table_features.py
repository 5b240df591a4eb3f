"""Features of Delta tables that Delta enables by itself only in a new table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.lake import tables
from sluicegate.spark.commit_settings import NOTHING
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

# Feature of tables with a column TIMESTAMP_NTZ.
LOCAL_TIMES = "timestampNtz"


def enable_local_times(rows: DataFrame, uri: str) -> None:
    """Enable TIMESTAMP_NTZ columns in a table: Delta would refuse one that is new to it.

    Args:
        rows: rows to write.
        uri: their table, which may not exist yet.
    """
    if not _has_local_times(rows.schema):
        return
    table = tables.delta_table(uri)
    if table is None or LOCAL_TIMES in (table.protocol().writer_features or ()):
        return
    with override_settings(rows.sparkSession, NOTHING):
        change = f"SET TBLPROPERTIES ('delta.feature.{LOCAL_TIMES}' = 'supported')"
        rows.sparkSession.sql(f"ALTER TABLE delta.{quote_name(uri)} {change}")


def _has_local_times(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampNTZType

    match kind:
        case StructType():
            return any(_has_local_times(field.dataType) for field in kind.fields)
        case ArrayType():
            return _has_local_times(kind.elementType)
        case MapType():
            return _has_local_times(kind.keyType) or _has_local_times(kind.valueType)
    return isinstance(kind, TimestampNTZType)
