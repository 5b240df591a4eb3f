"""What gold costs by the size of silver: ``python bench/gold.py``.

The same 10,000 rows, of 100 groups, are added to silver tables of 0.1, 1 and 10 million rows over 100, 1,000 and 10,000
groups, and each way of keeping a table up to date is timed in turn in one warm session: ours by what is kept of groups,
by reading the groups that changed, and by running the query over everything; and beside them what people do without
this: the query written over the table (``recomputed``), a streaming aggregation in complete mode (``complete``), and a
materialized view of ``spark-pipelines``, which starts a process of its own, so that only the seconds between the
beginning and the end of its flow are counted. The ratio to the smallest is what counts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.definition import load
from sluicegate.jobs.layer import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings
from sluicegate.spark import configuration, java, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = "g, count(*) AS n, sum(v) AS s, avg(x) AS a"
PLAIN = f"SELECT {PARTS} FROM t GROUP BY g"
QUERIES = {
    "kept": (PLAIN, "incremental"),
    "groups": (f"SELECT {PARTS}, count(DISTINCT v) AS d FROM t GROUP BY g", "incremental"),
    "whole": (PLAIN, "full"),
}
BATCH, GROUPS_OF_BATCH = 10_000, 100

PIPELINE = """
name: gold
libraries: [{glob: {include: "transformations/**"}}]
storage: file://%(folder)s/storage
"""


def workspace(folder: Path) -> Settings:
    """A folder with a definition of each way, and a pipeline of Spark's own."""
    tables = "".join(f'  {name}: {{sql: "{sql}", refresh: {how}}}\n' for name, (sql, how) in QUERIES.items())
    path = folder / "pipelines" / "gold" / "pipeline.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "name: gold\nbronze:\n  raw: {path: /nowhere, format: json}\n"
        f'silver:\n  t: {{sql: "SELECT g, v, x FROM STREAM(raw) AS r"}}\ngold:\n{tables}'
    )
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
    view = folder / "declarative" / "transformations" / "view.sql"
    view.parent.mkdir(parents=True)
    silver = layout.Lake(settings.lake, "gold").table("silver", "t")
    view.write_text(f"CREATE MATERIALIZED VIEW mv AS {PLAIN.replace('FROM t', f'FROM delta.`{silver}`')}")
    (view.parent.parent / "spark-pipeline.yml").write_text(PIPELINE % {"folder": folder})
    return settings


def add(spark: SparkSession, at: layout.Lake, many: int, groups: int) -> None:
    """Commits rows to silver."""
    rows = spark.range(many).selectExpr(f"id % {groups} AS g", "id % 1000 AS v", "sqrt(id) AS x")
    rows.write.format("delta").mode("append").save(at.table("silver", "t"))


def recomputed(spark: SparkSession, where: Settings) -> None:
    """The query, written over the table."""
    spark.read.format("delta").load(_silver(where)).createOrReplaceTempView("t")
    spark.sql(PLAIN).write.format("delta").mode("overwrite").save(f"{where.lake}/recomputed")


def complete(spark: SparkSession, where: Settings) -> None:
    """The query as a stream in complete mode, as notebooks have it."""
    spark.readStream.format("delta").load(_silver(where)).createOrReplaceTempView("t")
    stream = spark.sql(PLAIN).writeStream.format("delta").outputMode("complete").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{where.lake}/checkpoint").start(f"{where.lake}/complete").awaitTermination()


def declarative(where: Settings) -> float:
    """Seconds that the flow of a materialized view of ``spark-pipelines`` takes, without the start of its process."""
    folder = Path(where.lake).parent / "declarative"
    warehouse = Path(where.lake) / "warehouse"
    for old in (warehouse, folder / "spark-warehouse"):  # its catalog dies with the process, and refuses old files
        shutil.rmtree(old, ignore_errors=True)
    conf = {
        **configuration.spark_conf(where, archive=False),
        "spark.sql.sources.default": "delta",
        "spark.sql.warehouse.dir": str(warehouse),
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    home = java.spark_home()
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin" / "spark-pipelines"), "run", "--spec", str(folder / "spark-pipeline.yml"), *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    at = {
        state: datetime.fromisoformat(time_)
        for time_, state in re.findall(r"^(\S+ [\d:]+): Flow \S+ (?:is|has) (RUNNING|COMPLETED)", said, re.M)
    }
    if {"RUNNING", "COMPLETED"} - at.keys():
        raise RuntimeError(f"spark-pipelines said:\n{said[-2000:]}")
    return (at["COMPLETED"] - at["RUNNING"]).total_seconds()


def _silver(where: Settings) -> str:
    return layout.Lake(where.lake, "gold").table("silver", "t")


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def measured(spark: SparkSession, where: Settings, *, pipelines: bool) -> dict[str, float]:
    """Seconds that each way takes to bring its table up to date."""
    pipeline, at = load("gold", where), layout.Lake(where.lake, "gold")
    found = {name: _seconds(Job(pipeline, at, "gold", {"run_id": "bench"}, spark, only=name).run) for name in QUERIES}
    found["recomputed"] = _seconds(lambda: recomputed(spark, where))
    found["complete"] = _seconds(lambda: complete(spark, where))
    if pipelines:
        found["pipelines"] = declarative(where)
    return found


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100000,1000000,10000000", help="rows of the silver tables")
    parser.add_argument("--runs", type=int, default=4, help="times each is measured; the first is not counted")
    parser.add_argument("--no-pipelines", action="store_true", help="leave out spark-pipelines")
    arguments = parser.parse_args()
    spark = session.session_inside("gold")
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
    found: dict[str, dict[int, list[float]]] = {}
    try:
        lakes = {int(size): workspace(folder / size) for size in arguments.sizes.split(",")}
        for size, where in lakes.items():
            add(spark, layout.Lake(where.lake, "gold"), size, max(size // 1000, GROUPS_OF_BATCH))
        for turn in range(arguments.runs + 1):  # the first makes the tables
            for size, where in lakes.items():
                if turn:
                    add(spark, layout.Lake(where.lake, "gold"), BATCH, GROUPS_OF_BATCH)
                for name, seconds in measured(spark, where, pipelines=not arguments.no_pipelines).items():
                    if turn > 1:
                        found.setdefault(name, {}).setdefault(size, []).append(seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, by_size in found.items():
        least = min(by_size[min(by_size)])
        for size, all_seconds in by_size.items():
            shown = ", ".join(f"{second:.1f}" for second in all_seconds)
            print(
                f"{name:<10} {size:>12,} rows: {shown} s, {min(all_seconds) / least:.2f}× of the smallest", flush=True
            )


if __name__ == "__main__":
    main()
