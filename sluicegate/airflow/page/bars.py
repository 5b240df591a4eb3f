"""Charts of a few numbers as SVG shapes: stacked bars, bars of one number, a line, a calendar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sluicegate.dashboard.batches import CommittedBatch
from sluicegate.dashboard.days import Day

WIDEST = 24
"""Width of a bar, where there are few."""

PARTS = ("written", "quarantined", "dropped", "duplicates")
"""Where the rows of a batch are, from the bottom of a bar to its top."""


@dataclass(frozen=True)
class Rectangle:
    """A rectangle, with the class that gives its colour."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""
    key: str = ""


def stacked(
    history: Sequence[CommittedBatch], width: float = 720, height: float = 120
) -> tuple[tuple[CommittedBatch, tuple[Rectangle, ...]], ...]:
    """Lay out a bar for each batch, with a part for each place of its rows; the highest fills the chart."""
    highest = max((batch.balance.ended_records for batch in history), default=0) or 1
    each = min(width / max(len(history), 1), WIDEST)
    start = width - each * len(history)  # the newest is at the right edge, however few there are
    rectangles = []
    for number, batch in enumerate(history):
        y, parts = height, list[Rectangle]()
        for part in PARTS:
            count = getattr(batch.balance, part)
            # A few rows among many would be thinner than a line: each part that is not empty is seen.
            tall = 0.0
            if count:
                tall = max(2.0, height * count / highest)
            y -= tall
            if tall:
                parts.append(Rectangle(start + number * each + 1, max(y, 0.0), max(each - 2, 1.0), tall, part))
        rectangles.append((batch, tuple(parts)))
    return tuple(rectangles)


def small(values: Sequence[int], width: float = 64, height: float = 20) -> tuple[Rectangle, ...]:
    """Lay out a row of small bars."""
    highest, each = max(values, default=0) or 1, min(width / max(len(values), 1), WIDEST / 2)
    rectangles = []
    for number, value in enumerate(values):
        tall = max(2.0, height * value / highest)
        rectangles.append(
            Rectangle(number * each + 1, height - tall, max(each - 2, 1.0), tall, "some" if value else "none")
        )
    return tuple(rectangles)


def line(points: Sequence[float | None], width: float = 220, height: float = 28) -> str:
    """Return the points of a polyline of shares, from the least of them at the bottom to 1 at the top."""
    values = [(n, value) for n, value in enumerate(points) if value is not None]
    if not values:
        return ""
    least = min(value for _, value in values)
    span, each = (1 - least) or 1.0, width / max(len(points) - 1, 1)
    return " ".join(f"{n * each:.1f},{2 + (height - 4) * (1 - value) / span:.1f}" for n, value in values)


@dataclass(frozen=True)
class Month:
    """A month of a calendar: its name, where it begins, and its days as squares."""

    name: str
    x: float


CELL = 15
"""Width of a day in a calendar, its gap included."""


def calendar(days: Sequence[Day]) -> tuple[tuple[tuple[Day, Rectangle], ...], tuple[Month, ...], float]:
    """Lay out days as squares, a column for each week, and return the months' names and the total width, too."""
    if not days:
        return (), (), 0
    monday = days[0].day - timedelta(days=days[0].day.weekday())
    most = max(day.rows for day in days) or 1
    cells: list[tuple[Day, Rectangle]] = []
    months: list[Month] = []
    labelled = set[tuple[int, int]]()
    for day in days:
        x = (day.day - monday).days // 7 * CELL
        if (day.day.year, day.day.month) not in labelled:
            labelled.add((day.day.year, day.day.month))
            if not months or x - months[-1].x > 2 * CELL:
                months.append(Month(f"{day.day:%b %Y}" if not months or day.day.month == 1 else f"{day.day:%b}", x))
        level = 0
        if day.rows:
            level = 1 + min(3, int(4 * day.rows / most))
        cells.append((day, Rectangle(x, day.day.weekday() * CELL, CELL - 2, CELL - 2, f"level{level}")))
    return tuple(cells), tuple(months), (days[-1].day - monday).days // 7 * CELL + CELL
