"""Keys by which rows of a gold table are replaced, and which of them a batch touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from sluicegate.gold.affected.expressions import is_compared, is_loose
from sluicegate.gold.affected.operators import Blocker, Columns, Inputs, Operator, TouchesAll
from sluicegate.gold.affected.peers import peers
from sluicegate.gold.affected.reading import Unreadable, read, stand_in
from sluicegate.spark.catalyst import Catalyst
from sluicegate.spark.session import configured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sluicegate.sql.query import Query

# A value that is NULL where it would be an error must not be computed outside of the place where it is tried.
_TRIED = {"spark.sql.subexpressionElimination.enabled": "false"}


@dataclass(frozen=True)
class Keys:
    """Keys of a query.

    Attributes:
        catalyst: constructors of plans.
        root: the query's operators.
        columns: numbers of the columns of the key.
        names: their names in the table.
    """

    catalyst: Catalyst
    root: Operator
    columns: Sequence[int]
    names: Sequence[str]

    @classmethod
    def of(cls, session: SparkSession, query: Query, schemas: Mapping[str, StructType], source: str) -> Keys:
        """Chooses the key of a query.

        Args:
            session: the session; views are made in it.
            query: the query.
            schemas: the columns of the tables that it reads.
            source: the table that it follows first.

        Raises:
            TouchesAll: each change of that table touches all rows, or no key can be found for another reason.
        """
        catalyst = Catalyst(session)
        views = {table: f"_sluicegate_stand_in_{number}" for number, table in enumerate(schemas)}
        frames = {table: stand_in(session, number, schemas[table]) for number, table in enumerate(schemas)}
        for table, view in views.items():
            frames[table].createOrReplaceTempView(view)
        plan = catalyst.without_subqueries(catalyst.plan(session.sql(query.with_views(views))))
        try:
            root = read(plan, [*schemas])
        except Unreadable as leaf:
            raise TouchesAll(f"it reads a {leaf}", "") from None
        for blocker in root.blockers:
            if source in blocker.tables:
                raise TouchesAll(blocker.why, blocker.instead)
        unsettled = peers(root).unsettled
        columns = _chosen(root, source, unsettled)
        if not columns and _chosen(root, source, frozenset()):
            why = "which of equal rows a window puts first decides which rows there are"
            raise TouchesAll(why, "select the columns of its PARTITION BY, or those of its ORDER BY")
        if not columns:
            why = "no column of its SELECT list says which rows a change touches"
            raise TouchesAll(why, "select the columns by which its rows are known, joined, grouped or partitioned")
        found = cls(catalyst, root, columns, [str(root.attributes[number].name()) for number in columns])
        found._demand_taken(source, frames)
        return found

    def _demand_taken(self, source: str, frames: Mapping[str, DataFrame]) -> None:
        """Checks that Spark takes the plans of touched keys, whichever tables change; nothing is executed.

        Raises:
            TouchesAll: it does not.
        """
        every = {table: frame for table, frame in frames.items() if not self.blocked({table: frame})}
        try:
            for changed in ({source: frames[source]}, every):
                self.touched(changed, frames)
        except (PySparkException, Py4JError) as error:
            raise TouchesAll(f"Spark does not take the plan of its keys ({type(error).__name__})", "") from error

    @property
    def touched_names(self) -> list[str]:
        """Names of the columns of ``touched``."""
        return [f"_key_{number}" for number in range(len(self.columns))]

    @cached_property
    def blockers(self) -> list[Blocker]:
        """Parts of the query of which a change touches all rows."""
        return self.root.blockers

    def blocked(self, changed: Mapping[str, Any]) -> str:
        """Reason why changes of these tables touch all rows; empty if they do not."""
        found = (blocker for blocker in self.blockers if not blocker.tables.isdisjoint(changed))
        return next((f"{blocker.why}, and {_among(blocker.tables, changed)} changed" for blocker in found), "")

    def touched(self, changes: Mapping[str, DataFrame], current: Mapping[str, DataFrame]) -> DataFrame | None:
        """Distinct keys that changes touch, in columns ``touched_names``; None if the plan reads none of these tables.

        A table that is named in the query need not be in its plan: a WITH may be read nowhere.

        Args:
            changes: of each changed table, its rows that came and those that went.
            current: all tables as they are now.
        """
        catalyst = self.catalyst
        changed, now = ({name: catalyst.plan(one) for name, one in frames.items()} for frames in (changes, current))
        plan = self.root.touched(Inputs(catalyst, changed, now), frozenset(self.columns))
        if plan is None:
            return None
        named = zip([self.root.attributes[number] for number in self.columns], self.touched_names, strict=True)
        return catalyst.frame(catalyst.project([catalyst.named(*one) for one in named], plan)).distinct()


def tried(session: SparkSession) -> Any:
    """Context in which ``touched`` is to be computed."""
    return configured(session, _TRIED)


def _chosen(root: Operator, source: str, unsettled: Columns) -> list[int]:
    """Columns of the key: those that cost least, and of one table where a row is one of that table's rows."""
    known = [n for n, one in root.attributes.items() if is_compared(one) and root.origins(n) and n not in unsettled]
    found = [n for n in known if n in root.direct] or [n for n in known if n in root.keyed]
    if not root.is_of_groups:
        found = [n for n in found if root.origins(n) == {source}] or found
    return [n for n in found if not is_loose(root.attributes[n])] or found


def _among(tables: frozenset[str], changed: Mapping[str, Any]) -> str:
    return ", ".join(sorted(tables & {*changed}))
