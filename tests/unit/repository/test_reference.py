"""How pages of the reference are put together: no empty columns, and a description for each option of a reader."""

from __future__ import annotations

import pytest

from scripts.reference_reader_options import reader_options_page
from scripts.reference_text import table
from sluicegate.definition.tables import reader_options

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["x", "", "1"], ["y", "", ""]], "| a | c |\n| --- | --- |\n| x | 1 |\n| y | |"),
        ([["x", "2", "1"]], "| a | b | c |\n| --- | --- | --- |\n| x | 2 | 1 |"),
    ],
    ids=["one is empty", "all are filled"],
)
def test_a_column_that_no_row_fills_is_left_out(rows: list[list[str]], expected: str) -> None:
    assert table(["a", "b", "c"], rows) == expected


def row_of(name: str) -> list[str]:
    """The cells of the page's row about an option or a field."""
    [row] = [line for part in reader_options_page() for line in part.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_an_option_of_a_reader_needs_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reader_options.ALLOWED, "orc", {"newOption"})
    with pytest.raises(LookupError, match="newOption"):
        list(reader_options_page())


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("header", "csv"),
        ("timeZone", "json, csv, xml, kafka"),
        ("dialect", "csv"),
        ("rescuedDataColumn", "json"),
        ("maxRecordBytes", "all files, kafka"),
        ("schemaEvolutionMode", "all"),
        ("cleanSourceMoveDestination", "all files"),
    ],
)
def test_formats_of_an_option_are_those_that_a_definition_takes(name: str, formats: str) -> None:
    assert row_of(name)[1] == formats


def test_each_refused_option_is_on_the_page() -> None:
    page = "\n".join(reader_options_page())
    for name in reader_options.REFUSED:
        assert f"`{name}`" in page
