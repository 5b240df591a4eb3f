"""A continuous run: what a batch of one small file takes, from bronze to gold, in a session that stays."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench import case
from bench.case import Absence, Aim, Case, Side
from bench.cases.files import SIZES, land_files, land_one_more
from bench.measure import CommandFailed, Cost
from bench.sides import heart_rate

CONTINUOUS = "run --continuous"
PATIENCE, POLL = 300.0, 0.05  # seconds
# Batches before the first that counts: a JVM takes several to compile what each of them runs.
UNMEASURED = 8


class ContinuousBatch(Case):
    """Ours alone: no rival has a run that stays and carries three layers."""

    name = "continuous"
    sentence = (
        "A batch of a continuous run, after the first load of case files and eight batches more: one file of 1,000"
        " records from bronze to gold, in a session that stays. Seconds are those that the batch reports; the wait for"
        " the next tick is not among them."
    )
    baseline = CONTINUOUS
    points: ClassVar[list[str]] = ["one more file"]

    def open(self) -> Sequence[Side | Absence]:
        files, records, _ = SIZES[self.scene.scale]
        self._landing = self.scene.folder / "landing"
        land_files(self._landing, files, records)
        self._said = self.scene.folder / "continuous.log"
        lake = self.scene.folder / "continuous"
        with self._said.open("w") as log:
            command = [*heart_rate.run_command(self._landing, lake), "--continuous", "--every", "1s", "--json"]
            self._run = subprocess.Popen(command, cwd=heart_rate.ROOT, stdout=log, stderr=subprocess.STDOUT)
        self.scene.closing.callback(self._stop)
        self._batches(1)
        for _ in range(UNMEASURED):
            self._land_and_wait()
        return [
            Side(CONTINUOUS, lambda _point, _number: (Cost(self._land_and_wait()), heart_rate.gold_of(lake))),
            *(Absence(name, "it has no run that stays and carries three layers") for name in (
                case.AS_SET, case.DECLARATIVE_TUNED, case.DUCKDB, case.DLT)),
        ]  # fmt: skip

    def aims(self) -> list[Aim]:
        return [Aim(self.points[0], CONTINUOUS, 2.0)]

    def _stop(self) -> None:
        self._run.terminate()
        self._run.wait(PATIENCE)

    def _land_and_wait(self) -> float:
        before = len(self._batches(1))
        land_one_more(self._landing, SIZES[self.scene.scale][2], before)
        return self._batches(before + 1)[before]

    def _batches(self, wanted: int) -> list[float]:
        """Seconds of all batches so far, as soon as there are so many."""
        until = time.monotonic() + PATIENCE
        while len(found := _seconds(self._said)) < wanted:
            if self._run.poll() is not None or time.monotonic() > until:
                raise CommandFailed(self._said.read_text()[-2_000:])
            time.sleep(POLL)
        return found


def _seconds(said: Path) -> list[float]:
    whole = said.read_text().rpartition("\n")[0].splitlines()  # the last line may be half there
    facts = [json.loads(line) for line in whole if line.startswith("{")]
    return [float(one["seconds"]) for one in facts if "batch" in one]
