"""What a run reports: lines that add up, and the end of a job."""

from __future__ import annotations

import json

import pytest

from sluicegate.errors import UserError
from sluicegate.flow.report import ERROR, REPORT, ReportLines, RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import continuous

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("rows", "no_rows", "line"),
    [
        (None, 0, "3 read =         2 written + 1 quarantined + 0 dropped + 0 duplicates"),
        (4, 0, "3 read, 4 rows = 2 written + 1 quarantined + 0 dropped + 0 duplicates"),
        (4, 1, "3 read (1 gave no row), 4 rows = 2 written + 1 quarantined + 0 dropped + 0 duplicates"),
    ],
)
def test_records_and_rows_each_add_up(rows: int | None, no_rows: int, line: str) -> None:
    report = TableReport("t", "silver", "written", read=3, written=2, quarantined=1, rows=rows, no_rows=no_rows)
    assert line in report.line()
    done = RunReport("p", "silver", [report])
    assert RunReport.from_dict(done.as_dict()) == done
    sign = "=" if rows is None else ""
    assert " ".join(f"silver 3 read {sign}".split()) in continuous._summary(done)
    assert "2 written + 1 quarantined" in continuous._summary(done)


def test_a_report_after_an_error_is_the_end_of_the_job() -> None:
    lines = ReportLines()
    for error in (UserError("the first table"), UserError("the second table")):
        assert lines.take(f"{ERROR} {json.dumps(error.as_dict())}")
    assert isinstance(lines.error, UserError)
    assert lines.error.message == "the second table"
    report = RunReport("p", "silver", [])
    assert lines.take(f"{REPORT} {json.dumps(report.as_dict())}")
    assert (lines.error, lines.reports(), lines.unread) == (None, [report.as_dict()], 0)
    assert not lines.take("any other line")


def test_files_with_the_same_reason_are_one_line() -> None:
    failed = {f"/in/{number}.json": "truncated" for number in range(74)} | {"/in/x.json": "not UTF-8"}
    lines = TableReport("t", "bronze", failed=failed).remarks()
    assert [line.strip() for line in lines[1:]] == ["/in/0.json and 73 more: truncated", "/in/x.json: not UTF-8"]
