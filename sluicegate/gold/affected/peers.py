"""Find columns whose values depend on the order of equal rows, so that no key may have them.

``row_number() OVER (PARTITION BY g ORDER BY n)`` numbers rows with the same ``g`` and ``n`` in arbitrary order, which
may differ in the next run. If the number is only a column, each row appears once whatever it is. But if a condition
keeps the first row, a key of a column in which equal rows differ might find one of them stored by a former run, and
insert another one beside it. So such a key has only columns in which they agree: then all of them are replaced
together. The same holds for ``first(n)`` of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluicegate.gold.affected.expressions import Expression
from sluicegate.gold.affected.joins import Joined
from sluicegate.gold.affected.operators import Branches, Columns, Filtered, Operator, Projected
from sluicegate.gold.affected.windows import Expanded, Generated, Windowed


@dataclass(frozen=True)
class Peers:
    """Values of an operator's output that depend on the order of equal rows.

    Attributes:
        unsettled: columns whose values depend on the order.
        agreed: columns in which the affected rows agree.
        rows: whether the set of rows depends on it.
    """

    unsettled: Columns
    agreed: Columns
    rows: bool = False

    def apply_filter(self, columns: Iterable[int], conditions: Iterable[Expression]) -> Peers:
        """Return the dependence for filtered rows: unsettled conditions make the set of rows unsettled."""
        if not any(condition.refs & self.unsettled for condition in conditions):
            return self
        return Peers(self.unsettled | (frozenset(columns) - self.agreed), self.agreed, rows=True)


def peers(operator: Operator) -> Peers:
    """Return what in an operator's output depends on the order of equal rows."""
    children = [peers(child) for child in operator.children]
    below = Peers(
        frozenset().union(*(child.unsettled for child in children)),
        frozenset().union(*(child.agreed for child in children)),
        any(child.rows for child in children),
    )
    match operator:
        case Windowed() if operator.peers is not None or below.unsettled:
            return _window_peers(operator, below)
        case Projected() if operator.chosen:
            values = _item_peers(operator, below)
            return Peers(values.unsettled | operator.chosen, values.agreed, values.rows)
    if not below.unsettled:
        return Peers(frozenset(), frozenset(operator.attributes))
    return _unsettled_peers(operator, below, children)


def _unsettled_peers(operator: Operator, below: Peers, children: Sequence[Peers]) -> Peers:
    """Return the dependence for an operator over rows with unsettled values.

    Args:
        operator: the operator.
        below: dependence of all its inputs.
        children: dependence of each child.
    """
    columns = frozenset(operator.attributes)
    match operator:
        case Joined():
            return _join_peers(operator, below, children)
        case Filtered():
            return below.apply_filter(columns, operator.conditions)
        case Generated():
            return _generator_peers(operator, below)
        case Projected():
            return _item_peers(operator, below)
        case Expanded():
            return _value_peers({number: [values[number] for values in operator.sets] for number in columns}, below)
        case Branches():
            return _branch_peers(operator, below, children)
    return below


def _generator_peers(operator: Generated, below: Peers) -> Peers:
    new_columns = frozenset(operator.attributes) - frozenset(operator.child.attributes)
    values = _value_peers({number: [operator.generator] for number in new_columns}, below)
    together = Peers(below.unsettled | values.unsettled, below.agreed | values.agreed, below.rows)
    return together.apply_filter(operator.attributes, [operator.generator])


def _item_peers(operator: Projected, below: Peers) -> Peers:
    values = _value_peers({number: [item] for number, item in operator.items.items()}, below)
    if not operator.groups or not below.rows:
        return values
    # Which rows a group has is not settled, so neither is what is counted or added of them.
    counted = frozenset(number for number, item in operator.items.items() if not item.steady)
    return Peers(values.unsettled | counted, values.agreed, values.rows)


def _window_peers(window: Windowed, below: Peers) -> Peers:
    window_columns = frozenset(window.attributes) - frozenset(window.child.attributes)
    agreed = below.agreed
    if window.peers is not None:
        agreed &= window.peers
    if below.rows or window.uses & below.unsettled:  # its values are of whole partitions
        agreed &= window.of_partition
    elif window.peers is None:
        return Peers(below.unsettled, agreed | window_columns, below.rows)
    return Peers(below.unsettled | window_columns, agreed, below.rows)


def _join_peers(join: Joined, below: Peers, children: Sequence[Peers]) -> Peers:
    """Return the dependence of a join: a condition unsettled on one side makes pairs as unsettled as its rows."""
    columns, agreed = frozenset(join.attributes), below.agreed
    refs: Columns = frozenset().union(*(condition.refs for condition in join.conditions))
    deciding = [child for child in children if refs & child.unsettled]
    if not deciding:
        return Peers(below.unsettled & columns, agreed & columns, below.rows)
    for child in deciding:
        agreed &= child.agreed
    unsettled = below.unsettled | (columns - agreed)
    return Peers(unsettled & columns, agreed & columns, rows=True)


def _value_peers(values: Mapping[int, Sequence[Expression]], below: Peers) -> Peers:
    """Return the dependence of columns, each with one of several values in a row."""
    agreed = frozenset(
        number for number, choices in values.items() if all(_is_agreed(value, below) for value in choices)
    )
    refs = {number: frozenset().union(*(value.refs for value in choices)) for number, choices in values.items()}
    unsettled = frozenset(number for number in values if refs[number] & below.unsettled)
    return Peers(unsettled, agreed, below.rows)


def _is_agreed(value: Expression, below: Peers) -> bool:
    """Return whether a value is the same whatever the order of equal rows."""
    return value.steady and value.refs <= below.agreed


def _branch_peers(branches: Branches, below: Peers, children: Sequence[Peers]) -> Peers:
    columns, unsettled, agreed = frozenset(branches.attributes), set[int](), set(branches.attributes)
    for child, places in zip(children, branches.places, strict=True):
        unsettled |= {number for number in columns if places[number] in child.unsettled}
        agreed &= {number for number in columns if places[number] in child.agreed}
    if branches.cover_of < len(branches.children):  # which rows there are depends on all columns
        return Peers(columns - agreed, frozenset(agreed), rows=True)
    return Peers(frozenset(unsettled), frozenset(agreed), below.rows)
