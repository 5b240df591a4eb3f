"""Silver of online_school in Python: what the two queries beside ../online_school/pipeline.yaml say, as DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def enrollments_bronze(batch: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Enrollments as they came, with when and from where."""
    return batch.select(
        "enroll_id", "student_id", "enroll_timestamp", "quantity", "courses",
        F.col("receipt_time").alias("arrival_time"), "source_file", "_chunk", "_pos",
    )  # fmt: skip


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
