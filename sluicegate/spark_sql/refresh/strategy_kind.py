"""Kinds of refresh strategies; see strategy.py."""

from __future__ import annotations

from enum import StrEnum


class StrategyKind(StrEnum):
    """How a gold table is kept up to date; the values are in commits and outputs."""

    INCREMENTAL = "partial"
    """Row deltas adjust the stored aggregate state."""

    AFFECTED_GROUPS = "groups"
    """Groups with a changed row are computed again from the source."""

    AFFECTED_KEYS = "keys"
    """Rows whose keys the changes touch are replaced."""

    FULL_RECOMPUTE = "whole"
    """The query is run over its whole source."""

    STREAM = "stream"
    """A streaming aggregation with a checkpoint, as the definition asks."""


BY_ROW_DELTAS = (StrategyKind.INCREMENTAL, StrategyKind.AFFECTED_GROUPS, StrategyKind.AFFECTED_KEYS)
"""Refresh strategies that follow row deltas."""
