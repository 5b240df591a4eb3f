"""Sample of the records of a silver table, by their identity: the same in the source, the table and its side tables."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.flow.delivery import Delivery
from sluicegate.flow.stream_batch import StreamsBatch
from sluicegate.schema.columns import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import Column

    from sluicegate.flow.batch import Batch
    from sluicegate.flow.sample import Sample
    from sluicegate.silver.evaluate import RowEvaluator

# A sample's size is exact to one of so many parts.
PARTS = 1_000_000


def are_independent(evaluator: RowEvaluator) -> bool:
    """Whether what becomes of a record depends on that record alone, and on lookups.

    A query of silver makes a row of one record (`sql/query_shape.py`); what a Python function does is not known. Where
    a table has keys, a history or a rule of uniqueness, records decide about each other.
    """
    of_others = evaluator.keys or evaluator.unique or evaluator.history
    return not (of_others or any(maker.is_python for maker in evaluator.table.makers.values()))


def condition(sample: Sample) -> Column:
    """Whether a record is in the sample, in any table that has its identity."""
    place = F.pmod(F.xxhash64(*IDENTITY), F.lit(PARTS))
    bounds = [(round(begin * PARTS), round(end * PARTS)) for begin, end in sample.intervals]
    return reduce(or_, [(place >= begin) & (place < end) for begin, end in bounds])


def of_batch(batch: Batch, sample: Sample) -> Batch:
    """A batch of the records in the sample, from one of all records."""
    chosen = condition(sample)
    if isinstance(batch, StreamsBatch):
        its = {name: Delivery(one.rows.where(chosen), batch.flow) for name, one in batch.deliveries.items()}
        counts = {name: one.rows.count() for name, one in its.items()}
        return replace(
            batch, delivery=next(iter(its.values())), deliveries=its, counts=counts, read=sum(counts.values())
        )
    rows = batch.rows.where(chosen)
    return replace(batch, delivery=Delivery(rows, batch.flow), read=rows.count())
