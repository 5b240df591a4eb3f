"""Refresh strategies that this process has chosen already: the text of a query and its tables' columns decide them.

The triggerer and the Lakehouse page ask for those of hundreds of tables time and again, some milliseconds each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sluicegate.spark_sql.refresh.strategy import RefreshStrategy
from sluicegate.spark_sql.refresh.strategy import refresh_strategy as chosen


def refresh_strategy(text: str, schemas: Mapping[str, Sequence[str]] | None = None) -> RefreshStrategy:
    """Return the refresh strategy of a query, computed once by ``strategy.refresh_strategy``.

    Args:
        text: the query.
        schemas: columns of the tables that it reads, as far as they are known.
    """
    return _cached_strategy(text, tuple((name, tuple(columns)) for name, columns in (schemas or {}).items()))


@lru_cache(maxsize=1024)
def _cached_strategy(text: str, schemas: tuple[tuple[str, tuple[str, ...]], ...]) -> RefreshStrategy:
    return chosen(text, dict(schemas))
