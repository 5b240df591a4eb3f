"""Find the keys that a change of either side of a join affects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sluicegate.gold.affected.expressions import Expression
from sluicegate.gold.affected.operators import Columns, Inputs, Operator, unite_plans

JoinKind = Literal["inner", "left", "right", "full", "semi"]
"""Kinds of joins by the rows that they have: pairs; with them also rows of one or of both sides alone; or rows of the
left side, which depend on whether they meet another (semi, anti and existence joins)."""


@dataclass
class Joined(Operator):
    """Join of two operators.

    A pair is affected if a changed row of one side meets any present or former row of the other. So is a row that is
    unmatched before or after, if it changed itself or meets a changed row. Conditions whose columns cannot be in a key
    are ignored, so that more rows meet.
    """

    left: Operator
    right: Operator
    kind: JoinKind
    attributes: Mapping[int, Any]
    conditions: Sequence[Expression]

    def __post_init__(self) -> None:
        self.children = [self.left, self.right]
        # A row whose other side is missing is of that side's rows, of which something has to be known.
        visible = [side for n, side in enumerate(self.children) if self._is_seen(n)]
        self.direct = frozenset().union(*(side.direct for side in visible))
        self.keyed = frozenset().union(*(side.keyed for side in visible))
        both = self.left.keyed | self.right.keyed
        self._usable = [
            condition for condition in self.conditions if condition.steady and condition.refs and condition.refs <= both
        ]
        refs: Columns = frozenset().union(*(condition.refs for condition in self._usable))
        self._refs = [refs & frozenset(side.attributes) for side in self.children]

    def is_met(self, column: int) -> bool:
        """Return whether a column is of a side without tables, which meets rows of the other side by a condition."""
        side = int(column in self.right.attributes)
        other = self.children[1 - side]
        if self.children[side].tables or not other.tables:
            return self.children[side].is_met(column)
        own_columns, others = frozenset(self.children[side].attributes), frozenset(other.attributes)
        return any(condition.refs & own_columns and condition.refs & others for condition in self._usable)

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the keys of pairs that a change adds or removes, and of unmatched rows."""
        of_sides = self._sides(key)
        parts = []
        for side in (0, 1):
            if not self.children[side].is_changed(inputs):
                continue
            if of_sides[1 - side]:
                pairs = self._changed_pairs(inputs, key, side)
            else:  # whatever it meets, its own columns are the key
                pairs = self.children[side].affected_keys(inputs, of_sides[side])
            parts += [self._project_key(inputs, key, pairs), *self._unmatched_keys(inputs, key, side)]
        return unite_plans(inputs, parts)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of all pairs and of unmatched rows."""
        of_sides = self._sides(key)
        for side in (0, 1):
            if not of_sides[1 - side] and (self.kind == "semi" or not self._is_filled(side)):
                return self.children[side].cover(inputs, key)
        plans = [child.cover(inputs, self._needed_columns(number, key)) for number, child in enumerate(self.children)]
        parts = [self._project_key(inputs, key, self._pairs(inputs, *plans))]
        for side in (0, 1):
            if self._is_filled(1 - side):
                all_rows = self.children[side].cover(inputs, self._needed_columns(side, key))
                parts.append(self._fill_with_nulls(inputs, key, side, all_rows))
        return unite_plans(inputs, parts)

    # --- rows that meet ----------------------------------------------------------------------------------------------

    def _changed_pairs(self, inputs: Inputs, key: Columns, side: int) -> Any:
        """Return the pairs of changed rows of one side with all rows of the other."""
        other = 1 - side
        changed = self.children[side].affected_keys(inputs, self._needed_columns(side, key))
        other_rows = self.children[other].cover(inputs, self._needed_columns(other, key))
        if self._sides(key)[side]:
            return self._pairs(inputs, *((changed, other_rows) if side == 0 else (other_rows, changed)))
        return inputs.catalyst.join(other_rows, changed, "LeftSemi", self._conditions(inputs))

    def _pairs(self, inputs: Inputs, left: Any, right: Any) -> Any:
        return inputs.catalyst.join(left, right, "Inner", self._conditions(inputs))

    def _conditions(self, inputs: Inputs) -> list[Any]:
        return [condition.safe_condition(inputs.catalyst) for condition in self._usable]

    # --- rows that stand alone ---------------------------------------------------------------------------------------

    def _unmatched_keys(self, inputs: Inputs, key: Columns, changed: int) -> list[Any]:
        """Return the keys of rows that are unmatched before or after a change, whose other side is NULL."""
        parts = []
        for side in (0, 1):
            other = 1 - side
            if not (self._is_filled(other) and self._sides(key)[other]):
                continue  # no such rows, or nothing of their other side is in the key
            if changed == side:
                plan = self.children[side].affected_keys(inputs, self._needed_columns(side, key))
            else:
                all_rows = self.children[side].cover(inputs, self._needed_columns(side, key))
                changed_rows = self.children[other].affected_keys(inputs, self._needed_columns(other, key))
                plan = inputs.catalyst.join(all_rows, changed_rows, "LeftSemi", self._conditions(inputs))
            parts.append(self._fill_with_nulls(inputs, key, side, plan))
        return parts

    def _is_seen(self, side: int) -> bool:
        """Return whether columns of a side can be in a key."""
        if self.kind == "semi":
            return side == 0
        return bool(self.children[1 - side].keyed) or not self._is_filled(side)

    def _is_filled(self, side: int) -> bool:
        """Return whether a side can be NULL because its row is missing."""
        return self.kind == "full" or self.kind == ("right", "left")[side]

    def _fill_with_nulls(self, inputs: Inputs, key: Columns, side: int, plan: Any) -> Any:
        """Return the keys of rows of one side, with NULL for the other."""
        attributes, catalyst = self.children[side].attributes, inputs.catalyst
        return catalyst.project(
            [attributes[n] if n in attributes else catalyst.null(self.attributes[n]) for n in sorted(key)], plan
        )

    # --- columns -----------------------------------------------------------------------------------------------------

    def _sides(self, key: Columns) -> list[Columns]:
        return [key & frozenset(side.attributes) for side in self.children]

    def _needed_columns(self, number: int, key: Columns) -> Columns:
        """Return the columns of a side that its join condition needs, and those of the key."""
        return self.children[number].columns_or_any(self._sides(key)[number] | self._refs[number])

    def _project_key(self, inputs: Inputs, key: Columns, plan: Any) -> Any:
        """Return the key's columns from a plan of one side or of both, in the order of their numbers."""
        attributes = {**self.left.attributes, **self.right.attributes}
        return inputs.catalyst.project([attributes[number] for number in sorted(key)], plan)
