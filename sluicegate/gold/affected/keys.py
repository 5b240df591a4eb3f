"""Choose keys by which rows of a gold table are replaced, and find those that a batch affects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sluicegate.gold.affected.expressions import is_compared, is_loose
from sluicegate.gold.affected.operators import Blocker, Columns, Inputs, Operator, TouchesAll
from sluicegate.gold.affected.peers import peers
from sluicegate.gold.affected.reading import UnreadablePlan, columns_read, create_stand_in, read
from sluicegate.spark.catalyst import Catalyst
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.query import Query

# A value that is NULL where it would be an error must not be computed outside of the place where it is tried.
_TRIED = {"spark.sql.subexpressionElimination.enabled": "false"}


@dataclass(frozen=True)
class Keys:
    """Keys of a query.

    Attributes:
        catalyst: constructors of plans.
        root: the query's operators.
        columns: numbers of the columns of the key.
        names: names of these columns in the table.
        followed: table whose rows they identify, unless the rows are groups.
        reads: each table and column that the query's result depends on.
    """

    catalyst: Catalyst
    root: Operator
    columns: Sequence[int]
    names: Sequence[str]
    followed: str
    reads: frozenset[tuple[str, str]]

    @classmethod
    def choose(cls, session: SparkSession, query: Query, schemas: Mapping[str, StructType]) -> Keys:
        """Choose the key of a query: that of the first table whose changes do not affect all rows.

        Args:
            session: the session; views are made in it.
            query: the query.
            schemas: the columns of the tables that it reads, in the order in which they are tried.

        Raises:
            TouchesAll: each change of any table affects all rows, or there is no key for another reason; the reason of
                the first table.
        """
        catalyst = Catalyst(session)
        views = {table: f"_sluicegate_stand_in_{number}" for number, table in enumerate(schemas)}
        frames = {table: create_stand_in(session, number, schemas[table]) for number, table in enumerate(schemas)}
        for table, view in views.items():
            frames[table].createOrReplaceTempView(view)
        plan = catalyst.replace_subqueries(catalyst.plan(session.sql(query.text_over_views(views))))
        try:
            root = read(plan, [*schemas])
        except UnreadablePlan as leaf:
            raise TouchesAll(f"it reads a {leaf}", "") from None
        reads = columns_read(catalyst, plan, [*schemas])
        refusals = []
        for source in [table for table in schemas if table in root.tables] or [*schemas]:
            try:
                return cls._of_table(catalyst, root, source, frames, reads)
            except TouchesAll as refusal:
                refusals.append(refusal)
        raise refusals[0]

    @classmethod
    def _of_table(
        cls,
        catalyst: Catalyst,
        root: Operator,
        source: str,
        frames: Mapping[str, DataFrame],
        reads: frozenset[tuple[str, str]],
    ) -> Keys:
        """Choose the key by which changes of a table are followed.

        Raises:
            TouchesAll: as for ``choose``.
        """
        for blocker in root.blockers:
            if source in blocker.tables:
                raise TouchesAll(blocker.why, blocker.instead)
        columns = _choose_columns(root, source, peers(root).unsettled)
        if not columns and _choose_columns(root, source, frozenset()):
            reason = "its result depends on which of several equal rows a window puts first"
            raise TouchesAll(reason, "select the columns of its PARTITION BY, or those of its ORDER BY")
        if not columns:
            reason = "no column of its SELECT list identifies the rows that a change affects"
            raise TouchesAll(reason, "select the columns that identify, join, group or partition its rows")
        names = [str(root.attributes[number].name()) for number in columns]
        keys = cls(catalyst, root, columns, names, source, reads)
        keys._demand_valid_plans(source, frames)
        return keys

    def _demand_valid_plans(self, source: str, frames: Mapping[str, DataFrame]) -> None:
        """Check that Spark accepts the plans of affected keys, whichever tables change; nothing is executed.

        Raises:
            TouchesAll: Spark rejects a plan.
        """
        followed = {table: frame for table, frame in frames.items() if not self.why_blocked({table: frame})}
        try:
            for changed in ({source: frames[source]}, followed):
                self.affected_keys(changed, frames)
        except (PySparkException, Py4JError) as error:
            raise TouchesAll(f"Spark rejects the plan of its keys ({type(error).__name__})", "") from error

    @property
    def affected_key_names(self) -> list[str]:
        """Names of the columns of ``affected_keys``."""
        return [f"_key_{number}" for number in range(len(self.columns))]

    @cached_property
    def blockers(self) -> list[Blocker]:
        """Parts of the query in which a change affects all rows."""
        return self.root.blockers

    def why_blocked(self, changed: Mapping[str, Any]) -> str:
        """Return why changes of these tables affect all rows; empty if they do not."""
        for blocker in self.blockers:
            if not blocker.tables.isdisjoint(changed):
                return f"{blocker.why}, and {', '.join(sorted(blocker.tables & {*changed}))} changed"
        return ""

    def affected_keys(self, changes: Mapping[str, DataFrame], current: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return the distinct affected keys in columns ``affected_key_names``; None if the plan reads no changed table.

        A table in the query need not be in its plan: a WITH may be unused.

        Args:
            changes: inserted and deleted rows of each changed table.
            current: current rows of all tables.
        """
        catalyst = self.catalyst
        changed_plans = {name: catalyst.plan(frame) for name, frame in changes.items()}
        current_plans = {name: catalyst.plan(frame) for name, frame in current.items()}
        plan = self.root.affected_keys(Inputs(catalyst, changed_plans, current_plans), frozenset(self.columns))
        if plan is None:
            return None
        attributes = [self.root.attributes[number] for number in self.columns]
        columns = [catalyst.new_column(*pair) for pair in zip(attributes, self.affected_key_names, strict=True)]
        return catalyst.frame(catalyst.project(columns, plan)).distinct()


def lenient_session(session: SparkSession) -> Any:
    """Provide the session settings in which ``affected_keys`` is computed."""
    return override_settings(session, _TRIED)


def _choose_columns(root: Operator, source: str, unsettled: Columns) -> list[int]:
    """Return the cheapest columns for the key; those of one table if a result row is one of its rows."""
    usable = [number for number in root.attributes if number not in unsettled and _is_usable(root, number)]
    columns = _select_numbers(root.direct, usable) or _select_numbers(root.keyed, usable)
    if not root.is_of_groups:
        columns = [number for number in columns if root.origins(number) == {source}] or columns
    return [number for number in columns if not is_loose(root.attributes[number])] or columns


def _select_numbers(columns: Columns, numbers: Sequence[int]) -> list[int]:
    """Return the numbers that belong to columns, in their order."""
    return [number for number in numbers if number in columns]


def _is_usable(root: Operator, number: int) -> bool:
    """Return whether rows can be found by a column, which comes from columns of tables, or is chosen by them."""
    return is_compared(root.attributes[number]) and bool(root.origins(number) or root.is_met(number))
