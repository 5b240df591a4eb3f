"""Many rows through one layer, in one session that is warm: 2 and 20 million."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
from deltalake import DeltaTable, write_deltalake

from bench import case, measure
from bench.case import Absence, Aim, Side, Sized
from bench.cases import gold, silver
from bench.sides import heart_rate
from bench.worker import OURS, PLAIN, PYTHON
from sluicegate.definition import load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, WARM_UP = 20, 2_000
COLUMNS = "device_id INT, mrn BIGINT, time DOUBLE, heartrate DOUBLE, note STRING"
RESCUED, TYPED = "ours", "ours, without rescued data"
VARIANTS = {
    "rescued": f'schemaHints: "{COLUMNS}"',
    "unrescued": f'schema: "{COLUMNS}", rescuedDataColumn: none',
}
SMALL_START = "a process of its own, whose start is most of such a job: see files"


class Rows(Sized):
    """A layer's job on new tables in each round."""

    baseline = case.BATCH
    unit = "rows"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {case.SMALL: (50_000,), case.FULL: (2_000_000, 20_000_000)}
    rivals_left: ClassVar[list[Absence]] = [Absence(case.DECLARATIVE_TUNED, SMALL_START)]

    def function_side(self, name: str, kind: str, function: Callable[..., Any], **more: Any) -> Side:
        """A side that a function of a worker is: it gets the input of a point, and a folder of its own."""

        def run(point: str, number: int) -> tuple[measure.Cost, int]:
            folder = self.scene.side_folder(point, name, number)
            cost, table = self.scene.worker(kind).call(
                function, source=str(self._input(point)), folder=str(folder), **more
            )
            rows = int(DeltaTable(table).count())
            shutil.rmtree(folder)
            return cost, rows

        def ready(point: str, number: int) -> None:
            folder = self.scene.side_folder(point, name, number)
            # Links: nobody writes into a file of a Delta table that is there.
            shutil.copytree(self._input(point), folder, copy_function=os.link)

        return Side(name, run, ready)

    def _input(self, point: str) -> Path:
        return self.scene.side_folder(point, "input")

    def warm_up_sides(self, sides: Sequence[Side | Absence]) -> Sequence[Side | Absence]:
        """Has each side do its job once with few rows, and makes the input of all sizes."""
        point = self.point(WARM_UP)
        self.prepare(point, WARM_UP)
        tried = self.try_sides(sides, point)
        for point in self.points:
            self.prepare(point, self.size(point))
        return [*tried, *self.rivals_left]

    def prepare(self, point: str, rows: int) -> None:
        """Makes the input of a size."""
        raise NotImplementedError


class RowsBronze(Rows):
    """JSON lines to bronze."""

    name = "rows-bronze"
    sentence = (
        "JSON lines in 20 files to a new bronze table. Plain Spark reads them typed, with a corrupt-record and a"
        " file-name column. Ours does its own work besides; without rescued data less of it."
    )

    def open(self) -> Sequence[Side | Absence]:
        sides: list[Side | Absence] = [
            self.function_side(RESCUED, OURS, bronze, variant="rescued"),
            self.function_side(TYPED, OURS, bronze, variant="unrescued"),
            self.function_side(case.BATCH, PLAIN, plain_bronze),
            self.function_side(case.DUCKDB, PYTHON, duckdb_bronze),
        ]
        no_dlt = heart_rate.missing_module_reason("dlt", "`make bench` brings it")
        dlt = Absence(case.DLT, no_dlt) if no_dlt else Side(case.DLT, self._dlt)
        return self.warm_up_sides([*sides, dlt])

    def _dlt(self, point: str, number: int) -> tuple[measure.Cost, int]:
        script, folder = str(heart_rate.SIDES / "dlt_lines.py"), self.scene.side_folder(point, case.DLT, number)
        landing = self._input(point) / "landing" / "readings"
        folder.mkdir(parents=True)
        cost = measure.run([sys.executable, script, str(landing), str(folder)], self.scene.log)
        rows = heart_rate.rows(folder / "dlt" / "bronze")
        shutil.rmtree(folder)
        return cost, rows

    def prepare(self, point: str, rows: int) -> None:
        landing = self._input(point) / "landing" / "readings"
        landing.mkdir(parents=True)
        for name, fields in VARIANTS.items():
            (self._input(point) / "pipelines" / name).mkdir(parents=True)
            table = f"{{path: '${{landing}}/readings', format: json, {fields}}}"
            definition = f"name: {name}\nbronze:\n  readings: {table}\n"
            (self._input(point) / "pipelines" / name / "pipeline.yaml").write_text(definition)
        for number in range(FILES):
            file = landing / f"{number}.json"
            with file.open("w") as lines:
                for at in range(number, rows, FILES):
                    reading = {"device_id": at % 97, "mrn": 10_000_000 + at % 1009, "time": 1_577_836_800.5 + at}
                    lines.write(
                        json.dumps(reading | {"heartrate": 40 + at % 80 + 0.25, "note": f"reading {at}"}) + "\n"
                    )
            os.utime(file, (0, 0))  # settled long ago

    def aims(self) -> list[Aim]:
        last = self.points[-1]
        return [Aim(last, RESCUED, 1.15, case.BATCH), Aim(last, TYPED, 1.05, case.BATCH)]


class RowsSilver(Rows):
    """Bronze to silver."""

    name = "rows-silver"
    sentence = "A bronze table to a new silver table with a rule. The others apply the rule and write what keeps it."
    rivals_left: ClassVar[list[Absence]] = [*Rows.rivals_left, Absence(case.DLT, silver.NO_DLT)]

    def open(self) -> Sequence[Side | Absence]:
        return self.warm_up_sides([
            self.function_side("ours", OURS, ours_silver),
            self.function_side(case.BATCH, PLAIN, plain_silver),
            self.function_side(case.DUCKDB, PYTHON, duckdb_silver),
        ])  # fmt: skip

    def prepare(self, point: str, rows: int) -> None:
        silver.workspace(self._input(point), limit=99)
        table = silver.bronze_of(str(self._input(point)))
        self.scene.preparer.call(silver.add, table=table, first=0, many=rows, chunk=1, in_a_day=10_000)


class RowsGold(Rows):
    """Silver to gold."""

    name = "rows-gold"
    sentence = "A silver table to a new gold table: counts, sums and means by group, of 1,000 rows each."
    rivals_left: ClassVar[list[Absence]] = [*Rows.rivals_left, Absence(case.DLT, "it leaves aggregates to others")]

    def open(self) -> Sequence[Side | Absence]:
        return self.warm_up_sides([
            self.function_side("ours", OURS, ours_gold),
            self.function_side(case.BATCH, PLAIN, plain_gold),
            self.function_side(case.DUCKDB, PYTHON, duckdb_gold),
        ])  # fmt: skip

    def prepare(self, point: str, rows: int) -> None:
        gold.workspace(self._input(point))
        self.scene.preparer.call(
            gold.add, table=_silver(str(self._input(point))), rows=rows, groups=max(rows // 1000, 100)
        )


def bronze(spark: SparkSession, source: str, folder: str, variant: str) -> str:
    """A bronze run of ours, discovery and outcome included."""
    settings = Settings.of(f"{folder}/lake", f"{source}/landing", Path(source) / "pipelines")
    at = layout.Lake(settings.lake, variant)
    Job(load(variant, settings), at, "bronze", {"run_id": "bench"}, spark).run()
    return at.table("bronze", "readings")


def plain_bronze(spark: SparkSession, source: str, folder: str) -> str:
    """The same with Spark alone."""
    rows = spark.read.schema(f"{COLUMNS}, _corrupt_record STRING").option(
        "columnNameOfCorruptRecord", "_corrupt_record"
    )
    frame = rows.json(f"{source}/landing/readings").selectExpr("*", "_metadata.file_path AS source_file")
    frame.write.format("delta").mode("append").save(f"{folder}/plain")
    return f"{folder}/plain"


def duckdb_bronze(source: str, folder: str) -> str:
    """The same with DuckDB and delta-rs."""
    columns = "{device_id: 'INTEGER', mrn: 'BIGINT', time: 'DOUBLE', heartrate: 'DOUBLE', note: 'VARCHAR'}"
    query = f"FROM read_json('{source}/landing/readings/*.json', columns = {columns}, filename = true)"
    write_deltalake(f"{folder}/duckdb", duckdb.connect().sql(query).to_arrow_reader())
    return f"{folder}/duckdb"


def ours_silver(spark: SparkSession, source: str, folder: str) -> str:
    """A silver run of ours; the folder has the bronze table."""
    silver.run_silver(spark, folder)
    return layout.Lake(f"{folder}/lake", "silver").table("silver", "readings")


def plain_silver(spark: SparkSession, source: str, folder: str) -> str:
    """The rows that keep the rule."""
    frame = spark.read.format("delta").load(silver.bronze_of(folder)).where("value < 99")
    frame.select("device", "at", "value").write.format("delta").save(f"{folder}/plain")
    return f"{folder}/plain"


def duckdb_silver(source: str, folder: str) -> str:
    """The same with DuckDB and delta-rs."""
    con = duckdb.connect()
    con.register("bronze", DeltaTable(silver.bronze_of(folder)).to_pyarrow_dataset())
    query = 'SELECT device, "at", value FROM bronze WHERE value < 99'
    write_deltalake(f"{folder}/duckdb", con.sql(query).to_arrow_reader())
    return f"{folder}/duckdb"


def _silver(folder: str) -> str:
    return layout.Lake(f"{folder}/lake", "gold").table("silver", "t")


def ours_gold(spark: SparkSession, source: str, folder: str) -> str:
    """A gold run of ours; the folder has the silver table."""
    gold.refresh_table(spark, folder, "automatic")
    return layout.Lake(f"{folder}/lake", "gold").table("gold", "automatic")


def plain_gold(spark: SparkSession, source: str, folder: str) -> str:
    """The query, written."""
    gold.recompute_table(spark, _silver(folder), f"{folder}/plain")
    return f"{folder}/plain"


def duckdb_gold(source: str, folder: str) -> str:
    """The same with DuckDB and delta-rs."""
    gold.recompute_by_duckdb(_silver(folder), f"{folder}/duckdb")
    return f"{folder}/duckdb"
