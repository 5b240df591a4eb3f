"""Evaluate expectations on rows, and the disposition of rows that break one.

The names and meanings are those of Delta Live Tables, NULL counting as broken, with ``expect_or_quarantine`` added:
https://docs.databricks.com/aws/en/dlt/expectations
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluicegate.definition import SilverTable
from sluicegate.definition.tables.expectations import ExpectationAction
from sluicegate.frames.rules.rejected import BROKEN
from sluicegate.frames.rules.row_rules import broken_rules, failure_count_sql
from sluicegate.schema.columns import DELETES, working_column
from sluicegate.silver.side_tables.rescued import UNFIT
from sluicegate.spark_sql.identifiers import quote_name

# Column that evaluation adds beside ``BROKEN``.
DISPOSITION = working_column("disposition")


class Disposition(StrEnum):
    """Where a record ends.

    Attributes:
        WRITTEN: in the table.
        QUARANTINED: in the quarantine: it broke a rule.
        DROPPED: set aside: it broke a rule with ``expect_or_drop``.
        DUPLICATE: set aside: another record with its keys is kept.
        DELETED: set aside: it deletes the row with its keys.
    """

    WRITTEN = "good"
    QUARANTINED = "quarantine"
    DROPPED = "drop"
    DUPLICATE = "duplicate"
    DELETED = "deleted"


# Dispositions of records that are neither in the table nor in the quarantine.
SET_ASIDE = (Disposition.DUPLICATE, Disposition.DROPPED, Disposition.DELETED)

# What a row breaks that is right itself, if `quarantine: record` sends it to quarantine with another of its record.
WHOLE = "record is whole"


class Rules:
    """All expectations of a silver table: of its definition, and those of every table.

    A NULL key and a value that does not cast are quarantined by rule: the former could never be matched again, the
    latter would silently be NULL. So would a rescued value, and all columns of a record that could not be parsed; to
    ``apply_as_deletes`` it could look like a delete.

    Args:
        table: the silver table's definition.
        casts: source text of each cast, by the hidden boolean column that is true if it failed.
        required: columns that must not be NULL, each with its name in the definition.
        of_values: boolean columns that do not apply to deletes.
        identity: columns whose rules apply to deletes, in lower case.
        unfit: whether each rule on rescued values applies to deletes; ``UNFIT`` has those that a row breaks.
    """

    def __init__(
        self,
        table: SilverTable,
        casts: Mapping[str, str],
        required: Mapping[str, str],
        of_values: Collection[str] = (),
        identity: Collection[str] = (),
        unfit: Mapping[str, bool] | None = None,
    ) -> None:
        self.unfit = unfit or {}
        self.unique = unique_rules(table)
        self.conditions: dict[str, str] = {}
        self.actions: dict[str, ExpectationAction] = {}
        self._not_of_deletes: set[str] = set()
        self._add_casts(casts, of_values)
        self._add_required(required, identity)
        unfit_action = ExpectationAction.QUARANTINE
        if table.rescued == "fail":
            unfit_action = ExpectationAction.FAIL
        self.actions |= dict.fromkeys(self.unfit, unfit_action)
        self._add_expectations(table)
        if table.quarantine == "record":  # which is decided when all rows of a record are known
            self.conditions[WHOLE], self.actions[WHOLE] = "", ExpectationAction.QUARANTINE

    def _add_casts(self, casts: Mapping[str, str], of_values: Collection[str]) -> None:
        """Add rules that casts succeed, one for each cast text, which may occur several times in the query."""
        flags: dict[str, list[str]] = {}
        for column, text in casts.items():
            flags.setdefault(f"{text} fits", []).append(column)
        for name, columns in flags.items():
            self.conditions[name] = f"NOT ({' OR '.join(map(quote_name, columns))})"
            self.actions[name] = ExpectationAction.QUARANTINE
            if {*columns} <= {*of_values}:
                self._not_of_deletes.add(name)

    def _add_required(self, required: Mapping[str, str], identity: Collection[str]) -> None:
        """Add rules that columns are not NULL, one for each defined name: the sequence may be a key, too."""
        named: dict[str, list[str]] = {}
        for column, name in required.items():
            named.setdefault(f"{name} is not null", []).append(column)
        for name, columns in named.items():
            self.conditions[name] = " AND ".join(f"{quote_name(column)} IS NOT NULL" for column in columns)
            self.actions[name] = ExpectationAction.QUARANTINE
            if {column.lower() for column in columns}.isdisjoint(identity):
                self._not_of_deletes.add(name)

    def _add_expectations(self, table: SilverTable) -> None:
        for name, expectation in table.expectations.items():
            self.conditions[name] = expectation.condition
            self.actions[name] = expectation.action
            if table.apply_changes and not table.apply_changes.binds_deletes(expectation.columns):
                self._not_of_deletes.add(name)

    def evaluate(self, frame: DataFrame) -> DataFrame:
        """Add ``BROKEN`` and ``DISPOSITION``: written, quarantined or dropped.

        A row that breaks several rules gets the disposition that keeps most of it: quarantine before drop. ``unique``
        expectations are evaluated later (``evaluate_unique``), when the table's rows are known.
        """
        later = {*self.unique, WHOLE}
        alone = {name: condition for name, condition in self.conditions.items() if name not in later}
        if not (alone or self.unfit):
            return frame.withColumns({BROKEN: broken_rules({}), DISPOSITION: F.lit(Disposition.WRITTEN)})
        if DELETES in frame.columns:
            spared = self._not_of_deletes & alone.keys()
            alone |= {name: f"({DELETES} OR ({alone[name]}))" for name in alone if name in spared}
        names = broken_rules(alone)
        if self.unfit:
            names = F.concat(self._broken_rescue_rules(deletes=DELETES in frame.columns), names)
        evaluated = frame.withColumn(BROKEN, names)
        disposition = (
            F.when(self._breaks_rules(ExpectationAction.QUARANTINE), Disposition.QUARANTINED)
            .when(self._breaks_rules(ExpectationAction.DROP), Disposition.DROPPED)
            .otherwise(Disposition.WRITTEN)
        )
        return evaluated.withColumn(DISPOSITION, disposition)

    def _broken_rescue_rules(self, *, deletes: bool) -> Column:
        """Return the rules on rescued values that a row breaks; of a delete, only those that bind it."""
        if not deletes:
            return F.coalesce(F.col(UNFIT), broken_rules({}))
        binding = [F.lit(name) for name, binds in self.unfit.items() if binds]
        of_delete = broken_rules({})
        if binding:
            of_delete = F.array_intersect(UNFIT, F.array(*binding))
        return F.coalesce(F.when(F.col(DELETES), of_delete).otherwise(F.col(UNFIT)), broken_rules({}))

    def evaluate_unique(self, rows: DataFrame, order: Sequence[str]) -> DataFrame:
        """Mark breaches by good rows: all but the first that share what should be unique, and NULLs in it.

        Each expectation considers all rows that are good so far, including those that another one refuses, so that the
        result is a function of these rows.

        Args:
            rows: evaluated rows, of those with one key the winner alone being good.
            order: the columns of the order of arrival.
        """
        good, breaches = F.col(DISPOSITION) == Disposition.WRITTEN, []
        for name, columns in self.unique.items():
            values = [F.col(quote_name(column)) for column in columns]
            nth = F.row_number().over(Window.partitionBy(DISPOSITION, *values).orderBy(*order))
            missing = reduce(or_, [value.isNull() for value in values])
            rows = rows.withColumn(working_column(f"not_{name}"), F.when(good & (missing | (nth > 1)), F.lit(name)))
            breaches.append(working_column(f"not_{name}"))
        rows = rows.withColumn(BROKEN, F.concat(BROKEN, F.array_compact(F.array(*breaches))))
        turned_away = good & self._breaks_rules(ExpectationAction.QUARANTINE)
        return rows.withColumn(
            DISPOSITION, F.when(turned_away, Disposition.QUARANTINED).otherwise(F.col(DISPOSITION))
        ).drop(*breaches)

    def _breaks_rules(self, action: ExpectationAction):  # type: ignore[no-untyped-def]
        names = [F.lit(name) for name, own_action in self.actions.items() if own_action == action]
        if not names:
            return F.lit(False)
        return F.arrays_overlap(F.col(BROKEN), F.array(*names))

    def counts(self) -> dict[str, str]:
        """Return for each expectation the SQL aggregate that counts the rows that broke it."""
        return {name: failure_count_sql(name) for name in self.conditions}

    def tally(self, broken: Mapping[str, int], rows: int) -> dict[str, dict[str, int]]:
        """Return passed and failed rows by expectation; of those of every table, only the failed ones."""
        return {
            name: {"passed": rows - count, "failed": count}
            for name, count in broken.items()
            if count or " " not in name
        }


def unique_rules(table: SilverTable) -> dict[str, tuple[str, ...]]:
    """Return the expectations ``unique`` of a table, each with its columns."""
    return {name: rule.unique for name, rule in table.expectations.items() if rule.unique}
