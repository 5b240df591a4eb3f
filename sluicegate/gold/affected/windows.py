"""Windows, generators and the sets of ROLLUP: operators that give a row values of other rows, or make many of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.gold.affected.operators import Columns, Inputs, Operator, either

if TYPE_CHECKING:
    from sluicegate.gold.affected.expressions import Expression


@dataclass
class Windowed(Operator):
    """Window functions: each row has values of the rows of its partition.

    A key of the partition's columns costs nothing more. Another one is that of all rows of the touched partitions.

    Attributes:
        partition: what it is partitioned by.
        peers: columns in which rows agree whose order among each other it takes as it comes; None if no order matters.
        uses: all columns that its values are made of.
    """

    child: Operator
    attributes: Mapping[int, Any]
    partition: Sequence[Expression]
    peers: Columns | None = None
    uses: Columns = frozenset()

    def __post_init__(self) -> None:
        self.children = [self.child]
        self._refs: Columns = frozenset().union(*(one.refs for one in self.partition))
        self.of_partition: Columns = frozenset().union(*(one.refs for one in self.partition if one.bare))
        self.direct = self.of_partition & self.child.direct
        found = all(one.steady for one in self.partition) and self._refs <= self.child.keyed
        self.keyed = self.child.keyed if found else self.of_partition & self.child.keyed

    def touched(self, inputs: Inputs, wanted: Columns) -> Any | None:
        """Keys of the rows of touched partitions."""
        if wanted <= self.of_partition:
            return self.child.touched(inputs, wanted)
        catalyst, refs = inputs.catalyst, self.child.some(self._refs)
        news = self.child.touched(inputs, refs)
        if news is None:
            return None
        values = [one.tried(catalyst) for one in self.partition]
        partitions = [catalyst.named(value, f"_partition_{n}") for n, value in enumerate(values)]
        conditions = [catalyst.same(*pair) for pair in zip(values, [p.toAttribute() for p in partitions], strict=True)]
        rows = self.child.cover(inputs, wanted | refs)
        met = catalyst.join(rows, catalyst.project(partitions, news), "LeftSemi", conditions)
        return self.only(inputs, wanted, met)

    def cover(self, inputs: Inputs, wanted: Columns) -> Any:
        """Values of the child's rows, all of which stay."""
        return self.child.cover(inputs, wanted)


@dataclass
class Generated(Operator):
    """Rows that a generator makes of each row.

    Attributes:
        plan: the operator as Spark has it; what it makes can be in a key if all that it is made of can.
        generator: what it is made of.
    """

    child: Operator
    attributes: Mapping[int, Any]
    plan: Any
    generator: Expression

    def __post_init__(self) -> None:
        self.children = [self.child]
        made = frozenset(self.attributes) - frozenset(self.child.attributes)
        of_child = frozenset(self.attributes) & frozenset(self.child.attributes)
        usable = self.generator.steady

        def with_made(known: Columns) -> Columns:
            return (of_child & known) | (made if usable and self.generator.refs <= known else frozenset())

        self.direct, self.keyed, self._made_here = with_made(self.child.direct), with_made(self.child.keyed), made

    def origins(self, column: int) -> frozenset[str]:
        """The tables of a column of the child, or of what the generator is made of."""
        if column in self.child.attributes:
            return self.child.origins(column)
        return frozenset().union(*(self.child.origins(ref) for ref in self.generator.refs))

    def touched(self, inputs: Inputs, wanted: Columns) -> Any | None:
        """Keys of the rows that are made of touched rows."""
        found = self.child.touched(inputs, self._needed(wanted))
        return None if found is None else self._over(inputs, wanted, found)

    def cover(self, inputs: Inputs, wanted: Columns) -> Any:
        """Values of the rows that are made of the child's rows."""
        return self._over(inputs, wanted, self.child.cover(inputs, self._needed(wanted)))

    def _needed(self, wanted: Columns) -> Columns:
        ours = wanted - self._made_here
        return self.child.some(ours | self.generator.refs if wanted & self._made_here else ours)

    def _over(self, inputs: Inputs, wanted: Columns, plan: Any) -> Any:
        made = inputs.catalyst.generated(self.plan, plan) if wanted & self._made_here else plan
        return self.only(inputs, wanted, made)


@dataclass
class Expanded(Operator):
    """Several rows of each row, as ROLLUP, CUBE and GROUPING SETS have one for each set of groups.

    Attributes:
        sets: of each of these rows, the values of its columns.
    """

    child: Operator
    attributes: Mapping[int, Any]
    sets: Sequence[Mapping[int, Expression]]

    def __post_init__(self) -> None:
        self.children = [self.child]
        self.direct = frozenset(n for n in self.attributes if self._are_of(n, self.child.direct))
        self.keyed = frozenset(n for n in self.attributes if self._are_of(n, self.child.keyed))

    def _are_of(self, column: int, known: Columns) -> bool:
        return all(one[column].steady and one[column].refs <= known for one in self.sets)

    @property
    def is_of_groups(self) -> bool:
        """Its rows are those of several sets of groups."""
        return True

    def origins(self, column: int) -> frozenset[str]:
        """The tables of the columns in its values."""
        return frozenset().union(*(self.child.origins(ref) for one in self.sets for ref in one[column].refs))

    def touched(self, inputs: Inputs, wanted: Columns) -> Any | None:
        """Keys of the rows that are made of touched rows."""
        needed = [self._needed(one, wanted) for one in self.sets]
        found = [(one, self.child.touched(inputs, refs)) for one, refs in zip(self.sets, needed, strict=True)]
        return either(inputs, [self._of(inputs, one, wanted, plan) for one, plan in found if plan is not None])

    def cover(self, inputs: Inputs, wanted: Columns) -> Any:
        """Values of the rows that are made of the child's rows."""
        needed = [self._needed(one, wanted) for one in self.sets]
        pairs = zip(self.sets, needed, strict=True)
        return either(inputs, [self._of(inputs, s, wanted, self.child.cover(inputs, refs)) for s, refs in pairs])

    def _needed(self, of: Mapping[int, Expression], wanted: Columns) -> Columns:
        return self.child.some(frozenset().union(*(of[number].refs for number in wanted)))

    def _of(self, inputs: Inputs, of: Mapping[int, Expression], wanted: Columns, plan: Any) -> Any:
        catalyst = inputs.catalyst
        return catalyst.project([of[n].column(catalyst, self.attributes[n]) for n in sorted(wanted)], plan)
