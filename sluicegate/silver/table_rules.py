"""Check rules about a whole silver table before the first commit of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluicegate.frames.rules import rejected
from sluicegate.frames.rules.table_rules import TableCheck, WouldBe
from sluicegate.silver.evaluate import RowEvaluator


def demand(evaluator: RowEvaluator, would_be: Callable[[], WouldBe]) -> dict[str, Any]:
    """Check the table as it would be against its rules; return the facts for its commit.

    Args:
        evaluator: the evaluator of the table's rows.
        would_be: returns the table as it would be; called only if the table has rules.

    Raises:
        TableRuleFailed: the table would break a rule; only ``{table}_rejected`` is written, with the violating rows.
    """
    batch, rules = evaluator.batch, evaluator.table.expect_table
    if not rules:
        rejected.clear(batch)
        return {}
    refusals, facts = TableCheck(batch, rules).refusals(would_be())
    batch.report.table_rules = facts["table_rules"]
    if refusals:
        rejected.refuse(batch, refusals, facts)
    rejected.clear(batch)
    return facts
