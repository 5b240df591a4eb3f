"""Windows, generators and ROLLUP sets: operators whose rows have values of other rows, or that multiply rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.gold.affected.expressions import Expression
from sluicegate.gold.affected.operators import Columns, Inputs, Operator, unite_plans


@dataclass
class Windowed(Operator):
    """Window functions: each row has values from its partition.

    A key of partition columns costs nothing more. Any other key has to cover all rows of the affected partitions.

    Attributes:
        partition: PARTITION BY expressions.
        peers: columns in which rows of arbitrary order agree; None if no order matters.
        uses: all columns that its values depend on.
    """

    child: Operator
    attributes: Mapping[int, Any]
    partition: Sequence[Expression]
    peers: Columns | None = None
    uses: Columns = frozenset()

    def __post_init__(self) -> None:
        self.children = [self.child]
        self._refs: Columns = frozenset().union(*(value.refs for value in self.partition))
        self.of_partition: Columns = frozenset().union(*(value.refs for value in self.partition if value.bare))
        self.direct = self.of_partition & self.child.direct
        self.keyed = self.child.keyed
        steady = all(value.steady for value in self.partition)
        if not steady or not self._refs <= self.child.keyed:
            self.keyed &= self.of_partition

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the keys of rows in affected partitions."""
        if key <= self.of_partition:
            return self.child.affected_keys(inputs, key)
        catalyst, refs = inputs.catalyst, self.child.columns_or_any(self._refs)
        changed_partitions = self.child.affected_keys(inputs, refs)
        if changed_partitions is None:
            return None
        values = [expression.safe_value(catalyst) for expression in self.partition]
        partitions = [catalyst.new_column(value, f"_partition_{n}") for n, value in enumerate(values)]
        conditions = [
            catalyst.null_safe_equal(*pair) for pair in zip(values, [p.toAttribute() for p in partitions], strict=True)
        ]
        rows = self.child.cover(inputs, key | refs)
        touched_rows = catalyst.join(rows, catalyst.project(partitions, changed_partitions), "LeftSemi", conditions)
        return self.project_columns(inputs, key, touched_rows)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of the child's rows."""
        return self.child.cover(inputs, key)


@dataclass
class Generated(Operator):
    """Rows that a generator returns for each row.

    Attributes:
        plan: the operator as Spark has it; what it makes can be in a key if all that it is made of can.
        generator: expression of the generator.
    """

    child: Operator
    attributes: Mapping[int, Any]
    plan: Any
    generator: Expression

    def __post_init__(self) -> None:
        self.children = [self.child]
        self._generated = frozenset(self.attributes) - frozenset(self.child.attributes)
        self.direct = self._add_generated(self.child.direct)
        self.keyed = self._add_generated(self.child.keyed)

    def _add_generated(self, columns: Columns) -> Columns:
        """Return the child's columns of a set, with the generated columns that it needs."""
        passed = frozenset(self.attributes) & columns
        if self.generator.steady and self.generator.refs <= columns:
            return passed | self._generated
        return passed

    def origins(self, column: int) -> frozenset[str]:
        """Return the tables of a child's column, or of the generator's input."""
        if column in self.child.attributes:
            return self.child.origins(column)
        return frozenset().union(*(self.child.origins(ref) for ref in self.generator.refs))

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the keys of the rows that come from affected rows."""
        rows = self.child.affected_keys(inputs, self._needed_columns(key))
        if rows is None:
            return None
        return self._generate(inputs, key, rows)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of the rows that come from the child's rows."""
        return self._generate(inputs, key, self.child.cover(inputs, self._needed_columns(key)))

    def _needed_columns(self, key: Columns) -> Columns:
        columns = key - self._generated
        if key & self._generated:
            columns |= self.generator.refs
        return self.child.columns_or_any(columns)

    def _generate(self, inputs: Inputs, key: Columns, plan: Any) -> Any:
        if key & self._generated:
            plan = inputs.catalyst.generate(self.plan, plan)
        return self.project_columns(inputs, key, plan)


@dataclass
class Expanded(Operator):
    """Several rows for each row, as ROLLUP, CUBE and GROUPING SETS have one for each set of groups.

    Attributes:
        sets: values of the columns of each of these rows.
    """

    child: Operator
    attributes: Mapping[int, Any]
    sets: Sequence[Mapping[int, Expression]]

    def __post_init__(self) -> None:
        self.children = [self.child]
        self.direct = frozenset(n for n in self.attributes if self._is_computed_from(n, self.child.direct))
        self.keyed = frozenset(n for n in self.attributes if self._is_computed_from(n, self.child.keyed))

    def _is_computed_from(self, column: int, columns: Columns) -> bool:
        return all(values[column].steady and values[column].refs <= columns for values in self.sets)

    @property
    def is_of_groups(self) -> bool:
        """Whether the rows are groups: always, of several sets."""
        return True

    def origins(self, column: int) -> frozenset[str]:
        """Return the tables of the columns in the values."""
        return frozenset().union(*(self.child.origins(ref) for values in self.sets for ref in values[column].refs))

    def affected_keys(self, inputs: Inputs, key: Columns) -> Any | None:
        """Return the keys of the rows that come from affected rows."""
        plans = []
        for values in self.sets:
            rows = self.child.affected_keys(inputs, self._needed_columns(values, key))
            if rows is not None:
                plans.append(self._project(inputs, values, key, rows))
        return unite_plans(inputs, plans)

    def cover(self, inputs: Inputs, key: Columns) -> Any:
        """Return the values of the rows that come from the child's rows."""
        plans = []
        for values in self.sets:
            rows = self.child.cover(inputs, self._needed_columns(values, key))
            plans.append(self._project(inputs, values, key, rows))
        return unite_plans(inputs, plans)

    def _needed_columns(self, values: Mapping[int, Expression], key: Columns) -> Columns:
        return self.child.columns_or_any(frozenset().union(*(values[number].refs for number in key)))

    def _project(self, inputs: Inputs, values: Mapping[int, Expression], key: Columns, plan: Any) -> Any:
        catalyst = inputs.catalyst
        return catalyst.project([values[n].column(catalyst, self.attributes[n]) for n in sorted(key)], plan)
