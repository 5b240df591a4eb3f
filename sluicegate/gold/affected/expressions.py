"""Read the expressions of an analyzed plan, and rebuild them for other plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sluicegate.spark.catalyst import Catalyst, elements, name_of, number_of

# Expressions that are no value of one row alone, or cannot be computed outside of their place in a plan.
_NOT_OF_A_ROW = {"AggregateExpression", "WindowExpression", "ScalarSubquery", "Exists", "ListQuery", "InSubquery",
                 "LateralSubquery", "OuterReference", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF",
                 "ScalaAggregator", "ScalaUDAF"}  # fmt: skip

# Expressions that have a plan of their own.
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}

# Comparisons, which agree for values that Spark takes for equal although they differ (0.0 and -0.0).
_COMPARISONS = {"EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"}

# Types whose values can differ although Spark takes them for equal, so that what is made of them may differ, too. A
# struct's field of such a name is taken for one, which costs time and no rows.
_LOOSE = re.compile(r"\b(float|double|collate|variant|map|interval|geometry|geography)\b")

# Types by which Spark finds no rows.
_NOT_COMPARED = re.compile(r"\b(variant|map|interval|geometry|geography)\b")

# What Spark puts on the column of a session window: which rows share one depends on all of them.
_SESSION = "spark.sessionWindow"


@dataclass(frozen=True)
class Expression:
    """Expression of a plan.

    Attributes:
        jvm: Spark's expression.
        refs: numbers of its columns.
        steady: whether it is a deterministic value of one row, the same for rows that Spark treats as equal.
        bare: whether it is just a column.
    """

    jvm: Any
    refs: frozenset[int]
    steady: bool
    bare: bool

    def safe_value(self, catalyst: Catalyst) -> Any:
        """Return the value, or NULL where its computation fails: it may run for rows that the query filters out."""
        if self.bare:
            return self.jvm
        return catalyst.safe_value(self.jvm)

    def column(self, catalyst: Catalyst, attribute: Any) -> Any:
        """Return the value, as ``safe_value``, under the name and number of a column."""
        if self.bare and number_of(self.jvm) == number_of(attribute):
            return self.jvm
        return catalyst.alias(self.safe_value(catalyst), attribute)

    def safe_condition(self, catalyst: Catalyst) -> Any:
        """Return a condition that never fails; an equality stays one, so that Spark can join by it."""
        if name_of(self.jvm) not in ("EqualTo", "EqualNullSafe"):
            return self.safe_value(catalyst)
        sides = [side if _is_bare(side) else catalyst.safe_value(side) for side in elements(self.jvm.children())]
        return self.jvm.withNewChildren(catalyst.seq(sides))


def read_expression(jvm: Any) -> Expression:
    """Read a Spark expression; an alias is unwrapped."""
    metadata = ""
    if name_of(jvm) in ("Alias", "AttributeReference"):
        metadata = jvm.metadata().json()
    if name_of(jvm) == "Alias":
        jvm = jvm.child()
    names = set(map(name_of, _nodes(jvm)))
    refs = list(elements(jvm.references().toSeq()))
    bare = _is_bare(jvm)
    of_a_row = not names & _NOT_OF_A_ROW and bool(jvm.deterministic()) and _SESSION not in metadata
    return Expression(jvm, frozenset(map(number_of, refs)), of_a_row and (bare or _is_firm(jvm, refs)), bare)


def conjuncts(condition: Any) -> list[Expression]:
    """Split a condition into its conjuncts."""
    if name_of(condition) == "And":
        return [conjunct for side in elements(condition.children()) for conjunct in conjuncts(side)]
    return [read_expression(condition)]


def subqueries(jvm: Any) -> list[Any]:
    """Return the plans of the subqueries in a Spark expression."""
    return [node.plan() for node in _nodes(jvm) if name_of(node) in _SUBQUERIES]


def aggregate_functions(jvm: Any) -> set[str]:
    """Return the names of the aggregate functions in a Spark expression."""
    return {name_of(node.aggregateFunction()) for node in _nodes(jvm) if name_of(node) == "AggregateExpression"}


def is_compared(attribute: Any) -> bool:
    """Return whether rows can be found by values of a column."""
    return _NOT_COMPARED.search(_kind(attribute)) is None


def is_loose(attribute: Any) -> bool:
    """Return whether values of a column can differ although Spark treats them as equal."""
    return _LOOSE.search(_kind(attribute)) is not None


def _is_firm(jvm: Any, refs: list[Any]) -> bool:
    if name_of(jvm) in _COMPARISONS and all(
        _is_bare(operand) or name_of(operand) == "Literal" for operand in elements(jvm.children())
    ):
        return True
    return not any(map(is_loose, refs))


def _kind(attribute: Any) -> str:
    return str(attribute.dataType().catalogString())


def _is_bare(jvm: Any) -> bool:
    return name_of(jvm) == "AttributeReference"


def _nodes(jvm: Any) -> Iterator[Any]:
    yield jvm
    for child in elements(jvm.children()):
        yield from _nodes(child)
