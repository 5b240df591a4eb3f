"""Recomputation of a gold table's query over the versions of a batch, for verify. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.flow.batch import Batch
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.gold.rules import staying
from sluicegate.lake import layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sluicegate.definition import GoldTable


def plainly(batch: Batch, name: str, table: GoldTable, lake: layout.Lake) -> DataFrame:
    """Rows of the user's own query, or function, over the batch's versions, but for those that a rule drops."""
    return staying(table, ProvedQuery(batch, name, table).everything)


def rounded_once(
    batch: Batch, name: str, table: GoldTable, lake: layout.Lake
) -> tuple[DataFrame, set[str] | None] | None:
    """Same rows with sums rounded once, and the columns made of them (None: unknown); None if none is rounded."""
    gold = ProvedQuery(batch, name, table)
    if gold.refresh_strategy.kind == "partial":
        return (staying(table, gold._of_all), gold._partials.rounded_outputs) if gold._partials.rounded else None
    return (staying(table, gold._exactly(gold._rows)), None) if gold._rounded is not None else None
