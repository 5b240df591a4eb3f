"""Ours against a notebook, on the same files, in turn: ``python -m bench.medallion [--input DIR] [--runs N]``.

Ours in three ways: three jobs as Airflow submits them, ``sluicegate run`` (one JVM for all layers), and a session that
has run before. The notebook in two: as people set it, and with Spark's defaults. All do the same work from landed files
to a gold table with as many rows, which is checked. The figure to look at is the ratio of two within one round; seconds
alone depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from sluicegate.definition import LAYERS, load
from sluicegate.jobs.run import Run
from sluicegate.lake import layout
from sluicegate.run import submit as run_submit
from sluicegate.run.request import Request
from sluicegate.settings import Settings
from sluicegate.spark import jars, java, session
from sluicegate.spark import submit as spark_submit
from sluicegate.tools.simulators import simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
FILES, RECORDS = 12, 8_900
PIPELINE = "heart_rate"
AS_SET, DEFAULTS = "notebook as people set it", "notebook with defaults"
AIMS = {"three jobs": 0.9, "sluicegate run": 0.5, "warm": 0.25}

# What a side does with a landing folder and a folder of its own: seconds of its parts, and the rows of gold.
Side = Callable[[Path, Path], tuple[dict[str, float], int]]


def prepare(folder: Path, given: str | None) -> Path:
    """The landing folder to measure on: the given one, or simulated files."""
    if given:
        return Path(given).resolve()
    landed(folder / "landing", FILES, RECORDS)
    return folder / "landing"


def landed(landing: Path, files: int, records: int) -> None:
    """Lands simulated files that settled long ago."""
    for file in simulate(str(landing), files, records, seed=1):
        os.utime(file.path, (0, 0))
    os.utime(landing / "patients" / "patients.csv", (0, 0))


def settings_of(landing: Path, folder: Path) -> Settings:
    """Where our side has its things."""
    return Settings.of(str(folder / "ours"), str(landing), ROOT / "pipelines", "local[2]")


def gold_of(settings: Settings) -> int:
    """Rows of our gold table."""
    return rows(layout.Lake(settings.lake, PIPELINE).table("gold", "daily_patient_avg"))


def rows(uri: str) -> int:
    """Rows of a table."""
    return int(DeltaTable(uri).count())


def three_jobs(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
    """Seconds of each of the three jobs, start included."""
    settings, seconds = settings_of(landing, folder), dict[str, float]()
    for layer in layout.LAYERS:
        clock = time.monotonic()
        run_submit.submit(layer, PIPELINE, settings, {"run_id": "bench"}, lambda _line: None)
        seconds[layer] = time.monotonic() - clock
    return seconds, gold_of(settings)


def one_run(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
    """Seconds of the command, Python's start included."""
    settings = settings_of(landing, folder)
    command = [
        sys.executable, "-m", "sluicegate.cli", "run", PIPELINE, "--lake", settings.lake,
        "--landing", settings.landing, "--pipelines", str(settings.pipelines), "--master", settings.master,
    ]  # fmt: skip
    clock = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - clock
    if done.returncode:
        sys.exit(f"sluicegate run failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return {"run": seconds}, gold_of(settings)


def warm(spark: SparkSession) -> Side:
    """The layers in a session that is there already, and has run before."""

    def side(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
        settings, seconds = settings_of(landing, folder), dict[str, float]()
        pipeline, at = load(PIPELINE, settings), layout.Lake(settings.lake, PIPELINE)
        shared = session.SharedSpark(PIPELINE, at, private=False, opened=spark)
        clock = time.monotonic()
        for report in Run(pipeline, at, {"run_id": "bench"}, shared).reports(Request(), LAYERS):
            seconds[report.layer] = time.monotonic() - clock - sum(seconds.values())
        return seconds, gold_of(settings)

    return side


def notebook(*options: str) -> Side:
    """The notebook, with options of its own."""

    def side(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
        command = [
            str(java.spark_home() / "bin" / "spark-submit"), "--master", "local[2]",
            "--jars", ",".join(map(str, jars.found())),
            "--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
            "--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
            str(ROOT / "bench" / "notebook.py"), str(landing), str(folder / "notebook"), *options,
        ]  # fmt: skip
        # Defaults means defaults: not those that set-up wrote beside this Spark.
        environment = spark_submit.submit_env() | {"SPARK_CONF_DIR": str(folder)}
        clock = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        whole = time.monotonic() - clock
        lines = [line for line in done.stdout.splitlines() if line.startswith("SECONDS ")]
        if done.returncode or not lines:
            sys.exit(f"the notebook failed:\n{done.stderr[-3000:]}")
        seconds: dict[str, float] = json.loads(lines[0].removeprefix("SECONDS "))
        seconds["start"] = whole - sum(seconds[layer] for layer in layout.LAYERS)
        return seconds, rows(str(folder / "notebook" / "gold"))

    return side


def measured(sides: dict[str, Side], landing: Path, scratch: Path, runs: int) -> dict[str, list[dict[str, float]]]:
    """Seconds of the parts of each side in each round, in turn; says each round at once."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(runs):
        gold: dict[str, int] = {}
        for name, side in sides.items():
            folder = scratch / str(number)
            folder.mkdir()
            seconds, gold[name] = side(landing, folder)
            shutil.rmtree(folder)
            found[name].append(seconds)
        if len(set(gold.values())) != 1:
            sys.exit(f"the gold tables differ in rows: {gold}")
        print(
            f"round {number + 1}: " + ", ".join(f"{name} {total(found[name][-1]):.1f} s" for name in sides), flush=True
        )
    return found


def total(seconds: dict[str, float]) -> float:
    """Seconds of all parts."""
    return sum(seconds.values())


def show(found: dict[str, list[dict[str, float]]]) -> None:
    """Prints the median of each part, and of the ratio to the notebook as people set it within one round."""
    for name, rounds in found.items():
        middle = {part: statistics.median(one[part] for one in rounds) for part in rounds[0]}
        ratios = [total(one) / total(theirs) for one, theirs in zip(rounds, found[AS_SET], strict=True)]
        aim = f" (the aim is {AIMS[name]})" if name in AIMS else ""
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in middle.items())
        print(f"{name:<26}{statistics.median(map(total, rounds)):6.1f} s, {statistics.median(ratios):.2f} of the"
              f" notebook as people set it{aim}: {parts}")  # fmt: skip


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", help="landing folder with recordings/ and patients/ (default: simulated files)")
    parser.add_argument("--runs", type=int, default=1, help="rounds to measure")
    arguments = parser.parse_args()
    spark = session.session_inside(PIPELINE)
    sides = {"three jobs": three_jobs, "sluicegate run": one_run, "warm": warm(spark),
             AS_SET: notebook("--as-set"), DEFAULTS: notebook()}  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        landed(folder / "before", 2, 100)
        (folder / "warm-up").mkdir()
        sides["warm"](folder / "before", folder / "warm-up")
        found = measured(sides, prepare(folder, arguments.input), folder, arguments.runs)
    spark.stop()
    show(found)


if __name__ == "__main__":
    main()
