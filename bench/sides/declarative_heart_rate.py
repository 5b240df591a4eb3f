"""The heart-rate pipeline as people write it for Spark Declarative Pipelines; ``spark-pipelines`` runs this file.

Bronze and silver are streaming tables, gold is a materialized view. BENCH_LANDING in the environment is the landing
folder.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

LANDING = os.environ["BENCH_LANDING"]
spark = SparkSession.active()


@dp.table(format="delta")  # type: ignore[call-overload,untyped-decorator]
def bronze() -> DataFrame:
    """The files as they are."""
    schema = "device_id STRING, mrn STRING, time STRING, heartrate STRING"
    files = spark.readStream.schema(schema).option("multiLine", "true").json(f"{LANDING}/recordings")
    return files.withColumn("source_file", F.col("_metadata.file_path"))


@dp.table(format="delta")  # type: ignore[call-overload,untyped-decorator]
def silver() -> DataFrame:
    """Typed records of patients who are known."""
    patients = spark.read.option("header", "true").csv(f"{LANDING}/patients")
    typed = spark.readStream.table("bronze").selectExpr(
        "CAST(device_id AS INT) device_id", "mrn", "CAST(CAST(time AS DOUBLE) AS TIMESTAMP) time",
        "CAST(heartrate AS DOUBLE) heartrate",
    )  # fmt: skip
    return typed.where("heartrate > 0").join(patients, "mrn")


@dp.materialized_view(format="delta")  # type: ignore[call-overload,untyped-decorator]
def gold() -> DataFrame:
    """The mean of each patient's day."""
    days = spark.read.table("silver").groupBy("mrn", "name", F.expr("date_trunc('DD', time) AS date"))
    return days.agg(F.avg("heartrate").alias("avg_heartrate"))
