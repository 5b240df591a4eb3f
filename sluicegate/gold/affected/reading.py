"""Read an analyzed plan as operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluicegate.gold.affected.expressions import Expression, aggregate_functions, conjuncts, read_expression, subqueries
from sluicegate.gold.affected.joins import Joined, JoinKind
from sluicegate.gold.affected.operators import Blocker, Branches, Filtered, Leaf, Opaque, Operator, Passed, Projected
from sluicegate.gold.affected.windows import Expanded, Generated, Windowed
from sluicegate.spark.catalyst import Catalyst, elements, name_of, number_of

# The first number of those by which tables are known in a plan: an empty range of numbers from there to there.
_FIRST = 7_340_000_000_000

# Metadata by which Spark knows a column of CHAR or VARCHAR, whose type is that of any text.
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"

# Metadata by which Spark knows the session windows of rows, which its aggregation joins where they overlap.
_SESSION = "spark.sessionWindow"

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


class UnreadablePlan(Exception):
    """Raised for a plan with an unknown leaf; the argument is the leaf's name."""


def create_stand_in(session: SparkSession, number: int, schema: StructType) -> DataFrame:
    """Create an empty table by which a plan shows where it reads the table with this number.

    Spark pads values compared with a CHAR column, which is marked in a column's metadata.
    """
    lengths = [{_LENGTH: field.metadata[_LENGTH]} if _LENGTH in field.metadata else {} for field in schema]
    nulls = [F.lit(None).cast(field.dataType) for field in schema]
    columns = [
        null.alias(field.name, metadata=metadata) for null, field, metadata in zip(nulls, schema, lengths, strict=True)
    ]
    return session.range(_FIRST + number, _FIRST + number).select(*columns)


def read(plan: Any, tables: Sequence[str]) -> Operator:
    """Return the operators of a plan; unknown ones are opaque.

    Args:
        plan: the plan, over ``create_stand_in`` of each table.
        tables: the tables in the order of their numbers.

    Raises:
        UnreadablePlan: it reads something else than these tables.
    """
    kind = name_of(plan)
    table = None
    if kind == "Project":
        table = _table(plan, tables)
    if table is not None:
        return Leaf(table, _attributes(plan), plan)
    if kind in _CONSTANT:
        return Leaf("", _attributes(plan), plan)
    children = [read(child, tables) for child in elements(plan.children())]
    if not children and kind not in _REFERENCES:
        raise UnreadablePlan(kind)
    operator = _read_operator(plan, children) or _read_opaque(plan, children)
    operator.own_blockers = [*operator.own_blockers, *_subqueries(plan, tables)]
    return operator


def columns_read(catalyst: Catalyst, plan: Any, tables: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return each table and column that a plan's result depends on, over ``create_stand_in`` of each table."""
    return _columns_of_tables(catalyst, catalyst.pruned(plan), tables)


def _columns_of_tables(catalyst: Catalyst, plan: Any, tables: Sequence[str]) -> frozenset[tuple[str, str]]:
    table = None
    if name_of(plan) == "Project":
        table = _table(plan, tables)
    if table is not None:
        return frozenset((table, str(attribute.name())) for attribute in elements(plan.output()))
    of_children = [_columns_of_tables(catalyst, child, tables) for child in elements(plan.children())]
    own_subqueries = [subquery for part in elements(plan.expressions()) for subquery in subqueries(part)]
    return frozenset().union(*of_children, *(columns_read(catalyst, subquery, tables) for subquery in own_subqueries))


def _read_operator(plan: Any, children: list[Operator]) -> Operator | None:
    """Return the operator at the root of a plan; None if changes cannot be followed through it."""
    kind = name_of(plan)
    if kind in _PASSED:
        return Passed(children[0])
    if kind in _READERS:
        return _READERS[kind](plan, children)
    return None


def _table(plan: Any, tables: Sequence[str]) -> str | None:
    """Return the table that a projection stands for; None if it is not one."""
    if name_of(plan.child()) != "Range":
        return None
    first, end = plan.child().start(), plan.child().end()
    number = int(first) - _FIRST
    if first == end and 0 <= number < len(tables):
        return tables[number]
    return None


def _attributes(plan: Any) -> dict[int, Any]:
    return {number_of(attribute): attribute for attribute in elements(plan.output())}


def _subqueries(plan: Any, tables: Sequence[str]) -> Iterator[Blocker]:
    """Yield blockers for subqueries that are still in an operator's expressions."""
    for part in elements(plan.expressions()):
        for subquery in subqueries(part):
            operator = read(subquery, tables)
            tables_read = operator.tables.union(*(blocker.tables for blocker in operator.blockers))
            reason = "its rows are compared with the result of a subquery over all rows"
            yield Blocker(reason, "compute that result in a gold table of its own, and join it here", tables_read)


def _read_opaque(plan: Any, children: list[Operator]) -> Operator:
    kind = name_of(plan)
    if kind in _LIMITS:
        reason, instead = "which rows are within its LIMIT depends on all of them", "remove the LIMIT"
    elif kind == "Aggregate" and _has_sessions(plan):
        reason, instead = "it has session windows, whose bounds depend on several rows", ""
    elif kind == "Aggregate":
        reason = "it has an aggregate of all rows"
        instead = "compute that aggregate in a gold table of its own, and join it here"
    elif kind == "Window":
        reason, instead = "it has a window of all rows", "add a PARTITION BY to it"
    else:
        reason = f"changes cannot be followed through its {kind}"
        instead = "compute that part in a gold table of its own"
    tables: frozenset[str] = frozenset().union(*(child.tables for child in children))
    return Opaque(children, _attributes(plan), [Blocker(reason, instead, tables)])


# --- operators --------------------------------------------------------------------------------------------------------


def _read_project(plan: Any, children: list[Operator]) -> Operator:
    items = {number_of(item): read_expression(item) for item in elements(plan.projectList())}
    return Projected(children[0], _attributes(plan), items)


def _read_filter(plan: Any, children: list[Operator]) -> Operator:
    return Filtered(children[0], conjuncts(plan.condition()))


def _read_aggregate(plan: Any, children: list[Operator]) -> Operator | None:
    if plan.groupingExpressions().size() == 0 or _has_sessions(plan):
        return None
    calls = list(elements(plan.aggregateExpressions()))
    items = {number_of(call): read_expression(call) for call in calls}
    chosen = frozenset(number_of(call) for call in calls if not aggregate_functions(call) <= _OF_NO_ORDER)
    return Projected(children[0], _attributes(plan), items, groups=True, chosen=chosen)


def _has_sessions(plan: Any) -> bool:
    """Return whether an aggregation is by session windows."""
    groups = elements(plan.groupingExpressions())
    return any(name_of(group) == "AttributeReference" and group.metadata().contains(_SESSION) for group in groups)


def _read_distinct(plan: Any, children: list[Operator]) -> Operator:
    return Passed(children[0], groups=True)


def _branch_reader(of: Callable[[int], int]) -> Callable[[Any, list[Operator]], Operator | None]:
    def reader(plan: Any, children: list[Operator]) -> Operator | None:
        columns = _columns(plan)
        if len({*columns}) < len(columns):
            return None
        places = [dict(zip(columns, _columns(child), strict=True)) for child in elements(plan.children())]
        return Branches(children, places, _attributes(plan), of(len(children)))

    return reader


def _columns(plan: Any) -> list[int]:
    """Return the numbers of the columns of a plan's output."""
    return [number_of(column) for column in elements(plan.output())]


def _read_join(plan: Any, children: list[Operator]) -> Operator | None:
    kind = _JOINS.get(name_of(plan.joinType()).rstrip("$"))
    if kind is None:
        return None
    condition = plan.condition()
    conditions = []
    if condition.isDefined():
        conditions = conjuncts(condition.get())
    left_side, right_side = children
    return Joined(left_side, right_side, kind, _attributes(plan), conditions)


def _read_window(plan: Any, children: list[Operator]) -> Operator | None:
    partition = [read_expression(value) for value in elements(plan.partitionSpec())]
    if not partition:
        return None
    uses = frozenset().union(*(read_expression(call).refs for call in elements(plan.windowExpressions())))
    return Windowed(children[0], _attributes(plan), partition, _peers(plan, partition), uses)


def _peers(plan: Any, partition: Sequence[Expression]) -> frozenset[int] | None:
    """Return the columns in which rows of arbitrary order in a window agree; None if no order is arbitrary."""
    calls = [call.child() for call in elements(plan.windowExpressions())]
    in_order = [call for call in calls if not _is_of_no_order(call)]
    if not in_order:
        return None
    values = list(partition)
    if all(name_of(call.windowFunction()) in _NUMBERS for call in in_order):
        values += [read_expression(order.child()) for order in elements(plan.orderSpec())]
    return frozenset().union(*(value.refs for value in values if value.bare))


def _is_of_no_order(call: Any) -> bool:
    """Return whether a window expression has the same value whatever the order of ties in its ORDER BY."""
    function, frame = call.windowFunction(), call.windowSpec().frameSpecification()
    if name_of(function) in _RANKS:
        return True
    if name_of(function) != "AggregateExpression" or name_of(function.aggregateFunction()) not in _OF_NO_ORDER:
        return False
    ends = {name_of(bound).rstrip("$") for bound in (frame.lower(), frame.upper())}
    return name_of(frame.frameType()) == "RangeFrame$" or ends == {"UnboundedPreceding", "UnboundedFollowing"}


def _read_generate(plan: Any, children: list[Operator]) -> Operator:
    generator = read_expression(plan.generator())
    if name_of(plan.generator()) not in _GENERATORS:
        generator = replace(generator, steady=False)
    return Generated(children[0], _attributes(plan), plan, generator)


def _read_expand(plan: Any, children: list[Operator]) -> Operator:
    numbers = [number_of(attribute) for attribute in elements(plan.output())]  # a column may be there twice
    sets = [
        dict(zip(numbers, map(read_expression, elements(values)), strict=True))
        for values in elements(plan.projections())
    ]
    return Expanded(children[0], _attributes(plan), sets)


_READERS: Mapping[str, Callable[[Any, list[Operator]], Operator | None]] = {
    "Project": _read_project, "Filter": _read_filter, "Aggregate": _read_aggregate, "Distinct": _read_distinct,
    "Union": _branch_reader(lambda count: count),
    "Intersect": _branch_reader(lambda _: 1), "Except": _branch_reader(lambda _: 1),
    "Join": _read_join, "Window": _read_window, "Generate": _read_generate, "Expand": _read_expand,
}  # fmt: skip
