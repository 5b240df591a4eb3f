"""Peers: columns whose values depend on which of some equal rows Spark puts first, so that no key may have them.

``row_number() OVER (PARTITION BY g ORDER BY n)`` numbers rows with the same ``g`` and ``n`` as they come, which may be
in another order in the next run. Where the number only stands in a column, each row is there once whatever it is. But
where a condition keeps the first row, a key of a column in which the equal rows differ could find one of them there
since a former run, and put in the other beside it. So such a key has only columns in which they agree: then all of them
are replaced together. The same goes for ``first(n)`` of a group.
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
    """What the order of equal rows decides of an operator's output.

    Attributes:
        unsettled: columns whose values it decides.
        agreed: columns in which the rows agree of which it decides.
        rows: whether it decides which rows there are.
    """

    unsettled: Columns
    agreed: Columns
    rows: bool = False

    def where(self, columns: Iterable[int], conditions: Iterable[Expression]) -> Peers:
        """The same of rows for which conditions hold: where these are unsettled, so is which rows there are."""
        if not any(one.refs & self.unsettled for one in conditions):
            return self
        return Peers(self.unsettled | (frozenset(columns) - self.agreed), self.agreed, rows=True)


def peers(operator: Operator) -> Peers:
    """What the order of equal rows decides of an operator's output."""
    below = [peers(child) for child in operator.children]
    found = Peers(
        frozenset().union(*(one.unsettled for one in below)),
        frozenset().union(*(one.agreed for one in below)),
        any(one.rows for one in below),
    )
    columns = frozenset(operator.attributes)
    match operator:
        case Windowed() if operator.peers is not None or found.unsettled:
            return _of_window(operator, found)
        case Projected() if operator.chosen:
            of = _of_values({n: [item] for n, item in operator.items.items()}, found, groups=operator.groups)
            return Peers(of.unsettled | operator.chosen, of.agreed, of.rows)
        case _ if not found.unsettled:
            return Peers(frozenset(), columns)
        case Joined():
            return _of_join(operator, found, below)
        case Filtered():
            return found.where(columns, operator.conditions)
        case Generated():
            made = {number: [operator.generator] for number in columns - frozenset(operator.child.attributes)}
            its = _of_values(made, found)
            known = Peers(found.unsettled | its.unsettled, found.agreed | its.agreed, found.rows)
            return known.where(columns, [operator.generator])
        case Projected():
            return _of_values({n: [item] for n, item in operator.items.items()}, found, groups=operator.groups)
        case Expanded():
            return _of_values({n: [one[n] for one in operator.sets] for n in columns}, found)
        case Branches():
            return _of_branches(operator, found, below)
    return found


def _of_window(window: Windowed, below: Peers) -> Peers:
    made = frozenset(window.attributes) - frozenset(window.child.attributes)
    agreed = below.agreed if window.peers is None else below.agreed & window.peers
    if below.rows or window.uses & below.unsettled:  # its values are of whole partitions
        agreed &= window.of_partition
    elif window.peers is None:
        return Peers(below.unsettled, agreed | made, below.rows)
    return Peers(below.unsettled | made, agreed, below.rows)


def _of_join(join: Joined, found: Peers, below: Sequence[Peers]) -> Peers:
    """Pairs whose condition is unsettled on one side are as unsettled as that side's rows."""
    columns, agreed = frozenset(join.attributes), found.agreed
    deciding = [one for one in below if any(condition.refs & one.unsettled for condition in join.conditions)]
    for one in deciding:
        agreed &= one.agreed
    unsettled = found.unsettled | (columns - agreed if deciding else frozenset())
    return Peers(unsettled & columns, agreed & columns, found.rows or bool(deciding))


def _of_values(values: Mapping[int, Sequence[Expression]], below: Peers, *, groups: bool = False) -> Peers:
    agreed = frozenset(n for n, of in values.items() if all(one.steady and one.refs <= below.agreed for one in of))
    unsettled = frozenset(n for n, of in values.items() if any(one.refs & below.unsettled for one in of))
    counted = frozenset(n for n, of in values.items() if groups and below.rows and not all(one.steady for one in of))
    return Peers(unsettled | counted, agreed, below.rows)


def _of_branches(branches: Branches, found: Peers, below: Sequence[Peers]) -> Peers:
    pairs, columns = list(zip(below, branches.places, strict=True)), frozenset(branches.attributes)
    unsettled = frozenset(n for n in columns if any(at[n] in one.unsettled for one, at in pairs))
    agreed = frozenset(n for n in columns if all(at[n] in one.agreed for one, at in pairs))
    if branches.cover_of < len(branches.children):  # which rows there are depends on all columns
        return Peers(columns - agreed, agreed, rows=True)
    return Peers(unsettled, agreed, found.rows)
