"""What gold costs by the size of silver: ``python bench/gold.py``.

The same 10,000 rows, of 100 groups, are added to silver tables of 0.1, 1 and 10 million rows over 100, 1,000 and 10,000
groups, and each way of keeping a table up to date is timed in turn in one warm session: by what is kept of groups, by
reading the groups that changed, and by running the query over everything. The ratio to the smallest is what counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate import lake, session
from sluicegate.definition import load
from sluicegate.job import Job
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = "g, count(*) AS n, sum(v) AS s, avg(x) AS a"
QUERIES = {
    "kept": (f"SELECT {PARTS} FROM t GROUP BY g", "incremental"),
    "groups": (f"SELECT {PARTS}, count(DISTINCT v) AS d FROM t GROUP BY g", "incremental"),
    "whole": (f"SELECT {PARTS} FROM t GROUP BY g", "full"),
}
BATCH, GROUPS_OF_BATCH = 10_000, 100


def workspace(folder: Path) -> Settings:
    """A folder with a definition of each way."""
    tables = "".join(f'  {name}: {{sql: "{sql}", refresh: {how}}}\n' for name, (sql, how) in QUERIES.items())
    path = folder / "pipelines" / "gold" / "pipeline.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "name: gold\nbronze:\n  raw: {path: /nowhere, format: json}\n"
        f'silver:\n  t: {{sql: "SELECT g, v, x FROM STREAM(raw) AS r"}}\ngold:\n{tables}'
    )
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def add(spark: SparkSession, at: lake.Lake, many: int, groups: int) -> None:
    """Commits rows to silver."""
    rows = spark.range(many).selectExpr(f"id % {groups} AS g", "id % 1000 AS v", "sqrt(id) AS x")
    rows.write.format("delta").mode("append").save(at.table("silver", "t"))


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100000,1000000,10000000", help="rows of the silver tables")
    parser.add_argument("--runs", type=int, default=4, help="times each is measured; the first is not counted")
    arguments = parser.parse_args()
    spark = session.session_inside("gold")
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
    found: dict[str, dict[int, list[float]]] = {name: {} for name in QUERIES}
    try:
        lakes = {int(size): workspace(folder / size) for size in arguments.sizes.split(",")}
        for size, where in lakes.items():
            add(spark, lake.Lake(where.lake, "gold"), size, max(size // 1000, GROUPS_OF_BATCH))
        for turn in range(arguments.runs + 1):  # the first makes the tables
            for size, where in lakes.items():
                pipeline, at = load("gold", where), lake.Lake(where.lake, "gold")
                if turn:
                    add(spark, at, BATCH, GROUPS_OF_BATCH)
                for name in QUERIES:
                    started = time.monotonic()
                    Job(pipeline, at, "gold", {"run_id": "bench"}, spark, only=name).run()
                    if turn > 1:
                        found[name].setdefault(size, []).append(time.monotonic() - started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, by_size in found.items():
        least = min(by_size[min(by_size)])
        for size, seconds in by_size.items():
            told = ", ".join(f"{second:.1f}" for second in seconds)
            print(f"{name:<8} {size:>12,} rows: {told} s, {min(seconds) / least:.2f}× of the smallest", flush=True)


if __name__ == "__main__":
    main()
