"""Simulators that land sample files for the pipelines in ``pipelines/``, also faulty ones: to learn, test, measure.

::

    simulator = Simulator("online_school", "landing", seed=1)
    simulator.load()                  # the next file of each kind
    simulator.load(continuous=True)   # and so on every five seconds, until Ctrl-C
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from sluicegate.definition.fields import suggest_name
from sluicegate.errors import UserError
from sluicegate.tools.simulators import heart_rate, online_school, retail
from sluicegate.tools.simulators.engine import BEGIN, Order, Simulation, land, land_continuously
from sluicegate.tools.simulators.engine import Faults as Faults
from sluicegate.tools.simulators.engine import Landed as Landed

NONE = Faults()

SIMULATIONS: dict[str, Simulation] = {
    "heart_rate": heart_rate, "healthcare_dlh": heart_rate, "online_school": online_school,
    "online_school_python": online_school, "retail": retail,
}  # fmt: skip
"""Module that makes the files, by the name of the pipeline that reads them."""


@dataclass
class Simulator:
    """Lands files for one pipeline, as the loaders of courses do.

    Attributes:
        pipeline: name of the pipeline; one of ``SIMULATIONS``.
        landing: the folder that files arrive in, created if missing. Local folders only.
        records: how many records to put into each file.
        seed: the same seed on the same landing folder gives the same bytes; None for other records each time.
        faults: faults to inject.
        begin: time of the first record in an empty landing; later files go on from there. One without a zone is UTC.
    """

    pipeline: str
    landing: str
    records: int = 1000
    seed: int | None = None
    faults: Faults = NONE
    begin: datetime | None = None

    def load(self, continuous: bool = False, every: float = 5.0) -> list[Landed]:
        """Land the next file of each kind; if continuous, again every ``every`` seconds until Ctrl-C.

        Args:
            continuous: whether to go on.
            every: seconds from the landing of one file to that of the next.

        Returns:
            What has landed; for a continuous load the last 1,000 files, so that it may go on for weeks.

        Raises:
            UserError: as :func:`simulate` and :func:`continuously`.
        """
        if not continuous:
            return list(land(_find_simulation(self.pipeline), self.landing, 1, self._order))
        landed: list[Landed] = []
        with suppress(KeyboardInterrupt):
            for file in land_continuously(_find_simulation(self.pipeline), self.landing, every, self._order):
                landed = [*landed[-999:], file]
        return landed

    @property
    def _order(self) -> Order:
        return _order(self.records, self.seed, self.faults, self.begin)


def simulate(
    landing: str,
    files: int = 1,
    records: int = 1000,
    seed: int | None = None,
    pipeline: str = "heart_rate",
    faults: Faults = NONE,
    begin: datetime | None = None,
) -> Iterator[Landed]:
    """Land files one by one; each is complete by the time it is yielded.

    Args:
        landing: the folder that files arrive in; it is made if missing. Local folders only.
        files: how many files of each kind to land.
        records: how many records to put into each; dimensions have as many as they have.
        seed: the same seed on the same landing folder gives the same bytes; ``None`` for other records each time.
        pipeline: name of the pipeline that they are for.
        faults: faults to inject.
        begin: time of the first record in an empty landing; later files go on from there. One without a zone is UTC.

    Returns:
        What has landed, file by file.

    Raises:
        UserError: if no such pipeline has a simulator, if the landing is a URI or cannot be written, or if what is
            there already cannot be continued.
    """
    return land(_find_simulation(pipeline), landing, files, _order(records, seed, faults, begin))


def continuously(
    landing: str,
    every: float,
    records: int = 1000,
    seed: int | None = None,
    pipeline: str = "heart_rate",
    faults: Faults = NONE,
    begin: datetime | None = None,
) -> Iterator[Landed]:
    """Land a file of each kind every so many seconds, the first at once, until the caller stops.

    Args:
        landing: the folder that files arrive in; it is made if missing. Local folders only.
        every: seconds from the landing of one file to that of the next.
        records: how many records to put into each file.
        seed: as for :func:`simulate`.
        pipeline: name of the pipeline that they are for.
        faults: faults to inject.
        begin: time of the first record in an empty landing; later files go on from there. One without a zone is UTC.

    Returns:
        What has landed, file by file, without end.

    Raises:
        UserError: as :func:`simulate`, and if ``every`` is negative or not a number.
    """
    return land_continuously(_find_simulation(pipeline), landing, every, _order(records, seed, faults, begin))


def _order(records: int, seed: int | None, faults: Faults, begin: datetime | None) -> Order:
    if begin is None:
        return Order(records, seed, faults, BEGIN)
    whole = begin.replace(microsecond=0, tzinfo=begin.tzinfo or UTC)
    return Order(records, seed, faults, whole.timestamp())


def _find_simulation(pipeline: str) -> Simulation:
    if pipeline not in SIMULATIONS:
        hint = suggest_name(pipeline, SIMULATIONS) or f"there is one for each of {', '.join(SIMULATIONS)}"
        raise UserError(f"no simulator for {pipeline}", hint=hint)
    return SIMULATIONS[pipeline]
