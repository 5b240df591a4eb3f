"""Three jobs against a notebook, on the same files, in turn: ``python bench/medallion.py [--input DIR] [--runs N]``.

Both do the same work from landed files to a gold table with as many rows. The figure to look at is the ratio of the
two within one pair; seconds alone depend on the machine. The notebook's table is checked to have the same rows.
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
from pathlib import Path

from deltalake import DeltaTable

from sluicegate.lake import layout
from sluicegate.run import submit as run_submit
from sluicegate.settings import Settings
from sluicegate.spark import jars, java
from sluicegate.spark import submit as spark_submit
from sluicegate.tools.simulators import simulate

ROOT = Path(__file__).resolve().parent.parent
FILES, RECORDS = 12, 8_900


def prepare(folder: Path, given: str | None) -> Path:
    """The landing folder to measure on: the given one, or simulated files."""
    if given:
        return Path(given).resolve()
    for file in simulate(str(folder / "landing"), FILES, RECORDS, seed=1):
        os.utime(file.path, (0, 0))  # settled long ago
    os.utime(folder / "landing" / "patients" / "patients.csv", (0, 0))
    return folder / "landing"


def ours(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
    """Seconds of each of the three jobs, start included, and the rows of gold."""
    settings = Settings.of(str(folder / "ours"), str(landing), ROOT / "pipelines", "local[2]")
    seconds = {}
    for layer in layout.LAYERS:
        clock = time.monotonic()
        report = run_submit.submit(layer, "heart_rate", settings, {"run_id": "bench"}, lambda _line: None)
        seconds[layer] = time.monotonic() - clock
        seconds[f"{layer}, of it work"] = sum(table.seconds for table in report.tables)
    return seconds, rows(f"{settings.lake}/heart_rate/gold/daily_patient_avg")


def notebook(landing: Path, folder: Path) -> tuple[dict[str, float], int]:
    """Seconds of each part of the notebook, and the rows of gold."""
    class_path = ",".join(map(str, jars.found()))
    command = [
        str(java.spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--jars", class_path,
        "--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
        str(ROOT / "bench" / "notebook.py"), str(landing), str(folder / "notebook"),
    ]  # fmt: skip
    # Defaults means defaults: not those that set-up wrote beside this Spark.
    environment = spark_submit.submit_env() | {"SPARK_CONF_DIR": str(folder)}
    clock = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    whole = time.monotonic() - clock
    lines = [line for line in done.stdout.splitlines() if line.startswith("SECONDS ")]
    if done.returncode or not lines:
        sys.exit(f"the notebook failed:\n{done.stderr[-3000:]}")
    seconds = json.loads(lines[0].removeprefix("SECONDS "))
    seconds["start"] = whole - sum(seconds[layer] for layer in layout.LAYERS)
    return seconds, rows(str(folder / "notebook" / "gold"))


def rows(uri: str) -> int:
    """Rows of a table."""
    return int(DeltaTable(uri).count())


def main() -> None:
    """Measures pairs and prints each part's median and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", help="landing folder with recordings/ and patients/ (default: simulated files)")
    parser.add_argument("--runs", type=int, default=1, help="pairs to measure")
    arguments = parser.parse_args()
    ratios: list[float] = []
    parts: dict[str, list[dict[str, float]]] = {"three jobs": [], "notebook": []}
    with tempfile.TemporaryDirectory() as scratch:
        landing = prepare(Path(scratch), arguments.input)
        for number in range(arguments.runs):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            mine, my_rows = ours(landing, folder)
            theirs, their_rows = notebook(landing, folder)
            if my_rows != their_rows:
                sys.exit(f"the gold tables differ: {my_rows} and {their_rows} rows")
            shutil.rmtree(folder)
            parts["three jobs"].append(mine)
            parts["notebook"].append(theirs)
            total = sum(mine[layer] for layer in layout.LAYERS)
            ratios.append(total / sum(theirs.values()))
            print(f"pair {number + 1}: {total:.1f} s / {sum(theirs.values()):.1f} s = {ratios[-1]:.2f}", flush=True)
    for name, measured in parts.items():
        middle = {part: statistics.median(one[part] for one in measured) for part in measured[0]}
        print(f"{name:<11} " + ", ".join(f"{part} {seconds:.1f} s" for part, seconds in middle.items()))
    print(f"ratio: {statistics.median(ratios):.2f} (the aim is 0.35)")


if __name__ == "__main__":
    main()
