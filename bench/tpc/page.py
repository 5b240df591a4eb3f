"""The page of what keeping TPC-H's and TPC-DI's tables costs, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.tpc.measure import Cost, Figures, median
from bench.tpc.page_head import HEAD
from bench.tpc.results import Results
from sluicegate.console import human_bytes

PAGE = "tpc.md"
TITLES = {"tpch": "TPC-H", "tpcdi": "TPC-DI"}
STRATEGIES = {"partial": "incremental", "groups": "affected groups", "keys": "affected keys", "whole": "**recomputed**",
              "": "record by record"}  # fmt: skip
COLUMNS = (
    "table",
    "rows",
    "refreshed",
    "seconds",
    "CPU",
    "written",
    "recomputed: seconds",
    "CPU",
    "written",
    "ratio of CPU",
)


def write(results: Results, folder: Path) -> None:
    """Writes the page into the folder of documents."""
    (folder / PAGE).write_text(page(results))


def page(results: Results) -> str:
    """The whole page."""
    parts = [HEAD, "; ".join(f"{name}: {value}" for name, value in results.machine.items()) + ".\n"]
    for name, by_table in sorted(results.figures.items(), key=_place):
        figures = sorted(by_table.values(), key=lambda one: (one.layer != "silver", one.table))
        parts.append(f"## {TITLES[name.split()[0]]}, scale {results.scales[name]:g}\n")
        parts += [_summary(figures), _table(map(_row, figures)), "Why:\n"]
        parts.append("\n".join(f"- {reason}" for reason in _reasons(figures)) + "\n")
    return "\n".join(parts)


def _place(one: tuple[str, Any]) -> tuple[int, str]:
    return [*TITLES].index(one[0].split()[0]), one[0]


def _summary(figures: Sequence[Figures]) -> str:
    whole = [f"`{one.table}`" for one in figures if one.is_whole]
    followed = [one for one in figures if not one.is_whole and one.by_changes and one.whole]
    changed, recomputed = (_sum(map(_middle, of)) for of in
                      ([one.by_changes for one in followed], [one.whole for one in followed]))  # fmt: skip
    said = f"Of {len(figures)} tables {len(whole)} are recomputed"
    said += f": {', '.join(whole)}" if whole else ""
    return (
        f"{said}. The others, as far as something changed, took {changed.cpu:.0f} CPU seconds and wrote "
        f"{human_bytes(changed.written)} incrementally; recomputed, {recomputed.cpu:.0f} and "
        f"{human_bytes(recomputed.written)}.\n"
    )


def _row(one: Figures) -> tuple[str, ...]:
    changed, whole = median(one.by_changes), median(one.whole)
    ratio = f"{changed.cpu / whole.cpu:.2f}" if changed and whole and whole.cpu else ""
    return (
        one.table,
        f"{one.rows:,}",
        STRATEGIES["whole" if one.is_whole else one.strategy],
        *_cells(changed),
        *_cells(whole),
        ratio,
    )


def _cells(cost: Cost | None) -> tuple[str, str, str]:
    if cost is None:
        return "–", "–", "–"
    return f"{cost.seconds:.2f}", f"{cost.cpu:.2f}", human_bytes(cost.written)


def _middle(costs: Sequence[Cost]) -> Cost:
    return median(costs) or Cost(0.0, 0.0, 0)


def _sum(costs: Iterable[Cost]) -> Cost:
    there = list(costs)
    return Cost(sum(c.seconds for c in there), sum(c.cpu for c in there), sum(c.written for c in there))


def _reasons(figures: Iterable[Figures]) -> list[str]:
    """What commits say, the same of several tables once."""
    tables: dict[str, list[str]] = {}
    for one in figures:
        if one.because:
            tables.setdefault(one.because, []).append(f"`{one.table}`")
    return [f"{', '.join(names)}: {why}" for why, names in tables.items()]


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    text = "".join("| " + " | ".join(cell for cell in line) + " |\n" for line in lines)
    return text.replace("|  |", "| |")
