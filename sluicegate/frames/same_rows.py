"""Equality of two frames as multisets of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.frames.value_equality import exact
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.types import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def same_rows(one: DataFrame, other: DataFrame) -> bool:
    """Whether two frames have the same columns and the same rows, in any order."""
    if columns_of(one.schema) != columns_of(other.schema):
        return False
    weighted = _weighted(one, 1).unionByName(_weighted(other, -1))
    return weighted.groupBy("row").agg(F.sum("sign").alias("left")).where("left <> 0").isEmpty()


def _weighted(frame: DataFrame, sign: int) -> DataFrame:
    """Each row as one value that Spark compares, with its weight."""
    values = [exact(F.col(quoted(f.name)), f.dataType).alias(f.name) for f in frame.schema]
    return frame.select(F.struct(*values).alias("row"), F.lit(sign).alias("sign"))
