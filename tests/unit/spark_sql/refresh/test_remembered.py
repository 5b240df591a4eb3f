"""A query is taken apart once for each set of columns that its tables have."""

from __future__ import annotations

import pytest

from sluicegate.spark_sql.refresh import remembered, strategy

pytestmark = pytest.mark.unit

# Whether n is a column or an output depends on the table.
QUERY = "SELECT n DIV 10 AS n, sum(x) AS s, s + n AS z FROM t GROUP BY n DIV 10 HAVING s > 1"


def test_a_strategy_is_chosen_once_for_each_set_of_columns() -> None:
    of = {columns: remembered.refresh_strategy(QUERY, {"t": list(columns)}) for columns in ("nx", "mx")}
    assert (of["nx"].kind, of["mx"].kind) == ("groups", "partial")
    assert remembered.refresh_strategy(QUERY, {"t": ["n", "x"]}) is of["nx"]
    assert remembered.refresh_strategy(QUERY, {"t": ["m", "x"]}) is of["mx"]
    assert remembered.refresh_strategy(QUERY) == strategy.refresh_strategy(QUERY)
