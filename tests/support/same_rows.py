"""Whether two frames have the same rows, by what their values are and not by what Spark takes for equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.frames.difference.value_equality import exact_form
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.types import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def have_same_rows(rows: DataFrame, other: DataFrame) -> bool:
    """Return whether two frames have the same columns and the same rows, in any order."""
    if columns_of(rows.schema) != columns_of(other.schema):
        return False
    weighted = _weighted_rows(rows, 1).unionByName(_weighted_rows(other, -1))
    return weighted.groupBy("row").agg({"sign": "sum"}).where("`sum(sign)` <> 0").isEmpty()


def _weighted_rows(frame: DataFrame, sign: int) -> DataFrame:
    from pyspark.sql import functions as F

    values = [exact_form(F.col(quote_name(f.name)), f.dataType).alias(f"c{n}") for n, f in enumerate(frame.schema)]
    return frame.select(F.struct(F.lit(0), *values).alias("row"), F.lit(sign).alias("sign"))
