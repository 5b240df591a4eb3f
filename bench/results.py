"""The file with all measurements, ``results.json``, and what is made of it: ``README.md``, ``figures.csv``, a plot.

The page says nothing that the file has not, so it can be made again without measuring: ``python -m bench --write``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import measure
from bench.case import Absence, Aim

RESULTS, PAGE, TABLE, PLOT = "results.json", "README.md", "figures.csv", "plot.svg"


@dataclass
class Figure:
    """One measurement: a side at a point in a round."""

    point: str
    side: str
    round: int
    seconds: float
    cpu: float | None
    peak: float | None
    rows: int | None


@dataclass
class CaseResult:
    """What a case has shown.

    Attributes:
        name: its name.
        sentence: what it measures.
        baseline: the side that the others are held against.
        scale: whether it was measured small or full.
        rounds: how many rounds were wanted.
        commit: the commit of the repository then.
        points: its points, in order.
        sides: its sides, in order.
        figures: each measurement.
        absent: what could not be measured, by point (None: all) and side, with the reason.
        aims: what ours is to stay below.
        ended: whether it came to its end.
        error: why it did not.
    """

    name: str
    sentence: str
    baseline: str
    scale: str
    rounds: int
    commit: str = ""
    points: list[str] = field(default_factory=list)
    sides: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    absent: list[tuple[str | None, str, str]] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)
    ended: bool = False
    error: str | None = None

    def seconds(self, point: str, side: str) -> dict[int, float]:
        """Seconds of each round."""
        return {one.round: one.seconds for one in self.figures if (one.point, one.side) == (point, side)}

    def leave_out(self, absence: Absence, point: str | None = None) -> None:
        """Puts down why a side is not measured; if not at one point only, no more in this case."""
        if not any(side == absence.side and at in (None, point) for at, side, _ in self.absent):
            self.absent.append((point, absence.side, absence.why))

    def absence_reason(self, point: str, side: str) -> str | None:
        """Why a side is not measured at a point."""
        return next((why for at, name, why in self.absent if name == side and at in (None, point)), None)

    def check(self, point: str, number: int) -> None:
        """Leaves out the sides that have other numbers of rows than the first side, which is ours, in a round."""
        there = [one for one in self.figures if (one.point, one.round) == (point, number)]
        found = {one.side: one.rows for one in there if one.rows is not None}
        first = next((side for side in self.sides if side in found), None)
        for side, rows in found.items():
            if first is not None and rows != found[first]:
                self.leave_out(
                    Absence(side, f"its table has {rows:,} rows, and that of {first} {found[first]:,}"), point
                )

    def figure(self, aim: Aim) -> float | None:
        """The figure that an aim is about; None if it was not measured."""
        mine = self.seconds(aim.point, aim.side)
        if aim.of is None and aim.of_point is None:
            return measure.median([*mine.values()]) if mine else None
        theirs = self.seconds(aim.of_point or aim.point, aim.of or aim.side)
        if self.absence_reason(aim.point, aim.side) or self.absence_reason(
            aim.of_point or aim.point, aim.of or aim.side
        ):
            return None
        return measure.ratio(mine, theirs)


@dataclass
class Results:
    """All cases, with facts about the machine."""

    folder: Path
    machine: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, CaseResult] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Results:
        """The results that are there; empty ones if there are none."""
        found = cls(folder)
        if (folder / RESULTS).exists():
            read = json.loads((folder / RESULTS).read_text())
            found.machine = read["machine"]
            found.cases = {one["name"]: _case_of(one) for one in read["cases"]}
        return found

    def as_json(self) -> str:
        """Return the file's text."""
        facts = {"machine": self.machine, "cases": [asdict(case) for case in self.cases.values()]}
        return json.dumps(facts, indent=1) + "\n"

    def aims(self) -> Iterator[tuple[CaseResult, Aim, float | None]]:
        """All aims with what was measured."""
        for case in self.cases.values():
            for aim in case.aims:
                yield case, aim, case.figure(aim)


def _case_of(read: dict[str, Any]) -> CaseResult:
    figures = [Figure(**one) for one in read.pop("figures")]
    aims = [Aim(**one) for one in read.pop("aims")]
    absent = [(one[0], one[1], one[2]) for one in read.pop("absent")]
    return CaseResult(**read, figures=figures, aims=aims, absent=absent)
