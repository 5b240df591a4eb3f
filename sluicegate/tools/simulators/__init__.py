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
from sluicegate.tools.simulators import engine, heart_rate, online_school, retail
from sluicegate.tools.simulators.engine import Faults as Faults
from sluicegate.tools.simulators.engine import Landed as Landed
from sluicegate.tools.simulators.engine import Order, Simulation

NONE = Faults()

# Module that makes the files, by the name of the pipeline that reads them.
SIMULATIONS: dict[str, Simulation] = {
    "heart_rate": heart_rate, "healthcare_dlh": heart_rate, "online_school": online_school,
    "online_school_python": online_school, "retail": retail,
}  # fmt: skip


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
            continuous: True to land files until Ctrl-C.
            every: seconds between two files.

        Returns:
            What has landed; for a continuous load the last 1,000 files, so that it may go on for weeks.

        Raises:
            UserError: as ``land`` and ``land_continuously``.
        """
        if not continuous:
            return list(self.land(1))
        landed: list[Landed] = []
        with suppress(KeyboardInterrupt):
            for file in self.land_continuously(every):
                landed = [*landed[-999:], file]
        return landed

    def land(self, files: int) -> Iterator[Landed]:
        """Land files one by one; each is complete by the time it is yielded.

        Args:
            files: number of files of each kind to land.

        Raises:
            UserError: if no such pipeline has a simulator, if the landing is a URI or cannot be written, or if what is
                there already cannot be continued.
        """
        return engine.land(_find_simulation(self.pipeline), self.landing, files, self._order)

    def land_continuously(self, every: float) -> Iterator[Landed]:
        """Land a file of each kind every ``every`` seconds, the first at once, until the caller stops.

        Raises:
            UserError: as ``land``, and if ``every`` is negative or not a number.
        """
        return engine.land_continuously(_find_simulation(self.pipeline), self.landing, every, self._order)

    @property
    def _order(self) -> Order:
        if self.begin is None:
            return Order(self.records, self.seed, self.faults)
        whole = self.begin.replace(microsecond=0, tzinfo=self.begin.tzinfo or UTC)
        return Order(self.records, self.seed, self.faults, whole.timestamp())


def _find_simulation(pipeline: str) -> Simulation:
    if pipeline not in SIMULATIONS:
        hint = suggest_name(pipeline, SIMULATIONS) or f"there is one for each of {', '.join(SIMULATIONS)}"
        raise UserError(f"no simulator for {pipeline}", hint=hint)
    return SIMULATIONS[pipeline]
