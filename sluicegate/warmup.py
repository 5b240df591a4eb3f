"""A small medallion run whose loaded classes go into the JVM's class-data archive (see session.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from sluicegate.session import open_session


def main(scratch: str) -> None:
    """Reads JSON and CSV, streams a change feed, appends, merges and overwrites: what every run does."""
    spark = open_session("warm-up")
    landing = Path(scratch) / "landing"
    landing.mkdir()
    (landing / "a.json").write_text('[{"k": "1", "v": "2.5"}, {"k": "2", "v": "x"}]')
    (landing / "a.csv").write_text("k,name\n1,a\n2,b\n")
    inferred = spark.read.options(multiLine="true", primitivesAsString="true").json(f"{landing}/a.json").schema
    rows = spark.read.schema(inferred).option("multiLine", "true").json(f"{landing}/a.json")
    rows = rows.select(
        F.col("k").try_cast("bigint").alias("k"), F.col("v").try_cast("double").alias("v"),
        F.current_timestamp().alias("t"), F.col("_metadata.file_path").alias("f"),
        F.monotonically_increasing_id().alias("_pos"),
    )  # fmt: skip
    source, target = f"{scratch}/source", f"{scratch}/target"
    rows.write.format("delta").mode("append").option("mergeSchema", "true").save(source)

    def on_batch(batch, _id: int) -> None:  # type: ignore[no-untyped-def]
        batch.createOrReplaceTempView("batch")
        names = batch.sparkSession.read.option("header", "true").csv(f"{landing}/a.csv")
        names.createOrReplaceTempView("names")
        joined = batch.sparkSession.sql(
            "SELECT b.k, n.name, b.v, try_cast(b.v AS timestamp) AS time, b._pos,"
            " row_number() OVER (PARTITION BY b.k ORDER BY b._pos) AS n,"
            " array_compact(array(CASE WHEN NOT coalesce(b.v > 0, false) THEN 'v' END)) AS broken"
            " FROM batch AS b LEFT JOIN names AS n ON b.k = n.k"
        ).persist()
        joined.selectExpr("count(1)", "count_if(array_contains(broken, 'v'))", "count(DISTINCT k, _pos)").first()
        joined.write.format("delta").mode("append").save(target)

    query = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(source)
    writer = query.writeStream.foreachBatch(on_batch).option("checkpointLocation", f"{scratch}/scratch")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.sql(
        f"MERGE INTO delta.`{target}` t USING (SELECT 1L AS k, 'z' AS name) s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (k, name) VALUES (s.k, s.name)"
    )
    daily = spark.sql(f"SELECT name, avg(v) AS v, date_trunc('DD', time) AS day FROM delta.`{target}` GROUP BY ALL")
    daily.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(f"{scratch}/daily")


if __name__ == "__main__":
    main(sys.argv[1])
