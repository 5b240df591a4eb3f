"""The whole way from landed files to gold: the first load, one more file, and nothing new."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench import case
from bench.case import Absence, Aim, Case, Side
from bench.measure import Cost
from bench.sides import heart_rate
from bench.worker import OURS
from sluicegate.tools.simulators import Simulator

FIRST, MORE, NOTHING = "first load", "one more file", "nothing new"
LATER = 40 * 86_400  # seconds by which the records of the new file are later than those that they are copied from
# Files, records of each, and records of the file that comes later.
SIZES = {case.SMALL: (2, 300, 100), case.FULL: (12, 8_900, 1_000)}


class Files(Case):
    """Ours in three ways and every rival, on the heart-rate pipeline."""

    name = "files"
    sentence = (
        "The heart-rate pipeline from landed files to gold: the first load of 12 files of 8,900 records (or of those of"
        " --input), then one more file of 1,000 records, then a run with nothing new. Small: 2 files of 300, then 100."
    )
    baseline = case.AS_SET
    points: ClassVar[list[str]] = [FIRST, MORE, NOTHING]

    def open(self) -> Sequence[Side | Absence]:
        worker = self.scene.worker(OURS)
        warm = heart_rate.warm_run(worker)
        land_files(self.scene.folder / "before", 2, 100)
        warm(self.scene.folder / "before", self._folder("before", 0), self.scene.log)
        ours = [
            (heart_rate.THREE_JOBS, heart_rate.three_jobs),
            (heart_rate.ONE_RUN, heart_rate.one_run),
            (heart_rate.WARM, warm),
        ]
        return [self._side(name, program) for name, program in [*ours, *heart_rate.rivals()]]

    def _side(self, name: str, program: heart_rate.Program | str) -> Side | Absence:
        if isinstance(program, str):
            return Absence(name, program)

        def run(_point: str, number: int) -> tuple[Cost, int]:
            return program(self._landing(number), self._folder(name, number), self.scene.log)

        return Side(name, run)

    def _folder(self, side: str, number: int) -> Path:
        folder = self.scene.side_folder("lakes", side, number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _landing(self, number: int) -> Path:
        return self.scene.folder / f"landing-{number}"

    def before(self, point: str, number: int) -> None:
        files, records, new = SIZES[self.scene.scale]
        landing = self._landing(number)
        if point == FIRST and self.scene.input:
            shutil.copytree(self.scene.input, landing)
        elif point == FIRST:
            land_files(landing, files, records)
        elif point == MORE:
            land_one_more(landing, new)

    def after(self, number: int) -> None:
        shutil.rmtree(self._landing(number))
        shutil.rmtree(self.scene.folder / "lakes", ignore_errors=True)

    def aims(self) -> list[Aim]:
        against = {
            (heart_rate.THREE_JOBS, case.AS_SET): 0.9,
            (heart_rate.ONE_RUN, case.AS_SET): 0.5,
            (heart_rate.WARM, case.AS_SET): 0.25,
            (heart_rate.ONE_RUN, case.DECLARATIVE_TUNED): 1.0,
        }
        return [
            *(Aim(FIRST, side, most, rival) for (side, rival), most in against.items()),
            Aim(MORE, heart_rate.ONE_RUN, 15.0),
            Aim(MORE, heart_rate.WARM, 4.0),
            Aim(NOTHING, heart_rate.ONE_RUN, 0.6),
        ]


def land_files(landing: Path, files: int, records: int) -> None:
    """Lands simulated files that settled long ago."""
    for file in Simulator("heart_rate", str(landing), records, seed=1).land(files):
        os.utime(file.path, (0, 0))
    os.utime(landing / "patients" / "patients.csv", (0, 0))


def land_one_more(landing: Path, records: int, number: int = 1) -> None:
    """Lands a file with the first records of another one, of later days.

    Args:
        landing: the landing folder.
        records: how many records.
        number: the number of the file; each has days of its own.
    """
    first = min((landing / "recordings").glob("*.json"))
    found = json.loads(first.read_text())[:records]
    for record in found:
        later = float(record["time"]) + LATER * number
        record["time"] = str(later) if isinstance(record["time"], str) else later
    # A file source with a `maxFileAge` leaves out a file that is much older than those which it has seen.
    latest = max(file.stat().st_mtime for file in (landing / "recordings").iterdir())
    new = landing / "recordings" / f"zz-{number:03}-more.json"
    new.write_text(json.dumps(found))
    os.utime(new, (latest + 1, latest + 1))
