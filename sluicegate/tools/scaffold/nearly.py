"""What "nearly all" means: so few values or rows are otherwise that they look like mistakes, not like data."""

from __future__ import annotations

NEARLY = 0.95
"""Share of values that have to fit a type, or of rows that have to differ by a key, so that the others are few."""

ENOUGH = 20
"""Values, or rows, below which a share says nothing."""


def has_few_exceptions(otherwise: int, whole: int) -> bool:
    """Whether some of the values or rows are otherwise, and nearly all of them are not."""
    return otherwise > 0 and whole - otherwise >= max(ENOUGH, NEARLY * whole)
