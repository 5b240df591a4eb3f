"""How a batch of a gold table was made, beside how the table is planned to be kept up to date, in words."""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.dashboard.batches import CommittedBatch
from sluicegate.flow import thresholds
from sluicegate.flow.refresh_cost import Technique
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind

WORDS: Mapping[str, str] = {
    Technique.INCREMENTAL: "incremental", Technique.RESTART: "restart of the aggregate state",
    Technique.AFFECTED_GROUPS: "affected groups", Technique.AFFECTED_KEYS: "affected keys",
    Technique.FULL_RECOMPUTE: "full recompute", StrategyKind.STREAM: "streaming aggregation",
}  # fmt: skip
"""Refresh strategies and techniques, as the glossary calls them."""


def word(name: str) -> str:
    """Return the display text of a refresh strategy or technique; other names stay as they are."""
    return WORDS.get(name, name)


def difference_reason(batch: CommittedBatch) -> str:
    """Explain why a batch was not made by its table's refresh strategy, empty if it was.

    Commits have the possible techniques with their estimated seconds: a single one left no choice.
    """
    if batch.why or not batch.technique or batch.technique == batch.strategy:
        return batch.why
    if batch.strategy == StrategyKind.STREAM or not batch.strategy:
        return ""
    estimate = batch.estimates.get(batch.technique)
    alternatives = {name: seconds for name, seconds in batch.estimates.items() if name != batch.technique}
    if batch.technique == Technique.RESTART:
        return "its aggregate state was outdated and was rebuilt from all rows"
    if alternatives and estimate is not None:
        by = ", ".join(f"{seconds:.1f} s by {word(name)}" for name, seconds in alternatives.items())
        return f"it was estimated at {estimate:.1f} s, and at {by}"
    if batch.all_rows is not None and batch.all_rows <= thresholds.SMALL:
        return f"the tables that it reads are small ({batch.all_rows:,} rows): reading all of them costs less"
    if batch.strategy == StrategyKind.AFFECTED_KEYS:
        return "the changes may affect any of its rows"
    return ""
