"""Report of a case's result: a line, and the rows of each table that differs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sluicegate.escapes import escape_lines, escape_text
from sluicegate.tools.testing.case_run import FAILED, OK, CaseResult
from sluicegate.tools.testing.row_diff import TableDifference

# Marks of rows and, between expected and found value, of cells: they read the same without colours.
MISSING, UNEXPECTED, CHANGED, OTHER = "- missing", "+ unexpected", "~ differs", " ≠ "

_STYLES = {MISSING: "red", UNEXPECTED: "yellow", CHANGED: ""}

# What is said of one row and of several, by their kind in ``TableDifference.counts``.
_PREDICATES = {
    "changed": ("differs", "differ"),
    "missing": ("is missing", "are missing"),
    "unexpected": ("is unexpected", "are unexpected"),
}


def console(width: int | None = None) -> Console:
    """Open a console for results; ``width`` defaults to the terminal's."""
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(result: CaseResult, to: Console, *, keep: bool = False) -> None:
    """Print the result of a case.

    Args:
        result: the result of a case.
        to: the console.
        keep: True if the case's folder stays, so that its path is shown.
    """
    file = PurePath(result.file).name
    if result.state == OK:
        word, style = ("ok", "green")
    else:
        word, style = (result.state.upper(), "bold red")
    line = Text.assemble((f"{word:<8}", style), f"{file}: {escape_text(result.name)}   {result.seconds:.1f} s")
    to.print(line, soft_wrap=True)
    if result.state == FAILED and result.description:
        to.print(Padding(Text(escape_text(result.description, keep="\n"), "italic"), (0, 0, 0, 4), expand=False))
    for mistake in result.mistakes:
        to.print(f"    {escape_lines(str(mistake))}".replace("\n", "\n    "), soft_wrap=True)
    for error in result.errors:
        to.print(f"    {result.file}:{result.line}", soft_wrap=True)
        for part in error.split("\n"):
            to.print(f"    {escape_text(part)}", soft_wrap=True)
    for difference in result.differences:
        _show_difference(result, difference, to)
    if keep:
        to.print(f"    kept in {result.folder}", soft_wrap=True)


def _show_difference(result: CaseResult, diff: TableDifference, to: Console) -> None:
    parts = []
    for kind, (of_one, of_several) in _PREDICATES.items():
        count = diff.counts.get(kind, 0)
        if count == 1:
            parts.append(f"1 row {of_one}")
        elif count:
            parts.append(f"{count:,} rows {of_several}")
    counts_text = "; ".join(filter(None, [*parts, diff.note]))
    step = f" after step {diff.step}" if diff.step > 1 else ""
    to.print(Text.assemble("    ", (diff.table, "bold"), f"{step}: {escape_text(counts_text)}"), soft_wrap=True)
    to.print(f"    {result.file}:{diff.line}", style="dim", soft_wrap=True)
    if diff.missing or diff.unexpected or diff.changed:
        to.print(Padding(_rows(diff), (0, 0, 0, 6), expand=False))
    unshown = sum(diff.counts.values()) - len(diff.missing) - len(diff.unexpected) - len(diff.changed)
    if unshown:
        to.print(f"      and {unshown:,} more")


def _rows(diff: TableDifference) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for column in diff.columns:
        table.add_column(escape_text(column), overflow="fold")
    for expected, actual in diff.changed:
        table.add_row(CHANGED, *_highlight_differences(expected, actual))
    for sign, rows in ((MISSING, diff.missing), (UNEXPECTED, diff.unexpected)):
        for row in rows:
            table.add_row(sign, *[Text(escape_text(value)) for value in row], style=_STYLES[sign])
    if diff.changed:
        table.caption = f"expected{OTHER}found"
        table.caption_justify = "left"
    return table


def _highlight_differences(expected: Iterable[str], actual: Iterable[str]) -> list[Text]:
    cells = []
    for expected_value, value in zip(expected, actual, strict=True):
        if expected_value == value:
            cells.append(Text(escape_text(value)))
        else:
            both = (escape_text(expected_value), "bold red"), OTHER, (escape_text(value), "bold yellow")
            cells.append(Text.assemble(*both))
    return cells
