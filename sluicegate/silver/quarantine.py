"""The side tables of a silver table: quarantined rows, and the identities of records that are set aside."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.schema.columns import IDENTITY, RECORD
from sluicegate.silver.deduplicate import REPLACED, SEQUENCE
from sluicegate.silver.evaluate import SOURCE, RowEvaluator
from sluicegate.silver.expectations import BROKEN, DISPOSITION
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def good(evaluator: RowEvaluator, rows: DataFrame) -> DataFrame:
    """The rows of the table itself."""
    sequence = [SEQUENCE] if evaluator.sequence_by else []
    return rows.where(f"{DISPOSITION} = 'good'").select(
        *[quoted(column) for column in evaluator.columns], *sequence, *IDENTITY
    )


def quarantine(evaluator: RowEvaluator, rows: DataFrame) -> DataFrame:
    """The rows of the quarantine: as they were judged, with the record as it came and all the rules that it broke."""
    return rows.where(f"{DISPOSITION} = 'quarantine'").select(
        *[quoted(column) for column in evaluator.outputs],
        *IDENTITY,
        F.col(BROKEN).alias("_failed_expectations"),
        RECORD,
        *([] if "source_file" in evaluator.outputs else [F.col(SOURCE).alias("source_file")]),
        F.current_timestamp().alias("_quarantined_at"),
    )


def set_aside(evaluator: RowEvaluator, rows: DataFrame, left_out: DataFrame | None) -> DataFrame:
    """Identities of the records that are in neither table, with the reason and a hash of their key.

    Args:
        evaluator: who judged the rows.
        rows: the judged rows; where a winner replaced a row of the table, with that one's identity.
        left_out: the records of which the query made no row; None if there are none.
    """
    lost = F.lit("superseded" if evaluator.sequence_by else "duplicate")
    beaten = rows.where(f"{DISPOSITION} IN ('duplicate', 'drop', 'deleted')")
    reason = (
        F.when(F.col(DISPOSITION) == "drop", "dropped").when(F.col(DISPOSITION) == "deleted", "deleted").otherwise(lost)
    )
    parts = [_aside(evaluator, beaten, reason)]
    if REPLACED[0] in rows.columns and evaluator.sequence_by:
        replaced = rows.where(f"{DISPOSITION} = 'good' AND {REPLACED[0]} IS NOT NULL")
        parts.append(_aside(evaluator, replaced, lost, identity=REPLACED))
    if left_out is not None:
        nothing = {BROKEN: F.expr("cast(array() as array<string>)"), **{key: F.lit(None) for key in evaluator.keys}}
        parts.append(_aside(evaluator, left_out.select(*IDENTITY).withColumns(nothing), F.lit("filtered")))
    return reduce(lambda a, b: a.unionByName(b), parts)


def _aside(evaluator: RowEvaluator, rows: DataFrame, reason: Column, identity: tuple[str, str] = IDENTITY) -> DataFrame:
    return rows.select(
        F.col(identity[0]).alias(IDENTITY[0]),
        F.col(identity[1]).alias(IDENTITY[1]),
        reason.alias("reason"),
        F.col(BROKEN).alias("rules"),
        evaluator.key.alias("_key"),
    )
