"""What stands beside a silver table: quarantined rows, and the identities of records that are set aside."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.schema.columns import IDENTITY, RECORD
from sluicegate.silver.deduplicate import REPLACED, SEQUENCE
from sluicegate.silver.evaluate import SOURCE, Judge
from sluicegate.silver.expectations import BROKEN, FATE
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def good(judge: Judge, rows: DataFrame) -> DataFrame:
    """The rows of the table itself."""
    sequence = [SEQUENCE] if judge.sequence_by else []
    return rows.where(f"{FATE} = 'good'").select(*[quoted(column) for column in judge.columns], *sequence, *IDENTITY)


def quarantine(judge: Judge, rows: DataFrame) -> DataFrame:
    """The rows of the quarantine: as they were judged, with the record as it came and all the rules that it broke."""
    return rows.where(f"{FATE} = 'quarantine'").select(
        *[quoted(column) for column in judge.outputs],
        *IDENTITY,
        F.col(BROKEN).alias("_failed_expectations"),
        RECORD,
        *([] if "source_file" in judge.outputs else [F.col(SOURCE).alias("source_file")]),
        F.current_timestamp().alias("_quarantined_at"),
    )


def set_aside(judge: Judge, rows: DataFrame, left_out: DataFrame | None) -> DataFrame:
    """Identities of the records that are in neither table, with the reason and a hash of their key.

    Args:
        judge: who judged the rows.
        rows: the judged rows; where a winner replaced a row of the table, with that one's identity.
        left_out: the records of which the query made no row; None if there are none.
    """
    lost = F.lit("superseded" if judge.sequence_by else "duplicate")
    beaten = rows.where(f"{FATE} IN ('duplicate', 'drop', 'deleted')")
    reason = F.when(F.col(FATE) == "drop", "dropped").when(F.col(FATE) == "deleted", "deleted").otherwise(lost)
    parts = [_aside(judge, beaten, reason)]
    if REPLACED[0] in rows.columns and judge.sequence_by:
        replaced = rows.where(f"{FATE} = 'good' AND {REPLACED[0]} IS NOT NULL")
        parts.append(_aside(judge, replaced, lost, identity=REPLACED))
    if left_out is not None:
        nothing = {BROKEN: F.expr("cast(array() as array<string>)"), **{key: F.lit(None) for key in judge.keys}}
        parts.append(_aside(judge, left_out.select(*IDENTITY).withColumns(nothing), F.lit("filtered")))
    return reduce(lambda a, b: a.unionByName(b), parts)


def _aside(judge: Judge, rows: DataFrame, reason: Column, identity: tuple[str, str] = IDENTITY) -> DataFrame:
    return rows.select(
        F.col(identity[0]).alias(IDENTITY[0]),
        F.col(identity[1]).alias(IDENTITY[1]),
        reason.alias("reason"),
        F.col(BROKEN).alias("rules"),
        judge.key.alias("_key"),
    )
