"""Bars as SVG: blocks of them, one below the other, each block with a heading.

The plot of the bench and the charts of the gallery are drawn with it. The same bars give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from scripts.diagrams import STYLE

BAR, GAP, HEAD = 16, 6, 34
BLUE, GREY = "#0969da", "#818b98"
FOR_VALUES = 90  # what a bar leaves free at the right, for its value


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: what stands before it.
        value: its length; 0 or more.
        text: its value, as it stands behind it.
        strong: whether it is blue, and not grey.
    """

    name: str
    value: float
    text: str
    strong: bool = True


def picture(
    title: str,
    blocks: Iterable[tuple[str, Sequence[Bar]]],
    width: int,
    left: int,
    longest: float = 0,
) -> str:
    """The whole picture.

    Args:
        title: what the picture shows, for those who do not see it.
        blocks: heading and bars of each block; one without bars is left out.
        width: of the picture.
        left: where bars begin.
        longest: the value of a bar of full length, if all blocks have one scale; else each block's own longest is.
    """
    parts: list[str] = []
    top = GAP
    for heading, bars in blocks:
        if bars:
            parts += _block(heading, bars, top, width, left, longest or max(bar.value for bar in bars))
            top += HEAD + len(bars) * (BAR + GAP) + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">'
        f"<title>{escape(title)}</title>"
        f'<style>{STYLE}.bar {{ fill: {GREY}; }} .against {{ fill: {BLUE}; }}</style><rect class="page" width="100%"'
        f' height="100%"/>' + "".join(parts) + "</svg>\n"
    )


def _block(heading: str, bars: Sequence[Bar], top: int, width: int, left: int, longest: float) -> list[str]:
    parts = [f'<text class="name" x="{GAP}" y="{top + 22}">{escape(heading)}</text>']
    for number, bar in enumerate(bars):
        y = top + HEAD + number * (BAR + GAP)
        length = max(1.0, bar.value / (longest or 1.0) * (width - left - FOR_VALUES))
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>')
        kind = "bar against" if bar.strong else "bar"
        parts.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        parts.append(f'<text class="small" x="{left + length + 6:.1f}" y="{y + 12}">{escape(bar.text)}</text>')
    return parts
