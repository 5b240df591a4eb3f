"""Check rules about a whole silver table before the first commit of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.frames.rules import rejected
from sluicegate.frames.rules.table_rules import TableCheck, WouldBe

if TYPE_CHECKING:
    from sluicegate.silver.evaluate import RowEvaluator


def demand(evaluator: RowEvaluator, would_be: WouldBe) -> dict[str, Any]:
    """Check the table as it would be against its rules; return the facts for its commit.

    Raises:
        TableRuleFailed: the table would break a rule; only ``{table}_rejected`` is written, with the violating rows.
    """
    batch, rules = evaluator.batch, evaluator.table.expect_table
    refusals, facts = TableCheck(batch, rules).refusals(would_be)
    batch.report.table_rules = facts.get("table_rules", {})
    if refusals:
        rejected.refuse(batch, refusals, facts)
    rejected.clear(batch)
    return facts
