"""What a run costs before Spark starts, by how many files are known: ``python bench/discovery.py``.

Files really land and are entered into a real ledger, a commit for each thousand. Bronze is committed as the job does
it, with the facts that its outcome is made of, but by delta-rs and with one row a file. Then files land anew, and a
process of its own measures, the listing of the landing folder apart: ``enter`` (discovery and the commits of the
ledger), ``before`` (all else that a bronze job does before Spark) and ``idle`` (what a run with nothing new does).
Once with the known files still lying there, and once after they were archived. With ``--spark`` whole bronze runs are
measured instead, in turn in one warm session.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset  # noqa: F401  (else the first look at a table would take the time of this import)

from bench.cases.known import land, prepare, settings_of, take_landed
from sluicegate.definition import load
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.landing import file_status, intake
from sluicegate.monitor import plan
from sluicegate.spark import session
from sluicegate.storage import listings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AIM = 1.3


def time_part(parts: dict[str, float], part: str, work: Callable[[], Any]) -> Any:
    """Does some work, and adds its seconds to a part."""
    clock = time.perf_counter()
    try:
        return work()
    finally:
        parts[part] = parts.get(part, 0.0) + time.perf_counter() - clock


def peak() -> float:
    """Megabytes that this process has had at its highest, Python and its libraries included."""
    try:  # what getrusage says is on Linux at least what the process had that started this one
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def measure(folder: Path, new: int) -> dict[str, float]:
    """Seconds of each part of a bronze run before Spark, and the memory at its highest, with ``new`` files landed."""
    parts: dict[str, float] = {}
    listed = listings.files
    listings.files = lambda *how: time_part(parts, "listing", lambda: listed(*how))
    where = settings_of(folder)
    pipeline = load("discovery", where)
    at, table = layout.Lake(where.lake, "discovery"), pipeline.bronze["things"]
    flow = flows.flows(pipeline, at, "bronze")["things"]
    time_part(parts, "before", lambda: file_status.copy(at, "things"))
    found = time_part(parts, "enter", lambda: intake.enter("things", table, at))
    time_part(parts, "before", lambda: progress(flow))
    parts["enter"] -= parts["listing"]
    parts["MB"] = peak()
    if found.new.num_rows != new:
        sys.exit(f"{found.new.num_rows} files were found, and {new} had landed")
    listing = parts["listing"]
    time_part(parts, "idle", lambda: plan.pending(pipeline, where))
    parts["idle"] -= parts["listing"] - listing
    return parts | {"listing": listing}


def runs(folder: Path, known: int, new: int, times: int) -> dict[str, float]:
    """The median of each part of some runs, each in a process of its own."""
    seen: list[dict[str, float]] = []
    for number in range(times):
        land(folder, known + number * new, new)
        command = [sys.executable, __file__, "--measure", str(folder), "--new", str(new)]
        seen.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        take_landed(folder)
    return {part: statistics.median(run[part] for run in seen) for part in seen[0]}


def one_run(folder: Path, spark: SparkSession) -> dict[str, float]:
    """Seconds of one bronze run, and of the listing in it."""
    parts: dict[str, float] = {}
    listed = listings.files
    listings.files = lambda *how: time_part(parts, "listing", lambda: listed(*how))
    try:
        at = layout.Lake(settings_of(folder).lake, "discovery")
        job = Job(load("discovery", settings_of(folder)), at, "bronze", {"run_id": "bench"}, spark)
        time_part(parts, "run", job.run)
    finally:
        listings.files = listed
    return parts


def whole_runs(known: int, new: int, times: int) -> None:
    """Prints what a whole bronze run takes with so many known files lying there, beside one with ten, listing apart."""
    spark = session.session_inside("discovery")
    ratios = []
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        folders = {Path(few): 10, Path(many): known}
        for folder, count in folders.items():
            prepare(folder, count)
        for number in range(times + 2):  # two to warm up
            seconds = []
            for folder, count in folders.items():
                land(folder, count + number * new, new)
                parts = one_run(folder, spark)
                seconds.append(parts["run"] - parts["listing"])
            if number > 1:
                ratios.append(seconds[1] / seconds[0])
                print(f"{known:,} known: {seconds[1]:.2f} s, ten known: {seconds[0]:.2f} s", flush=True)
    spark.stop()
    print(f"whole bronze runs with {new} new files: {statistics.median(ratios):.2f}× (aim {AIM})")


def show(title: str, parts: dict[str, float]) -> None:
    """One line of figures."""
    print(f"{title:<44}" + "  ".join(f"{part} {parts[part]:8.3f}" for part in sorted(parts)), flush=True)


def main() -> None:
    """Measures and prints the ratios to few known files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", default="100000:10,1000000:1000", help="known:new, several with commas")
    parser.add_argument("--runs", type=int, default=7, help="of which the median is shown")
    parser.add_argument("--spark", action="store_true", help="measure whole bronze runs")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--new", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.new)))
        return
    for pair in arguments.files.split(","):
        known, new = (int(part) for part in pair.split(":"))
        if arguments.spark:
            whole_runs(known, new, arguments.runs)
            continue
        found = {}
        for many in (10, known):
            with tempfile.TemporaryDirectory() as scratch:
                prepare(Path(scratch), many)
                found[many] = runs(Path(scratch), many, new, arguments.runs)
                show(f"{many:,} known and lying there, {new:,} new", found[many])
                if many == known:
                    shutil.rmtree(Path(scratch) / "landing")
                    archived = runs(Path(scratch), known + arguments.runs * new, new, arguments.runs)
                    show(f"{many:,} known and archived, {new:,} new", archived)
        for title, parts in (("lying there", found[known]), ("archived", archived)):
            ratios = {part: parts[part] / found[10][part] for part in ("enter", "before", "idle")}
            print(
                f"  {title}: " + ", ".join(f"{part} {ratio:.2f}×" for part, ratio in ratios.items()) + f" (aim {AIM})"
            )


if __name__ == "__main__":
    main()
