"""Check that rows have the column types of the existing table that they are written to.

Delta converts appended or merged values to the stored type (store assignment), and a Spark setting decides whether a
conversion fails, rounds or cuts. Our writes never rely on that: values are stored as they are. Nested types match by
field name; new columns and fields are schema evolution, which is allowed.
"""

from __future__ import annotations

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from sluicegate.errors import SchemaMismatch, Where
from sluicegate.lake import tables
from sluicegate.spark import table_reader
from sluicegate.spark_sql import types
from sluicegate.spark_sql.types import TypeDifference

# Property of a table whose columns Delta widens as values of a wider type come.
WIDENS = "delta.enableTypeWidening"

# Names of the tables beside one end so.
_SIDE_TABLES = ("_quarantine", "_set_aside", "_groups", "_deidentified")


def demand_same(rows: StructType, uri: str, opened: DeltaTable | None = None) -> None:
    """Check that a table has the column types of rows to be written.

    Args:
        rows: schema of the rows.
        uri: the table; a missing one accepts all types.
        opened: the opened table.

    Raises:
        SchemaMismatch: a column, or a part of one, has another type.
    """
    table = opened or tables.delta_table(uri)
    if table is None:
        return
    widens = table.metadata().configuration.get(WIDENS) == "true"
    for difference in types.differences(table_reader.schema(table), rows):
        if not (widens and types.wider_type(difference.held, difference.made) == difference.made):
            raise _mismatch(uri, difference)


def _mismatch(uri: str, difference: TypeDifference) -> SchemaMismatch:
    pipeline, layer, table = uri.rstrip("/").split("/")[-3:]
    name = ".".join(difference.path)
    of = next((table.removesuffix(end) for end in _SIDE_TABLES if table.endswith(end)), table)
    command = f"sluicegate run {pipeline} --full-refresh {of}"
    if layer == "bronze":
        command = f"sluicegate reset {pipeline} {of}"
    stored, written = (kind.simpleString().upper() for kind in (difference.held, difference.made))
    return SchemaMismatch(
        f"column {name} of {table} is {stored}, but the new rows have {written}",
        where=Where(table=of, file=uri),
        cause="a conversion to the type of the table could change values, so nothing was written",
        hint=f"`{command}` rebuilds the table with the types of the current definition",
    )
