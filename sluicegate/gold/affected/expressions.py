"""Expressions of an analyzed plan, and what may be made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.spark.catalyst import each, name_of, number_of

if TYPE_CHECKING:
    from sluicegate.spark.catalyst import Catalyst

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
        jvm: Spark's own.
        refs: numbers of the columns in it.
        steady: whether it is one value of a row, the same each time, and the same for rows that Spark takes for equal.
        bare: whether it is a column.
    """

    jvm: Any
    refs: frozenset[int]
    steady: bool
    bare: bool

    def tried(self, catalyst: Catalyst) -> Any:
        """Its value, NULL where that is an error: it may be computed for rows that the query has filtered out."""
        if self.bare:
            return self.jvm
        return catalyst.tried(self.jvm)

    def column(self, catalyst: Catalyst, attribute: Any) -> Any:
        """Its value, as ``tried``, under the name and the number of a column."""
        if self.bare and number_of(self.jvm) == number_of(attribute):
            return self.jvm
        return catalyst.alias(self.tried(catalyst), attribute)

    def condition(self, catalyst: Catalyst) -> Any:
        """It as a condition that is no error; an equality stays one, so that Spark can join by it."""
        if name_of(self.jvm) not in ("EqualTo", "EqualNullSafe"):
            return self.tried(catalyst)
        sides = [side if _is_bare(side) else catalyst.tried(side) for side in each(self.jvm.children())]
        return self.jvm.withNewChildren(catalyst.seq(sides))


def expression(jvm: Any) -> Expression:
    """Reads an expression of Spark's; an alias is passed through."""
    metadata = ""
    if name_of(jvm) in ("Alias", "AttributeReference"):
        metadata = jvm.metadata().json()
    if name_of(jvm) == "Alias":
        jvm = jvm.child()
    names = set(map(name_of, _nodes(jvm)))
    refs = list(each(jvm.references().toSeq()))
    bare = _is_bare(jvm)
    of_a_row = not names & _NOT_OF_A_ROW and bool(jvm.deterministic()) and _SESSION not in metadata
    return Expression(jvm, frozenset(map(number_of, refs)), of_a_row and (bare or _is_firm(jvm, refs)), bare)


def conjuncts(condition: Any) -> list[Expression]:
    """The conditions that a condition is made of, all of which have to hold."""
    if name_of(condition) == "And":
        return [conjunct for side in each(condition.children()) for conjunct in conjuncts(side)]
    return [expression(condition)]


def subqueries(jvm: Any) -> list[Any]:
    """Plans of the subqueries in an expression of Spark's."""
    return [node.plan() for node in _nodes(jvm) if name_of(node) in _SUBQUERIES]


def aggregate_functions(jvm: Any) -> set[str]:
    """Names of the aggregate functions in an expression of Spark's."""
    return {name_of(node.aggregateFunction()) for node in _nodes(jvm) if name_of(node) == "AggregateExpression"}


def is_compared(attribute: Any) -> bool:
    """Whether rows can be found by values of a column."""
    return _NOT_COMPARED.search(_kind(attribute)) is None


def is_loose(attribute: Any) -> bool:
    """Whether values of a column can differ although Spark takes them for equal."""
    return _LOOSE.search(_kind(attribute)) is not None


def _is_firm(jvm: Any, refs: list[Any]) -> bool:
    if name_of(jvm) in _COMPARISONS and all(
        _is_bare(operand) or name_of(operand) == "Literal" for operand in each(jvm.children())
    ):
        return True
    return not any(map(is_loose, refs))


def _kind(attribute: Any) -> str:
    return str(attribute.dataType().catalogString())


def _is_bare(jvm: Any) -> bool:
    return name_of(jvm) == "AttributeReference"


def _nodes(jvm: Any) -> Iterator[Any]:
    yield jvm
    for child in each(jvm.children()):
        yield from _nodes(child)
