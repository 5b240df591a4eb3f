"""The plot of all figures as SVG: a block for each case and point, a bar for each side."""

from __future__ import annotations

from xml.sax.saxutils import escape

from bench import measure
from bench.results import CaseResult, Results
from scripts.diagrams import STYLE

WIDTH, LEFT, BAR, GAP, HEAD = 820, 260, 16, 6, 34
OURS = "#0969da"


def plot(results: Results) -> str:
    """The whole picture; the longest bar of each block has its full length."""
    blocks, top = [], GAP
    for case in results.cases.values():
        for point in case.points:
            bars = _bars(case, point)
            if bars:
                blocks += _block(f"{case.name}, {point}", bars, top)
                top += HEAD + len(bars) * (BAR + GAP) + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">'
        f"<title>Seconds of each side in each case; blue is the side that the others are held against</title>"
        f'<style>{STYLE}.bar {{ fill: #818b98; }} .against {{ fill: {OURS}; }}</style><rect class="page" width="100%"'
        f' height="100%"/>' + "".join(blocks) + "</svg>\n"
    )


def _bars(case: CaseResult, point: str) -> list[tuple[str, float, bool]]:
    found = []
    for side in case.sides:
        seconds = case.seconds(point, side)
        if seconds and not case.left_out(point, side):
            found.append((side, measure.median([*seconds.values()]), side == case.baseline))
    return found


def _block(title: str, bars: list[tuple[str, float, bool]], top: int) -> list[str]:
    longest = max(seconds for _, seconds, _ in bars) or 1.0
    parts = [f'<text class="name" x="{GAP}" y="{top + 22}">{escape(title)}</text>']
    for number, (side, seconds, against) in enumerate(bars):
        y = top + HEAD + number * (BAR + GAP)
        width = max(1.0, seconds / longest * (WIDTH - LEFT - 90))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(side)}</text>')
        kind = "bar against" if against else "bar"
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>')
        parts.append(f'<text class="small" x="{LEFT + width + 6:.1f}" y="{y + 12}">{seconds:,.2f} s</text>')
    return parts
