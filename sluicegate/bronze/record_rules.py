"""Check records against the rules of a bronze table before their commit; none is dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from sluicegate.definition import BronzeTable
from sluicegate.flow.batch import Batch
from sluicegate.frames.record_ids import materialize
from sluicegate.frames.rules import failing_rules, rejected
from sluicegate.frames.rules.row_rules import RowRules
from sluicegate.frames.rules.table_rules import TableCheck, WouldBe
from sluicegate.lake import tables
from sluicegate.spark import connect, table_reader


@dataclass
class Checked:
    """Records that pass the rules for single records.

    Attributes:
        records: the records.
        facts: facts on the rules for the commit.
        batch: the batch, whose report gets the counts once the records are committed for good (``count``).
        table: the definition of the table.
    """

    records: DataFrame
    facts: dict[str, Any]
    batch: Batch
    table: BronzeTable

    def demand_table(self, whole: Callable[[], DataFrame] | None) -> None:
        """Check the table as it would be against the rules for the whole table, as the last step before its commit.

        Args:
            whole: all rows of the table after the write; None if records are only appended.

        Raises:
            TableRuleFailed: the table would break a rule; ``{table}_rejected`` has the violating rows.
        """
        if self.table.expect_table:
            refusals, said = TableCheck(self.batch, self.table.expect_table).refusals(self._would_be(whole))
            self.facts |= said
            if refusals:
                rejected.refuse(self.batch, refusals, self.facts)
        rejected.clear(self.batch)

    def count(self) -> None:
        """Add the counts of these records to the batch's report.

        Called once the records certainly stay: a batch whose file changes while it is read is committed again.
        """
        report = self.batch.report
        for rule, counts in self.facts.get("expectations", {}).items():
            sums = report.expectations.setdefault(rule, {"passed": 0, "failed": 0})
            sums |= {kind: sums[kind] + count for kind, count in counts.items()}
        report.warnings += self.facts.get("warnings", [])
        report.table_rules = self.facts.get("table_rules", report.table_rules)

    def _would_be(self, whole: Callable[[], DataFrame] | None) -> WouldBe:
        if whole is not None:
            return WouldBe(whole, lambda: whole().count(), None)
        uri = self.batch.flow.target
        there = tables.delta_table(uri)
        if there is None:
            return WouldBe(lambda: self.records, self.records.count, None)
        held = table_reader.read(self.batch.session, uri, opened=there)
        return WouldBe(
            lambda: held.unionByName(self.records, allowMissingColumns=True),
            lambda: tables.rows(there) + self.records.count(),
            self.records,
        )


@contextmanager
def checked_records(batch: Batch, table: BronzeTable, records: DataFrame, *, few: bool) -> Iterator[Checked]:
    """Provide records that were checked against the table's expectations, computed only once.

    Args:
        batch: the batch.
        table: its definition.
        records: records to commit.
        few: whether the records are few.

    Raises:
        ExpectationFailed: a rule refuses the records; ``{table}_rejected`` has the violating ones.
    """
    if not table.has_rules:
        yield Checked(records, {}, batch, table)
        return
    rules = RowRules(table.expectations)
    if few or connect.is_remote(batch.session):
        materialized = materialize(records, few=few)
        yield Checked(materialized, _demand_rules(batch, rules, materialized), batch, table)
        return
    persisted = records.persist()
    try:
        yield Checked(persisted, _demand_rules(batch, rules, persisted), batch, table)
    finally:
        persisted.unpersist()


def _demand_rules(batch: Batch, rules: RowRules, records: DataFrame) -> dict[str, Any]:
    """Return the commit facts of the expectations; raise if one of them refuses the records."""
    if not rules.expectations:
        return {}
    evaluated = rules.evaluate(records)
    with failing_rules.name_failing_rule(lambda: records, rules.expectations, batch.flow):
        tally = rules.tally(evaluated)
    facts, warnings = tally.facts(), rules.warnings(tally)
    facts_of_commit: dict[str, Any] = {"expectations": facts}
    if warnings:
        facts_of_commit["warnings"] = warnings
    if refusal := rules.refusal(tally, lambda: evaluated):
        rejected.refuse(batch, [refusal], facts_of_commit)
    return facts_of_commit
