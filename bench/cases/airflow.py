"""What Airflow adds: a run of the DAG beside the same jobs without it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from bench import case
from bench.case import Absence, Case, Side
from bench.cases.files import SIZES, land_files
from bench.measure import CommandFailed, Cost, Watch
from bench.sides import heart_rate
from sluicegate.settings import Settings
from sluicegate.tools.demo.local_airflow import LocalAirflow

LAYERS, RUN = "DAG, a task for each layer", "DAG, one task for all"
TASKS = {LAYERS: "layers", RUN: "run"}
PATIENCE, POLL = 1800.0, 0.2  # seconds
POINT = "first load"


class DagOverhead(Case):
    """Each side has an Airflow of its own, which is up before the clock starts."""

    name = "dag-overhead"
    sentence = (
        "The first load of case files, by a run of its DAG in a local Airflow that is up and has parsed it, and by the"
        " same jobs without Airflow. Seconds are from the trigger to the end of the run; CPU seconds and megabytes have"
        " all of Airflow's processes in them."
    )
    baseline = heart_rate.THREE_JOBS
    points: ClassVar[list[str]] = [POINT]

    def open(self) -> Sequence[Side | Absence]:
        files, records, _ = SIZES[self.scene.scale]
        if self.scene.input:
            shutil.copytree(self.scene.input, self._landing)
        else:
            land_files(self._landing, files, records)
        return [
            Side(heart_rate.THREE_JOBS, lambda _, number: self._run_program(heart_rate.three_jobs, number)),
            Side(heart_rate.ONE_RUN, lambda _, number: self._run_program(heart_rate.one_run, number)),
            *(Side(name, lambda _, number, name=name: self._dag(name, number)) for name in TASKS),  # type: ignore[misc]
            *(Absence(name, "it brings no DAG: whoever runs it in Airflow writes one") for name in (
                case.AS_SET, case.BATCH, case.DECLARATIVE_TUNED, case.DUCKDB, case.DLT)),
        ]  # fmt: skip

    @property
    def _landing(self) -> Path:
        return self.scene.folder / "landing"

    def _run_program(self, program: heart_rate.Program, number: int) -> tuple[Cost, int]:
        with self._folder(program.__name__, number) as folder:
            return program(self._landing, folder, self.scene.log)

    def _dag(self, name: str, number: int) -> tuple[Cost, int]:
        with self._folder(name, number) as folder:
            settings = heart_rate.settings_of(self._landing, folder)
            pipelines = folder / "pipelines"
            shutil.copytree(heart_rate.ROOT / "pipelines" / heart_rate.PIPELINE, pipelines / heart_rate.PIPELINE)
            definition = pipelines / heart_rate.PIPELINE / "pipeline.yaml"
            definition.write_text(definition.read_text() + f"\ntasks: {TASKS[name]}\n")
            settings = Settings.of(settings.lake, settings.landing, pipelines, settings.master)
            return _run(folder / "airflow", settings), heart_rate.gold_of(folder)

    @contextmanager
    def _folder(self, side: str, number: int) -> Iterator[Path]:
        folder = self.scene.side_folder("lakes", side, number)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _run(home: Path, settings: Settings) -> Cost:
    with LocalAirflow(home, settings, lasting=False) as airflow:
        airflow.wait(heart_rate.PIPELINE)
        watch = Watch(os.getpid())  # below which all of Airflow is; itself it only waits
        run_id = airflow.trigger(heart_rate.PIPELINE)
        until = time.monotonic() + PATIENCE
        while (state := airflow.run_state(heart_rate.PIPELINE, run_id)) in ("queued", "running"):
            if time.monotonic() > until:
                break
            time.sleep(POLL)
        cost = watch.end()
        if state != "success":
            failed = [task for task in airflow.tasks(heart_rate.PIPELINE, run_id) if task["state"] == "failed"]
            why = [airflow.failure(heart_rate.PIPELINE, run_id, task["task_id"], task["try_number"]) for task in failed]
            raise CommandFailed(f"the DAG run is {state}: {'; '.join(why) or airflow.log}")
        return cost
