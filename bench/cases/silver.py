"""Silver by the size of what is there already: a batch of new records by keys, and one day made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
from deltalake import DeltaTable, write_deltalake

from bench import case, measure
from bench.case import Absence, Aim, Side, Sized
from bench.worker import OURS, PLAIN, PYTHON
from sluicegate.definition import load
from sluicegate.flow.selection import Interval
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings

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
OURS_NAME, UNCHANGED = "ours", "ours, nothing to change"
BATCH, DAY = 10_000, 86_400
START = datetime(2020, 1, 1, tzinfo=UTC)
IN_A_DAY = {case.SMALL: 1_000, case.FULL: 10_000}
PARTS = 10  # commits that what is there before comes in, each of a time of its own
NO_PIPELINE = "its tables have no keys and no intervals that Delta would take: a streaming table only appends"
NO_DLT = "it has no records in bronze to begin with: it loads from files"


class Silver(Sized):
    """Ours and what people write by hand, on one keyed table."""

    baseline = case.BATCH

    def _prepare(self, rows: dict[str, int], in_a_day: int) -> None:
        for point, many in rows.items():
            folder = self._folder(point)
            workspace(folder)
            for part in range(PARTS):
                self.scene.preparer.call(add, table=self._bronze(point), first=part * many // PARTS,
                                         many=many // PARTS, chunk=part + 1, in_a_day=in_a_day)  # fmt: skip
                self.scene.worker(OURS).call(run_silver, folder=str(folder))
            for target in ("plain", "duckdb"):
                self.scene.preparer.call(copy_records, bronze=self._bronze(point), target=str(folder / target))

    def _folder(self, point: str) -> Path:
        return self.scene.side_folder(point, "shared")

    def _bronze(self, point: str) -> str:
        return bronze_of(str(self._folder(point)))

    def _run_sluicegate(self, point: str, **more: Any) -> tuple[measure.Cost, int]:
        cost, rows = self.scene.worker(OURS).call(run_silver, folder=str(self._folder(point)), **more)
        return cost, rows

    def _call_function(
        self, kind: str, function: Callable[..., Any], point: str, target: str, **more: Any
    ) -> tuple[measure.Cost, int]:
        table = str(self._folder(point) / target)
        cost, _ = self.scene.worker(kind).call(function, bronze=self._bronze(point), target=table, **more)
        return cost, int(DeltaTable(table).count())


class HistorySilver(Silver):
    """By rows of the table."""

    name = "history-silver"
    sentence = (
        "10,000 new records (small: 1,000), merged by keys into a silver table with more and more rows, the event time"
        " among the keys. Plain Spark and delta-rs do the same by a MERGE of the new records."
    )
    unit = "rows"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {
        case.SMALL: (20_000, 100_000), case.FULL: (100_000, 1_000_000, 10_000_000, 100_000_000)
    }  # fmt: skip

    def open(self) -> Sequence[Side | Absence]:
        self._commits = PARTS
        self._prepare({point: self.size(point) for point in self.points}, IN_A_DAY[case.FULL])
        sides = [
            Side(OURS_NAME, lambda point, _: self._run_sluicegate(point)),
            Side(
                case.BATCH,
                lambda point, _: self._call_function(PLAIN, merge_by_spark, point, "plain", chunk=self._commits),
            ),
            Side(
                case.DUCKDB,
                lambda point, _: self._call_function(PYTHON, merge_by_rs, point, "duckdb", chunk=self._commits),
            ),
        ]
        self.before(self.points[0], -1)
        tried = self.try_sides(sides, self.points[0])
        return [*tried, Absence(case.DECLARATIVE_TUNED, NO_PIPELINE), Absence(case.DLT, NO_DLT)]

    def before(self, point: str, number: int) -> None:
        self._commits += 1
        many = IN_A_DAY[self.scene.scale]
        first = self.size(point) + (number + 1) * many
        self.scene.preparer.call(add, table=self._bronze(point), first=first, many=many, chunk=self._commits,
                                 in_a_day=IN_A_DAY[case.FULL])  # fmt: skip

    def aims(self) -> list[Aim]:
        return self.growth(OURS_NAME, 1.1)


class IntervalOfADay(Silver):
    """By days of the table."""

    name = "interval"
    sentence = (
        "One day of 10,000 records (small: 1,000) made again among more and more days, after the rule was edited so"
        " that a hundredth of its rows change; and once more with nothing to change. Plain Spark and delta-rs"
        " overwrite the day (`replaceWhere`)."
    )
    unit = "days"
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {case.SMALL: (10, 40), case.FULL: (10, 100, 1_000)}
    rotates = False  # nothing is to change only after something has

    def open(self) -> Sequence[Side | Absence]:
        in_a_day = IN_A_DAY[self.scene.scale]
        self._prepare({point: self.size(point) * in_a_day for point in self.points}, in_a_day)
        for point in self.points:
            workspace(self._folder(point), limit=99)
        sides = [
            Side(OURS_NAME, lambda point, number: self._run_sluicegate(point, day=self._day(point, number))),
            Side(UNCHANGED, lambda point, number: self._run_sluicegate(point, day=self._day(point, number))),
            Side(case.BATCH, lambda point, number: self._call_function(
                PLAIN, overwrite_by_spark, point, "plain", day=self._day(point, number))),
            Side(case.DUCKDB, lambda point, number: self._call_function(
                PYTHON, overwrite_by_rs, point, "duckdb", day=self._day(point, number))),
        ]  # fmt: skip
        return [
            *self.try_sides(sides, self.points[0]),
            Absence(case.DECLARATIVE_TUNED, NO_PIPELINE),
            Absence(case.DLT, NO_DLT),
        ]

    def _day(self, point: str, number: int) -> int:
        return self.size(point) // 2 + number

    def aims(self) -> list[Aim]:
        return self.growth(OURS_NAME, 1.3)


def settings_of(folder: str) -> Settings:
    """Where our tables are."""
    return Settings.of(f"{folder}/lake", f"{folder}/landing", Path(folder) / "pipelines")


def workspace(folder: Path, limit: int = 100) -> None:
    """A folder with the definition; values from ``limit`` on break its rule."""
    (folder / "pipelines" / "silver").mkdir(parents=True, exist_ok=True)
    (folder / "pipelines" / "silver" / "pipeline.yaml").write_text(DEFINITION.replace("LIMIT", str(limit)))
    (folder / "landing" / "raw").mkdir(parents=True, exist_ok=True)


def bronze_of(folder: str) -> str:
    """The bronze table of a folder."""
    return layout.Lake(settings_of(folder).lake, "silver").table("bronze", "raw")


def records(spark: SparkSession, first: int, many: int, chunk: int, in_a_day: int) -> DataFrame:
    """Bronze records, so many to a day, as if they had come in one ledger batch; each hundredth has value 99."""
    seconds = f"{int(START.timestamp())} + CAST(id AS DOUBLE) * {DAY / in_a_day}"
    return spark.range(first, first + many).selectExpr(
        "id % 97 AS device", f"CAST({seconds} AS TIMESTAMP) AS at", "CAST(id % 100 AS DOUBLE) AS value",
        "CAST(NULL AS STRING) AS _rescued_data", "CAST(NULL AS STRING) AS _corrupt_record",
        "current_timestamp() AS receipt_time", f"'/landing/{chunk}.json' AS source_file",
        "current_timestamp() AS _file_modification_time", f"{chunk}L AS _chunk", "id AS _pos",
    )  # fmt: skip


def add(spark: SparkSession, table: str, first: int, many: int, chunk: int, in_a_day: int) -> None:
    """Commits records to bronze, sorted by time as they would have arrived, with the change data feed on."""
    frame = records(spark, first, many, chunk, in_a_day)
    # As our sessions have it; Spark's default, INT96, has no statistics.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    frame.write.format("delta").option("delta.enableChangeDataFeed", "true").mode("append").save(table)


def copy_records(spark: SparkSession, bronze: str, target: str) -> None:
    """The silver table of a rival with what is in bronze, of as many files as came."""
    frame = spark.read.format("delta").load(bronze).where("value < 100").select("device", "at", "value")
    frame.write.format("delta").save(target)


def run_silver(spark: SparkSession, folder: str, day: int | None = None) -> int:
    """A run of silver, or a day made again; gives the rows of the table."""
    settings = settings_of(folder)
    choice = None if day is None else Interval(_start(day), _start(day + 1))
    at = layout.Lake(settings.lake, "silver")
    Job(load("silver", settings), at, "silver", {"run_id": "bench"}, spark, choice=choice).run()
    return int(DeltaTable(at.table("silver", "readings")).count())


def _start(day: int) -> datetime:
    return START + timedelta(days=day)


def _day_condition(day: int, at: str = "at") -> str:
    return f"{at} >= '{_start(day):%Y-%m-%dT%H:%M:%SZ}' AND {at} < '{_start(day + 1):%Y-%m-%dT%H:%M:%SZ}'"


def merge_by_spark(spark: SparkSession, bronze: str, target: str, chunk: int) -> None:
    """A MERGE of the newest records by their keys, as people write it."""
    new = spark.read.format("delta").load(bronze).where(f"_chunk = {chunk} AND value < 100")
    new.select("device", "at", "value").createOrReplaceTempView("new")
    spark.sql(
        f"MERGE INTO delta.`{target}` AS t USING new AS n ON t.device = n.device AND t.at = n.at"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def merge_by_rs(bronze: str, target: str, chunk: int) -> None:
    """The same by DuckDB and delta-rs."""
    new = _query_records(bronze, f"_chunk = {chunk} AND value < 100")
    merge = DeltaTable(target).merge(new, "t.device = n.device AND t.at = n.at", source_alias="n", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def overwrite_by_spark(spark: SparkSession, bronze: str, target: str, day: int) -> None:
    """A day written over by today's rule."""
    frame = spark.read.format("delta").load(bronze).where(f"{_day_condition(day)} AND value < 99")
    writer = frame.select("device", "at", "value").write.format("delta").mode("overwrite")
    writer.option("replaceWhere", _day_condition(day)).save(target)


def overwrite_by_rs(bronze: str, target: str, day: int) -> None:
    """The same by DuckDB and delta-rs."""
    rows = _query_records(bronze, f"""{_day_condition(day, '"at"')} AND value < 99""")  # DuckDB reserves the word
    write_deltalake(target, rows, mode="overwrite", predicate=_day_condition(day))


def _query_records(bronze: str, where: str) -> Any:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("bronze", DeltaTable(bronze).to_pyarrow_dataset())
    return con.sql(f'SELECT device, "at", value FROM bronze WHERE {where}').to_arrow_table()
