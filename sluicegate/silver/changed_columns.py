"""Columns that today's definition makes otherwise than the stored rows have them, by the types of both.

Where a type differs, new values would be cut to the type that the table has, or would not be stored at all. So the
types of what a query makes are compared with those of the table and of its quarantine: by schemas that are known
anyway, without a job, and before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluicegate.errors import UserError, Where
from sluicegate.flow.definition_changes import refused
from sluicegate.schema.columns import SEQUENCE
from sluicegate.spark import table_reader
from sluicegate.sql import types

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sluicegate.flow.batch import Batch
    from sluicegate.silver.evaluate import RowEvaluator


class ColumnsChanged(Exception):
    """Raised before anything is written, where rows of the batch do not go with the stored ones.

    Attributes:
        why: the reason, which ends up in the report and in the commit of a full refresh.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def lacking(evaluator: RowEvaluator) -> str:
    """Reason, if stored rows lack a column by which they are known or compared; empty if they have all."""
    if evaluator.batch.whole or evaluator.target is None:
        return ""
    held = {column.lower() for column in evaluator.held_columns}
    wanted = sorted(evaluator.bound) + ([SEQUENCE] if evaluator.sequence_by else [])
    missing = [
        evaluator.sequence_by if column == SEQUENCE else column for column in wanted if column.lower() not in held
    ]
    return f"its rows have no {missing[0]}, by which they are compared now" if missing else ""


def demand_same(evaluator: RowEvaluator, made: StructType) -> None:
    """Checks that stored rows have the types of the rows that are made now; new columns and fields are no change.

    Args:
        evaluator: the evaluator of the rows.
        made: schema of the rows, with the columns of the engine's own.

    Raises:
        ColumnsChanged: a type differs.
    """
    batch = evaluator.batch
    if batch.whole or evaluator.target is None:
        return
    tables = [evaluator.target, *(batch.opened[uri].delta for uri in batch.flow.side_tables[:1])]
    for table in tables:
        if table is not None and (why := _difference(table_reader.schema(table), made, evaluator)):
            raise ColumnsChanged(why)


def _difference(held: StructType, made: StructType, evaluator: RowEvaluator) -> str:
    there = {field.name.lower(): field.dataType for field in held}
    compared: Sequence[str] = (*evaluator.outputs, SEQUENCE)
    for field in made:
        known = there.get(field.name.lower())
        if field.name not in compared or known is None:
            continue
        name = evaluator.sequence_by if field.name == SEQUENCE else field.name
        for difference in types.differences(known, field.dataType):
            return difference.sentence(str(name))
    return ""


def demand_refresh(batch: Batch, why: str) -> None:
    """Checks that a full refresh may be made by itself.

    Raises:
        UserError: a choice of records is only to be validated, so nothing is to be written.
        SchemaMismatch: rows have values of lookups as of their runs, which a full refresh would replace.
    """
    flow = batch.flow
    if flow.as_of_run and flow.stored is not None:
        raise refused(flow.table, why, ", ".join(sorted(flow.as_of_run)), flow.stored.command)
    if batch.choice is not None and batch.choice.validate:
        raise UserError(
            f"{flow.table} would be rebuilt by this, so there is nothing to compare with",
            where=Where(table=flow.table),
            cause=why,
            hint="run it without --validate",
        )
