"""What silver costs by the size of what is there already: ``python bench/silver.py``.

``--batches``: one batch of 10,000 new records into keyed silver tables of 0.1, 1 and 10 million rows, with the event
time among the keys. ``--intervals``: one day made again among 10, 100 and 1,000 days, after the rule was edited so
that a hundredth of its rows change, and once more with nothing to change. The tables are made of generated bronze
records, not of files, and all run in turn in one warm session; the ratio to the smallest is what counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.definition import load
from sluicegate.flow.selection import Interval
from sluicegate.jobs.layer import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings
from sluicegate.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFINITION = """
name: silver
bronze:
  raw: {path: "${landing}/raw", format: json, schema: "device BIGINT, at TIMESTAMP, value DOUBLE"}
silver:
  readings:
    sql: "SELECT device, at, value FROM STREAM(raw) AS r"
    keys: [device, at]
    event_time: at
    expectations: {low: {expect_or_quarantine: value < LIMIT}}
"""
BATCH, DAY = 10_000, 86_400
START = datetime(2020, 1, 1, tzinfo=UTC)
IN_A_DAY = 10_000


def workspace(folder: Path, limit: int = 100) -> Settings:
    """A folder with the definition, and where its things are."""
    (folder / "pipelines" / "silver").mkdir(parents=True, exist_ok=True)
    (folder / "pipelines" / "silver" / "pipeline.yaml").write_text(DEFINITION.replace("LIMIT", str(limit)))
    (folder / "landing" / "raw").mkdir(parents=True, exist_ok=True)
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def records(spark: SparkSession, first: int, many: int, chunk: int) -> DataFrame:
    """Bronze records, ``IN_A_DAY`` to a day, as if they had come in one chunk; each hundredth has value 99."""
    seconds = f"{int(START.timestamp())} + CAST(id AS DOUBLE) * {DAY / IN_A_DAY}"
    return spark.range(first, first + many).selectExpr(
        "id % 97 AS device", f"CAST({seconds} AS TIMESTAMP) AS at", "CAST(id % 100 AS DOUBLE) AS value",
        "CAST(NULL AS STRING) AS _rescued_data", "CAST(NULL AS STRING) AS _corrupt_record",
        "current_timestamp() AS receipt_time", f"'/landing/{chunk}.json' AS source_file",
        "current_timestamp() AS _file_modification_time", f"{chunk}L AS _chunk", "id AS _pos",
    )  # fmt: skip


def add(spark: SparkSession, at: layout.Lake, first: int, many: int, chunk: int) -> None:
    """Commits records to bronze, sorted by time as they would have arrived."""
    frame = records(spark, first, many, chunk)
    frame.write.format("delta").mode("append").save(at.table("bronze", "raw"))


def run(spark: SparkSession, where: Settings, interval: Interval | None = None) -> float:
    """Seconds of one run of silver."""
    pipeline = load("silver", where)
    started = time.monotonic()
    Job(pipeline, layout.Lake(where.lake, "silver"), "silver", {"run_id": "bench"}, spark, choice=interval).run()
    return time.monotonic() - started


def batches(spark: SparkSession, folder: Path, sizes: list[int], runs: int) -> None:
    """Times one batch into tables of several sizes."""
    found: dict[int, list[float]] = {}
    for size in sizes:
        where = workspace(folder / f"batches-{size}")
        at = layout.Lake(where.lake, "silver")
        for part in range(10):  # a table grows by many commits, each of its own time
            add(spark, at, part * size // 10, size // 10, part + 1)
            run(spark, where)
        for turn in range(runs):
            add(spark, at, size + turn * BATCH, BATCH, 100 + turn)
            found.setdefault(size, []).append(run(spark, where))
    _show("a batch of 10,000 into", found)


def intervals(spark: SparkSession, folder: Path, days: list[int], runs: int) -> None:
    """Times one day made again among several numbers of days."""
    changed: dict[int, list[float]] = {}
    same: dict[int, list[float]] = {}
    for many in days:
        where = workspace(folder / f"intervals-{many}")
        at = layout.Lake(where.lake, "silver")
        for part in range(10):
            add(spark, at, part * many // 10 * IN_A_DAY, many // 10 * IN_A_DAY, part + 1)
            run(spark, where)
        for turn in range(runs):
            day = START + timedelta(days=many // 2 + turn)
            workspace(folder / f"intervals-{many}", limit=99)
            interval = Interval(day, day + timedelta(days=1))
            changed.setdefault(many, []).append(run(spark, where, interval))
            same.setdefault(many, []).append(run(spark, where, interval))
    _show("a day of 10,000 again among days", changed)
    _show("the same with nothing to change, among days", same)


def _show(what: str, found: dict[int, list[float]]) -> None:
    least = min(found[min(found)])
    for size, seconds in found.items():
        shown = ", ".join(f"{second:.1f}" for second in seconds)
        print(f"{what} {size:>12,}: {shown} s, {min(seconds) / least:.2f}× of the smallest", flush=True)


def main() -> None:
    """Reads the command line, and measures."""

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", default="100000,1000000,10000000", help="rows of the tables; empty for none")
    parser.add_argument("--intervals", default="10,100,1000", help="days of the tables; empty for none")
    parser.add_argument("--runs", type=int, default=3, help="times each is measured")
    arguments = parser.parse_args()
    spark = session.session_inside("silver")
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
    try:
        if arguments.batches:
            batches(spark, folder, [int(size) for size in arguments.batches.split(",")], arguments.runs)
        if arguments.intervals:
            intervals(spark, folder, [int(days) for days in arguments.intervals.split(",")], arguments.runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
