"""Decide whether a query that may choose among equal rows has any in its data.

``row_number()``, ``lag``, ``max_by`` and LIMIT are deterministic if no two rows are equal in their sort columns. So the
rows below each of them are counted by these columns, in Spark's own plan, as of the versions of the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.frames.unsteady import choices, nodes, why_nondeterministic, why_order_dependent, words
from sluicegate.spark.catalyst import Catalyst, elements, name_of

# Plan nodes that are looked into; where others choose, nothing is said of the data.
WINDOWED = {"RowNumber", "NTile", "Lead", "Lag", "NthValue"}
GREATEST = {"MaxBy": True, "MinBy": False}
LIMITS = {"LocalLimit", "GlobalLimit", "Offset"}


def excuse(frame: DataFrame) -> str:
    """Return why rows that differ from the query's result may still be right; empty if they are wrong."""
    if reason := why_nondeterministic(frame):
        return reason
    reason = why_order_dependent(frame)
    if not reason or not has_equal_rows(frame):
        return ""
    return reason


def has_equal_rows(frame: DataFrame) -> bool:
    """Return whether a query may return other rows the next time because of equal rows; True if unknown."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if choices(frame) - WINDOWED - GREATEST.keys() - LIMITS:
        return True
    try:
        return any(not equal_rows.isEmpty() for equal_rows in _Equals(frame).frames())
    except (Py4JError, PySparkException):  # of a subquery that looks into the query around it, say
        return True


class _Equals:
    """Rows in a query's plan that are equal where it chooses among them."""

    def __init__(self, frame: DataFrame) -> None:
        jvm: Any = frame.sparkSession._jvm
        self.sql, self.catalyst = jvm.org.apache.spark.sql, Catalyst(frame.sparkSession)
        # A part of a plan cannot be run by itself while it names what a WITH around it defines.
        self.plan = self.sql.catalyst.optimizer.InlineCTE(True, False).apply(self.catalyst.plan(frame))

    def frames(self) -> Iterator[DataFrame]:
        """Yield a frame for each choice, empty if no rows are equal."""
        for node in nodes(self.plan):
            match name_of(node):
                case "Window":
                    yield from self._window_peers(node)
                case "Aggregate":
                    yield from self._aggregate_peers(node)
                case "GlobalLimit" | "Offset":
                    yield self._limit_peers(node)

    def _window_peers(self, node: Any) -> Iterator[DataFrame]:
        if WINDOWED.isdisjoint(chain.from_iterable(map(words, elements(node.windowExpressions())))):
            return
        keys = [*elements(node.partitionSpec()), *(order.child() for order in elements(node.orderSpec()))]
        yield self._peers(node.child(), keys)

    def _aggregate_peers(self, node: Any) -> Iterator[DataFrame]:
        from pyspark.sql import Window

        groups = [*map(self._column, elements(node.groupingExpressions()))]
        for function in chain.from_iterable(map(nodes, elements(node.aggregateExpressions()))):
            name = name_of(function)
            if name not in GREATEST:
                continue
            value, order = (self._column(function.children().apply(place)) for place in (0, 1))
            keys = [group.alias(f"g{number}") for number, group in enumerate(groups)]
            rows = self.catalyst.frame(node.child()).select(*keys, order.alias("o"), value.alias("v")).distinct()
            by = Window.partitionBy(*[F.col(f"g{number}") for number in range(len(groups))] or [F.lit(1)])
            first = F.col("o").asc()
            if GREATEST[name]:
                first = F.col("o").desc()
            ranked = rows.where("o IS NOT NULL").withColumn("r", F.rank().over(by.orderBy(first))).where("r = 1")
            yield ranked.withColumn("n", F.count(F.lit(1)).over(by)).where("n > 1")

    def _limit_peers(self, node: Any) -> DataFrame:
        """Return the rows that a LIMIT's order treats as equal; all if it has no order and omits any."""
        child = node.child()
        while name_of(child) in (*LIMITS, "Project", "SubqueryAlias"):
            child = child.children().apply(0)
        if name_of(child) == "Sort":
            return self._peers(child.child(), [order.child() for order in elements(child.order())])
        rows = self.catalyst.frame(child)
        left_out = rows.count() - self.catalyst.frame(node).count()
        if not left_out:
            return rows.limit(0)
        return rows.limit(1)

    def _peers(self, plan: Any, keys: Sequence[Any]) -> DataFrame:
        """Return distinct rows with the same keys."""
        values = F.struct(*map(self._column, elements(plan.output())))
        named = [self._column(key).alias(f"k{number}") for number, key in enumerate(keys)]
        distinct = self.catalyst.frame(plan).select(*named, F.xxhash64(values).alias("v")).distinct()
        return distinct.groupBy(*[f"k{number}" for number in range(len(keys))]).count().where("count > 1")

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as Classic

        return Classic(self.sql.classic.ExpressionUtils.column(expression))
