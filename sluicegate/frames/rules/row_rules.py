"""Evaluate expectations of rows: which of them each row breaks, and whether the batch is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import Expectation
from sluicegate.definition.tables.expectations import ExpectationAction
from sluicegate.frames.rules.rejected import BROKEN, Refusal
from sluicegate.spark import connect
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.identifiers import literal, quote_name

# In ANSI mode one word in a column that is compared with a number would stop the table for good; so an expression
# gives NULL for a value that does not fit, and NULL breaks a rule.
LENIENT = {"spark.sql.ansi.enabled": "false"}


def broken_rules(conditions: Mapping[str, str]) -> Column:
    """Return the names of the conditions that a row breaks, in order; NULL counts as broken."""
    if not conditions:
        return F.expr("cast(array() as array<string>)")
    each = [F.when(~F.coalesce(F.expr(text), F.lit(False)), F.lit(name)) for name, text in conditions.items()]
    return F.array_compact(F.array(*each))


def failure_count_sql(name: str) -> str:
    """Return the SQL aggregate that counts the rows that broke an expectation."""
    return f"count_if(array_contains({BROKEN}, {literal(name)}))"


@dataclass(frozen=True)
class Tally:
    """Number of evaluated rows, and of those that broke each expectation."""

    rows: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)

    def facts(self) -> dict[str, dict[str, int]]:
        """Return the passed and failed rows of each expectation, as commits and reports have them."""
        return {name: {"passed": self.rows - count, "failed": count} for name, count in self.failed.items()}


@dataclass(frozen=True)
class RowRules:
    """Expectations of a table, by name."""

    expectations: Mapping[str, Expectation]

    def evaluate(self, frame: DataFrame) -> DataFrame:
        """Add ``BROKEN`` to rows; a column of a rule that the rows lack is NULL."""
        present, columns = frame.columns, [*map(quote_name, frame.columns)]
        spelled = {name.lower(): name for name in present}
        named = dict.fromkeys(c for rule in self.expectations.values() for c in rule.columns if c not in present)
        # Bronze is read with names that are told apart by their case, and a rule may spell one in another.
        added = {c: F.col(quote_name(spelled[c.lower()])) if c.lower() in spelled else F.lit(None) for c in named}
        with override_settings(frame.sparkSession, LENIENT):
            conditions = {name: rule.condition for name, rule in self.expectations.items()}
            completed = frame
            if added:
                completed = frame.withColumns(added)
            return connect.freeze(completed.select(*columns, broken_rules(conditions).alias(BROKEN)))

    def tally(self, evaluated: DataFrame) -> Tally:
        """Count evaluated rows in one pass."""
        counts = evaluated.selectExpr("count(1)", *map(failure_count_sql, self.expectations)).collect()[0]
        return Tally(counts[0], dict(zip(self.expectations, counts[1:], strict=True)))

    def refusal(self, tally: Tally, evaluated: Callable[[], DataFrame]) -> Refusal | None:
        """Return the refusal of rows beyond a threshold; None if the table may have them.

        Args:
            tally: counts of the rows.
            evaluated: the rows, with ``BROKEN``.
        """
        words = {
            name: text for name, failed in tally.failed.items() if (text := self._refusal_reason(name, failed, tally))
        }
        if not words:
            return None
        causes = [Condition.parse(self.expectations[name].text).text for name in words]
        broke = F.arrays_overlap(F.col(BROKEN), F.array(*map(F.lit, words)))
        return Refusal(words, causes, evaluated().where(broke))

    def _refusal_reason(self, name: str, failed: int, tally: Tally) -> str:
        rule = self.expectations[name]
        if failed and rule.action == ExpectationAction.FAIL:
            return f"{name} ({failed:,} rows)"
        if rule.fail_above is not None and rule.fail_above.is_exceeded(failed, tally.rows):
            return f"{name} ({failed:,} of {tally.rows:,} rows, above {rule.fail_above.text})"
        return ""

    def warnings(self, tally: Tally) -> list[str]:
        """Return warnings on the expectations that more rows broke than the definition allows."""
        return [
            f"{name}: {failed:,} of {tally.rows:,} rows failed, above {rule.warn_above.text}"
            for name, failed in tally.failed.items()
            if (rule := self.expectations[name]).warn_above is not None
            and rule.warn_above.is_exceeded(failed, tally.rows)
        ]
