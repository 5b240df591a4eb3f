"""What a run's report and its commit say of a batch of records, by the counts of each disposition. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.flow.table_report import TableReport
from sluicegate.silver.reconcile import Reconciliation
from tests.support.evaluators import evaluator

pytestmark = pytest.mark.unit

# Rows by disposition, each with a count of its own; of 34 records 3 gave no row, and 32 winners replaced a stored one.
SUMS = {"good": 1, "quarantine": 2, "drop": 4, "duplicate": 8, "deleted": 16, "replaced": 32, "records": 31, "rows": 31}


def reconciliation(**fields: Any) -> Reconciliation:
    """Counts of a batch."""
    of_table = evaluator(**fields)
    sums = dict(SUMS)
    if of_table.many:
        sums["rows"] = 50
    return Reconciliation(of_table, 34, sums, dict.fromkeys(of_table.rules.conditions, 5), None)


def test_each_record_is_in_one_count_of_the_report() -> None:
    """A delete and a duplicate leave no row of their own; a record without a row was dropped by the query."""
    report, counts = TableReport("t", "silver"), reconciliation()
    counts.fill(report)
    assert (report.read, report.written, report.quarantined, report.dropped, report.duplicates) == (34, 1, 2, 7, 24)
    assert counts.filtered_records == 3
    assert counts.set_aside_count == 4 + 8 + 16 + 32 + 3, "with rows that others replaced"


def test_rows_and_records_without_rows_are_counted_where_a_record_gives_many() -> None:
    report, counts = TableReport("t", "silver"), reconciliation(rows="many")
    counts.fill(report)
    assert (report.rows, report.no_rows, report.dropped, report.duplicates) == (50, 3, 4, 24)


@pytest.mark.parametrize(("rows", "passed"), [("one", 26), ("many", 45)])
def test_a_commit_has_the_counts_of_the_report(rows: str, passed: int) -> None:
    fields = {"rows": rows, "expectations": {"low": {"expect": "v < 9"}}}
    report, counts = TableReport("t", "silver"), reconciliation(**fields)
    counts.fill(report)
    committed = counts.facts()
    of_report = {
        "read": report.read, "written": report.written, "quarantined": report.quarantined, "dropped": report.dropped,
        "duplicates": report.duplicates,
    }  # fmt: skip
    assert {name: committed[name] for name in of_report} == of_report
    assert committed["expectations"] == report.expectations == {"low": {"passed": passed, "failed": 5}}
