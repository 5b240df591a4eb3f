"""Evaluators of silver tables for batches without a session, whose rows a test makes itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from sluicegate.definition import SilverTable
from sluicegate.flow.model import Flow, Progress
from sluicegate.silver.evaluate import RowEvaluator
from sluicegate.silver.expectations import Rules
from sluicegate.spark_sql.query import Query

QUERY = "SELECT k, v, at FROM STREAM(raw)"
"""Query that keeps each record."""


def evaluator(progress: Progress | None = None, target: str = "no table", **fields: Any) -> RowEvaluator:
    """Evaluator of a batch of new records of the table ``t``, which makes columns ``k`` and ``v``.

    Args:
        progress: the batch's progress.
        target: address of the table.
        fields: fields of the table's definition.
    """
    table = SilverTable.model_validate({"sql": QUERY, **fields})
    table._query = Query.parse(fields.get("sql", QUERY))
    flow = Flow("silver", "t", "source", target)
    batch = SimpleNamespace(progress=progress or Progress("incremental"), flow=flow, choice=None, whole=False)
    row_evaluator = RowEvaluator(cast("Any", batch), "t", table)
    row_evaluator.outputs = ["k", "v"]
    row_evaluator.rules = Rules(table, {}, {})
    return row_evaluator
