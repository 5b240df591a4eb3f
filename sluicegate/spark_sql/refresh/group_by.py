"""A GROUP BY query taken apart into the user's own expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.spark_sql.engine_columns import PREFIX
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.join_keys import JoinKey
from sluicegate.spark_sql.tokens import Span

PARTIAL = {
    "count": "count", "count_if": "count_if", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    "stddev": "stddev_samp", "std": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}  # fmt: skip
"""Aggregate functions that can be maintained by row deltas, with their canonical names."""

SUMS = {"sum", "avg"}
"""Functions whose result over doubles depends on the order of the rows."""

MOMENTS = {"var_pop", "var_samp", "stddev_pop", "stddev_samp"}
"""Functions whose result depends on the order of the rows for any numeric type."""

ONE_ROW = ("TRUE",)
"""Grouping expression of a query without GROUP BY: one group, which exists without rows, too."""


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function in the query.

    Attributes:
        number: index among the query's calls; equal calls share it.
        function: canonical name, a value of ``PARTIAL``.
        arguments: SQL of its arguments; none for ``count(*)``.
        condition: SQL of its FILTER; empty without.
    """

    number: int
    function: str
    arguments: tuple[str, ...]
    condition: str

    @property
    def value(self) -> str:
        """Column with its value in ``Grouped.outputs``."""
        return f"_value_{self.number}"

    def sql(self, qualified: Call | None = None) -> str:
        """Return the SQL of the call.

        Args:
            qualified: the same call with its parts in other texts.
        """
        arguments_from = qualified or self
        condition = ""
        if arguments_from.condition:
            condition = f" FILTER (WHERE {arguments_from.condition})"
        return f"{self.function}({', '.join(arguments_from.arguments) or '*'}){condition}"


@dataclass(frozen=True)
class Grouped:
    """A GROUP BY query taken apart.

    Attributes:
        table: the source table whose changes are followed.
        alias: its alias in the query.
        joins: the joined tables, each with its join keys.
        from_: SQL of its FROM over views (see spark_sql/refresh/joins.py).
        where: SQL of its WHERE; empty without.
        groups: SQL of the grouping expressions; ``_group_0`` and so on are their values.
        keys: output name of each grouping expression in the SELECT list, by its index.
        calls: its aggregate functions.
        outputs: SQL of each output over the values of groups and calls, with its name.
        having: SQL of its HAVING over these values and outputs; empty without.
        sums: its plain calls of sums, averages and moments, with their tokens.
        recomposed: the query recomposed from all these parts, over the views of its FROM (see
        gold/query_analysis.py).
        one_row: whether it has no GROUP BY: its result is one row.
        repeats_rows: whether a row may belong to several groups, those of sliding windows.
    """

    table: str
    alias: str
    joins: Mapping[str, tuple[JoinKey, ...]]
    from_: str
    where: str
    groups: tuple[str, ...]
    keys: dict[int, str]
    calls: tuple[Call, ...]
    outputs: tuple[tuple[str, str], ...]
    having: str
    sums: tuple[tuple[Call, Span], ...] = ()
    recomposed: str = ""
    one_row: bool = False
    repeats_rows: bool = False

    @property
    def distinct_calls(self) -> dict[int, Call]:
        """Its distinct aggregate calls, by number."""
        return {call.number: call for call in reversed(self.calls)}

    @property
    def is_locatable(self) -> bool:
        """Whether a group's row can be found in the table: all grouping expressions are in the SELECT list."""
        return len(self.keys) == len(self.groups)


def outputs_sql(grouped: Grouped, view: str) -> str:
    """Return the SQL of the query over a view with the values of its groups and calls, one row per group."""
    items = [f"{text} AS {quote_name(name)}" for text, name in grouped.outputs]
    if not grouped.having:
        return f"SELECT {', '.join(items)} FROM {view}"
    names = ", ".join(quote_name(name) for _, name in grouped.outputs)
    having = f"{PREFIX}having"
    return f"SELECT {names} FROM (SELECT {', '.join(items)}, {grouped.having} AS {having} FROM {view}) WHERE {having}"
