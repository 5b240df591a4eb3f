"""Rules about a whole silver table, asked before the first of a batch's commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.frames.rules import rejected
from sluicegate.frames.rules.table_rules import TableCheck, WouldBe

if TYPE_CHECKING:
    from sluicegate.silver.evaluate import RowEvaluator


def demand(evaluator: RowEvaluator, would_be: WouldBe) -> dict[str, Any]:
    """Holds the table as it would be to its rules; returns what its commit says of them.

    Raises:
        TableRuleFailed: it would break one; ``{table}_rejected`` has the rows that do, and nothing else is written.
    """
    batch, rules = evaluator.batch, evaluator.table.expect_table
    refusals, facts = TableCheck(batch, rules).refusals(would_be)
    batch.report.table_rules = facts.get("table_rules", {})
    if refusals:
        rejected.refuse(batch, refusals, facts)
    rejected.clear(batch)
    return facts
