"""Rows of a silver table's side tables: quarantined rows, and identities of records that are set aside."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.frames.rejected import BROKEN
from sluicegate.schema.columns import RECORD, ROW
from sluicegate.silver import many_rows
from sluicegate.silver.deduplicate import REPLACED, SEQUENCE, replaced
from sluicegate.silver.evaluate import SOURCE, RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def good(evaluator: RowEvaluator, rows: DataFrame) -> DataFrame:
    """Rows of the silver table itself."""
    sequence = [SEQUENCE] if evaluator.sequence_by else []
    return rows.where(f"{DISPOSITION} = 'good'").select(
        *[quoted(column) for column in evaluator.columns], *sequence, *evaluator.row_id
    )


def quarantine(evaluator: RowEvaluator, rows: DataFrame) -> DataFrame:
    """Rows of the quarantine: as evaluated, with the record as it came and all expectations that it broke."""
    return rows.where(f"{DISPOSITION} = 'quarantine'").select(
        *[quoted(column) for column in evaluator.outputs],
        *evaluator.row_id,
        F.col(BROKEN).alias("_failed_expectations"),
        RECORD,
        *([] if "source_file" in evaluator.outputs else [F.col(SOURCE).alias("source_file")]),
        F.current_timestamp().alias("_quarantined_at"),
    )


def set_aside(evaluator: RowEvaluator, rows: DataFrame, left_out: DataFrame | None) -> DataFrame:
    """Identities of the records, or rows, that are in neither table, with the reason and a hash of their key.

    Args:
        evaluator: the evaluator of the rows.
        rows: the evaluated rows; where a winner replaced a stored row, with that one's identity.
        left_out: the records of which the query made no row; None if there are none.
    """
    lost = F.lit("superseded" if evaluator.sequence_by else "duplicate")
    beaten = rows.where(f"{DISPOSITION} IN ('duplicate', 'drop', 'deleted')")
    reason = (
        F.when(F.col(DISPOSITION) == "drop", "dropped").when(F.col(DISPOSITION) == "deleted", "deleted").otherwise(lost)
    )
    parts = [_aside(evaluator, beaten, reason)]
    if REPLACED[0] in rows.columns and evaluator.sequence_by:
        beaten = rows.where(f"{DISPOSITION} = 'good' AND {REPLACED[0]} IS NOT NULL")
        parts.append(_aside(evaluator, beaten, lost, identity=replaced(evaluator.row_id)))
    if left_out is not None:
        nothing = {BROKEN: F.expr("cast(array() as array<string>)"), **{key: F.lit(None) for key in evaluator.keys}}
        if evaluator.many:
            nothing[ROW] = F.lit(many_rows.NONE).cast("bigint")
        why = many_rows.NO_ROWS if evaluator.many else "filtered"
        parts.append(_aside(evaluator, left_out.select(*evaluator.record_id).withColumns(nothing), F.lit(why)))
    return reduce(lambda a, b: a.unionByName(b), parts)


def _aside(
    evaluator: RowEvaluator, rows: DataFrame, reason: Column, identity: tuple[str, ...] | None = None
) -> DataFrame:
    return rows.select(
        *[F.col(was).alias(c) for was, c in zip(identity or evaluator.row_id, evaluator.row_id, strict=True)],
        reason.alias("reason"),
        F.col(BROKEN).alias("rules"),
        evaluator.key.alias("_key"),
    )
