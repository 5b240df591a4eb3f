"""The heart-rate pipeline as a plain Spark batch job: ``spark-submit bench/sides/batch.py LANDING LAKE``.

Reads all files, joins, aggregates and writes three Delta tables anew, in one session with as many shuffle partitions as
there are cores. It has no memory of files: each run reads all of them.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def write(frame: DataFrame, lake: str, table: str) -> DataFrame:
    """Writes a table anew, and reads it."""
    frame.write.format("delta").mode("overwrite").save(f"{lake}/{table}")
    return frame.sparkSession.read.format("delta").load(f"{lake}/{table}")


def main(landing: str, lake: str) -> None:
    """Makes the three tables."""
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    schema = "device_id STRING, mrn STRING, time STRING, heartrate STRING"
    files = spark.read.schema(schema).option("multiLine", "true").json(f"{landing}/recordings")
    bronze = write(files.withColumn("source_file", F.col("_metadata.file_path")), lake, "bronze")
    patients = spark.read.option("header", "true").csv(f"{landing}/patients")
    typed = bronze.selectExpr(
        "CAST(device_id AS INT) device_id", "mrn", "CAST(CAST(time AS DOUBLE) AS TIMESTAMP) time",
        "CAST(heartrate AS DOUBLE) heartrate",
    )  # fmt: skip
    silver = write(typed.where("heartrate > 0").join(patients, "mrn"), lake, "silver")
    days = silver.groupBy("mrn", "name", F.expr("date_trunc('DD', time) AS date"))
    write(days.agg(F.avg("heartrate").alias("avg_heartrate")), lake, "gold")


if __name__ == "__main__":
    main(*sys.argv[1:3])
