"""Choose a part of a silver table's records by identity: the same in source, table and side tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.flow.batch import Batch
from sluicegate.flow.several.several_batch import StreamsBatch
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.verification.finding import FindingReason
from sluicegate.flow.verification.sample import Sample
from sluicegate.schema.columns import IDENTITY
from sluicegate.silver.evaluate import RowEvaluator

# A sample's size is exact to one of so many parts.
PARTS = 1_000_000


@dataclass(frozen=True)
class SampledPart:
    """SampledPart of the records that a verification compares.

    Attributes:
        choose: returns the rows of a frame whose records are in the part.
        which: its records, as a noun phrase.
        why: why other records are not compared.
        reason: code of that reason.
    """

    choose: Callable[[DataFrame], DataFrame]
    which: str
    why: str
    reason: FindingReason = FindingReason.IN_WORDS


def are_independent(evaluator: RowEvaluator) -> bool:
    """Return whether the disposition of a record depends only on itself and on lookups.

    A query of silver makes a row of one record (`spark_sql/query_shape.py`); what a Python function does is not known.
    With keys, a history or a rule of uniqueness, records affect each other.
    """
    of_others = evaluator.keys or evaluator.unique or evaluator.history
    return not of_others and are_bound_by_keys(evaluator)


def are_bound_by_keys(evaluator: RowEvaluator) -> bool:
    """Return whether a record's disposition depends only on records that share its key, and on lookups.

    A key that a snapshot lacks is one that goes: there any record may decide. So may it where a Python function does.
    """
    by_python = any(maker.is_python for maker in evaluator.table.makers.values())
    return not by_python and evaluator.table.apply_changes_from_snapshot is None


def records_in_sample(sample: Sample) -> SampledPart:
    """Return the records in a sample."""

    def choose(rows: DataFrame) -> DataFrame:
        place = F.pmod(F.xxhash64(*IDENTITY), F.lit(PARTS))
        bounds = [(round(begin * PARTS), round(end * PARTS)) for begin, end in sample.intervals]
        return rows.where(reduce(or_, [(place >= begin) & (place < end) for begin, end in bounds]))

    return SampledPart(choose, f"the records in {sample}", f"as {sample} is compared")


def narrow_batch(batch: Batch, part: SampledPart) -> Batch:
    """Return a batch of some records from one of all records."""
    if isinstance(batch, StreamsBatch):
        deliveries = {
            name: Delivery(part.choose(delivery.rows), batch.flow) for name, delivery in batch.deliveries.items()
        }
        counts = {name: delivery.rows.count() for name, delivery in deliveries.items()}
        return replace(
            batch, delivery=next(iter(deliveries.values())), deliveries=deliveries, counts=counts,
            read=sum(counts.values()),
        )  # fmt: skip
    rows = part.choose(batch.rows)
    return replace(batch, delivery=Delivery(rows, batch.flow), read=rows.count())
