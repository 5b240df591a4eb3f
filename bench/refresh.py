"""What each technique of refreshing a gold table costs by the rows of a batch: ``python bench/refresh.py``.

Rows are added to silver tables of several sizes over few and many groups, and each technique is made to take them in,
in turn in one warm session. From the seconds come rates by least squares of the relative errors, as those in
`sluicegate/flow/refresh_cost.py` did.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.definition import load
from sluicegate.flow.refresh_cost import RATES, RefreshCost, Technique, TechniqueChoice, Work
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.settings import Settings
from sluicegate.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT g, count(*) AS n, sum(v) AS s, avg(x) AS a FROM t GROUP BY g"
# The same rows, of a query that is not taken apart.
DERIVED = QUERY.replace("FROM t", "FROM (SELECT * FROM t)")
# Rows of silver, their groups, rows of each batch.
CASES = [(300_000, 100, 1_000), (300_000, 100_000, 1_000), (300_000, 100_000, 100_000), (3_000_000, 1_000, 1_000),
         (3_000_000, 1_000, 1_000_000)]  # fmt: skip


def workspace(folder: Path) -> Settings:
    """A folder with a definition of a gold table for each technique."""
    tables = "".join(f'  {name}: {{sql: "{DERIVED if name == "keys" else QUERY}"}}\n' for name in RATES)
    path = folder / "pipelines" / "gold" / "pipeline.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "name: gold\nbronze:\n  raw: {path: /nowhere, format: json}\n"
        f'silver:\n  t: {{sql: "SELECT g, v, x FROM STREAM(raw) AS r"}}\ngold:\n{tables}'
    )
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def add(spark: SparkSession, at: layout.Lake, many: int, groups: int) -> None:
    """Commits rows to silver."""
    rows = spark.range(many).selectExpr(f"pmod(hash(id), {groups}) AS g", "id % 1000 AS v", "sqrt(id) AS x")
    rows.write.format("delta").mode("append").save(at.table("silver", "t"))


def seconds(spark: SparkSession, where: Settings, technique: Technique) -> tuple[Work, float]:
    """Rows and seconds of one refresh by a technique, as the cost model counts them."""

    def choose(_: RefreshCost, permitted: Collection[Technique], work: Work) -> TechniqueChoice:
        found = technique if len(permitted) > 1 else next(iter(permitted))
        return TechniqueChoice(found, dict.fromkeys(RATES, 0.0), work)

    setattr(RefreshCost, "choose", choose)  # noqa: B010
    at = layout.Lake(where.lake, "gold")
    Job(load("gold", where), at, "gold", {"run_id": "bench"}, spark, only=technique).run()
    run = RefreshCost.of(lake_tables.delta_table(at.table("gold", technique))).runs[0]
    return run.work, run.seconds


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="batches of each case; the first is not counted")
    arguments = parser.parse_args()
    spark = session.session_inside("refresh")
    found: dict[Technique, list[tuple[Work, float]]] = {technique: [] for technique in RATES}
    for rows, groups, batch in CASES:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
        try:
            where = workspace(folder)
            add(spark, layout.Lake(where.lake, "gold"), rows, groups)
            for turn in range(arguments.runs + 1):  # the first makes the tables
                taken: dict[str, Any] = {}
                for technique in RATES:
                    work, took = seconds(spark, where, technique)
                    taken[technique] = round(took, 2)
                    if turn > 1:
                        found[technique].append((work, took))
                print(f"{rows:>10,} rows, {groups:>8,} groups, {batch:>9,} more: {taken}", flush=True)
                add(spark, layout.Lake(where.lake, "gold"), batch, groups)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for technique, runs in found.items():
        shown = ", ".join(f"{took:.2f} ({sum(work.parts(technique)):.2f})" for work, took in runs)
        print(f"{technique:<8} seconds (by RATES): {shown}", flush=True)


if __name__ == "__main__":
    main()
