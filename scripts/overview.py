"""Draws docs/img/overview-light.svg and overview-dark.svg, the picture of the README and of the site: ``make docs``.

The picture is the tables ``BOXES`` and ``ARROWS``. There are two files and no media query, because README and site
choose by their own theme, which need not be the system's. The same source gives the same bytes; ``--check`` writes
nothing and exits 1 if a file is not as it would be drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from scripts import made_files

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
TITLE = "Files land, and pass through bronze, silver and gold Delta tables; Airflow starts the runs"

WIDTH, HEIGHT = 920, 352

# Colours of a theme: text, text of lesser weight, lines, and of each kind of box the ground and the border.
THEMES = {
    "light": {
        "text": "#1f2328", "small": "#59636e", "line": "#818b98",
        "outside": ("#fff8c5", "#9a6700"), "table": ("#ddf4ff", "#0969da"), "side": ("#f6f8fa", "#818b98"),
    },
    "dark": {
        "text": "#e6edf3", "small": "#9198a1", "line": "#656c76",
        "outside": ("#272115", "#d29922"), "table": ("#121d2f", "#4493f8"), "side": ("#151b23", "#656c76"),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A box of the picture.

    Attributes:
        name: its heading.
        lines: what stands below the heading.
        x: left edge.
        y: upper edge.
        width: width.
        height: height.
        kind: which colours it has.
    """

    name: str
    lines: tuple[str, ...]
    x: int
    y: int
    width: int
    height: int
    kind: str


BOXES = (
    Box("Airflow", ("a DAG for each pipeline: file-arrival sensor, retries, backfills, assets, alerts",),
        236, 16, 668, 52, "outside"),
    Box("landing", ("JSON, CSV, Parquet, …", "disk or S3"), 16, 116, 160, 84, "outside"),
    Box("bronze", ("every record as it came", "schema evolution"), 236, 116, 176, 84, "table"),
    Box("silver", ("typed, joined, deduplicated", "quality rules, SCD 1 and 2"), 472, 116, 212, 84, "table"),
    Box("gold", ("aggregates, refreshed", "incrementally"), 744, 116, 160, 84, "table"),
    Box("ledger", ("state of every file",), 236, 252, 176, 52, "side"),
    Box("lookups", ("late changes", ), 444, 252, 104, 52, "side"),
    Box("quarantine", ("with the reason",), 560, 252, 116, 52, "side"),
    Box("set aside", ("duplicates, drops",), 688, 252, 124, 52, "side"),
    Box("state", ("of groups",), 824, 252, 80, 52, "side"),
)  # fmt: skip

# From one point to another, straight; bent at half of the height where both differ.
ARROWS = (
    ((176, 158), (236, 158)), ((412, 158), (472, 158)), ((684, 158), (744, 158)),
    ((324, 68), (324, 116)), ((578, 68), (578, 116)), ((824, 68), (824, 116)),
    ((324, 252), (324, 200)), ((496, 252), (496, 200)), ((618, 200), (618, 252)), ((668, 200), (730, 252)),
    ((864, 252), (864, 200)),
)  # fmt: skip
FOOT = "Each box but landing and Airflow is a Delta table. Progress is committed with the data: no checkpoints."


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pictures or, with ``--check``, compares them; returns the exit code."""
    check = made_files.is_check("python -m scripts.overview", main.__doc__, argv)
    stale = {f"docs/img/{file.name}": (file, picture) for file, picture in outdated_pictures().items()}
    return made_files.write_stale(stale, "the source gives", check=check)


def outdated_pictures() -> dict[Path, str]:
    """The pictures that are not as the source gives them, each as it would be."""
    drawn = {IMAGES / f"overview-{theme}.svg": picture(theme) for theme in THEMES}
    return made_files.outdated_files(drawn)


def picture(theme: str) -> str:
    """The picture in the colours of a theme."""
    parts = [*(_arrow(*ends) for ends in ARROWS), *(part for box in BOXES for part in _box(box))]
    parts.append(f'<text class="small" x="{WIDTH // 2}" y="{HEIGHT - 14}">{escape(FOOT)}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(TITLE)}">\n<title>{escape(TITLE)}</title>\n<style>{_style(theme)}</style>\n'
    )
    return head + "".join(f"{part}\n" for part in parts) + "</svg>\n"


def _style(theme: str) -> str:
    colours = THEMES[theme]
    kinds = "".join(
        f".{kind} {{ fill: {colours[kind][0]}; stroke: {colours[kind][1]}; }}\n"
        for kind in ("outside", "table", "side")
    )
    return (
        '\ntext { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; text-anchor: middle;'
        f" fill: {colours['text']}; }}\n.name {{ font-weight: 600; font-size: 15px; }}\n"
        f".small {{ font-size: 12px; fill: {colours['small']}; }}\n{kinds}"
        f".line {{ fill: none; stroke: {colours['line']}; stroke-width: 1.5; }}\n.head {{ fill: {colours['line']}; }}\n"
    )


def _box(box: Box) -> Iterator[str]:
    yield f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>'
    middle = box.x + box.width // 2
    top = box.y + box.height // 2 - 9 * len(box.lines) + 5
    yield f'<text class="name" x="{middle}" y="{top}">{escape(box.name)}</text>'
    for number, line in enumerate(box.lines, 1):
        yield f'<text class="small" x="{middle}" y="{top + 18 * number}">{escape(line)}</text>'


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A line with a head."""
    (x, y), (to_x, to_y) = start, end
    if y == to_y:
        return f'<path class="line" d="M{x} {y}H{to_x - 7}"/><path class="head" d="M{to_x - 8} {y - 5}v10l8 -5z"/>'
    down = 1 if to_y > y else -1
    bend = f"V{(y + to_y) // 2}H{to_x}" if x != to_x else ""
    line = f'<path class="line" d="M{x} {y}{bend}V{to_y - 7 * down}"/>'
    return f'{line}<path class="head" d="M{to_x - 5} {to_y - 8 * down}h10l-5 {8 * down}z"/>'


if __name__ == "__main__":
    sys.exit(main())
