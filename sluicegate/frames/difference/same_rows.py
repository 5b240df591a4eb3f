"""Compare two frames as multisets of rows, and find the keys and the rows by which they differ."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.frames.difference.value_equality import exact_form, group_form, is_loose
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.type_parts import has_variant

# Column with the key of a row, as Spark compares it.
_KEY = "_sluicegate_key"


def keys_of_differing_rows(rows: DataFrame, other: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the keys of rows that one frame has more often than the other; for ``rows_with_keys``.

    Args:
        rows: rows.
        other: rows with the same columns.
        keys: key columns.
    """
    both = _row_deltas(rows, 1, keys).unionByName(_row_deltas(other, -1, keys))
    differing = both.groupBy(_KEY, "row").agg(F.sum("sign").alias("left")).where("left <> 0")
    return differing.select(_KEY).distinct()


def rows_with_keys(frame: DataFrame, of: DataFrame, keys: Sequence[str], *, few: bool) -> DataFrame:
    """Return the rows of a frame that have one of some keys.

    Args:
        frame: the rows.
        of: the keys, as of ``keys_of_differing_rows``.
        keys: key columns.
        few: whether the keys are few, so that they are broadcast.
    """
    if few:
        of = F.broadcast(of)
    same = F.col(f"_rows.{_KEY}").eqNullSafe(F.col(f"_of.{_KEY}"))
    keyed = frame.withColumn(_KEY, _key(frame, keys)).alias("_rows")
    return keyed.join(of.alias("_of"), same, "left_semi").drop(_KEY)


def _row_deltas(frame: DataFrame, sign: int, keys: Sequence[str]) -> DataFrame:
    """Return each row as one comparable value with its weight and its key.

    Key columns are left out where values that are equal as keys cannot differ.
    """
    compared = [f for f in frame.schema if f.name not in keys or is_loose(f.dataType) or has_variant(f.dataType)]
    values = [exact_form(F.col(quote_name(f.name)), f.dataType).alias(f"c{n}") for n, f in enumerate(compared)]
    row = F.struct(F.lit(0), *values).alias("row")
    return frame.select(_key(frame, keys).alias(_KEY), row, F.lit(sign).alias("sign"))


def _key(frame: DataFrame, keys: Sequence[str]) -> Column:
    kinds = {field.name: field.dataType for field in frame.schema}
    return F.struct(*[group_form(F.col(quote_name(key)), kinds[key]).alias(f"k{n}") for n, key in enumerate(keys)])
