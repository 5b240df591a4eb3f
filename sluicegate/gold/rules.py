"""Check the rules of a gold table on the query's result before the commit.

The rules apply to all rows that the table would have. A run that changes some rows counts what these add and remove,
starting from the counts of the last commit: unchanged rows cost nothing until a rule changes. Rows that a rule drops
are missing only in the table: the aggregate state of their groups includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluicegate.definition import GoldTable
from sluicegate.definition.tables.expectations import ExpectationAction
from sluicegate.errors import QueryError, Where
from sluicegate.flow.batch import Batch
from sluicegate.frames.record_ids import materialize
from sluicegate.frames.rules import failing_rules, rejected
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import LENIENT, RowRules, Tally
from sluicegate.frames.rules.table_rules import TableCheck, WouldBe, last_checked_facts
from sluicegate.gold import query_analysis
from sluicegate.lake import tables
from sluicegate.spark import table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import literal

# What Spark has said in this process of conditions over columns; it would say the same again.
_MOMENTS: dict[tuple[tuple[str, ...], str], str] = {}

# Of a row: whether the table will have it (1) or has it now and perhaps no more (-1), and whether no rule drops it.
_SIGN, _STAYS = "_sluicegate_sign", "_sluicegate_stays"


def dropping_rules(table: GoldTable) -> RowRules:
    """Return the expectations that drop rows."""
    return RowRules({name: rule for name, rule in table.expectations.items() if rule.action == ExpectationAction.DROP})


def remaining_rows(table: GoldTable, rows: DataFrame) -> DataFrame:
    """Return the rows of the query that no expectation drops."""
    rules = dropping_rules(table)
    if rules.expectations:
        return rules.evaluate(rows).where(f"size({BROKEN}) = 0").drop(BROKEN)
    return rows


def moment(session: SparkSession, rules: RowRules, schema: StructType) -> str:
    """Return what makes expectations depend on time or chance; empty if nothing does."""
    if not rules.expectations:
        return ""
    conditions = tuple(rule.condition for rule in rules.expectations.values())
    question = (conditions, schema.json())
    if question not in _MOMENTS:
        with override_settings(session, LENIENT):
            _MOMENTS[question] = query_analysis.moment_of(session, conditions, schema)
    return _MOMENTS[question]


@dataclass
class GoldRules:
    """Rules of one gold table, for one batch.

    Attributes:
        batch: the batch.
        name: the gold table.
        table: definition of the table.
        facts: facts on the rules for the batch's commit; filled by ``demand``.
    """

    batch: Batch
    name: str
    table: GoldTable
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._all = RowRules(self.table.expectations)
        self._dropping = dropping_rules(self.table)
        staying_rules = {
            name: rule for name, rule in self.table.expectations.items() if rule.action != ExpectationAction.DROP
        }
        self._staying = RowRules(staying_rules)

    def evaluate(self, rows: DataFrame, *, few: bool) -> DataFrame:
        """Return the query's rows with the rules that each breaks, computed once; unchanged without rules.

        Raises:
            QueryError: a rule names a column that the query does not return, or a value makes it fail.
        """
        if not self.table.has_rules:
            return rows
        self._demand_columns(rows.columns)
        with failing_rules.name_failing_rule(lambda: rows, self.table.expectations, self.batch.flow):
            return materialize(self._all.evaluate(rows), few=few)

    def _demand_columns(self, columns: Sequence[str]) -> None:
        """Check the columns of a query with a star, or of a function, which the definition does not show."""
        lower = {column.lower() for column in columns}
        for rule, expectation in self.table.expectations.items():
            for column in expectation.columns:
                if column.lower() not in lower:
                    raise QueryError(
                        f"the rule {rule} of {self.name} uses an unknown column, {column}",
                        where=Where(table=self.name),
                        hint=f"columns: {', '.join(columns)}",
                    )

    def remaining_rows(self, evaluated: DataFrame) -> DataFrame:
        """Return the evaluated rows that the table will have."""
        if not self.table.has_rules:
            return evaluated
        return evaluated.where(self._stay_condition).drop(BROKEN)

    @property
    def _stay_condition(self) -> str:
        names = ", ".join(map(literal, self._dropping.expectations))
        if names:
            return f"NOT arrays_overlap({BROKEN}, array({names}))"
        return "true"

    def demand(
        self,
        evaluated: DataFrame,
        former: DataFrame | None,
        would_be: Callable[[], DataFrame],
        comes: DataFrame | None = None,
    ) -> None:
        """Count rows by the rules, and refuse the batch if the table must not have them.

        Args:
            evaluated: the query's result, for all or some groups, with the rules that each row breaks.
            former: the table's rows of these groups, which are replaced; None if all rows are.
            would_be: all rows that the table would have.
            comes: new or changed rows; None if all rows count as new.

        Raises:
            ExpectationFailed: a rule refuses the rows; ``{table}_rejected`` has the violating ones.
        """
        if not self.table.has_rules:
            rejected.clear(self.batch)
            return
        tally, dropped = self._count_rows(evaluated, former, Tally() if former is None else self._former_tally)
        warnings = self._staying.warnings(tally)
        counts = tally.facts() | dropped.facts()
        self.facts = {"expectations": {name: counts[name] for name in self._all.expectations}}
        if warnings:
            self.facts |= {"warnings": warnings}
        refusals, table_facts = TableCheck(self.batch, self.table.expect_table).refusals(
            WouldBe(would_be, lambda: tally.rows, comes)
        )
        self.facts |= table_facts
        if refusal := self._staying.refusal(tally, lambda: self._staying.evaluate(would_be())):
            refusals.insert(0, refusal)
        report = self.batch.report
        report.expectations, report.warnings = self.facts["expectations"], warnings
        report.table_rules = table_facts.get("table_rules", {})
        if refusals:
            rejected.refuse(self.batch, refusals, self.facts)
        rejected.clear(self.batch)

    def _count_rows(self, evaluated: DataFrame, former_rows: DataFrame | None, before: Tally) -> tuple[Tally, Tally]:
        """Count the rows that the table would have, and the query's rows by the rules that drop."""
        rows = evaluated.select(BROKEN, F.lit(1).alias(_SIGN), F.expr(self._stay_condition).alias(_STAYS))
        if former_rows is not None:
            former = self._staying.evaluate(former_rows).select(
                BROKEN, F.lit(-1).alias(_SIGN), F.lit(True).alias(_STAYS)
            )
            rows = rows.unionByName(former)
        by_rule = [_sum_sql(f"{_STAYS} AND {_breach_condition(name)}") for name in self._staying.expectations]
        by_drop = [_sum_sql(f"{_SIGN} = 1 AND {_breach_condition(name)}") for name in self._dropping.expectations]
        sums = rows.selectExpr(_sum_sql(_STAYS), _sum_sql(f"{_SIGN} = 1"), *by_rule, *by_drop).collect()[0]
        failed = dict(zip(self._staying.expectations, sums[2:], strict=False))
        dropped = dict(zip(self._dropping.expectations, sums[2 + len(by_rule) :], strict=True))
        tally = Tally(before.rows + sums[0], {name: before.failed.get(name, 0) + n for name, n in failed.items()})
        return tally, Tally(sums[1], dropped)

    @cached_property
    def _former_tally(self) -> Tally:
        """Counts of the current table: by its last commit, or counted again if the rules changed."""
        uri, session = self.batch.flow.target, self.batch.session
        target, recorded = tables.table_at(uri), last_checked_facts(uri, self.batch.flow.rules)
        rows = table_reader.read(session, uri, opened=target)
        if recorded is not None and not moment(session, self._staying, rows.schema):
            failed = {name: int(recorded.expectations[name]["failed"]) for name in self._staying.expectations}
            return Tally(tables.rows(target), failed)
        return self._staying.tally(self._staying.evaluate(rows))


def _breach_condition(name: str) -> str:
    return f"array_contains({BROKEN}, {literal(name)})"


def _sum_sql(condition: str) -> str:
    return f"coalesce(sum(CASE WHEN {condition} THEN {_SIGN} END), 0L)"
