"""The plot of all figures as SVG: a block for each case and point, a bar for each side."""

from __future__ import annotations

from bench import measure
from bench.results import CaseResult, Results
from scripts import bars

WIDTH, LEFT = 820, 260
TITLE = "Seconds of each side in each case; blue is the side that the others are held against"


def plot(results: Results) -> str:
    """The whole picture; the longest bar of each block has its full length."""
    blocks = ((f"{case.name}, {point}", _bars(case, point)) for case in results.cases.values() for point in case.points)
    return bars.picture(TITLE, blocks, WIDTH, LEFT)


def _bars(case: CaseResult, point: str) -> list[bars.Bar]:
    found = []
    for side in case.sides:
        figures = case.seconds(point, side)
        if figures and not case.absence_reason(point, side):
            seconds = measure.median([*figures.values()])
            found.append(bars.Bar(side, seconds, f"{seconds:,.2f} s", strong=side == case.baseline))
    return found
