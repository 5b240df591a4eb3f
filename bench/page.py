"""The page of all figures, as Markdown: aims, one table, and what could not be measured."""

from __future__ import annotations

from collections.abc import Iterable

from bench import measure
from bench.case import SMALL, Aim
from bench.results import PLOT, RESULTS, CaseResult, Results

HEAD = """# Measured

Made by `make bench` ([CONTRIBUTING.md](../../CONTRIBUTING.md#measure) says how); all figures are in [{file}]({file}).
In each case the sides do the same job on the same machine, in turn, and each leaves as many rows as ours.
Seconds, CPU seconds and megabytes are medians over rounds. *Ratio* is that of seconds to those of the
side with ratio 1, the median of the ratios within one round; *growth* is that of seconds to those at the
first size. CPU seconds are of all processes of a side, megabytes what they had in RAM together at most.
A process that stays for several rounds keeps what its JVM once took.
"""
COLUMNS = ("case", "at", "side", "seconds", "from – to", "ratio", "growth", "CPU seconds", "MB", "rows")


def page(results: Results) -> str:
    """The whole page."""
    parts = [
        HEAD.format(file=RESULTS),
        _machine(results),
        _aims(results),
        "## Figures\n",
        f"![Seconds of each side]({PLOT})\n",
    ]
    parts.append(_table(COLUMNS, (row for case in results.cases.values() for row in _rows(case))))
    parts.append("## The cases\n")
    parts += [_about(case) for case in results.cases.values()]
    return "\n".join(parts)


def _machine(results: Results) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in results.machine.items())
    small = [case.name for case in results.cases.values() if case.scale == SMALL]
    said = f"{facts}.\n"
    if small:
        said += f"\nAt small sizes, which show that it works and not how fast it is: {', '.join(small)}.\n"
    return said


def _aims(results: Results) -> str:
    rows = [(case.name, aim.point, aim.side, _wanted(aim), _number(found), _verdict(aim, found))
            for case, aim, found in results.aims()]  # fmt: skip
    return "## Aims\n\n" + _table(("case", "at", "side", "aim", "measured", ""), rows) if rows else ""


def _wanted(aim: Aim) -> str:
    if aim.of is None and aim.of_point is None:
        return f"at most {aim.most:g} s"
    against = aim.of or f"itself at {aim.of_point}"
    return f"at most {aim.most:g} × {against}"


def _verdict(aim: Aim, found: float | None) -> str:
    if found is None:
        return "not measured"
    return "met" if found <= aim.most else "missed"


def _rows(case: CaseResult) -> list[tuple[str, ...]]:
    rows = []
    for point in case.points:
        for side in case.sides:
            why = case.left_out(point, side)
            figures = [one for one in case.figures if (one.point, one.side) == (point, side)]
            begin = (case.name, point, side)
            if why or not figures:
                rows.append((*begin, f"– ({_brief(why or case.error or 'not measured')})", *[""] * (len(COLUMNS) - 4)))
                continue
            seconds = case.seconds(point, side)
            against = measure.ratio(seconds, case.seconds(point, case.baseline))
            if case.left_out(point, case.baseline):
                against = None
            growth = measure.ratio(seconds, case.seconds(case.points[0], side)) if point != case.points[0] else None
            least, most = min(seconds.values()), max(seconds.values())
            cpu, peak = (
                [value for one in figures if (value := getattr(one, name)) is not None] for name in ("cpu", "peak")
            )
            rows.append((
                *begin, _number(measure.median([*seconds.values()])),
                f"{_number(least)} – {_number(most)}", _number(against), _number(growth),
                _number(measure.median(cpu) if cpu else None), f"{measure.median(peak):,.0f}" if peak else "",
                "" if figures[-1].rows is None else f"{figures[-1].rows:,}",
            ))  # fmt: skip
    return rows


def _about(case: CaseResult) -> str:
    said = (
        f"**{case.name}**: {case.sentence} Held against: {case.baseline}. Rounds: {case.rounds}; scale: {case.scale};"
    )
    said += f" commit {case.commit or 'unknown'}.\n"
    if not case.ended:
        said += f"\nIt did not come to its end: {_brief(case.error or 'it was stopped')}.\n"
    for point, side, why in case.absent:
        said += f"\n- {side}{f', {point}' if point else ''}: {_brief(why)}"
    return said + ("\n" if case.absent else "")


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _brief(text: str) -> str:
    return " ".join(text.split())[:300].rstrip(".")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
