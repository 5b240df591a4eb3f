"""Build the rows of side tables: quarantined rows, and identities of records that are set aside."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.several import several_batch
from sluicegate.frames import record_ids
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.schema.columns import FLOW, RECORD, ROW, SEQUENCE
from sluicegate.silver import many_rows
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION, SET_ASIDE, Disposition
from sluicegate.silver.keys.deduplicate import REPLACED, replaced_identity
from sluicegate.silver.provenance import SOURCE, original_json, text_of
from sluicegate.spark_sql.identifiers import quote_name


def good_rows(evaluator: RowEvaluator, rows: DataFrame) -> DataFrame:
    """Return the rows of the silver table itself."""
    columns = list(map(quote_name, evaluator.columns))
    if evaluator.sequence_by:
        columns.append(SEQUENCE)
    return rows.where(f"{DISPOSITION} = '{Disposition.WRITTEN}'").select(*columns, *evaluator.row_id)


def quarantine(evaluator: RowEvaluator, rows: DataFrame, records: DataFrame, count: int) -> DataFrame:
    """Return quarantine rows: as evaluated, with the original record and all broken expectations.

    Args:
        evaluator: the evaluator of the rows.
        rows: the evaluated rows.
        records: the records of these rows.
        count: expected number of rows.
    """
    broken = rows.where(f"{DISPOSITION} = '{Disposition.QUARANTINED}'")
    if evaluator.many:
        broken = _add_texts(evaluator, broken, records, count)
    provenance = []
    if "source_file" not in evaluator.outputs:
        provenance.append(F.col(SOURCE).alias("source_file"))
    return broken.select(
        *map(quote_name, evaluator.outputs), *evaluator.row_id, F.col(BROKEN).alias("_failed_expectations"), RECORD,
        *provenance, F.current_timestamp().alias("_quarantined_at"),
    )  # fmt: skip


def _add_texts(evaluator: RowEvaluator, broken: DataFrame, records: DataFrame, count: int) -> DataFrame:
    """Add the record's text to the first quarantined row of each record only.

    With text in each row, a record of a thousand lines would be stored a thousand times: a million lines.
    """
    record_id = [*evaluator.record_id]
    first = broken.groupBy(*record_id).agg(F.min(ROW).alias(ROW))
    if count <= record_ids.SENT:  # records may be long, and all of a lake
        first = F.broadcast(first)
    of_flows = [
        column
        for column in map(several_batch.records_column, evaluator.table.flows_or_branches)
        if column in records.columns
    ]
    text = original_json(records.columns)
    if of_flows:
        text = text_of(records, of_flows)
    texts = records.join(first, record_id).select(*record_id, ROW, text.alias(RECORD))
    return broken.join(texts, [*record_id, ROW], "left")


def set_aside(evaluator: RowEvaluator, rows: DataFrame, left_out: DataFrame | None) -> DataFrame:
    """Return identities of records or rows in neither table, with the reason and a hash of their key.

    Args:
        evaluator: the evaluator of the rows.
        rows: the evaluated rows, with the identity of the stored row that a winner replaced.
        left_out: the records without a row in the query's result; None if there are none.
    """
    lost = F.lit("duplicate")
    if evaluator.sequence_by:
        lost = F.lit("superseded")
    beaten = rows.where(F.col(DISPOSITION).isin(*SET_ASIDE))
    reason = (
        F.when(F.col(DISPOSITION) == Disposition.DROPPED, "dropped")
        .when(F.col(DISPOSITION) == Disposition.DELETED, "deleted")
        .otherwise(lost)
    )
    parts = [_set_aside_rows(evaluator, beaten, reason)]
    if REPLACED[0] in rows.columns and (evaluator.sequence_by or FLOW in evaluator.row_id):
        beaten = rows.where(f"{DISPOSITION} = '{Disposition.WRITTEN}' AND {REPLACED[0]} IS NOT NULL")
        parts.append(_set_aside_rows(evaluator, beaten, lost, identity=replaced_identity(evaluator.row_id)))
    if left_out is not None:
        values = {BROKEN: F.expr("cast(array() as array<string>)"), **{key: F.lit(None) for key in evaluator.keys}}
        reason = F.lit("filtered")
        if evaluator.many:
            values[ROW] = F.lit(many_rows.NONE).cast("bigint")
            reason = F.lit(many_rows.NO_ROWS)
        parts.append(_set_aside_rows(evaluator, left_out.select(*evaluator.record_id).withColumns(values), reason))
    return reduce(lambda a, b: a.unionByName(b), parts)


def _set_aside_rows(
    evaluator: RowEvaluator, rows: DataFrame, reason: Column, identity: tuple[str, ...] | None = None
) -> DataFrame:
    columns = zip(identity or evaluator.row_id, evaluator.row_id, strict=True)
    return rows.select(
        *[F.col(column).alias(name) for column, name in columns], reason.alias("reason"), F.col(BROKEN).alias("rules"),
        evaluator.key.alias("_key"),
    )  # fmt: skip
