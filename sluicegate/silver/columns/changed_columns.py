"""Detect columns whose type differs between the current definition and the stored rows.

If a type differs, new values would be cut to the stored type, or not stored at all. So the types of a query's result
are compared with those of the table and of its quarantine: from schemas that are known anyway, without a job, and
before anything is written.
"""

from __future__ import annotations

from pyspark.sql.types import StructType

from sluicegate.errors import UserError, Where
from sluicegate.flow.batch import Batch
from sluicegate.flow.definitions.definition_changes import refused_refresh_error
from sluicegate.schema.columns import SEQUENCE
from sluicegate.silver.silver_batch import SilverBatch
from sluicegate.spark import table_reader
from sluicegate.spark_sql import types


class ColumnsChanged(Exception):
    """Raised before anything is written if rows of the batch do not match the stored ones.

    Attributes:
        reason: reason for the report and for the commit of a full refresh.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def why_missing_column(silver_batch: SilverBatch) -> str:
    """Reason, if stored rows lack a column by which they are known or compared; empty if they have all."""
    if silver_batch.batch.whole or silver_batch.target is None:
        return ""
    stored = {column.lower() for column in silver_batch.stored_columns}
    missing = [column for column in sorted(silver_batch.bound_columns) if column.lower() not in stored]
    if silver_batch.sequence_by and SEQUENCE not in stored:
        missing.append(silver_batch.sequence_by)
    if not missing:
        return ""
    return f"its rows have no {missing[0]}, by which they are now compared"


def demand_same(silver_batch: SilverBatch, schema: StructType) -> None:
    """Check that stored rows have the types of the rows that are made now; new columns and fields are no change.

    Args:
        silver_batch: the batch that makes the rows.
        schema: schema of the rows, with the columns of the engine's own.

    Raises:
        ColumnsChanged: a type differs.
    """
    batch = silver_batch.batch
    if batch.whole or silver_batch.target is None:
        return
    tables = [silver_batch.target, *(batch.opened[uri].delta for uri in batch.flow.side_tables[:1])]
    for table in tables:
        if table is None:
            continue
        if difference := _type_difference(table_reader.schema(table), schema, silver_batch):
            raise ColumnsChanged(difference)


def _type_difference(stored: StructType, schema: StructType, silver_batch: SilverBatch) -> str:
    """Sentence on the first column whose stored type differs; empty if none does."""
    names = {output: output for output in silver_batch.outputs} | {SEQUENCE: str(silver_batch.sequence_by)}
    stored_kinds = {field.name.lower(): field.dataType for field in stored}
    for field in schema:
        kind = stored_kinds.get(field.name.lower())
        if field.name not in names or kind is None:
            continue
        for difference in types.differences(kind, field.dataType):
            return difference.sentence(names[field.name])
    return ""


def demand_refresh(batch: Batch, reason: str) -> None:
    """Check that a full refresh may start without a request.

    Raises:
        UserError: a selection of records is only validated, so nothing may be written.
        SchemaMismatch: rows have values of lookups as of their runs, which a full refresh would replace.
    """
    flow = batch.flow
    if flow.as_of_run and flow.stored_rows is not None:
        raise refused_refresh_error(flow.table, reason, ", ".join(sorted(flow.as_of_run)), flow.stored_rows.command)
    if batch.choice is not None and batch.choice.validate:
        raise UserError(
            f"this would rebuild {flow.table}, so there is nothing to compare with",
            where=Where(table=flow.table),
            cause=reason,
            hint="omit --validate",
        )
