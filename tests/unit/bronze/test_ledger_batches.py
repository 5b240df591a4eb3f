"""What a run prints of ledger batches that it takes in one after another. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.bronze.ledger_batches import Amount, Pace

pytestmark = pytest.mark.unit


def entries(*sizes: int, action: str = "read") -> list[dict[str, Any]]:
    return [{"path": f"/landing/{n}.json", "size": size, "action": action} for n, size in enumerate(sizes)]


def test_the_amount_is_of_files_that_are_read() -> None:
    assert Amount.from_entries([*entries(10, 20), *entries(5, action="drop")]) == Amount(2, 30)


def test_each_of_several_batches_is_a_line_with_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    batches = [entries(10, 20), entries(40)]
    pace = Pace("beats", batches)
    pace.report_batch(3, Amount.from_entries(batches[0]), lambda: 1_200)
    pace.report_batch(4, Amount.from_entries(batches[1]), lambda: 7)
    first, last = (line for line in capsys.readouterr().out.splitlines() if "chunk" in line)
    assert "beats" in first
    assert "chunk 3: 2 files, 30 B, 1,200 rows" in first
    assert "1 file, 40 B left" in first
    assert "chunk 4: 1 file, 40 B, 7 rows" in last
    assert "none left" in last


def test_one_batch_prints_nothing_and_counts_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    batch = entries(10)

    def rows() -> int:
        raise AssertionError("nobody needs them")

    Pace("beats", [batch]).report_batch(0, Amount.from_entries(batch), rows)
    assert capsys.readouterr().out == ""
