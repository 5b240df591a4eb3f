"""What keeping TPC-H's and TPC-DI's tables costs: a page of totals as Markdown, and a table of all figures as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.tpc.measure import Cost, Figures, median
from bench.tpc.page_head import HEAD, METHOD
from bench.tpc.results import Results
from sluicegate.console import human_bytes

PAGE, TABLE = "tpc.md", "bench/tpc.csv"
TITLES = {"tpch": "TPC-H", "tpcdi": "TPC-DI"}
STRATEGIES = {
    "partial": "incremental",
    "groups": "affected groups",
    "keys": "affected keys",
    "whole": "recomputed",
    "": "record by record",
}
COLUMNS = (
    "benchmark",
    "scale",
    "table",
    "rows",
    "refreshed",
    "seconds",
    "CPU seconds",
    "bytes written",
    "recomputed: seconds",
    "recomputed: CPU seconds",
    "recomputed: bytes written",
    "ratio of CPU seconds",
    "because",
)
TOTALS = ("tables", "refreshed by", "CPU seconds", "recomputed", "written", "recomputed")


def write(results: Results, folder: Path) -> None:
    """Writes the page and the table of all figures into the folder of documents."""
    (folder / PAGE).write_text(page(results))
    (folder / TABLE).write_text(table(results))


def page(results: Results) -> str:
    """Return the page of totals."""
    machine = "; ".join(f"{name}: {value}" for name, value in results.machine.items()) + ".\n"
    lines = [_totals(title, figures) for title, figures in _runs(results)]
    totals = _table(("", *TOTALS), lines)
    return "\n".join(
        [HEAD.format(table=TABLE).rstrip() + "\n", "## Figures\n", machine, totals, _recomputed_tables(results), METHOD]
    )


def table(results: Results) -> str:
    """Return all figures as CSV, one line for each table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, figures in sorted(results.figures.items(), key=_place):
        for one in _order_figures(figures.values()):
            writer.writerow((TITLES[name.split()[0]], f"{results.scales[name]:g}", *_row(one)))
    return text.getvalue()


def _runs(results: Results) -> Iterator[tuple[str, Sequence[Figures]]]:
    for name, figures in sorted(results.figures.items(), key=_place):
        yield f"{TITLES[name.split()[0]]}, scale {results.scales[name]:g}", _order_figures(figures.values())


def _place(one: tuple[str, Any]) -> tuple[int, str]:
    return [*TITLES].index(one[0].split()[0]), one[0]


def _order_figures(figures: Iterable[Figures]) -> Sequence[Figures]:
    return sorted(figures, key=lambda one: (one.layer != "silver", one.table))


def _totals(title: str, figures: Sequence[Figures]) -> tuple[str, ...]:
    """Return a line of totals: those tables that are not recomputed, as far as something changed."""
    strategies = Counter(map(_strategy, figures))
    followed = [one for one in figures if not one.is_whole and one.by_changes and one.whole]
    changed = _sum(_middle(one.by_changes) for one in followed)
    recomputed = _sum(_middle(one.whole) for one in followed)
    return (
        title,
        str(len(figures)),
        ", ".join(f"{strategy}: {count}" for strategy, count in strategies.most_common()),
        f"{changed.cpu:.0f}",
        f"{recomputed.cpu:.0f}",
        human_bytes(changed.written),
        human_bytes(recomputed.written),
    )


def _recomputed_tables(results: Results) -> str:
    """Return which tables have no incremental technique, and why."""
    sentences = ["The totals leave out the tables that are recomputed in each run, and those of which nothing changed."]
    for title, figures in _runs(results):
        sentences += [f"{title}: `{one.table}` is recomputed ({one.because})." for one in figures if one.is_whole]
    return "\n".join(sentences) + "\n"


def _strategy(one: Figures) -> str:
    return STRATEGIES["whole" if one.is_whole else one.strategy]


def _row(one: Figures) -> tuple[str, ...]:
    changed, whole = median(one.by_changes), median(one.whole)
    ratio = f"{changed.cpu / whole.cpu:.2f}" if changed and whole and whole.cpu else ""
    return (one.table, str(one.rows), _strategy(one), *_cells(changed), *_cells(whole), ratio, one.because)


def _cells(cost: Cost | None) -> tuple[str, str, str]:
    if cost is None:
        return "", "", ""
    return f"{cost.seconds:.2f}", f"{cost.cpu:.2f}", str(cost.written)


def _middle(costs: Sequence[Cost]) -> Cost:
    return median(costs) or Cost(0.0, 0.0, 0)


def _sum(costs: Iterable[Cost]) -> Cost:
    every = list(costs)
    return Cost(sum(c.seconds for c in every), sum(c.cpu for c in every), sum(c.written for c in every))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("|  |", "| |")
