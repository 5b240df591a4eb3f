"""Refuse columns that Delta cannot store or Spark cannot compare, before anything is written."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import SilverTable
from sluicegate.errors import QueryError, Where
from sluicegate.frames import column_types
from sluicegate.schema.columns import SEQUENCE
from sluicegate.silver.silver_batch import SilverBatch


def demand_storable(silver_batch: SilverBatch, frame: DataFrame) -> None:
    """Refuse outputs without a type, and those with a backtick: the first MERGE would fail at their names.

    Args:
        silver_batch: the batch, with ``outputs`` filled in.
        frame: the rows that the transform makes.
    """
    name, file = silver_batch.name, silver_batch.table.sql_file
    column_types.demand_typed(frame, silver_batch.outputs, name, _field_of_transform(silver_batch.table), file)
    for column in silver_batch.outputs:
        if "`" in column:
            raise QueryError(
                f"column {column} of {name} has a backtick in its name: Delta cannot MERGE into such a table",
                where=Where(table=name, file=file),
                hint="rename it with AS",
            )


def _field_of_transform(table: SilverTable) -> str:
    """Return the field of the definition that has the transform."""
    if table.is_python:
        return "python"
    if table.flows:
        return "flows"
    return "sql"


def demand_comparable(silver_batch: SilverBatch, frame: DataFrame) -> None:
    """Refuse keys, and columns of rules, of types that Spark does not compare.

    Args:
        silver_batch: the batch that the rows are of.
        frame: the rows, with ``SEQUENCE`` if the table has one.
    """
    table, name, sequence_by = silver_batch.table, silver_batch.name, silver_batch.sequence_by
    key_field, sequence_field = "keys", "sequence_by"
    if table.apply_changes_from_snapshot:
        key_field = sequence_field = "apply_changes_from_snapshot"
    elif table.changes:
        key_field = sequence_field = "apply_changes"
    column_types.demand_compared(frame, silver_batch.keys, "the key", name, key_field)
    for rule, columns in silver_batch.unique.items():
        column_types.demand_compared(frame, columns, f"the rule {rule}", name, rule)
    if sequence_by:
        sequence = frame.select(F.col(SEQUENCE).alias(sequence_by))
        column_types.demand_compared(sequence, [sequence_by], "sequence_by", name, sequence_field)
