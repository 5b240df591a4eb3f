"""What each technique of refreshing a gold table costs by the rows of a batch: ``python bench/refresh.py``.

Rows are added to silver tables of several sizes over few and many groups, and each technique is made to take them in,
in turn in one warm session. From the seconds come rates by least squares of the relative errors, as those in
`sluicegate/flow/refresh_cost.py` did.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.definition import load
from sluicegate.flow.refresh_cost import RATES, RATES_OF_KEYS, RefreshCost, Technique, TechniqueChoice, Work, rates_of
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.settings import Settings
from sluicegate.spark import session
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT g, count(*) AS n, sum(v) AS s, avg(x) AS a FROM t GROUP BY g"
# The same rows, of a query that is not taken apart.
DERIVED = QUERY.replace("FROM t", "FROM (SELECT * FROM t)")
ROWS = "SELECT g, v * 2 AS w, x FROM t"
# Tables by name: the query, its refresh strategy, the technique that each batch is made by.
TABLES: Mapping[str, tuple[str, StrategyKind, Technique]] = {
    **{technique: (QUERY, StrategyKind.INCREMENTAL, technique) for technique in RATES},
    **{f"{technique}_derived": (DERIVED, StrategyKind.AFFECTED_KEYS, technique) for technique in RATES_OF_KEYS},
    **{f"{technique}_rows": (ROWS, StrategyKind.AFFECTED_KEYS, technique) for technique in RATES_OF_KEYS},
}
# Rows of silver, their groups, rows of each batch.
CASES = [(300_000, 100, 1_000), (300_000, 100_000, 1_000), (300_000, 100_000, 100_000), (3_000_000, 1_000, 1_000),
         (3_000_000, 1_000, 1_000_000)]  # fmt: skip


def workspace(folder: Path) -> Settings:
    """A folder with a definition of the gold tables."""
    tables = "".join(f'  {name}: {{sql: "{query}"}}\n' for name, (query, _, _) in TABLES.items())
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


def seconds(spark: SparkSession, where: Settings, name: str) -> tuple[Work, float]:
    """Rows and seconds of one refresh of a table by its technique, as the cost model counts them."""
    _, kind, technique = TABLES[name]

    def choose(_: RefreshCost, permitted: Collection[Technique], work: Work) -> TechniqueChoice:
        found = technique if len(permitted) > 1 else next(iter(permitted))
        return TechniqueChoice(found, dict.fromkeys(RATES, 0.0), work)

    setattr(RefreshCost, "choose", choose)  # noqa: B010
    at = layout.Lake(where.lake, "gold")
    Job(load("gold", where), at, "gold", {"run_id": "bench"}, spark, only=[name]).run()
    run = RefreshCost.from_table(lake_tables.delta_table(at.table("gold", name)), kind).runs[0]
    return run.work, run.seconds


def main() -> None:
    """Reads the command line, and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="batches of each case; the first is not counted")
    arguments = parser.parse_args()
    spark = session.session_inside("refresh")
    runs_of_tables: dict[str, list[tuple[Work, float]]] = {name: [] for name in TABLES}
    for rows, groups, batch in CASES:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-bench-"))
        try:
            where = workspace(folder)
            add(spark, layout.Lake(where.lake, "gold"), rows, groups)
            for turn in range(arguments.runs + 1):  # the first makes the tables
                taken: dict[str, Any] = {}
                for name in TABLES:
                    work, took = seconds(spark, where, name)
                    taken[name] = round(took, 2)
                    if turn > 1:
                        runs_of_tables[name].append((work, took))
                print(f"{rows:>10,} rows, {groups:>8,} groups, {batch:>9,} more: {taken}", flush=True)
                add(spark, layout.Lake(where.lake, "gold"), batch, groups)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for name, runs in runs_of_tables.items():
        _, kind, technique = TABLES[name]
        shown = ", ".join(
            f"{took:.2f} ({sum(work.seconds_by_part(rates_of(kind)[technique])):.2f})" for work, took in runs
        )
        print(f"{name:<13} seconds (by its rates): {shown}", flush=True)


if __name__ == "__main__":
    main()
