"""Tables fit a narrow terminal without a broken word, and nothing that has a value is left out."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.cli.options import show_table

pytestmark = pytest.mark.unit

WORDS = st.lists(st.text("abc_", min_size=1, max_size=30), max_size=3).map(" ".join)


def printed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str],
    rows: list[list[object]],
    width: int = 80,
) -> list[str]:
    """What a table of which the first column is text and the others are numbers shows on a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    show_table(columns, rows, columns[1:])
    return re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()


def test_columns_of_zeros_are_named_below_a_table_that_is_too_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["table", "rows", "quarantined", "rejected"]
    assert len(printed(capsys, monkeypatch, columns, [["orders", 3, 0, 0]])) == 2
    lines = printed(capsys, monkeypatch, columns, [["orders", 3, 1, 0]], width=27)
    assert lines[0].split() == ["table", "rows", "quarantined"]
    assert lines[-1].endswith(": rejected")


def test_a_table_that_cannot_fit_is_one_row_below_the_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[list[object]] = [["a" * 30, 1], ["b" * 30, 0]]
    lines = printed(capsys, monkeypatch, ["table", "rows"], rows, width=20)
    assert lines == [f"table  {'a' * 30}", "rows   1", "", f"table  {'b' * 30}", "rows   0"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(WORDS, st.integers(0, 3), WORDS, WORDS), max_size=4),
    st.integers(20, 120),
)
def test_no_word_is_broken_or_lost_at_any_width(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, int, str, str]],
    width: int,
) -> None:
    columns = ["name", "count", "first text", "second text"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    show_table(columns, rows, ["count"])
    words = capsys.readouterr().out.split()
    for name, count, first, second in rows:
        for word in f"{name} {first} {second}".split():
            assert word in words
        assert count == 0 or str(count) in words
