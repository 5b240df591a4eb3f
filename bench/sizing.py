"""What a run costs by files, rows, groups and history, and on two workers: ``python -m bench.sizing``.

Each measure is a job of its own, started by spark-submit as people do, so its seconds hold the start of Spark. One of
four sizes is varied while the others stay: files of one run, rows of one run, groups of the gold table, and runs that
went before (ledger entries, versions of each table). CPU seconds are of all processes of a job: on a machine with other
work they vary less than seconds do. Megabytes are the peak of its largest process, the driver; bytes what it wrote.
With ``--cluster`` the same files go through ``local[2]`` and through a standalone cluster of two workers with one core
each, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scripts.standalone import cluster
from sluicegate.definition import load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, tables
from sluicegate.launch import submit
from sluicegate.monitor import plan
from sluicegate.settings import Settings
from sluicegate.spark import session

DEFINITION = """
name: sizing
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "device BIGINT, at DOUBLE, value DOUBLE"}
silver:
  readings:
    sql: SELECT device, CAST(at AS TIMESTAMP) AS at, value FROM STREAM(raw) AS r
    keys: [device, at]
    event_time: at
gold:
  by_device:
    sql: SELECT device, count(*) AS n, avg(value) AS mean FROM readings GROUP BY device
    refresh: incremental
"""
# Of a run, and of what is there before it.
USUAL = {"files": 10, "rows": 100_000, "groups": 100, "runs before": 1}
SIZES = {
    "files": (10, 100, 1000),
    "rows": (10_000, 100_000, 1_000_000),
    "groups": (100, 1_000, 10_000),
    "runs before": (1, 10, 40),
}
STEPS = ("idle", *layout.LAYERS)
START = 1_577_836_800


def land(folder: Path, files: int, rows: int, groups: int, first: int = 0) -> None:
    """Lands files of JSON lines, of which no two rows have one key, as if long ago."""
    landing = folder / "landing" / "raw"
    landing.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        file = landing / f"{first:09d}-{number:06d}.json"
        with file.open("w") as lines:
            for at in range(first + number, first + rows, files):
                reading = {"device": at % groups, "at": START + at // groups, "value": at % 1009 / 8}
                lines.write(json.dumps(reading) + "\n")
        os.utime(file, (first, first))


def workspace(folder: Path) -> Settings:
    """A folder with the definition, and where its things are."""
    (folder / "pipelines" / "sizing").mkdir(parents=True)
    (folder / "pipelines" / "sizing" / "pipeline.yaml").write_text(DEFINITION)
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines", "local[2]")


def run_before(folder: Path, settings: Settings, runs: int, groups: int) -> int:
    """Has so many small runs go before, in one warm session, and gives the number of rows that they took in."""
    rows, pipeline = max(groups, 1000), load("sizing", settings)
    spark = session.session_inside("sizing")
    for number in range(runs):
        land(folder, 1, rows, groups, first=number * rows)
        for layer in layout.LAYERS:
            Job(pipeline, layout.Lake(settings.lake, "sizing"), layer, {}, spark, tell=lambda _: None).run()
    spark.stop()
    return runs * rows


def measure(folder: Path, step: str, master: str) -> dict[str, float]:
    """What one step costs; in a process of its own, since the system tells the peak of all children together."""
    settings = replace(Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines"), master=master)
    began, before = time.monotonic(), size(folder / "lake")
    if step == "idle":
        plan.pending(load("sizing", settings), settings)
    else:
        submit.submit(step, "sizing", settings, {"run_id": "bench"}, lambda _: None)
    used = resource.getrusage(resource.RUSAGE_SELF if step == "idle" else resource.RUSAGE_CHILDREN)
    return {
        "s": time.monotonic() - began, "CPU s": used.ru_utime + used.ru_stime,
        "MB": own_peak() if step == "idle" else used.ru_maxrss / 1024,
        "bytes": float(size(folder / "lake") - before),
    }  # fmt: skip


def own_peak() -> float:
    """MB that this process had at most; ``ru_maxrss`` begins with what the one had that started it (getrusage(2))."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status does not tell VmHWM")


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_in_process(folder: Path, step: str, master: str = "local[2]") -> dict[str, float]:
    """The same, from that process."""
    command = [sys.executable, "-m", "bench.sizing", "--measure", str(folder), step, master]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def demand_complete(folder: Path, rows: int, groups: int) -> None:
    """Ends all where gold has not what landed: the figures would be of something else."""
    gold = tables.dataset(
        tables.table_at(layout.Lake(str(folder / "lake"), "sizing").table("gold", "by_device"))
    ).to_table()
    if (found := (sum(gold["n"].to_pylist()), gold.num_rows)) != (rows, groups):
        sys.exit(f"gold has {found} readings and groups, and {(rows, groups)} landed")


def show(title: str, step: str, cost: dict[str, float]) -> None:
    """One line of figures."""
    print(f"{title:<28}{step:<8}{cost['s']:8.2f} s {cost['CPU s']:8.2f} CPU s {cost['MB']:7,.0f} MB "
          f"{cost['bytes']:13,.0f} bytes", flush=True)  # fmt: skip


def slopes(varied: str, sizes: tuple[int, ...]) -> None:
    """Prints what each step costs at each size, and by how much that grows with the last step from size to size."""
    costs = []
    for many in sizes:
        usual = USUAL | {varied: many}
        with tempfile.TemporaryDirectory(prefix="sizing-") as scratch:
            folder = Path(scratch)
            first = run_before(folder, workspace(folder), usual["runs before"], usual["groups"])
            land(folder, usual["files"], usual["rows"], usual["groups"], first)
            costs.append({step: measure_in_process(folder, step) for step in STEPS})
            demand_complete(folder, first + usual["rows"], usual["groups"])
        for step in STEPS:
            show(f"{many:,} {varied}", step, costs[-1][step])
    more = sizes[-1] - sizes[-2]
    for step in STEPS:
        grown = {unit: (costs[-1][step][unit] - costs[-2][step][unit]) / more * 1000 for unit in costs[-1][step]}
        print(f"  a thousand {varied} more: {step} {grown['CPU s']:+.3f} CPU s, {grown['MB']:+.2f} MB, "
              f"{grown['bytes']:+,.0f} bytes", flush=True)  # fmt: skip


def side_by_side(files: int, rows: int, pairs: int) -> None:
    """Prints what local[2] and two workers with one core each take for the same files."""
    with tempfile.TemporaryDirectory(prefix="sizing-") as scratch, cluster(Path(scratch) / "c", 2, "2g") as started:
        os.environ |= started.environment
        for number in range(pairs):
            for master in ("local[2]", started.master):
                folder = Path(scratch) / f"{number}-{master == started.master}"
                workspace(folder)
                land(folder, files, rows, 1000)
                for layer in layout.LAYERS:
                    name = "two workers" if master == started.master else master
                    show(f"{rows:,} rows, {name}", layer, measure_in_process(folder, layer, master))
                demand_complete(folder, rows, 1000)


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--of", choices=SIZES, action="append", help="only this size; may be repeated")
    parser.add_argument("--cluster", metavar="ROWS", type=int, help="measure two workers beside this machine instead")
    parser.add_argument("--files", type=int, default=20, help="files that these rows are in")
    parser.add_argument("--runs", type=int, default=2, help="pairs of these")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        folder, step, master = arguments.measure
        print(json.dumps(measure(Path(folder), step, master)))
    elif arguments.cluster:
        side_by_side(arguments.files, arguments.cluster, arguments.runs)
    else:
        for varied in arguments.of or SIZES:
            slopes(varied, SIZES[varied])


if __name__ == "__main__":
    main()
