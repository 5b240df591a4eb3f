"""Read and build Spark's logical plans in the JVM of a session.

An analyzed plan identifies columns by number (``exprId``), whatever names the query gave. Parts of it are kept and
combined with others by Spark's own constructors: no SQL is written, so nothing can be misread. It needs a JVM, so the
session cannot be one of Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, Literal

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"

# Rules that take names and views out of a plan, and then subqueries, of which they make joins. They are Spark's, and
# its optimizer begins with them.
_RULES = (
    f"{_CATALYST}.analysis.EliminateSubqueryAliases", f"{_CATALYST}.analysis.EliminateView",
    f"{_CATALYST}.optimizer.PullupCorrelatedPredicates", f"{_CATALYST}.optimizer.RewritePredicateSubquery",
    f"{_CATALYST}.optimizer.RewriteCorrelatedScalarSubquery",
)  # fmt: skip

# Kinds of joins that are put together.
How = Literal["Inner", "LeftSemi"]


class Catalyst:
    """Constructors of Spark's logical plans and expressions.

    Args:
        session: the session, not one of Spark Connect.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        jvm: Any = session._jvm
        self._jvm = jvm
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical

    # --- frames ------------------------------------------------------------------------------------------------------

    def plan(self, frame: DataFrame) -> Any:
        """Return the analyzed plan of a frame."""
        return frame._jdf.queryExecution().analyzed()

    def frame(self, plan: Any) -> DataFrame:
        """Return the frame of a plan."""
        session: Any = self.session
        made = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
        return DataFrame(made, self.session)

    def replace_subqueries(self, plan: Any) -> Any:
        """Return the plan with subqueries as joins, where Spark's rules allow, and shared queries inlined.

        If a rule refuses the plan, the plan stays as it was before the rule.
        """
        rules = [self._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False), *map(self._object, _RULES)]
        for rule in rules:
            try:
                plan = rule.apply(plan)
            except (PySparkException, Py4JError):  # a subquery that stays one is known as such
                return plan
        return plan

    def pruned(self, plan: Any) -> Any:
        """Return the plan over the columns that its result depends on; Spark's rule keeps more where it is unsure."""
        rule = self._object(f"{_CATALYST}.optimizer.ColumnPruning")
        pruned = rule.apply(plan)
        while not pruned.fastEquals(plan):
            plan, pruned = pruned, rule.apply(pruned)
        return pruned

    def columns(self, plan: Any) -> list[Any]:
        return list(elements(plan.output()))

    # --- expressions -------------------------------------------------------------------------------------------------

    def alias(self, value: Any, attribute: Any) -> Any:
        """Alias a value with the name and number of a column."""
        return self._alias(value, attribute.name(), attribute.exprId())

    def new_column(self, value: Any, name: str) -> Any:
        """Alias a value as a column of its own."""
        return self._alias(value, name, self._object(f"{_CATALYST}.expressions.NamedExpression").newExprId())

    def _alias(self, value: Any, name: str, number: Any) -> Any:
        return self._expressions.Alias(value, name, number, self.seq([]), self._empty_option, self.seq([]))

    def null(self, attribute: Any) -> Any:
        """Return NULL of a column's type, under its name and number."""
        return self.alias(self._expressions.Literal(None, attribute.dataType()), attribute)

    def safe_value(self, value: Any) -> Any:
        """Return a value that is NULL where its computation fails."""
        return self._expressions.TryEval(value)

    def null_safe_equal(self, one: Any, other: Any) -> Any:
        """Return the condition that two values are equal; NULL equals NULL."""
        return self._expressions.EqualNullSafe(one, other)

    # --- plans -------------------------------------------------------------------------------------------------------

    def project(self, items: Sequence[Any], plan: Any) -> Any:
        """Project a plan to some values."""
        return self._logical.Project(self.seq(items), plan)

    def filter(self, conditions: Sequence[Any], plan: Any) -> Any:
        """Filter a plan by all conditions."""
        if not conditions:
            return plan
        return self._logical.Filter(self._conjunction(conditions), plan)

    def join(self, left: Any, right: Any, how: How, conditions: Sequence[Any]) -> Any:
        """Join two plans by all conditions, or keep left rows that have a match."""
        on = self._empty_option
        if conditions:
            on = self._jvm.scala.Some(self._conjunction(conditions))
        hint = self._object(f"{_CATALYST}.plans.logical.JoinHint").NONE()
        return self._logical.Join(left, right, self._object(f"{_CATALYST}.plans.{how}"), on, hint)

    def union(self, plans: Sequence[Any]) -> Any:
        """Unite plans by column position; the result has the column numbers of the first."""
        if len(plans) == 1:
            return plans[0]
        return self._logical.Union(self.seq(plans), False, False)

    def generate(self, plan: Any, child: Any) -> Any:
        """Apply the plan's generator to another child; it gives no rows for a value whose computation fails."""
        generator = plan.generator()
        tried = generator.withNewChildren(self.seq(map(self.safe_value, elements(generator.children()))))
        rest = plan.unrequiredChildIndex(), plan.outer(), plan.qualifier(), plan.generatorOutput()
        return self._logical.Generate(tried, *rest, child)

    # --- the JVM -----------------------------------------------------------------------------------------------------

    def _conjunction(self, conditions: Sequence[Any]) -> Any:
        return reduce(self._expressions.And, conditions)

    def seq(self, values: Iterable[Any]) -> Any:
        """Convert values to a Scala sequence."""
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(values))

    @cached_property
    def _empty_option(self) -> Any:
        return self._jvm.scala.Option.empty()

    def _object(self, name: str) -> Any:
        """Return a Scala object by its name."""
        return getattr(getattr(self._jvm, f"{name}$"), "MODULE$")


def elements(seq: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence."""
    return map(seq.apply, range(seq.size()))


def name_of(node: Any) -> str:
    """Return the class name of a plan node or an expression."""
    return str(node.getClass().getSimpleName())


def number_of(attribute: Any) -> int:
    """Return the number of a column in its plan."""
    return int(attribute.exprId().id())
