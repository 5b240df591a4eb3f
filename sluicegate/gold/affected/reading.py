"""An analyzed plan read as operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate.gold.affected.expressions import Expression, aggregate_functions, conjuncts, expression, subqueries
from sluicegate.gold.affected.joins import Joined, JoinKind
from sluicegate.gold.affected.operators import Blocker, Branches, Filtered, Leaf, Opaque, Operator, Passed, Projected
from sluicegate.gold.affected.windows import Expanded, Generated, Windowed
from sluicegate.spark.catalyst import each, name_of, number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The first number of those by which tables are known in a plan: an empty range of numbers from there to there.
_FIRST = 7_340_000_000_000

# Metadata by which Spark knows a column of CHAR or VARCHAR, whose type is that of any text.
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"

# Operators with the rows and columns of their child.
_PASSED = {"SubqueryAlias", "View", "ResolvedHint", "Sort", "Repartition", "RepartitionByExpression",
           "RebalancePartitions"}  # fmt: skip

# Relations without tables: their rows are the same each time.
_CONSTANT = {"LocalRelation", "OneRowRelation", "Range"}

# Leaves that stand for a part of the plan above them.
_REFERENCES = {"CTERelationRef", "UnionLoopRef"}

_LIMITS = {"GlobalLimit", "LocalLimit", "Offset", "Tail"}

_JOINS: Mapping[str, JoinKind] = {
    "Inner": "inner", "Cross": "inner", "LeftOuter": "left", "LeftSingle": "left", "RightOuter": "right",
    "FullOuter": "full", "LeftSemi": "semi", "LeftAnti": "semi", "ExistenceJoin": "semi",
}  # fmt: skip

# Window functions by the order of rows: those that are the same for equal ones, and those that number rows, of which
# the rows before the equal ones do not depend on their order.
_RANKS = {"Rank", "DenseRank", "PercentRank", "CumeDist"}
_NUMBERS = {"RowNumber", "NTile"}

# Aggregate functions of which the order of rows decides nothing, but for the last digits of doubles.
_OF_NO_ORDER = {"Count", "Sum", "Average", "Min", "Max", "CountIf", "BoolAnd", "BoolOr", "StddevSamp", "StddevPop",
                "VarianceSamp", "VariancePop", "BitAndAgg", "BitOrAgg", "BitXorAgg", "Percentile",
                "HyperLogLogPlusPlus"}  # fmt: skip

# Generators that fail for no value.
_GENERATORS = {"Explode", "PosExplode", "Inline"}


class Unreadable(Exception):
    """Raised for a plan with a leaf that is none of the tables; its argument is the leaf's name."""


def stand_in(session: SparkSession, number: int, schema: StructType) -> DataFrame:
    """Empty table with some columns, by which a plan shows where it reads the table of this number.

    Spark pads what it compares with a column of CHAR, which a column's metadata says that it is.
    """
    lengths = [{_LENGTH: one.metadata[_LENGTH]} if _LENGTH in one.metadata else {} for one in schema]
    nulls = [F.lit(None).cast(one.dataType) for one in schema]
    columns = [null.alias(one.name, metadata=of) for null, one, of in zip(nulls, schema, lengths, strict=True)]
    return session.range(_FIRST + number, _FIRST + number).select(*columns)


def read(plan: Any, tables: Sequence[str]) -> Operator:
    """Operators of a plan; what is not known here is opaque.

    Args:
        plan: the plan, over ``stand_in`` of each table.
        tables: the tables, by their numbers.

    Raises:
        Unreadable: it reads something else than these tables.
    """
    kind = name_of(plan)
    table = _table(plan, tables) if kind == "Project" else None
    if table is not None:
        return Leaf(table, _attributes(plan), plan)
    if kind in _CONSTANT:
        return Leaf("", _attributes(plan), plan)
    children = [read(child, tables) for child in each(plan.children())]
    if not children and kind not in _REFERENCES:
        raise Unreadable(kind)
    made = _READERS.get(kind)
    found = Passed(children[0]) if kind in _PASSED else made(plan, children) if made is not None else None
    operator = found if found is not None else _opaque(plan, children)
    operator.own_blockers = [*operator.own_blockers, *_subqueries(plan, tables)]
    return operator


def _table(plan: Any, tables: Sequence[str]) -> str | None:
    """Table that a projection stands for; None if it is none."""
    if name_of(plan.child()) != "Range":
        return None
    number = int(plan.child().start()) - _FIRST
    return tables[number] if 0 <= number < len(tables) and plan.child().end() == plan.child().start() else None


def _attributes(plan: Any) -> dict[int, Any]:
    return {number_of(one): one for one in each(plan.output())}


def _subqueries(plan: Any, tables: Sequence[str]) -> Iterator[Blocker]:
    """Blockers for what subqueries read that are still in the expressions of an operator."""
    for subquery in (one for part in each(plan.expressions()) for one in subqueries(part)):
        inside = read(subquery, tables)
        known = inside.tables.union(*(blocker.tables for blocker in inside.blockers))
        why = "its rows are compared with the result of a subquery over all rows"
        yield Blocker(why, "that result as a gold table of its own, joined here", known)


def _opaque(plan: Any, children: list[Operator]) -> Operator:
    kind = name_of(plan)
    if kind in _LIMITS:
        why, instead = "which rows are within its LIMIT depends on all of them", "the query without LIMIT"
    elif kind == "Aggregate":
        why, instead = "it has an aggregate of all rows", "that aggregate as a gold table of its own, joined here"
    elif kind == "Window":
        why, instead = "it has a window of all rows", "PARTITION BY in it"
    else:
        why, instead = f"how changes go through its {kind} is not known", "that part as a gold table of its own"
    tables: frozenset[str] = frozenset().union(*(child.tables for child in children))
    return Opaque(children, _attributes(plan), [Blocker(why, instead, tables)])


# --- operators --------------------------------------------------------------------------------------------------------


def _projected(plan: Any, children: list[Operator]) -> Operator:
    items = {number_of(one): expression(one) for one in each(plan.projectList())}
    return Projected(children[0], _attributes(plan), items)


def _filtered(plan: Any, children: list[Operator]) -> Operator:
    return Filtered(children[0], conjuncts(plan.condition()))


def _aggregated(plan: Any, children: list[Operator]) -> Operator | None:
    if plan.groupingExpressions().size() == 0:
        return None
    calls = list(each(plan.aggregateExpressions()))
    items = {number_of(one): expression(one) for one in calls}
    chosen = frozenset(number_of(one) for one in calls if not aggregate_functions(one) <= _OF_NO_ORDER)
    return Projected(children[0], _attributes(plan), items, groups=True, chosen=chosen)


def _distinct(plan: Any, children: list[Operator]) -> Operator:
    return Passed(children[0], groups=True)


def _branches(of: Callable[[int], int]) -> Callable[[Any, list[Operator]], Operator | None]:
    def made(plan: Any, children: list[Operator]) -> Operator | None:
        columns = [[number_of(one) for one in each(part.output())] for part in (plan, *each(plan.children()))]
        if len({*columns[0]}) < len(columns[0]):
            return None
        places = [dict(zip(columns[0], theirs, strict=True)) for theirs in columns[1:]]
        return Branches(children, places, _attributes(plan), of(len(children)))

    return made


def _joined(plan: Any, children: list[Operator]) -> Operator | None:
    kind = _JOINS.get(name_of(plan.joinType()).rstrip("$"))
    if kind is None:
        return None
    on = plan.condition()
    left, right = children
    return Joined(left, right, kind, _attributes(plan), conjuncts(on.get()) if on.isDefined() else [])


def _windowed(plan: Any, children: list[Operator]) -> Operator | None:
    partition = [expression(one) for one in each(plan.partitionSpec())]
    if not partition:
        return None
    uses = frozenset().union(*(expression(one).refs for one in each(plan.windowExpressions())))
    return Windowed(children[0], _attributes(plan), partition, _peers(plan, partition), uses)


def _peers(plan: Any, partition: Sequence[Expression]) -> frozenset[int] | None:
    """Columns in which rows agree whose order among each other a window takes as it comes; None if it takes none so."""
    calls = [one.child() for one in each(plan.windowExpressions())]
    if all(map(_is_of_no_order, calls)):
        return None
    order = [expression(one.child()) for one in each(plan.orderSpec())]
    numbers = all(_is_of_no_order(one) or name_of(one.windowFunction()) in _NUMBERS for one in calls)
    bare = [one for one in (*partition, *(order if numbers else ())) if one.bare]
    return frozenset().union(*(one.refs for one in bare))


def _is_of_no_order(call: Any) -> bool:
    """Whether a window expression has the same value whatever the order of rows that its ORDER BY takes for equal."""
    function, frame = call.windowFunction(), call.windowSpec().frameSpecification()
    if name_of(function) in _RANKS:
        return True
    if name_of(function) != "AggregateExpression" or name_of(function.aggregateFunction()) not in _OF_NO_ORDER:
        return False
    ends = {name_of(one).rstrip("$") for one in (frame.lower(), frame.upper())}
    return name_of(frame.frameType()) == "RangeFrame$" or ends == {"UnboundedPreceding", "UnboundedFollowing"}


def _generated(plan: Any, children: list[Operator]) -> Operator:
    found = expression(plan.generator())
    if name_of(plan.generator()) not in _GENERATORS:
        found = replace(found, steady=False)
    return Generated(children[0], _attributes(plan), plan, found)


def _expanded(plan: Any, children: list[Operator]) -> Operator:
    numbers = [number_of(one) for one in each(plan.output())]  # a column may be there twice
    sets = [dict(zip(numbers, map(expression, each(values)), strict=True)) for values in each(plan.projections())]
    return Expanded(children[0], _attributes(plan), sets)


_READERS: Mapping[str, Callable[[Any, list[Operator]], Operator | None]] = {
    "Project": _projected, "Filter": _filtered, "Aggregate": _aggregated, "Distinct": _distinct,
    "Union": _branches(lambda count: count), "Intersect": _branches(lambda _: 1), "Except": _branches(lambda _: 1),
    "Join": _joined, "Window": _windowed, "Generate": _generated, "Expand": _expanded,
}  # fmt: skip
