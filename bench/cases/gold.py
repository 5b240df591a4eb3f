"""A gold table brought up to date after few new rows: by how much silver has, and by how many groups there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
from deltalake import DeltaTable, write_deltalake

from bench import case, measure
from bench.case import Absence, Aim, Side, Sized
from bench.sides import declarative
from bench.worker import OURS, PLAIN, PYTHON
from sluicegate.definition import load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = "g, count(*) AS n, sum(v) AS s, avg(x) AS a"
PLAIN_QUERY = f"SELECT {PARTS} FROM t GROUP BY g"
COMPLETE = "plain Spark, stream in complete mode"

# Our table, its query and its `refresh`, by side.
OURS_BY_SIDE = {
    "auto": ("automatic", PLAIN_QUERY, "auto"),
    "incremental": ("state", PLAIN_QUERY, "incremental"),
    "affected groups": ("groups", f"SELECT {PARTS}, count(DISTINCT v) AS d FROM t GROUP BY g", "incremental"),
    "full recompute": ("whole", PLAIN_QUERY, "full"),
}


class Gold(Sized):
    """Ours by each refresh strategy, and the query as people run it, over one silver table."""

    baseline = case.BATCH
    new: ClassVar[tuple[int, int]]

    def rows_and_groups(self, size: int) -> tuple[int, int]:
        """Rows of silver at a size, and the groups that they are in."""
        raise NotImplementedError

    def open(self) -> Sequence[Side | Absence]:
        for point in self.points:
            workspace(self._folder(point))
            rows, groups = self.rows_and_groups(self.size(point))
            self.scene.preparer.call(add, table=self._silver(point), rows=rows, groups=groups)
        sides: list[Side | Absence] = [
            self._sluicegate_side(name, table) for name, (table, _, _) in OURS_BY_SIDE.items()
        ]
        sides += [
            self._function_side(case.BATCH, PLAIN, recompute_table, "recomputed"),
            self._function_side(COMPLETE, PLAIN, stream_complete, "complete"),
            Side(case.DECLARATIVE_TUNED, self._declarative),
            Absence(case.DECLARATIVE, "its seconds here are those of one query: as tuned, but for the start"),
            self._function_side(case.DUCKDB, PYTHON, recompute_by_duckdb, "duckdb"),
            Absence(case.DLT, "it moves data, and leaves aggregates to others: DuckDB's is its usual one"),
        ]
        return self._prepare_sides(sides)

    def _prepare_sides(self, sides: list[Side | Absence]) -> list[Side | Absence]:
        """Has each side make its table, and take in new rows once at the smallest size."""
        for point in self.points:
            sides = self.try_sides(sides, point)
        self.before(self.points[0], -1)
        return self.try_sides(sides, self.points[0])

    def before(self, point: str, number: int) -> None:
        rows, groups = self.new
        self.scene.preparer.call(add, table=self._silver(point), rows=rows, groups=groups)

    def _folder(self, point: str) -> Path:
        return self.scene.side_folder(point, "shared")

    def _silver(self, point: str) -> str:
        return layout.Lake(str(self._folder(point) / "lake"), "gold").table("silver", "t")

    def _sluicegate_side(self, name: str, table: str) -> Side:
        def run(point: str, _number: int) -> tuple[measure.Cost, int | None]:
            cost, rows = self.scene.worker(OURS).call(refresh_table, folder=str(self._folder(point)), table=table)
            return cost, rows

        return Side(name, run)

    def _function_side(self, name: str, kind: str, function: Callable[..., Any], folder: str) -> Side:
        def run(point: str, _number: int) -> tuple[measure.Cost, int]:
            target = str(self._folder(point) / folder)
            cost, _ = self.scene.worker(kind).call(function, silver=self._silver(point), target=target)
            return cost, int(DeltaTable(target).count())

        return Side(name, run)

    def _declarative(self, point: str, number: int) -> tuple[measure.Cost, int | None]:
        if number < 0:  # it keeps nothing, and does not get warm
            return measure.Cost(0.0), None
        folder = self.scene.side_folder(point, "declarative")
        if not folder.exists():
            query = PLAIN_QUERY.replace("FROM t", f"FROM delta.`{self._silver(point)}`")
            declarative.project(folder, "view.sql", f"CREATE MATERIALIZED VIEW mv AS {query}", tuned=True)
        return declarative.flows(folder, self.scene.log), int(DeltaTable(str(declarative.table(folder, "mv"))).count())


class HistoryGold(Gold):
    """By rows of silver."""

    name = "history-gold"
    sentence = (
        "10,000 new rows of 100 groups in silver, taken into a gold table of counts, sums and means by group, with more"
        " and more rows of silver there before (a group for each thousand). Of spark-pipelines only the seconds of the"
        " flow are counted, not the start of its process."
    )
    unit = "rows"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {
        case.SMALL: (20_000, 100_000), case.FULL: (100_000, 1_000_000, 10_000_000, 100_000_000)
    }  # fmt: skip
    new = (10_000, 100)

    def rows_and_groups(self, size: int) -> tuple[int, int]:
        return size, max(size // 1000, 100)

    def aims(self) -> list[Aim]:
        return [*self.growth("auto", 1.1), *self.growth("incremental", 1.1)]


class Groups(Gold):
    """By groups."""

    name = "groups"
    sentence = (
        "One new row in silver, taken into a gold table of more and more groups; silver has as many rows as there are"
        " groups. Of spark-pipelines only the seconds of the flow are counted."
    )
    unit = "groups"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {case.SMALL: (100, 5_000), case.FULL: (100, 600_000)}
    new = (1, 1)

    def rows_and_groups(self, size: int) -> tuple[int, int]:
        return size, size

    def aims(self) -> list[Aim]:
        return [*self.growth("auto", 1.5)]


def settings_of(folder: str) -> Settings:
    """Where our tables are."""
    return Settings.of(f"{folder}/lake", f"{folder}/landing", Path(folder) / "pipelines")


def workspace(folder: Path) -> None:
    """A folder with a definition that has a table for each of our sides."""
    tables = "".join(f'  {name}: {{sql: "{sql}", refresh: {how}}}\n' for name, sql, how in OURS_BY_SIDE.values())
    path = folder / "pipelines" / "gold" / "pipeline.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "name: gold\nbronze:\n  raw: {path: /nowhere, format: json}\n"
        f'silver:\n  t: {{sql: "SELECT g, v, x FROM STREAM(raw) AS r"}}\ngold:\n{tables}'
    )


def add(spark: SparkSession, table: str, rows: int, groups: int) -> None:
    """Commits rows to silver, with the change data feed on, as ours has it."""
    frame = spark.range(rows).selectExpr(f"id % {groups} AS g", "id % 1000 AS v", "sqrt(id) AS x")
    frame.write.format("delta").option("delta.enableChangeDataFeed", "true").mode("append").save(table)


def refresh_table(spark: SparkSession, folder: str, table: str) -> int:
    """Brings one of our tables up to date, and gives its rows."""
    settings = settings_of(folder)
    at = layout.Lake(settings.lake, "gold")
    report = Job(load("gold", settings), at, "gold", {"run_id": "bench"}, spark, only=table).run()
    if not report.tables:
        raise RuntimeError(f"gold did not run {table}")
    return int(DeltaTable(at.table("gold", table)).count())


def recompute_table(spark: SparkSession, silver: str, target: str) -> None:
    """The query, written over the table."""
    spark.read.format("delta").load(silver).createOrReplaceTempView("t")
    spark.sql(PLAIN_QUERY).write.format("delta").mode("overwrite").save(target)


def stream_complete(spark: SparkSession, silver: str, target: str) -> None:
    """The query as a stream in complete mode, as notebooks have it."""
    spark.readStream.format("delta").load(silver).createOrReplaceTempView("t")
    stream = spark.sql(PLAIN_QUERY).writeStream.format("delta").outputMode("complete").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{target}/_checkpoint").start(target).awaitTermination()


def recompute_by_duckdb(silver: str, target: str) -> None:
    """The query over the table, written over the table."""
    con = duckdb.connect()
    con.register("t", DeltaTable(silver).to_pyarrow_dataset())
    write_deltalake(target, con.sql(PLAIN_QUERY).to_arrow_table(), mode="overwrite")
