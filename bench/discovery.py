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
import os
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

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset  # else the first look at a table would take the time of this import
from deltalake import CommitProperties, Transaction, write_deltalake

from sluicegate.definition import load
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.jobs.layer import Job
from sluicegate.lake import layout, log, tables
from sluicegate.landing import file_status, intake
from sluicegate.monitor import plan
from sluicegate.settings import Settings
from sluicegate.spark import session
from sluicegate.storage import listings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION = """
name: discovery
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: id BIGINT, settleSeconds: 0}
"""
AIM = 1.3


def settings(folder: Path) -> Settings:
    """Where a bench's folder has its things."""
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def land(folder: Path, first: int, many: int) -> None:
    """Lands empty files, a thousand to a folder."""
    for number in range(first, first + many):
        below = folder / "landing" / "things" / f"date=2024-{number // 1000:06d}"
        if number == first or number % 1000 == 0:
            below.mkdir(parents=True, exist_ok=True)
        os.close(os.open(below / f"part-{number:09d}-of-a-longer-name.json", os.O_CREAT | os.O_WRONLY))


def prepare(folder: Path, known: int) -> None:
    """Makes a landing folder, a ledger and an outcome of so many files."""
    (folder / "pipelines" / "discovery").mkdir(parents=True)
    (folder / "pipelines" / "discovery" / "pipeline.yaml").write_text(DEFINITION)
    land(folder, 0, known)
    take(folder)


def take(folder: Path) -> None:
    """Enters what has landed, and commits to bronze and its outcome what a job would."""
    pipeline = load("discovery", settings(folder))
    at, table = layout.Lake(settings(folder).lake, "discovery"), pipeline.bronze["things"]
    intake.enter("things", table, at)
    ledger = tables.delta_table(at.ledger("things"))
    if ledger is None:
        sys.exit("nothing has landed")
    app_id = f"sluicegate.bronze.things@{tables.table_id(ledger)}"
    offset = tables.txn_version(tables.delta_table(at.table("bronze", "things")), app_id)
    entries = tables.dataset(ledger).to_table(["path", "chunk"]).sort_by("chunk")
    entries = entries.combine_chunks()
    chunks = entries["chunk"].combine_chunks()
    for chunk in chunks.filter(pc.greater(chunks, -1 if offset is None else offset)).unique().to_pylist():
        first, count = pc.index(chunks, chunk).as_py(), pc.sum(pc.equal(chunks, chunk)).as_py()
        paths = entries["path"].slice(first, count)
        facts = {"chunk": chunk, "failed": {}, "definition": table.fingerprint}
        rows = {
            "id": pa.array(range(count)), "_chunk": pa.repeat(chunk, count), "_pos": pa.array(range(count)),
            "source_file": pa.array(["file://" + path for path in paths.to_pylist()]),
            "_corrupt_record": pa.nulls(count, pa.string()), "_rescued_data": pa.nulls(count, pa.string()),
        }  # fmt: skip
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})},
            app_transactions=[Transaction(app_id, chunk)],
        )
        write_deltalake(at.table("bronze", "things"), pa.table(rows), mode="append", commit_properties=properties)
        if chunk % 25 == 0:
            file_status.copy(at, "things")
    file_status.copy(at, "things")


def timed(parts: dict[str, float], part: str, work: Callable[[], Any]) -> Any:
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
    listings.files = lambda *how: timed(parts, "listing", lambda: listed(*how))
    where = settings(folder)
    pipeline = load("discovery", where)
    at, table = layout.Lake(where.lake, "discovery"), pipeline.bronze["things"]
    flow = flows.flows(pipeline, at, "bronze")["things"]
    timed(parts, "before", lambda: file_status.copy(at, "things"))
    found = timed(parts, "enter", lambda: intake.enter("things", table, at))
    timed(parts, "before", lambda: progress(flow))
    parts["enter"] -= parts["listing"]
    parts["MB"] = peak()
    if found.new.num_rows != new:
        sys.exit(f"{found.new.num_rows} files were found, and {new} had landed")
    listing = parts["listing"]
    timed(parts, "idle", lambda: plan.pending(pipeline, where))
    parts["idle"] -= parts["listing"] - listing
    return parts | {"listing": listing}


def runs(folder: Path, known: int, new: int, times: int) -> dict[str, float]:
    """The median of each part of some runs, each in a process of its own."""
    seen: list[dict[str, float]] = []
    for number in range(times):
        land(folder, known + number * new, new)
        command = [sys.executable, __file__, "--measure", str(folder), "--new", str(new)]
        seen.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        take(folder)
    return {part: statistics.median(run[part] for run in seen) for part in seen[0]}


def one_run(folder: Path, spark: SparkSession) -> dict[str, float]:
    """Seconds of one bronze run, and of the listing in it."""
    parts: dict[str, float] = {}
    listed = listings.files
    listings.files = lambda *how: timed(parts, "listing", lambda: listed(*how))
    try:
        at = layout.Lake(settings(folder).lake, "discovery")
        job = Job(load("discovery", settings(folder)), at, "bronze", {"run_id": "bench"}, spark)
        timed(parts, "run", job.run)
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
