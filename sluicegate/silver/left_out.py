"""Records that a transform leaves out for a value that bronze rescued: they are quarantined, and not set aside.

The column of such a value is NULL, so that a WHERE, an inner join or an ``explode`` over it may give no row for the
record, and nobody would look for a value of it again. Which columns choose the records is in Spark's plan of the query.
A condition of the WHERE that reads none of the rescued values leaves out a record as ever. None of this is looked at
for batches without rescued data: their delivery counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from sluicegate.flow import stream_batch
from sluicegate.frames.rejected import BROKEN
from sluicegate.frames.row_rules import LENIENT
from sluicegate.schema.columns import CORRUPT, RECORD, RECORD_STRUCT, RESCUED, ROW
from sluicegate.silver import columns_read, provenance, rescued, reserved_names
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import DISPOSITION
from sluicegate.silver.reconcile import Reconciliation
from sluicegate.silver.rescued import PARSED, UNFIT
from sluicegate.silver.transform import Made
from sluicegate.spark import connect
from sluicegate.spark.session import configured
from sluicegate.sql import where_casts
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_left_out(
    evaluator: RowEvaluator,
    rows: DataFrame,
    records: DataFrame,
    reconciliation: Reconciliation,
    keep: Callable[[DataFrame], DataFrame],
) -> tuple[DataFrame, Reconciliation]:
    """Rows with those of records that the transform leaves out for a rescued value, and their reconciliation.

    Args:
        evaluator: the evaluator of the rows.
        rows: the evaluated rows, in their final disposition.
        records: the records that they were made of; those of several flows packed, see ``stream_batch``.
        reconciliation: the reconciliation of ``rows``.
        keep: keeps a frame that is read more than once.
    """
    if not reconciliation.filtered:
        return rows, reconciliation
    parts = [*_of_flows(evaluator, rows, records)]
    if not parts:
        return rows, reconciliation
    left_out = keep(reduce(lambda a, b: a.unionByName(b), parts))
    if left_out.isEmpty():
        return rows, reconciliation
    both = rows.unionByName(left_out, allowMissingColumns=True)
    return both, reconciliation.of_more(both)


def _of_flows(evaluator: RowEvaluator, rows: DataFrame, records: DataFrame) -> Iterator[DataFrame]:
    """Quarantined rows of the records that each flow leaves out for a rescued value."""
    for flow, made in evaluator.made.items():
        choosing = _choosing(made)
        if not choosing:
            continue
        its = stream_batch.unpacked(records, flow) if flow else records
        its = _unfit(made, reserved_names.without_working(its)).where(F.arrays_overlap(UNFIT, _texts(choosing)))
        its = _without_filtered(made, its)
        its = its.join(rows.select(*evaluator.record_id), [*evaluator.record_id], "left_anti")
        yield _quarantined(evaluator, made, rows, its)


def _choosing(made: Made) -> list[str]:
    """Rules on the columns by which a transform chooses its records, and that a record was parsed."""
    query, watched = made.transform.maker.query, made.watched
    if query is not None and query.keeps_every_record:
        return []
    if query is None or connect.is_remote(made.rows.sparkSession):
        return watched.rules
    chosen = columns_read.by_plan(
        made.rows.select(F.lit(1).alias("one")), made.transform.view(query.stream or ""), watched.columns
    )
    return _rules(made, chosen)


def _rules(made: Made, columns: set[str]) -> list[str]:
    its = [rescued.rule(column) for column in made.watched.columns if column in columns]
    return [*([PARSED] if made.watched.parsed else []), *its]


def _unfit(made: Made, records: DataFrame) -> DataFrame:
    """Records that have rescued data or were not parsed, with the rules that they break."""
    there = [F.col(name) for name in (RESCUED, CORRUPT) if name in records.columns]
    return records.where(F.coalesce(*there).isNotNull()).withColumn(UNFIT, made.watched.broken())


def _without_filtered(made: Made, records: DataFrame) -> DataFrame:
    """Records without those that a condition of the WHERE leaves out by other columns than such with a rescued value.

    A condition over a lookup, which the records alone do not have, leaves out none.
    """
    query = made.transform.maker.query
    if query is None:
        return records
    stream = query.stream_alias or "records"
    named = records.alias(stream)
    with configured(records.sparkSession, LENIENT):
        tests = [_meets(made, named, condition) for condition in where_casts.conditions(query.text, stream)]
        return connect.frozen(
            reduce(lambda frame, test: frame.where(test), [test for test in tests if test is not None], named)
        )


def _meets(made: Made, records: DataFrame, condition: str) -> Column | None:
    """Whether records meet a condition, or do not by a rescued value; None if it is not about the records alone."""
    met = F.coalesce(F.expr(condition), F.lit(False))
    try:
        read = _read(made, condition, connect.analyzed(records.select(met.alias("met"))))
    except AnalysisException:
        return None
    return met | F.arrays_overlap(UNFIT, _texts(_rules(made, read)))


def _read(made: Made, condition: str, met: DataFrame) -> set[str]:
    """Columns of the records that a condition reads."""
    query, columns = made.transform.maker.query, made.watched.columns
    if query is None or connect.is_remote(met.sparkSession):
        return {column for column in columns if column.lower() in condition.lower()}
    return columns_read.by_plan(met, query.stream_alias or "records", columns)


def _quarantined(evaluator: RowEvaluator, made: Made, rows: DataFrame, records: DataFrame) -> DataFrame:
    """Rows of the quarantine for records, with the columns that the query hands on untouched."""
    frame = provenance.with_record(records.drop(UNFIT))
    frame = frame.withColumn(BROKEN, made.watched.broken(f"{RECORD_STRUCT}."))
    own = {field.name.lower(): field for field in records.schema}
    outputs: list[Column] = []
    for name in evaluator.outputs:
        column = own.get((made.transform.handed_on(name) or "").lower())
        kind = rows.schema[name].dataType
        same = column is not None and column.dataType == kind
        value = F.col(quoted(column.name)) if column is not None and same else F.lit(None).cast(kind)
        outputs.append(value.alias(name))
    text = [] if evaluator.many else [provenance.text_of(frame, [RECORD_STRUCT]).alias(RECORD)]
    number = [F.lit(1).cast("bigint").alias(ROW)] if evaluator.many else []
    return frame.select(
        *outputs,
        *evaluator.record_id,
        *number,
        BROKEN,
        F.lit("quarantine").alias(DISPOSITION),
        *provenance.file_of(frame, [RECORD_STRUCT]),
        *text,
    )


def _texts(texts: list[str]) -> Column:
    return F.array(*map(F.lit, texts)) if texts else F.expr("cast(array() as array<string>)")
