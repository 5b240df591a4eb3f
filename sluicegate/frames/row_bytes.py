"""Measure the bytes of few rows, which may be of many megabytes each and must not come to the driver."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.spark import connect
from sluicegate.spark_sql.identifiers import quote_name

# Bytes that come to the driver at a time. There they are in Spark, in Arrow and in the writer of files at once, and
# several tables may be written side by side.
MOST_BYTES = 64 * 1024 * 1024


def collect_if_small(rows: DataFrame) -> pa.Table | None:
    """Collect rows on the driver if they have few bytes; else return None."""
    if size(rows) > MOST_BYTES:
        return None
    return rows.toArrow()


def size(rows: DataFrame) -> int:
    """Return the bytes of rows, by their inputs in block managers or files.

    No job runs. The result is an estimate if the inputs are not materialized, but their columns copied or renamed. A
    Spark Connect client sees none of this, and counts the rows.
    """
    if connect.is_remote(rows.sparkSession):
        length = F.octet_length(F.to_json(F.struct(*map(quote_name, rows.columns))))
        return int(rows.agg(F.sum(length)).collect()[0][0] or 0)
    leaves: Any = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    return sum(_leaf_bytes(rows, leaves.apply(place)) for place in range(leaves.size()))


def _leaf_bytes(rows: DataFrame, leaf: Any) -> int:
    """Return the bytes of a leaf of a plan.

    Statistics of a materialized frame would be those of the plan that it came from.
    """
    if leaf.nodeName() != "LogicalRDD" or not (rdd := leaf.rdd()).getStorageLevel().isValid():
        return int(leaf.stats().sizeInBytes())
    storage: Any = rows.sparkSession._jvm.org.apache.spark  # type: ignore[union-attr]
    blocks = [storage.storage.RDDBlockId(rdd.id(), part) for part in range(rdd.getNumPartitions())]
    stores = storage.SparkEnv.get().blockManager().master().getStorageStatus()
    statuses = [store.getBlock(block) for store in stores for block in blocks]
    return sum(int(status.get().memSize()) + int(status.get().diskSize()) for status in statuses if status.isDefined())
