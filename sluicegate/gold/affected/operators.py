"""Operators of an analyzed plan, each with its rule for carrying changes of input to keys of output.

A *key* is a choice of columns of an operator's output. ``affected_keys`` returns key values such that for all other
values the operator has the same rows, equally often, before and after the changes: only the rows of these keys,
computed from the current tables, have to be replaced. It may return too many values, but never too few. ``cover``
returns column values that include all that the operator's rows have or had: from current and former rows of tables,
filtered only by conditions on single rows. Both are plans over the changed rows of some tables and all rows of others.

The rules are those of differential dataflow for the *support* of a change (Budiu and others, "DBSP", 2023,
https://arxiv.org/abs/2203.16684: a change is a Z-set, and the change of a join is what each side's change meets on the
other side), extended for operators that need all rows of a key: grouping, windows, outer and anti joins. Operators keep
no state, and the choice among equal rows by a window or first() is in no key (see ``peers``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sluicegate.gold.affected.expressions import Expression
from sluicegate.spark.catalyst import Catalyst


class TouchesAll(Exception):
    """Raised if no key identifies the affected rows; the arguments are the reason and what to write instead."""


Columns = frozenset[int]
"""Numbers of some columns."""


@dataclass(frozen=True)
class Blocker:
    """Part of a query in which a change affects all rows.

    Attributes:
        why: the reason.
        instead: what to write instead; empty if unknown.
        tables: the tables that it reads.
    """

    why: str
    instead: str
    tables: frozenset[str]


@dataclass(frozen=True)
class Inputs:
    """Plans of the tables' rows.

    Attributes:
        catalyst: the constructors of plans.
        changes: inserted and deleted rows of each changed table.
        current: current rows of each table.
    """

    catalyst: Catalyst
    changes: Mapping[str, Any]
    current: Mapping[str, Any]


class Operator:
    """Operator of a plan.

    Attributes:
        attributes: the columns of its output, in order, by their numbers.
        children: the operators that it reads.
        direct: columns that a key may have at no more cost than reading the changes.
        keyed: columns that a key may have at all.
    """

    attributes: Mapping[int, Any]
    children: Sequence[Operator]
    direct: Columns
    keyed: Columns
    own_blockers: Sequence[Blocker] = ()

    @cached_property
    def tables(self) -> frozenset[str]:
        """Tables below the operator, without those that only subqueries in its expressions read."""
        return frozenset().union(*(child.tables for child in self.children))

    @property
    def blockers(self) -> list[Blocker]:
        """Parts of the operator in which a change affects all rows."""
        return [*self.own_blockers, *(blocker for child in self.children for blocker in child.blockers)]

    def origins(self, column: int) -> frozenset[str]:
        """Return the tables that a column comes from."""
        return frozenset().union(*(child.origins(column) for child in self.children if column in child.attributes))

    def is_met(self, column: int) -> bool:
        """Return whether a column has constants that a join chooses by the rows of a table."""
        return any(child.is_met(column) for child in self.children if column in child.attributes)

    @property
    def is_of_groups(self) -> bool:
        """Whether the rows are groups, or come from several queries."""
        return any(child.is_of_groups for child in self.children)

    def is_changed(self, inputs: Inputs) -> bool:
        """Return whether a table below changed."""
        return not self.tables.isdisjoint(inputs.changes)

    @abstractmethod
    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the plan of the affected keys, of some columns of ``keyed``; None if there are none."""

    @abstractmethod
    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the plan of values that cover all rows before and after, of some columns of ``keyed``."""

    def columns_or_any(self, columns: Columns) -> Columns:
        """Return the columns, or any single one if there are none: the number of rows counts."""
        return columns or frozenset(sorted(self.direct or self.keyed)[:1])

    def project_columns(self, inputs: Inputs, key: Columns, plan: Any) -> Any:
        """Project a plan to some columns, in the order of their numbers."""
        return inputs.catalyst.project([self.attributes[number] for number in sorted(key)], plan)


def unite_plans(inputs: Inputs, plans: Iterable[Any | None]) -> Any | None:
    """Unite plans with the same columns in the same order; None without any."""
    some_rows = [plan for plan in plans if plan is not None]
    if some_rows:
        return inputs.catalyst.union(some_rows)
    return None


@dataclass
class Leaf(Operator):
    """Table; an empty name stands for rows that never change."""

    table: str
    attributes: Mapping[int, Any]
    plan: Any
    children: Sequence[Operator] = ()

    def __post_init__(self) -> None:
        self.direct = self.keyed = frozenset(self.attributes)

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset({self.table} - {""})

    def origins(self, column: int) -> frozenset[str]:
        return self.tables

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the values of the inserted and deleted rows."""
        if self.is_changed(inputs):
            return self._renumber(inputs, inputs.changes[self.table], key)
        return None

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of the current and the deleted rows."""
        if not self.table:
            return self.project_columns(inputs, key, self.plan)
        plans = [inputs.current[self.table], *([inputs.changes[self.table]] if self.is_changed(inputs) else [])]
        return unite_plans(inputs, [self._renumber(inputs, plan, key) for plan in plans])

    def _renumber(self, inputs: Inputs, plan: Any, key: Columns) -> Any:
        """Return a table's columns under the numbers that they have in this plan."""
        columns = {column.name().lower(): column for column in inputs.catalyst.columns(plan)}
        attributes = [self.attributes[number] for number in sorted(key)]
        values = [inputs.catalyst.alias(columns[attribute.name().lower()], attribute) for attribute in attributes]
        return inputs.catalyst.project(values, plan)


@dataclass
class Projected(Operator):
    """Values from each row: a SELECT list, or the groups of a GROUP BY.

    Attributes:
        items: the value of each column.
        groups: whether rows are grouped, so that some keys belong to several rows.
        chosen: columns whose value depends on the order of rows, as the first one of a group.
    """

    child: Operator
    attributes: Mapping[int, Any]
    items: Mapping[int, Expression]
    groups: bool = False
    chosen: Columns = frozenset()

    def __post_init__(self) -> None:
        self.children = [self.child]
        steady = {number: item for number, item in self.items.items() if item.steady}
        self.direct = frozenset(number for number, item in steady.items() if item.refs <= self.child.direct)
        self.keyed = frozenset(number for number, item in steady.items() if item.refs <= self.child.keyed)

    @property
    def is_of_groups(self) -> bool:
        """Whether its rows are those of groups."""
        return self.groups or self.child.is_of_groups

    def origins(self, column: int) -> frozenset[str]:
        """Return the tables of the columns in a value."""
        return frozenset().union(*(self.child.origins(ref) for ref in self.items[column].refs))

    def is_met(self, column: int) -> bool:
        """Return whether a value is of such constants."""
        return any(self.child.is_met(ref) for ref in self.items[column].refs)

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the values of the affected rows."""
        rows = self.child.affected_keys(inputs, self._needed_columns(key))
        if rows is None:
            return None
        return self._project(inputs, key, rows)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        return self._project(inputs, key, self.child.cover(inputs, self._needed_columns(key)))

    def _needed_columns(self, key: Columns) -> Columns:
        return self.child.columns_or_any(frozenset().union(*(self.items[number].refs for number in key)))

    def _project(self, inputs: Inputs, key: Columns, plan: Any) -> Any:
        values = [self.items[n].column(inputs.catalyst, self.attributes[n]) for n in sorted(key)]
        return inputs.catalyst.project(values, plan)


@dataclass
class Passed(Operator):
    """Operator with the rows and columns of its child: a name, a hint, an order, DISTINCT."""

    child: Operator
    groups: bool = False

    def __post_init__(self) -> None:
        self.children, self.attributes = [self.child], self.child.attributes
        self.direct, self.keyed = self.child.direct, self.child.keyed

    @property
    def is_of_groups(self) -> bool:
        """Whether its rows are those of groups."""
        return self.groups or self.child.is_of_groups

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the child's."""
        return self.child.affected_keys(inputs, key)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the child's."""
        return self.child.cover(inputs, key)


@dataclass
class Filtered(Operator):
    """Rows that meet conditions.

    Conditions over columns of a key also filter the affected keys; others do not, which affects more.
    """

    child: Operator
    conditions: Sequence[Expression]

    def __post_init__(self) -> None:
        self.children, self.attributes = [self.child], self.child.attributes
        self.direct, self.keyed = self.child.direct, self.child.keyed
        self._usable = [
            condition
            for condition in self.conditions
            if condition.steady and condition.refs and condition.refs <= self.direct
        ]
        self._refs: Columns = frozenset().union(*(condition.refs for condition in self._usable))

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the child's keys that meet the conditions."""
        rows = self.child.affected_keys(inputs, key | self._refs)
        if rows is None:
            return None
        return self._filter(inputs, key, rows)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the child's values that meet the conditions."""
        return self._filter(inputs, key, self.child.cover(inputs, key | self._refs))

    def _filter(self, inputs: Inputs, key: Columns, plan: Any) -> Any:
        conditions = [condition.safe_condition(inputs.catalyst) for condition in self._usable]
        return self.project_columns(inputs, key, inputs.catalyst.filter(conditions, plan))


@dataclass
class Branches(Operator):
    """Rows of several operators by column position: UNION, INTERSECT and EXCEPT.

    Attributes:
        places: for each child, the numbers of its columns in the order of this operator's.
        cover_of: number of children, from the first, that its rows come from.
    """

    children: Sequence[Operator]
    places: Sequence[Mapping[int, int]]
    attributes: Mapping[int, Any]
    cover_of: int

    def __post_init__(self) -> None:
        pairs = list(zip(self.children, self.places, strict=True))
        self.direct = frozenset(n for n in self.attributes if all(places[n] in child.direct for child, places in pairs))
        self.keyed = frozenset(n for n in self.attributes if all(places[n] in child.keyed for child, places in pairs))

    @property
    def is_of_groups(self) -> bool:
        """Whether the rows come from several queries: always."""
        return True

    def origins(self, column: int) -> frozenset[str]:
        """Return the tables of a column in each branch."""
        pairs = zip(self.children, self.places, strict=True)
        return frozenset().union(*(child.origins(places[column]) for child, places in pairs))

    def is_met(self, column: int) -> bool:
        """Return whether a column has such constants in a branch."""
        return any(child.is_met(places[column]) for child, places in zip(self.children, self.places, strict=True))

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the keys that are affected in any branch."""
        plans = [
            (n, child.affected_keys(inputs, self._branch_columns(n, key))) for n, child in enumerate(self.children)
        ]
        return unite_plans(inputs, [self._rename(inputs, n, key, plan) for n, plan in plans if plan is not None])

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of all branches."""
        branches = enumerate(self.children[: self.cover_of])
        plans = [
            self._rename(inputs, n, key, child.cover(inputs, self._branch_columns(n, key))) for n, child in branches
        ]
        return unite_plans(inputs, plans)

    def _branch_columns(self, number: int, key: Columns) -> Columns:
        return frozenset(self.places[number][column] for column in key)

    def _rename(self, inputs: Inputs, number: int, key: Columns, plan: Any) -> Any:
        values, places = [], self.places[number]
        for column in sorted(key):
            value = self.children[number].attributes[places[column]]
            if places[column] != column:
                value = inputs.catalyst.alias(value, self.attributes[column])
            values.append(value)
        return inputs.catalyst.project(values, plan)


@dataclass
class Opaque(Operator):
    """Operator in which a change affects all rows; no column of it can be in a key."""

    children: Sequence[Operator]
    attributes: Mapping[int, Any]
    own_blockers: Sequence[Blocker]

    def __post_init__(self) -> None:
        self.direct = self.keyed = frozenset()

    def origins(self, column: int) -> frozenset[str]:
        """Return all tables."""
        return self.tables

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the nothing that could be said."""
        raise TouchesAll(self.own_blockers[0].why, self.own_blockers[0].instead)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the nothing that could be said."""
        raise TouchesAll(self.own_blockers[0].why, self.own_blockers[0].instead)
