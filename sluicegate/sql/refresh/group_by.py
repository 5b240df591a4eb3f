"""A query that groups rows, taken apart into the user's own expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.sql.identifiers import quoted
from sluicegate.sql.join_keys import JoinKey
from sluicegate.sql.tokens import Span

PARTIAL = {
    "count": "count", "count_if": "count_if", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    "stddev": "stddev_samp", "std": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}  # fmt: skip
"""The aggregate functions that it is known here how to add to and to take away from, each with its plain name."""

SUMS = {"sum", "avg"}
"""The functions whose value Spark makes of doubles in the order in which it meets them."""

MOMENTS = {"var_pop", "var_samp", "stddev_pop", "stddev_samp"}
"""Those of whose value the same is true for any term."""

ONE_ROW = ("TRUE",)
"""What a query without GROUP BY groups by: all of its rows are one group, which is there without rows, too."""


@dataclass(frozen=True)
class Call:
    """An aggregate function as the query calls it.

    Attributes:
        number: which of the query's calls it is, from 0.
        function: its plain name, one of ``PARTIAL``.
        arguments: SQL of its arguments; none for ``count(*)``.
        condition: SQL of its FILTER; empty without.
    """

    number: int
    function: str
    arguments: tuple[str, ...]
    condition: str

    @property
    def value(self) -> str:
        """Name of the column that stands for its value in ``Grouped.outputs``."""
        return f"_value_{self.number}"

    def sql(self, qualified: Call | None = None) -> str:
        """The call as it is made of its parts.

        Args:
            qualified: the same call with other texts of its parts.
        """
        its = qualified or self
        condition = f" FILTER (WHERE {its.condition})" if its.condition else ""
        return f"{self.function}({', '.join(its.arguments) or '*'}){condition}"


@dataclass(frozen=True)
class Grouped:
    """A query that groups rows, taken apart.

    Attributes:
        table: the table whose changes are followed.
        alias: what the query calls it.
        joins: the others that it joins, each with how it is tied to that one's rows.
        from_: SQL of its FROM over views (see sql/refresh/joins.py).
        where: SQL of its WHERE; empty without.
        groups: SQL of what it groups by; ``_group_0`` and so on stand for their values.
        keys: the output that each of these is, by its number; only those that stand in the SELECT list.
        calls: its aggregate functions.
        outputs: SQL of each output over the values of groups and calls, with its name.
        having: SQL of its HAVING over these values and outputs; empty without.
        sums: those of its calls that are sums or averages of each row's value, and the tokens that they stand at.
        recomposed: the query put together again from all these parts, over the views of its FROM (see
        gold/query_analysis.py).
        one_row: whether it has no GROUP BY: its result is one row.
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

    @property
    def once(self) -> dict[int, Call]:
        """Each of its aggregate functions once, by its number."""
        return {call.number: call for call in reversed(self.calls)}

    @property
    def located(self) -> bool:
        """Whether a group's row can be found in the table: all that it groups by is in the SELECT list."""
        return len(self.keys) == len(self.groups)


def outputs_sql(grouped: Grouped, view: str) -> str:
    """The query over a view of the values of its groups and calls, one row for each group."""
    items = [f"{text} AS {quoted(name)}" for text, name in grouped.outputs]
    if not grouped.having:
        return f"SELECT {', '.join(items)} FROM {view}"
    names = ", ".join(quoted(name) for _, name in grouped.outputs)
    return f"SELECT {names} FROM (SELECT {', '.join(items)}, {grouped.having} AS _having FROM {view}) WHERE _having"
