"""The heart-rate pipeline, done by ours in three ways and by each rival: from a landing folder to a gold table.

Each function does the job once, for a landing folder and a folder of its own, and tells what it took and the rows that
gold has then. It goes on from what its folder has from the run before, as far as that way remembers anything.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from bench import case, measure
from bench.sides import declarative as declarative_side
from bench.worker import Worker
from sluicegate.definition import LAYERS, load
from sluicegate.jobs.run_job import Run
from sluicegate.lake import layout
from sluicegate.launch.request import Request
from sluicegate.settings import Settings
from sluicegate.spark import jars, java, session, spark_submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent
SIDES = ROOT / "bench" / "sides"
PIPELINE = "heart_rate"
THREE_JOBS, ONE_RUN, WARM = "three jobs", "one run", "warm run"

# Does the job for a landing folder and a folder of its own, and writes what is said to a log.
Program = Callable[[Path, Path, Path], tuple[measure.Cost, int]]


def settings_of(landing: Path, folder: Path) -> Settings:
    """Where our side has its things."""
    return Settings.of(str(folder / "lake"), str(landing), ROOT / "pipelines", "local[2]")


def gold_of(folder: Path) -> int:
    """Rows of our gold table."""
    return rows(Path(layout.Lake(str(folder / "lake"), PIPELINE).table("gold", "daily_patient_avg")))


def rows(table: Path) -> int:
    """Rows of a table."""
    return int(DeltaTable(str(table)).count())


def three_jobs(landing: Path, folder: Path, log: Path) -> tuple[measure.Cost, int]:
    """A spark-submit for each layer, as Airflow's tasks start them."""
    settings = settings_of(landing, folder)
    commands = [spark_submit.submit_command(layer, PIPELINE, settings, ["--run-info", "{}"]) for layer in LAYERS]
    # One shell, so that all three are one tree.
    script = " && ".join(f'"${{@:{1 + sum(map(len, commands[:at]))}:{len(one)}}}"' for at, one in enumerate(commands))
    words = [word for command in commands for word in command]
    cost = measure.run(["bash", "-c", script, "bash", *words], log, spark_submit.submit_env())
    return cost, gold_of(folder)


def run_command(landing: Path, folder: Path) -> list[str]:
    """Command line of ``sluicegate run``."""
    settings = settings_of(landing, folder)
    return [
        sys.executable, "-m", "sluicegate.cli", "run", PIPELINE, "--lake", settings.lake,
        "--landing", settings.landing, "--pipelines", str(settings.pipelines), "--master", settings.master,
    ]  # fmt: skip


def one_run(landing: Path, folder: Path, log: Path) -> tuple[measure.Cost, int]:
    """``sluicegate run``: one JVM for all layers, or none if there is nothing to do."""
    return measure.run(run_command(landing, folder), log, folder=ROOT), gold_of(folder)


def run_layers(spark: SparkSession, landing: str, folder: str) -> int:
    """Runs the layers in a session; called in a worker."""
    settings = settings_of(Path(landing), Path(folder))
    pipeline, at = load(PIPELINE, settings), layout.Lake(settings.lake, PIPELINE)
    shared = session.SharedSpark(PIPELINE, at, private=False, opened=spark)
    return sum(
        len(report.tables) for report in Run(pipeline, at, {"run_id": "bench"}, shared).reports(Request(), LAYERS)
    )


def warm_run(worker: Worker) -> Program:
    """The layers in a session that is there already, and has run before."""

    def program(landing: Path, folder: Path, _log: Path) -> tuple[measure.Cost, int]:
        cost, _ = worker.call(run_layers, landing=str(landing), folder=str(folder))
        return cost, gold_of(folder)

    return program


def submit_program(script: str, *options: str) -> Program:
    """A script of plain Spark with Delta, by spark-submit."""

    def program(landing: Path, folder: Path, log: Path) -> tuple[measure.Cost, int]:
        command = [
            str(java.spark_home() / "bin" / "spark-submit"), "--master", "local[2]",
            "--jars", ",".join(map(str, jars.find_jars())), *_options(declarative_side.DELTA),
            str(SIDES / script), str(landing), str(folder), *options,
        ]  # fmt: skip
        # Defaults means defaults: not those that set-up wrote beside this Spark.
        cost = measure.run(command, log, spark_submit.submit_env() | {"SPARK_CONF_DIR": str(folder)})
        return cost, rows(folder / "gold")

    return program


def _options(conf: dict[str, str]) -> list[str]:
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def declarative(*, tuned: bool) -> Program:
    """``spark-pipelines run``; see ``declarative.project``."""

    def program(landing: Path, folder: Path, log: Path) -> tuple[measure.Cost, int]:
        if not (folder / declarative_side.SPEC_FILE).exists():
            definitions = (SIDES / "declarative_heart_rate.py").read_text()
            declarative_side.project(folder, "definitions.py", definitions, tuned=tuned)
        cost = declarative_side.run(folder, log, {"BENCH_LANDING": str(landing)})
        return cost, rows(declarative_side.table(folder, "gold"))

    return program


def script(name: str, gold: str) -> Program:
    """A script of Python alone."""

    def program(landing: Path, folder: Path, log: Path) -> tuple[measure.Cost, int]:
        cost = measure.run([sys.executable, str(SIDES / name), str(landing), str(folder)], log)
        return cost, rows(folder / gold)

    return program


def missing_module_reason(module: str, how: str) -> str | None:
    """Why a side that needs a module cannot be measured; None if it can."""
    return None if importlib.util.find_spec(module) else f"{module} is not installed: {how}"


def rivals() -> list[tuple[str, Program | str]]:
    """Every rival by name, with its program, or why it cannot be had."""
    return [
        (case.AS_SET, submit_program("../notebook.py", "--as-set")),
        (case.DEFAULTS, submit_program("../notebook.py")),
        (case.BATCH, submit_program("batch.py")),
        (case.DECLARATIVE, declarative(tuned=False)),
        (case.DECLARATIVE_TUNED, declarative(tuned=True)),
        (case.DUCKDB, script("duck.py", "gold")),
        (case.DLT, missing_module_reason("dlt", "`make bench` brings it") or script("dlt_heart_rate.py", "dlt/gold")),
    ]
