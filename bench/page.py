"""The page of the headline figures, as Markdown, and the table of all figures, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from bench import measure, plot
from bench.case import SMALL, Aim
from bench.results import PAGE, PLOT, RESULTS, TABLE, CaseResult, Results

HEAD = """# Benchmarks

This page compares Sluicegate with other ways to do the same job: seconds, by case, and which aims are met or missed.
In each case the sides work on the same machine in turn, and each has to leave as many rows as ours. Seconds are medians
over rounds.

To repeat it on a machine that does nothing else, run `make bench` ([options](../../CONTRIBUTING.md#measure)). It writes
this page, [a table of all figures]({table}) and [each measurement]({file}). In the table, *ratio* compares a side's
seconds with those of the baseline: the median of the ratios within a round. *growth* compares them with its seconds at
the first size. CPU seconds are those of all processes of a side. Megabytes are the most RAM that they had together; a
process that stays for several rounds keeps what its JVM once took.
"""
COLUMNS = (
    "case",
    "at",
    "side",
    "seconds",
    "least seconds",
    "most seconds",
    "ratio",
    "growth",
    "CPU seconds",
    "MB",
    "rows",
    "not measured because",
)


def write(results: Results, order: Sequence[str]) -> None:
    """Write the file with all measurements, the page with its plot, and the table of all figures.

    Args:
        results: the measurements; their cases are put in order.
        order: names of all cases, in the order of the page.
    """
    results.cases = {name: results.cases[name] for name in [*order, *results.cases] if name in results.cases}
    results.folder.mkdir(parents=True, exist_ok=True)
    # By way of another name, so that a kill leaves the file of before.
    for name, text in (
        (RESULTS, results.as_json()),
        (PAGE, page(results)),
        (TABLE, table(results)),
        (PLOT, plot.plot(results)),
    ):
        (results.folder / f".{name}").write_text(text)
        (results.folder / f".{name}").replace(results.folder / name)


def page(results: Results) -> str:
    """Return the page of the headline figures."""
    parts = [
        HEAD.format(file=RESULTS, table=TABLE),
        _machine(results),
        _aims(results),
        "## Seconds by case\n",
        f"![Seconds of each side]({PLOT})\n",
    ]
    parts += [_describe_case(case) for case in results.cases.values()]
    return "\n".join(parts)


def table(results: Results) -> str:
    """Return all figures as CSV, one line for each side at each point of a case."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in results.cases.values():
        writer.writerows(_rows(case))
    return text.getvalue()


def _machine(results: Results) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in results.machine.items())
    small = [case.name for case in results.cases.values() if case.scale == SMALL]
    said = f"{facts}.\n"
    if small:
        said += f"\nAt small sizes, which show that it works and not how fast it is: {', '.join(small)}.\n"
    return said


def _aims(results: Results) -> str:
    rows = [(case.name, aim.point, aim.side, _aim_text(aim), _number(found), _verdict(aim, found))
            for case, aim, found in results.aims()]  # fmt: skip
    return "## Aims\n\n" + _table(("case", "at", "side", "aim", "measured", ""), rows) if rows else ""


def _aim_text(aim: Aim) -> str:
    if aim.of is None and aim.of_point is None:
        return f"at most {aim.most:g} s"
    against = aim.of or f"itself at {aim.of_point}"
    return f"at most {aim.most:g} × {against}"


def _verdict(aim: Aim, found: float | None) -> str:
    if found is None:
        return "not measured"
    return "met" if found <= aim.most else "missed"


def _rows(case: CaseResult) -> list[tuple[str, ...]]:
    return [_row(case, point, side) for point in case.points for side in case.sides]


def _row(case: CaseResult, point: str, side: str) -> tuple[str, ...]:
    reason = _reason(case, point, side)
    if reason:
        return (case.name, point, side, *[""] * (len(COLUMNS) - 4), reason)
    figures = [figure for figure in case.figures if (figure.point, figure.side) == (point, side)]
    seconds = case.seconds(point, side)
    against_baseline = None
    if not case.absence_reason(point, case.baseline):
        against_baseline = measure.ratio(seconds, case.seconds(point, case.baseline))
    growth = None
    if point != case.points[0]:
        growth = measure.ratio(seconds, case.seconds(case.points[0], side))
    return (
        case.name,
        point,
        side,
        _plain(measure.median([*seconds.values()])),
        _plain(min(seconds.values())),
        _plain(max(seconds.values())),
        _plain(against_baseline),
        _plain(growth),
        _plain(_median(figure.cpu for figure in figures)),
        _whole_number(_median(figure.peak for figure in figures)),
        _whole_number(figures[-1].rows),
        "",
    )


def _reason(case: CaseResult, point: str, side: str) -> str:
    """Return why a side has no figures at a point; empty if it has some."""
    why = case.absence_reason(point, side)
    if why:
        return _shorten(why)
    if case.seconds(point, side):
        return ""
    return _shorten(case.error or "not measured")


def _describe_case(case: CaseResult) -> str:
    said = (
        f"**{case.name}**: {case.sentence} Held against: {case.baseline}. Rounds: {case.rounds}; scale: {case.scale};"
    )
    said += f" commit {case.commit or 'unknown'}.\n"
    if not case.ended:
        said += f"\nIt did not come to its end: {_shorten(case.error or 'it was stopped')}.\n"
    if case.figures:
        said += "\n" + _seconds_by_side(case)
    reasons = _reasons(case)
    if reasons:
        said += "\n" + "".join(f"- {sides}: {reason}\n" for reason, sides in reasons.items())
    return said


def _seconds_by_side(case: CaseResult) -> str:
    """Return a table with a line for each side that has figures, and a column for each point."""
    lines = []
    for side in case.sides:
        cells = [_seconds(case, point, side) for point in case.points]
        if any(cells):
            lines.append((side, *(cell or "–" for cell in cells)))
    return _table((case.name, *case.points), lines)


def _seconds(case: CaseResult, point: str, side: str) -> str:
    if _reason(case, point, side):
        return ""
    return _number(measure.median([*case.seconds(point, side).values()]))


def _reasons(case: CaseResult) -> dict[str, str]:
    """Return each reason why a side has no figures, with the sides and points that it is about."""
    sides: dict[str, dict[str, list[str]]] = {}
    for point, side, why in case.absent:
        points = sides.setdefault(_shorten(why), {}).setdefault(side, [])
        if point is not None:
            points.append(point)
    return {reason: "; ".join(map(_side_at, points, points.values())) for reason, points in sides.items()}


def _side_at(side: str, points: list[str]) -> str:
    return f"{side} ({', '.join(points)})" if points else side


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:300].rstrip(".")


def _median(figures: Iterable[float | None]) -> float | None:
    measured = [figure for figure in figures if figure is not None]
    return measure.median(measured) if measured else None


def _whole_number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _plain(value: float | None) -> str:
    """Return a number as programs read it, without commas."""
    return _number(value).replace(",", "")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
