"""What a case is: a name, a sentence, points at which it is measured, and the sides that are compared there."""

from __future__ import annotations

import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from bench.measure import Cost
from bench.worker import PLAIN, Worker

SMALL, FULL = "small", "full"
SCALES = (SMALL, FULL)

# Sides that several cases have, each called the same everywhere.
AS_SET, DEFAULTS = "notebook as people set it", "notebook with defaults"
DECLARATIVE, DECLARATIVE_TUNED = "spark-pipelines", "spark-pipelines, tuned like ours"
BATCH, DUCKDB, DLT = "plain Spark", "DuckDB + delta-rs", "dlt"


@dataclass(frozen=True)
class Side:
    """One way to do the job.

    Attributes:
        name: what it is called in tables.
        run: does the job at a point in a round, and gives what it took and how many rows are there then; None if it
            has none to compare.
        ready: brings things to where the job begins, unmeasured.
    """

    name: str
    run: Callable[[str, int], tuple[Cost, int | None]]
    ready: Callable[[str, int], None] = lambda _point, _number: None


@dataclass(frozen=True)
class Absence:
    """A side that is not measured, and why."""

    side: str
    why: str


@dataclass(frozen=True)
class Aim:
    """A figure that ours is to stay below.

    Attributes:
        point: where it is measured.
        side: whose figure it is.
        most: the highest that meets the aim: a ratio, or seconds where it is held against nothing.
        of: the side that it is held against; the side itself if only ``of_point`` is given.
        of_point: the point that it is held against; ``point`` if only ``of`` is given.
    """

    point: str
    side: str
    most: float
    of: str | None = None
    of_point: str | None = None


@dataclass
class Scene:
    """What all cases of a run share.

    Attributes:
        folder: a scratch folder of the case.
        scale: one of ``SCALES``.
        input: a landing folder with real files, or None for simulated ones.
        log: the file that sides write to.
        only: the sides that are wanted; none for all.
        largest: sizes above it are left out.
        closing: what else has to be ended with the case.
    """

    folder: Path
    scale: str
    input: Path | None
    log: Path
    only: Sequence[str] = ()
    largest: float = math.inf
    closing: ExitStack = field(default_factory=ExitStack)
    _workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, kind: str) -> Worker:
        """The process of a kind, which sides of a case share; it lives as long as the case."""
        if kind not in self._workers:
            self._workers[kind] = Worker(kind, self.log)
        return self._workers[kind]

    @property
    def preparer(self) -> Worker:
        """A process with plain Spark that prepares things; a measured one at small sizes, where starts cost most."""
        kind = PLAIN if self.scale == SMALL else "preparer"
        if kind not in self._workers:
            self._workers[kind] = Worker(PLAIN, self.log)
        return self._workers[kind]

    def side_folder(self, point: str, side: str, number: int = 0) -> Path:
        """A folder for a side at a point in a round."""
        names = ("".join(letter if letter.isalnum() else "-" for letter in name) for name in (point, side))
        return self.folder.joinpath(*names, str(number))

    def close(self) -> None:
        """Ends the processes and deletes the folder."""
        self.closing.close()
        for worker in self._workers.values():
            worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Case(ABC):
    """A job that several sides do, measured at one or more points, in rounds.

    In a round each point has its turn, and at each point each side. Points are sizes, or stages of which each goes on
    where the one before it ended. In each round another side is the first, unless ``rotates`` says otherwise.
    """

    name: ClassVar[str]
    sentence: ClassVar[str]
    baseline: ClassVar[str]
    rotates: ClassVar[bool] = True

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @property
    @abstractmethod
    def points(self) -> list[str]:
        """Where it is measured, in order."""

    @abstractmethod
    def open(self) -> Sequence[Side | Absence]:
        """Prepares the case, and gives its sides."""

    def try_sides(self, sides: Sequence[Side | Absence], point: str, number: int = -1) -> list[Side | Absence]:
        """Has each side do its job once, unmeasured, so that it is warm; one that fails becomes an absence."""
        return [self._try_side(side, point, number) for side in sides]

    def _try_side(self, side: Side | Absence, point: str, number: int) -> Side | Absence:
        if isinstance(side, Absence) or (self.scene.only and side.name not in self.scene.only):
            return side
        try:
            side.ready(point, number)
            side.run(point, number)
        except Exception as error:
            return Absence(side.name, f"failed: {error}")
        return side

    def before(self, point: str, number: int) -> None:  # noqa: B027 (most cases have nothing to do here)
        """Has happen what is to happen before a point of a round, for all sides."""

    def after(self, number: int) -> None:  # noqa: B027
        """Takes away what a round has left."""

    def aims(self) -> list[Aim]:
        """The figures that ours is to stay below."""
        return []


class Sized(Case):
    """A case whose points are sizes."""

    unit: ClassVar[str]
    sizes: ClassVar[dict[str, tuple[int, ...]]]

    @property
    def points(self) -> list[str]:
        return [self.point(size) for size in self.sizes[self.scene.scale] if size <= self.scene.largest]

    def point(self, size: int) -> str:
        """The name of a size."""
        return f"{size:,} {self.unit}"

    def size(self, point: str) -> int:
        """The size of a name."""
        return int(point.split(" ")[0].replace(",", ""))

    def growth(self, side: str, most: float) -> list[Aim]:
        """The aim that a side takes at most so many times as long at the largest size as at the smallest."""
        points = self.points
        return [Aim(points[-1], side, most, of_point=points[0])] if len(points) > 1 else []
