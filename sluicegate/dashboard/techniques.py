"""How a batch of a gold table was made, beside how the table is planned to be kept up to date, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.flow import thresholds

if TYPE_CHECKING:
    from sluicegate.dashboard.batches import CommittedBatch

WORDS = {
    "partial": "incremental", "restart": "restart of the aggregate state", "groups": "affected groups",
    "keys": "affected keys", "whole": "full recompute", "stream": "streaming aggregation",
}  # fmt: skip
"""Refresh strategies and techniques, as the glossary calls them."""


def word(name: str) -> str:
    """A refresh strategy or a technique in words; as it is if it is none."""
    return WORDS.get(name, name)


def differs(batch: CommittedBatch) -> str:
    """Why a batch was made otherwise than its table's refresh strategy says, in words; empty if it was not.

    Commits say which techniques could be taken, with the seconds that each was estimated at: with one alone there was
    no choice.
    """
    if batch.why or not batch.technique or batch.technique == batch.strategy:
        return batch.why
    if batch.strategy == "stream" or not batch.strategy:
        return ""
    estimate = batch.estimates.get(batch.technique)
    alternatives = {name: seconds for name, seconds in batch.estimates.items() if name != batch.technique}
    if batch.technique == "restart":
        return "its aggregate state was outdated and was rebuilt from all rows"
    if alternatives and estimate is not None:
        by = ", ".join(f"{seconds:.1f} s by {word(name)}" for name, seconds in alternatives.items())
        return f"it was estimated at {estimate:.1f} s, and at {by}"
    if batch.all_rows is not None and batch.all_rows <= thresholds.SMALL:
        return f"the tables that it reads are small ({batch.all_rows:,} rows): reading all of them costs less"
    if batch.strategy == "keys":
        return "the changes may affect any of its rows"
    return ""
