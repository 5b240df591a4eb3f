"""Quarantine records that a transform filters out because of a value that bronze rescued.

The column of such a value is NULL, so that a WHERE, an inner join or an ``explode`` over it may give no row for the
record, and the value would be lost unnoticed. The columns that choose records are in Spark's plan of the query. A
condition of the WHERE that reads no rescued value filters a record as usual. Batches without rescued data skip all of
this: their delivery counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from sluicegate.flow.several import several_batch
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import LENIENT
from sluicegate.schema.columns import CORRUPT, RECORD, RECORD_STRUCT, RESCUED, ROW
from sluicegate.silver import provenance
from sluicegate.silver.columns import columns_read, reserved_names
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION, Disposition
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.side_tables import rescued
from sluicegate.silver.side_tables.rescued import PARSED, UNFIT
from sluicegate.silver.transform import TransformedRows
from sluicegate.spark import connect
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.conversion import where_casts
from sluicegate.spark_sql.identifiers import quote_name


def add_left_out_rows(
    evaluator: RowEvaluator,
    rows: DataFrame,
    records: DataFrame,
    reconciliation: Reconciliation,
    keep: Callable[[DataFrame], DataFrame],
) -> tuple[DataFrame, Reconciliation]:
    """Add rows for records that the transform filtered out for a rescued value, with the reconciliation.

    Args:
        evaluator: the evaluator of the rows.
        rows: the evaluated rows, with their final disposition.
        records: the records of these rows; with several flows packed, see ``several_batch``.
        reconciliation: the reconciliation of ``rows``.
        keep: persists a frame that is read more than once.
    """
    if not reconciliation.filtered_records:
        return rows, reconciliation
    parts = [*_left_out_rows(evaluator, rows, records)]
    if not parts:
        return rows, reconciliation
    left_out = keep(reduce(lambda a, b: a.unionByName(b), parts))
    if left_out.isEmpty():
        return rows, reconciliation
    both = rows.unionByName(left_out, allowMissingColumns=True)
    return both, reconciliation.add_rows(both)


def _left_out_rows(evaluator: RowEvaluator, rows: DataFrame, records: DataFrame) -> Iterator[DataFrame]:
    """Yield the quarantined rows of records that each flow filtered out for a rescued value."""
    for flow, transformed in evaluator.made.items():
        choosing = _filter_rules(transformed)
        if not choosing:
            continue
        candidates = records
        if flow:
            candidates = several_batch.unpack_flow(records, flow)
        candidates = _unfit_records(transformed, reserved_names.drop_working_columns(candidates))
        candidates = _drop_filtered(transformed, candidates.where(F.arrays_overlap(UNFIT, _texts(choosing))))
        candidates = candidates.join(rows.select(*evaluator.record_id), [*evaluator.record_id], "left_anti")
        yield _quarantine_rows(evaluator, transformed, rows, candidates)


def _filter_rules(transformed: TransformedRows) -> list[str]:
    """Return the rules on columns in a transform's filter, and that a record was parsed."""
    query, watched = transformed.transform.maker.query, transformed.watched
    if query is not None and query.keeps_every_record:
        return []
    if query is None or connect.is_remote(transformed.rows.sparkSession):
        return watched.rules
    chosen = columns_read.plan_columns(
        transformed.rows.select(F.lit(1).alias("one")), transformed.transform.view(query.stream or ""), watched.columns
    )
    return _rules(transformed, chosen)


def _rules(transformed: TransformedRows, columns: set[str]) -> list[str]:
    rules = [rescued.rule_name(column) for column in transformed.watched.columns if column in columns]
    if transformed.watched.parsed:
        rules.insert(0, PARSED)
    return rules


def _unfit_records(transformed: TransformedRows, records: DataFrame) -> DataFrame:
    """Return the records with rescued data or parse errors, with the rules that they break."""
    columns = [F.col(name) for name in (RESCUED, CORRUPT) if name in records.columns]
    return records.where(F.coalesce(*columns).isNotNull()).withColumn(UNFIT, transformed.watched.broken_rules())


def _drop_filtered(transformed: TransformedRows, records: DataFrame) -> DataFrame:
    """Drop records that the WHERE filters out by columns without a rescued value.

    A condition over a lookup, which the records do not have, drops none.
    """
    query = transformed.transform.maker.query
    if query is None:
        return records
    stream = query.stream_alias or "records"
    named = records.alias(stream)
    with override_settings(records.sparkSession, LENIENT):
        tests = [_meets_condition(transformed, named, test) for test in where_casts.conditions(query.text, stream)]
        return connect.freeze(
            reduce(lambda frame, test: frame.where(test), [test for test in tests if test is not None], named)
        )


def _meets_condition(transformed: TransformedRows, records: DataFrame, condition: str) -> Column | None:
    """Return whether records meet a condition or fail it by a rescued value; None if it reads other tables."""
    met = F.coalesce(F.expr(condition), F.lit(False))
    try:
        read = _columns_read(transformed, condition, connect.analyze(records.select(met.alias("met"))))
    except AnalysisException:
        return None
    return met | F.arrays_overlap(UNFIT, _texts(_rules(transformed, read)))


def _columns_read(transformed: TransformedRows, condition: str, met: DataFrame) -> set[str]:
    """Return the columns of the records that a condition reads."""
    query, columns = transformed.transform.maker.query, transformed.watched.columns
    if query is None or connect.is_remote(met.sparkSession):
        return {column for column in columns if column.lower() in condition.lower()}
    return columns_read.plan_columns(met, query.stream_alias or "records", columns)


def _quarantine_rows(
    evaluator: RowEvaluator, transformed: TransformedRows, rows: DataFrame, records: DataFrame
) -> DataFrame:
    """Return quarantine rows for records, with the columns that the query passes through."""
    frame = provenance.add_record(records.drop(UNFIT))
    frame = frame.withColumn(BROKEN, transformed.watched.broken_rules(f"{RECORD_STRUCT}."))
    columns = [_passed_output(transformed, records, name, rows.schema[name].dataType) for name in evaluator.outputs]
    columns += list(map(F.col, evaluator.record_id))
    if evaluator.many:
        columns.append(F.lit(1).cast("bigint").alias(ROW))
    columns += [
        F.col(BROKEN), F.lit(Disposition.QUARANTINED).alias(DISPOSITION), *provenance.file_of(frame, [RECORD_STRUCT]),
    ]  # fmt: skip
    if not evaluator.many:
        columns.append(provenance.text_of(frame, [RECORD_STRUCT]).alias(RECORD))
    return frame.select(*columns)


def _passed_output(transformed: TransformedRows, records: DataFrame, output: str, kind: DataType) -> Column:
    """Return an output that the query passes through unchanged; NULL for a computed one."""
    fields = {field.name.lower(): field for field in records.schema}
    field = fields.get((transformed.transform.passed_column(output) or "").lower())
    if field is None or field.dataType != kind:
        return F.lit(None).cast(kind).alias(output)
    return F.col(quote_name(field.name)).alias(output)


def _texts(texts: list[str]) -> Column:
    if not texts:
        return F.expr("cast(array() as array<string>)")
    return F.array(*map(F.lit, texts))
