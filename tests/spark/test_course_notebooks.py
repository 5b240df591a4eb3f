"""What notebooks of courses make of the landed files, by streams of plain Spark, is in the tables of the pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.tools.simulators import Faults
from tests.conftest import Workspace
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

    def write(self, rows: DataFrame, table: str, mode: str = "append", **options: str) -> None:
        writer = rows.writeStream.format("delta").outputMode(mode).options(**options).trigger(availableNow=True)
        checkpoint = str(self.folder / "checkpoints" / table)
        writer.option("checkpointLocation", checkpoint).start(str(self.folder / table)).awaitTermination()
        self.view(str(self.folder / table), table)

    def upsert(self, rows: DataFrame, table: str, key: str) -> None:
        """Write a stream in the mode ``update``: Delta's sink lacks it, so each batch is a MERGE."""
        target = f"delta.`{self.folder / table}`"
        columns = ", ".join(f"{column} {kind}" for column, kind in rows.dtypes)
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {target} ({columns}) USING delta")

        def merge(batch: DataFrame, number: int) -> None:
            batch.createOrReplaceTempView("changed_groups")
            batch.sparkSession.sql(
                f"MERGE INTO {target} AS t USING changed_groups AS s ON t.{key} = s.{key} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        writer = rows.writeStream.foreachBatch(merge).outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.folder / "checkpoints" / table)).start().awaitTermination()

    def view(self, folder: str, name: str) -> None:
        """Name a Delta table, read as a stream, as a streaming temp view."""
        self.spark.readStream.format("delta").load(folder).createOrReplaceTempView(name)

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


def auto_loader(notebook: Notebook) -> None:
    """All fields as text with columns that come later, then types, no record twice, and the bad ones apart."""
    spark, recordings = notebook.spark, notebook.landing / "recordings"
    texts = spark.read.options(multiLine="true", primitivesAsString="true").json(str(recordings)).schema.simpleString()
    fields = texts.removeprefix("struct<").removesuffix(">").replace(":", " ")
    notebook.write(notebook.landed("recordings", fields, multiLine="true"), "recordings_bronze", mergeSchema="true")
    patients = spark.read.csv(str(notebook.landing / "patients"), "mrn BIGINT, name STRING", header=True)
    patients.createOrReplaceTempView("registered")
    typed = spark.sql(
        "SELECT try_cast(r.device_id AS INT) AS device_id, try_cast(r.mrn AS BIGINT) AS mrn, p.name, "
        "CAST(try_cast(r.time AS DOUBLE) AS TIMESTAMP) AS time, try_cast(r.heartrate AS DOUBLE) AS heartrate "
        "FROM recordings_bronze AS r LEFT JOIN registered AS p ON try_cast(r.mrn AS BIGINT) = p.mrn"
    )
    good = "coalesce(heartrate > 0 AND name IS NOT NULL, false)"
    notebook.write(typed.where(good).dropDuplicates(["device_id", "time"]), "recordings_enriched")
    notebook.write(typed.where(f"NOT {good}"), "recordings_enriched_quarantine")
    daily = spark.sql(
        "SELECT mrn, name, date_trunc('DD', time) AS date, avg(heartrate) AS avg_heartrate "
        "FROM recordings_enriched GROUP BY mrn, name, date_trunc('DD', time)"
    )
    notebook.write(daily, "daily_patient_avg", "complete")


def incremental(notebook: Notebook) -> None:
    """A table that others INSERT INTO, files, and aggregations in the three output modes."""
    spark = notebook.spark
    notebook.write(notebook.landed("recordings", READING, multiLine="true"), "recordings")
    typed = spark.sql("SELECT device_id, mrn, CAST(time AS TIMESTAMP) AS time, heartrate FROM recordings")
    notebook.write(typed, "readings")
    counts = "SELECT device_id, count(device_id) AS total_recordings FROM readings GROUP BY device_id"
    notebook.write(spark.sql(counts), "device_counts", "complete")
    spark.sql("SELECT * FROM readings").withWatermark("time", "10 minutes").createOrReplaceTempView("in_time")
    hours = spark.sql(
        "SELECT window.start AS hour, count(heartrate) AS beats, max(heartrate) AS highest "
        "FROM in_time GROUP BY window(time, '1 hour')"
    )
    notebook.write(hours, "hours")
    notebook.view(str(notebook.landing / "courses_table"), "courses")
    instructors = "SELECT instructor, count(course_id) AS total_courses FROM courses GROUP BY instructor"
    notebook.upsert(spark.sql(instructors), "instructor_counts", "instructor")


INCREMENTAL = """
name: incremental
bronze:
  recordings: {path: "${landing}/recordings", format: json, options: {multiLine: true}, schemaHints: "%s"}
  courses: {path: "${landing}/courses_table", format: delta}
silver:
  readings:
    sql: SELECT device_id, mrn, CAST(time AS TIMESTAMP) AS time, heartrate FROM STREAM(recordings)
gold:
  device_counts:
    mode: complete
    sql: SELECT device_id, count(device_id) AS total_recordings FROM readings GROUP BY device_id
  hours:
    mode: append
    withWatermark: {time: 10 minutes}
    sql: SELECT window.start AS hour, count(heartrate) AS beats, max(heartrate) AS highest
      FROM readings GROUP BY window(time, '1 hour')
  instructor_counts:
    mode: update
    sql: SELECT instructor, count(course_id) AS total_courses FROM courses GROUP BY instructor
"""


def land_files(spark: SparkSession, workspace: Workspace, faults: Faults) -> None:
    land(workspace, faults)


def land_files_and_courses(spark: SparkSession, workspace: Workspace, faults: Faults) -> None:
    """Land a file of readings, and INSERT INTO the table of courses three of its rows."""
    land(Workspace(workspace.folder, "heart_rate"), faults)
    table = f"delta.`{workspace.folder}/landing/courses_table`"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({COURSE}) USING delta")
    first = spark.table(table).count()
    courses = [f"('C{n:02}', 'Course {n}', 'Instructor {n % 4}', 'Data', {n})" for n in range(first, first + 3)]
    spark.sql(f"INSERT INTO {table} VALUES {', '.join(courses)}")


@dataclass(frozen=True)
class Course:
    """A course's notebook, and the pipeline whose tables are compared with it.

    Attributes:
        pipeline: its name.
        notebook: writes the notebook's tables.
        tables: columns of each table that are compared, and which rows of the pipeline's.
        rounds: faults of the files that land before each run.
        land: lands them.
        definition: that of the pipeline; of this repository where it is empty.
    """

    pipeline: str
    notebook: Callable[[Notebook], None]
    tables: dict[str, tuple[str, str]]
    rounds: tuple[Faults, ...] = (Faults(), Faults())
    land: Callable[[SparkSession, Workspace, Faults], None] = land_files
    definition: str = ""


COURSES = [
    # The course joins patients by an inner join.
    Course("heart_rate", heart_rate, {
        "recordings_bronze": ("device_id, mrn, time, heartrate", "true"),
        "recordings_enriched": ("device_id, mrn, name, time, heartrate", "true"),
        "daily_patient_avg": ("mrn, name, date, round(avg_heartrate, 9)", "true"),
        "device_counts": ("device_id, total_recordings", "true"),
    }),
    Course("healthcare_dlh", healthcare_dlh, {
        "fact_heartbeat_bronze": ("device_id, mrn, time, heartrate", "true"),
        "fact_heartbeat_silver": ("device_id, mrn, datetime, heartrate, patient_name", "patient_name IS NOT NULL"),
        "fact_heartbeat_by_patient_gold": ("patient_name, avg_heartrate, count", "true"),
    }),
    Course("heart_rate", auto_loader, {
        "recordings_enriched": ("device_id, mrn, name, time, heartrate", "true"),
        "recordings_enriched_quarantine": ("device_id, mrn, name, time, heartrate", "true"),
        "daily_patient_avg": ("mrn, name, date, round(avg_heartrate, 9)", "true"),
    }, (Faults(duplicates=0.03, bad=0.04), Faults(duplicates=0.03, bad=0.04, drift=True))),
    Course("incremental", incremental, {
        "recordings": ("device_id, mrn, time, heartrate", "true"),
        "readings": ("device_id, mrn, time, heartrate", "true"),
        "device_counts": ("device_id, total_recordings", "true"),
        "hours": ("hour, beats, highest", "true"),
        "instructor_counts": ("instructor, total_courses", "true"),
    }, (Faults(), Faults(), Faults()), land_files_and_courses, INCREMENTAL % READING),
    # Later students change emails, which no stream follows.
    Course("online_school", online_school, {
        "enrollments_bronze": ("enroll_id, student_id, enroll_timestamp, quantity, courses", "true"),
        "enrollments_silver": ("enroll_id, quantity, student_id, email, formatted_timestamp, courses", "true"),
        "daily_student_courses": ("student_id, email, day, courses_counts", "true"),
        "instructor_counts": ("instructor, total_courses", "true"),
    }, (Faults(),)),
]  # fmt: skip


@pytest.mark.parametrize("course", [pytest.param(course, id=course.notebook.__name__) for course in COURSES])
def test_the_tables_of_a_pipeline_are_those_of_the_notebook(
    spark: SparkSession, tmp_path: Path, course: Course
) -> None:
    workspace = workspace_for(course, tmp_path / "pipeline")
    notebook = Notebook(spark, workspace.folder / "landing", tmp_path / "notebook")
    for faults in course.rounds:
        course.land(spark, workspace, faults)
        course.notebook(notebook)
        workspace.run(spark)
        for table, (columns, condition) in course.tables.items():
            notebook_rows = chosen(notebook.rows(table), columns)
            pipeline_rows = chosen(spark.read.format("delta").load(workspace.uri(table)), columns, condition)
            missing, surplus = notebook_rows.exceptAll(pipeline_rows), pipeline_rows.exceptAll(notebook_rows)
            assert (missing.take(3), surplus.take(3)) == ([], []), table
            counts = notebook_rows.count(), pipeline_rows.count()
            print(f"{course.pipeline}.{table}: {counts[0]} rows of the notebook, {counts[1]} of the pipeline")
            assert counts[0] == counts[1] > 0


def workspace_for(course: Course, folder: Path) -> Workspace:
    if not course.definition:
        return workspace_of(folder, course.pipeline)
    workspace = Workspace(folder, course.pipeline)
    workspace.define(course.definition)
    return workspace


def chosen(rows: DataFrame, columns: str, condition: str = "true") -> DataFrame:
    rows.createOrReplaceTempView("compared")
    return rows.sparkSession.sql(f"SELECT {columns} FROM compared WHERE {condition}")
