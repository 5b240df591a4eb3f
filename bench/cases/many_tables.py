"""Many small tables: what a table costs that has next to no rows, through bronze, silver and gold."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench import case, measure
from bench.case import Absence, Aim, Side, Sized
from bench.sides import heart_rate
from sluicegate.lake import layout
from sluicegate.settings import Settings

PIPELINE = "many"
BRONZE = '  landed_{n}: {{path: "${{landing}}/{n}", format: json}}\n'
TYPED = "SELECT id, CAST(time AS TIMESTAMP) AS time, value FROM STREAM(landed_{n})"
SILVER = f"  typed_{{n}}: {{{{sql: '{TYPED}', keys: [id]}}}}\n"
GOLD = "  counted_{n}: {{sql: 'SELECT value, count(*) AS times FROM typed_{n} GROUP BY value'}}\n"


class ManyTables(Sized):
    """Ours alone: a rival would be as many copies of its own program."""

    name = "many-tables"
    sentence = (
        "The first load of a pipeline of many sources with one record each, which gives as many bronze, silver and gold"
        " tables, in a Spark that starts for it."
    )
    baseline = heart_rate.ONE_RUN
    unit = "sources"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {case.SMALL: (2, 4), case.FULL: (5, 25, 74)}

    def open(self) -> Sequence[Side | Absence]:
        return [Side(heart_rate.ONE_RUN, self._run, self._prepare)]

    def _folder(self, point: str, number: int) -> Path:
        return self.scene.side_folder(point, heart_rate.ONE_RUN, number)

    def _prepare(self, point: str, number: int) -> None:
        write_pipeline(self._folder(point, number), self.size(point))

    def _run(self, point: str, number: int) -> tuple[measure.Cost, int]:
        folder = self._folder(point, number)
        settings = settings_of(folder)
        command = [
            sys.executable, "-m", "sluicegate.cli", "run", PIPELINE, "--cold", "--lake", settings.lake,
            "--landing", settings.landing, "--pipelines", str(settings.pipelines), "--master", settings.master,
        ]  # fmt: skip
        cost = measure.run(command, self.scene.log, folder=heart_rate.ROOT)
        lake = layout.Lake(settings.lake, PIPELINE)
        gold = [Path(lake.table("gold", f"counted_{n}")) for n in range(self.size(point))]
        return cost, sum(map(heart_rate.rows, gold))

    def aims(self) -> list[Aim]:
        return [Aim(point, heart_rate.ONE_RUN, 60.0) for point in self.points if self.size(point) == 74]


def settings_of(folder: Path) -> Settings:
    """Return where the pipeline has its files and tables."""
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines", "local[2]")


def write_pipeline(folder: Path, sources: int) -> None:
    """Write a definition of so many sources, each with one landed record that settled long ago."""
    definition = f"name: {PIPELINE}\n"
    for layer, table in (("bronze", BRONZE), ("silver", SILVER), ("gold", GOLD)):
        definition += f"{layer}:\n" + "".join(table.format(n=n) for n in range(sources))
    home = folder / "pipelines" / PIPELINE
    home.mkdir(parents=True)
    (home / "pipeline.yaml").write_text(definition)
    for n in range(sources):
        file = folder / "landing" / str(n) / "first.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"id": n, "time": "2024-05-01 10:00:00", "value": f"value {n}"}) + "\n")
        os.utime(file, (0, 0))
