"""What notebooks of courses make of the landed files, by streams of plain Spark, is in the tables of the pipelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.tools.simulators import Faults
from tests.spark.test_pipelines import land, workspace_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.release]

READING = "device_id INT, mrn BIGINT, time DOUBLE, heartrate DOUBLE"
ENROLLMENT = (
    "enroll_id STRING, student_id STRING, enroll_timestamp BIGINT, quantity BIGINT, "
    "courses ARRAY<STRUCT<course_id: STRING, discount_percent: BIGINT, subtotal: DOUBLE>>"
)
COURSE = "course_id STRING, title STRING, instructor STRING, category STRING, price DOUBLE"


class Notebook:
    """Tables below a folder, each written by a stream with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, landing: Path, folder: Path) -> None:
        self.spark, self.landing, self.folder = spark, landing, folder

    def landed(self, folder: str, schema: str, form: str = "json", **options: str) -> DataFrame:
        reader = self.spark.readStream.format(form).schema(schema).options(**options)
        return reader.load(str(self.landing / folder))

    def write(self, rows: DataFrame, table: str, mode: str = "append") -> None:
        writer = rows.writeStream.format("delta").outputMode(mode).trigger(availableNow=True)
        checkpoint = str(self.folder / "checkpoints" / table)
        writer.option("checkpointLocation", checkpoint).start(str(self.folder / table)).awaitTermination()
        self.spark.readStream.format("delta").load(str(self.folder / table)).createOrReplaceTempView(table)

    def rows(self, table: str) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder / table))


def heart_rate(notebook: Notebook) -> None:
    spark = notebook.spark
    notebook.write(notebook.landed("recordings", READING, multiLine="true"), "recordings_bronze")
    patients = spark.read.csv(str(notebook.landing / "patients"), "mrn BIGINT, name STRING", header=True)
    patients.createOrReplaceTempView("pii")
    enriched = spark.sql(
        "SELECT device_id, mrn, name, CAST(time AS TIMESTAMP) AS time, heartrate "
        "FROM recordings_bronze JOIN pii USING (mrn) WHERE heartrate > 0"
    )
    notebook.write(enriched, "recordings_enriched")
    daily = spark.sql(
        "SELECT mrn, name, date_trunc('DD', time) AS date, avg(heartrate) AS avg_heartrate "
        "FROM recordings_enriched GROUP BY mrn, name, date_trunc('DD', time)"
    )
    notebook.write(daily, "daily_patient_avg", "complete")
    counts = "SELECT device_id, count(device_id) AS total_recordings FROM recordings_bronze GROUP BY device_id"
    notebook.write(spark.sql(counts), "device_counts", "complete")


def healthcare_dlh(notebook: Notebook) -> None:
    spark = notebook.spark
    notebook.write(notebook.landed("recordings", READING, multiLine="true"), "fact_heartbeat_bronze")
    patients = spark.read.csv(str(notebook.landing / "patients"), "mrn BIGINT, patient_name STRING", header=True)
    patients.createOrReplaceTempView("dim_patients")
    silver = spark.sql(
        "SELECT device_id, mrn, CAST(time AS TIMESTAMP) AS datetime, heartrate, patient_name "
        "FROM fact_heartbeat_bronze JOIN dim_patients USING (mrn)"
    )
    notebook.write(silver, "fact_heartbeat_silver")
    gold = spark.sql(
        "SELECT patient_name, ceil(avg(heartrate)) AS avg_heartrate, count(device_id) AS count "
        "FROM fact_heartbeat_silver GROUP BY patient_name"
    )
    notebook.write(gold, "fact_heartbeat_by_patient_gold", "complete")


def online_school(notebook: Notebook) -> None:
    spark = notebook.spark
    enrollments = notebook.landed("enrollments", ENROLLMENT)
    arrived = enrollments.selectExpr("*", "current_timestamp() AS arrival_time", "_metadata.file_path AS source_file")
    notebook.write(arrived, "enrollments_bronze")
    spark.read.json(str(notebook.landing / "students")).createOrReplaceTempView("students_lookup")
    silver = spark.sql(
        "SELECT e.enroll_id, e.quantity, e.student_id, s.email, "
        "CAST(from_unixtime(e.enroll_timestamp, 'yyyy-MM-dd HH:mm:ss') AS TIMESTAMP) AS formatted_timestamp, e.courses "
        "FROM enrollments_bronze AS e JOIN students_lookup AS s ON e.student_id = s.student_id WHERE e.quantity > 0"
    )
    notebook.write(silver, "enrollments_silver")
    daily = spark.sql(
        "SELECT student_id, email, date_trunc('DD', formatted_timestamp) AS day, sum(quantity) AS courses_counts "
        "FROM enrollments_silver GROUP BY student_id, email, date_trunc('DD', formatted_timestamp)"
    )
    notebook.write(daily, "daily_student_courses", "complete")
    notebook.write(notebook.landed("courses", COURSE, "csv", header="true", sep=";"), "courses")
    counts = "SELECT instructor, count(course_id) AS total_courses FROM courses GROUP BY instructor"
    notebook.write(spark.sql(counts), "instructor_counts", "complete")


# Each course's notebook, and what is compared of each table; the course joins patients by an inner join.
COURSES: dict[str, tuple[Callable[[Notebook], None], dict[str, tuple[str, str]]]] = {
    "heart_rate": (heart_rate, {
        "recordings_bronze": ("device_id, mrn, time, heartrate", "true"),
        "recordings_enriched": ("device_id, mrn, name, time, heartrate", "true"),
        "daily_patient_avg": ("mrn, name, date, round(avg_heartrate, 9)", "true"),
        "device_counts": ("device_id, total_recordings", "true"),
    }),
    "healthcare_dlh": (healthcare_dlh, {
        "fact_heartbeat_bronze": ("device_id, mrn, time, heartrate", "true"),
        "fact_heartbeat_silver": ("device_id, mrn, datetime, heartrate, patient_name", "patient_name IS NOT NULL"),
        "fact_heartbeat_by_patient_gold": ("patient_name, avg_heartrate, count", "true"),
    }),
    "online_school": (online_school, {
        "enrollments_bronze": ("enroll_id, student_id, enroll_timestamp, quantity, courses", "true"),
        "enrollments_silver": ("enroll_id, quantity, student_id, email, formatted_timestamp, courses", "true"),
        "daily_student_courses": ("student_id, email, day, courses_counts", "true"),
        "instructor_counts": ("instructor, total_courses", "true"),
    }),
}  # fmt: skip


@pytest.mark.parametrize("pipeline", COURSES)
def test_the_tables_of_a_pipeline_are_those_of_the_notebook(spark: SparkSession, tmp_path: Path, pipeline: str) -> None:
    run_notebook, tables = COURSES[pipeline]
    workspace = workspace_of(tmp_path / "pipeline", pipeline)
    notebook = Notebook(spark, workspace.folder / "landing", tmp_path / "notebook")
    for _ in range(1 if pipeline == "online_school" else 2):  # later students change emails, which no stream follows
        land(workspace, Faults())
        run_notebook(notebook)
        workspace.run(spark)
        for table, (columns, condition) in tables.items():
            theirs = chosen(notebook.rows(table), columns)
            ours = chosen(spark.read.format("delta").load(workspace.uri(table)), columns, condition)
            assert (theirs.exceptAll(ours).count(), ours.exceptAll(theirs).count()) == (0, 0), table
            counts = theirs.count(), ours.count()
            print(f"{pipeline}.{table}: {counts[0]} rows of the notebook, {counts[1]} of the pipeline")
            assert counts[0] == counts[1] > 0


def chosen(rows: DataFrame, columns: str, condition: str = "true") -> DataFrame:
    rows.createOrReplaceTempView("compared")
    return rows.sparkSession.sql(f"SELECT {columns} FROM compared WHERE {condition}")
