"""Tables of online_school in Python: what the queries beside ../online_school/pipeline.yaml say, as DataFrames.

Functions of silver get a batch of records, and the tables that they look things up in; those of gold get whole tables.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def enrollments_bronze(batch: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Enrollments with all fields that the files have, with when and from where."""
    return batch.withColumn("arrival_time", F.col("receipt_time")).drop("receipt_time", "_file_modification_time")


def enrollments_silver(batch: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Enrollments with the email of the student; student_id is NULL where nobody has told of the student yet."""
    students = tables["students_lookup"].select("student_id", "email")
    return batch.join(students, batch.student_id == students.student_id, "left").select(
        "enroll_id",
        # Not cast(): a text that is no number would stop the table, where the rule is to have a look at the row.
        F.col("quantity").try_cast("bigint").alias("quantity"),
        students.student_id,
        "email",
        F.timestamp_seconds(F.col("enroll_timestamp").try_cast("bigint")).alias("formatted_timestamp"),
        "courses",
        "_chunk",
        "_pos",
    )


def enrolled_courses(batch: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Courses of enrollments, a row for each."""
    each = F.explode("courses").alias("course")
    rows = batch.select("enroll_id", "student_id", "formatted_timestamp", each, "_chunk", "_pos")
    return rows.select("*", "course.*").drop("course")


def daily_student_courses(tables: dict[str, DataFrame]) -> DataFrame:
    """Courses of each student by day."""
    day = F.date_trunc("DD", "formatted_timestamp").alias("day")
    grouped = tables["enrollments_silver"].groupBy("student_id", "email", day)
    return grouped.agg(F.sum("quantity").alias("courses_counts"))


def instructor_counts(tables: dict[str, DataFrame]) -> DataFrame:
    """Courses of each instructor."""
    return tables["courses"].groupBy("instructor").agg(F.count("course_id").alias("total_courses"))


def course_revenue(tables: dict[str, DataFrame]) -> DataFrame:
    """What each course brought in."""
    grouped = tables["enrolled_courses"].groupBy("course_id")
    return grouped.agg(F.count("*").alias("enrollments"), F.round(F.sum("subtotal"), 2).alias("revenue"))
