"""Column lineage by Spark: what its analyzed plan of a query says, which knows each column by a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluicegate.gold.affected import reading
from sluicegate.spark.catalyst import Catalyst, elements, name_of, number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.worlds.schema import Table

Names = frozenset[str]
"""Columns as ``table.column``, in lower case."""

_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}


@dataclass
class PlanLineage:
    """Lineage by the plan of one query.

    Attributes:
        origins: of each column of the plan, by its number, where it comes from.
        columns: of each column of the query, in order.
        rows: columns that decide which rows there are, and their order.
    """

    tables: list[str]
    origins: dict[int, Names] = field(default_factory=dict)
    ctes: dict[int, tuple[Any, Names]] = field(default_factory=dict)
    columns: dict[str, Names] = field(default_factory=dict)
    rows: Names = frozenset()

    def read(self, plan: Any) -> PlanLineage:
        """Takes a whole plan in."""
        self.rows = self._plan(plan)
        self.columns = {str(one.name()): self._of(one) for one in elements(plan.output())}
        return self

    def _plan(self, plan: Any) -> Names:
        """Notes where the columns of a plan come from, and gives what decides about its rows."""
        kind = name_of(plan)
        table = reading._table(plan, self.tables) if kind == "Project" else None
        if table is not None:
            for one in elements(plan.output()):
                self.origins[number_of(one)] = frozenset({f"{table}.{one.name()}".lower()})
            return frozenset()
        if kind == "WithCTE":
            for definition in elements(plan.cteDefs()):  # each after those that it reads
                self.ctes[definition.id()] = definition.child(), self._plan(definition.child())
            return self._plan(plan.plan())
        if kind == "CTERelationRef":
            child, of_child = self.ctes[plan.cteId()]
            self._same(plan, child)
            return of_child
        rows = _all(self._plan(child) for child in elements(plan.children()))
        made = getattr(self, f"_{kind.lower()}", None)
        return rows | (made(plan) if made is not None else frozenset())

    # --- operators ---------------------------------------------------------------------------------------------------

    def _project(self, plan: Any) -> Names:
        self._items(plan.projectList())
        return frozenset()

    def _aggregate(self, plan: Any) -> Names:
        rows = self._some(plan.groupingExpressions())
        self._items(plan.aggregateExpressions())
        return rows

    def _window(self, plan: Any) -> Names:
        self._items(plan.windowExpressions())
        return frozenset()

    def _filter(self, plan: Any) -> Names:
        return self._of(plan.condition())

    def _join(self, plan: Any) -> Names:
        return self._of(plan.condition().get()) if plan.condition().isDefined() else frozenset()

    def _lateraljoin(self, plan: Any) -> Names:
        return self._plan(plan.right().plan()) | self._join(plan)

    def _sort(self, plan: Any) -> Names:
        return self._some(plan.order())

    def _generate(self, plan: Any) -> Names:
        found = self._of(plan.generator())
        for one in elements(plan.generatorOutput()):
            self.origins[number_of(one)] = found
        return found

    def _expand(self, plan: Any) -> Names:
        made: dict[int, Names] = {}
        for values in elements(plan.projections()):
            for attribute, value in zip(elements(plan.output()), elements(values), strict=True):
                number = number_of(attribute)
                made[number] = made.get(number, frozenset()) | self._of(value)
        self.origins |= made
        return frozenset()

    def _distinct(self, plan: Any) -> Names:
        return self._some(plan.output())

    def _union(self, plan: Any) -> Names:
        children = [list(elements(child.output())) for child in elements(plan.children())]
        together = [_all(self._of(column) for column in place) for place in zip(*children, strict=True)]
        for attribute, found in zip(elements(plan.output()), together, strict=True):
            self.origins[number_of(attribute)] = found
        return frozenset()

    def _intersect(self, plan: Any) -> Names:
        rows = self._some(plan.left().output()) | self._some(plan.right().output())
        self._same(plan, plan.left())
        return rows

    _except = _intersect

    # --- expressions -------------------------------------------------------------------------------------------------

    def _items(self, items: Any) -> None:
        # All before any is noted: a column may be made of another one that keeps its number.
        self.origins |= {number_of(one): self._of(one) for one in list(elements(items))}

    def _same(self, plan: Any, child: Any) -> None:
        for ours, theirs in zip(elements(plan.output()), elements(child.output()), strict=True):
            self.origins[number_of(ours)] = self._of(theirs)

    def _some(self, expressions: Any) -> Names:
        return _all(self._of(one) for one in elements(expressions))

    def _of(self, expression: Any) -> Names:
        """Columns that an expression comes from, with those that decide about the rows of its subqueries."""
        return _all(self._one(node) for node in _nodes(expression))

    def _one(self, node: Any) -> Names:
        kind = name_of(node)
        if kind == "AttributeReference":
            return self.origins.get(number_of(node), frozenset())
        if kind == "OuterReference":
            return self._of(node.e())
        if kind in _SUBQUERIES:
            rows = self._plan(node.plan())
            return rows if kind == "Exists" else rows | self._some(node.plan().output())
        return frozenset()


class Spark:
    """Spark with some tables, as views of its session.

    Args:
        spark: the session.
        tables: the tables.
    """

    def __init__(self, spark: SparkSession, tables: Sequence[Table]) -> None:
        self.spark, self.names = spark, [table.name for table in tables]
        self._catalyst = Catalyst(spark)
        for number, table in enumerate(tables):
            schema = spark.createDataFrame([], table.ddl).schema
            reading.create_stand_in(spark, number, schema).createOrReplaceTempView(table.name)

    def lineage(self, text: str) -> PlanLineage:
        """Lineage of a query over them.

        Raises:
            PySparkException: Spark refuses the query.
        """
        return PlanLineage(self.names).read(self._catalyst.plan(self.spark.sql(text)))


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    if name_of(expression) in _SUBQUERIES:
        return  # the columns of the query around it that it reads stand in its plan, too
    for child in elements(expression.children()):
        yield from _nodes(child)


def _all(parts: Iterable[Names]) -> Names:
    return frozenset[str]().union(*parts)
