"""Joins: the keys that a change of either side touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sluicegate.gold.affected.operators import Columns, Inputs, Operator, either

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicegate.gold.affected.expressions import Expression

JoinKind = Literal["inner", "left", "right", "full", "semi"]
"""Kinds of joins by the rows that they have: pairs; with them also rows of one or of both sides alone; or rows of the
left side, which depend on whether they meet another (semi, anti and existence joins)."""


@dataclass
class Joined(Operator):
    """A join of two operators.

    A pair is touched where a changed row of one side meets any row that the other side has or had. So is a row that
    stands alone, before or after, if it changed itself or meets a changed row. Conditions whose columns cannot be in a
    key are left out: then more rows meet.
    """

    left: Operator
    right: Operator
    kind: JoinKind
    attributes: Mapping[int, Any]
    conditions: Sequence[Expression]

    def __post_init__(self) -> None:
        self.children = [self.left, self.right]
        # A row whose other side is missing is of that side's rows, of which something has to be known.
        seen = [side for n, side in enumerate(self.children) if self._is_seen(n)]
        self.direct = frozenset().union(*(side.direct for side in seen))
        self.keyed = frozenset().union(*(side.keyed for side in seen))
        both = self.left.keyed | self.right.keyed
        self._usable = [one for one in self.conditions if one.steady and one.refs and one.refs <= both]
        refs: Columns = frozenset().union(*(one.refs for one in self._usable))
        self._refs = [refs & frozenset(side.attributes) for side in self.children]

    def touched(self, inputs: Inputs, wanted: Columns) -> Any | None:
        """Keys of the pairs that a change of either side makes or takes away, and of rows that stand alone."""
        ours = self._sides(wanted)
        parts = []
        for here, there in ((0, 1), (1, 0)):
            side = self.children[here]
            if not side.is_changed(inputs):
                continue
            if not ours[there]:  # whatever it meets, its own columns are the key
                parts.append(self._shown(inputs, wanted, side.touched(inputs, ours[here])))
            else:
                parts.append(self._shown(inputs, wanted, self._met(inputs, wanted, here)))
            parts += self._alone(inputs, wanted, here)
        return either(inputs, parts)

    def cover(self, inputs: Inputs, wanted: Columns) -> Any:
        """Values of all pairs, and of rows that stand alone."""
        ours = self._sides(wanted)
        for here, there in ((0, 1), (1, 0)):
            if not ours[there] and (self.kind == "semi" or not self._is_filled(here)):
                return self.children[here].cover(inputs, wanted)
        plans = [side.cover(inputs, self._needed(number, wanted)) for number, side in enumerate(self.children)]
        parts = [self._shown(inputs, wanted, self._pairs(inputs, *plans))]
        for here in (0, 1):
            if self._is_filled(1 - here):
                all_rows = self.children[here].cover(inputs, self._needed(here, wanted))
                parts.append(self._filled(inputs, wanted, here, all_rows))
        return either(inputs, parts)

    # --- rows that meet ----------------------------------------------------------------------------------------------

    def _met(self, inputs: Inputs, wanted: Columns, here: int) -> Any:
        """Pairs of a changed row of one side with any row of the other."""
        there = 1 - here
        changed = self.children[here].touched(inputs, self._needed(here, wanted))
        others = self.children[there].cover(inputs, self._needed(there, wanted))
        if self._sides(wanted)[here]:
            return self._pairs(inputs, *((changed, others) if here == 0 else (others, changed)))
        return inputs.catalyst.join(others, changed, "LeftSemi", self._conditions(inputs))

    def _pairs(self, inputs: Inputs, left: Any, right: Any) -> Any:
        return inputs.catalyst.join(left, right, "Inner", self._conditions(inputs))

    def _conditions(self, inputs: Inputs) -> list[Any]:
        return [one.condition(inputs.catalyst) for one in self._usable]

    # --- rows that stand alone ---------------------------------------------------------------------------------------

    def _alone(self, inputs: Inputs, wanted: Columns, changed: int) -> list[Any]:
        """Keys of rows that stand alone, before or after a change of one side, whose other side is NULL."""
        parts = []
        for here in (0, 1):
            there = 1 - here
            if not (self._is_filled(there) and self._sides(wanted)[there]):
                continue  # no such rows, or nothing of their other side is in the key
            if changed == here:
                found = self.children[here].touched(inputs, self._needed(here, wanted))
            else:
                some = self.children[here].cover(inputs, self._needed(here, wanted))
                news = self.children[there].touched(inputs, self._needed(there, wanted))
                found = inputs.catalyst.join(some, news, "LeftSemi", self._conditions(inputs))
            parts.append(self._filled(inputs, wanted, here, found))
        return parts

    def _is_seen(self, side: int) -> bool:
        """Whether columns of one side can be in a key."""
        if self.kind == "semi":
            return side == 0
        return bool(self.children[1 - side].keyed) or not self._is_filled(side)

    def _is_filled(self, side: int) -> bool:
        """Whether one side can be NULL as its row is missing."""
        return self.kind == "full" or self.kind == ("right", "left")[side]

    def _filled(self, inputs: Inputs, wanted: Columns, here: int, plan: Any) -> Any:
        """Keys of rows of one side, with NULL for the other."""
        ours, catalyst = self.children[here].attributes, inputs.catalyst
        return catalyst.project(
            [ours[n] if n in ours else catalyst.null(self.attributes[n]) for n in sorted(wanted)], plan
        )

    # --- columns -----------------------------------------------------------------------------------------------------

    def _sides(self, wanted: Columns) -> list[Columns]:
        """The columns of each side."""
        return [wanted & frozenset(side.attributes) for side in self.children]

    def _needed(self, number: int, wanted: Columns) -> Columns:
        """The columns of one side by which it meets the other, and those of it in the key."""
        return self.children[number].some(self._sides(wanted)[number] | self._refs[number])

    def _shown(self, inputs: Inputs, wanted: Columns, plan: Any) -> Any:
        """Columns of a plan of one side or of both, in the order of their numbers."""
        known = {**self.left.attributes, **self.right.attributes}
        return inputs.catalyst.project([known[number] for number in sorted(wanted)], plan)
