"""The heart-rate pipeline the way a notebook does it, to measure against: one session.

A file stream with one file a trigger into bronze, a stream joined with a static table into silver, and a streaming
aggregation in complete mode into gold: ``spark-submit bench/notebook.py LANDING LAKE [--as-set]``. Prints each part's
seconds. All settings are at their defaults, or with ``--as-set`` as people set such a notebook on one machine: as many
shuffle partitions as there are cores.
"""

from __future__ import annotations

import argparse
import json
import time

START = time.monotonic()

from pyspark.sql import DataFrame, SparkSession  # noqa: E402  (the clock starts before Spark)
from pyspark.sql import functions as F  # noqa: E402


def write(stream: DataFrame, lake: str, table: str, mode: str = "append") -> None:
    """Runs a stream until it has taken what is there."""
    writer = stream.writeStream.format("delta").outputMode(mode).option("checkpointLocation", f"{lake}/_cp/{table}")
    writer.trigger(availableNow=True).start(f"{lake}/{table}").awaitTermination()


def main(landing: str, lake: str, *, as_set: bool) -> dict[str, float]:
    """Runs the three layers and returns the seconds of each, and of the session's start."""
    spark = SparkSession.builder.getOrCreate()
    if as_set:
        spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    seconds = {"start": time.monotonic() - START}
    clock = time.monotonic()
    schema = "device_id STRING, mrn STRING, time STRING, heartrate STRING"
    files = spark.readStream.schema(schema).option("multiLine", "true").option("maxFilesPerTrigger", 1)
    write(files.json(f"{landing}/recordings").withColumn("source_file", F.col("_metadata.file_path")), lake, "bronze")
    seconds["bronze"], clock = time.monotonic() - clock, time.monotonic()
    patients = spark.read.option("header", "true").csv(f"{landing}/patients")
    typed = spark.readStream.format("delta").load(f"{lake}/bronze").selectExpr(
        "CAST(device_id AS INT) device_id", "mrn", "CAST(CAST(time AS DOUBLE) AS TIMESTAMP) time",
        "CAST(heartrate AS DOUBLE) heartrate",
    )  # fmt: skip
    write(typed.where("heartrate > 0").join(patients, "mrn"), lake, "silver")
    seconds["silver"], clock = time.monotonic() - clock, time.monotonic()
    days = (
        spark.readStream.format("delta")
        .load(f"{lake}/silver")
        .groupBy("mrn", "name", F.expr("date_trunc('DD', time) AS date"))
    )
    write(days.agg(F.avg("heartrate").alias("avg_heartrate")), lake, "gold", "complete")
    seconds["gold"] = time.monotonic() - clock
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("landing")
    parser.add_argument("lake")
    parser.add_argument("--as-set", action="store_true", help="as many shuffle partitions as cores")
    given = parser.parse_args()
    print("SECONDS " + json.dumps(main(given.landing, given.lake, as_set=given.as_set)), flush=True)
