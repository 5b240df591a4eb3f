"""Predicates that skip files: whatever rows share a value is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from sluicegate.frames import data_skipping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Six values of each type, in order, of which the first may be NULL.
VALUES = {
    "tinyint": ["NULL", "-128", "-1", "0", "1", "127"],
    "bigint": ["NULL", "-9223372036854775808", "-1", "0", "9223372036854775806", "9223372036854775807"],
    "string": ["NULL", "''", "'O''Hara'", "'\\\\\\\\ü'", "'a%_'", "'b'"],
    "decimal(38,10)": ["NULL", "-9999999999999999999999999999.9999999999", "-0.5", "0", "0.5", "1E27"],
    "decimal(38,30)": ["NULL", "'-99999999.999999999999999999999999999999'",
                       "'-0.000000123456789012345678901234'", "0", "'0.000000000000000000000000000001'",
                       "'0.000000023456789012345678901234'"],
    "date": ["NULL", "'-0044-03-15'", "'1582-10-04'", "'1970-01-01'", "'2024-02-29'", "'+12000-01-01'"],
    "timestamp": ["NULL", "'0001-01-01 00:00:00'", "'1850-06-01 00:00:00.000001'", "'1970-01-01 00:00:00'",
                  "'2024-03-31 02:30:00.123456'", "'9999-12-31 23:59:59.999999'"],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_rows_with_the_same_values_are_kept_for_FEW_VALUES_and_more(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(data_skipping, "FEW_VALUES", 3)
    rows = ", ".join(f"({number}, CAST({value} AS {kind}))" for number, value in enumerate(VALUES[kind]))
    table = spark.sql(f"SELECT * FROM VALUES {rows} AS t(number, value)")
    for chosen in ([1], [0], [0, 5], [1, 3], [0, 1, 2], [1, 4, 5], [0, 1, 2, 3], [1, 2, 3, 5]):
        some = table.where(F.col("number").isin(chosen))
        near = data_skipping.value_predicate(some, "value")
        assert near is not None
        kept = {row.number for row in table.where(near(F.col("value"))).select("number").collect()}
        assert kept >= {*chosen}
        if len(chosen) <= 3:
            assert kept == {*chosen}, "of few values no other has one"
        else:
            assert kept == {0, *range(min(chosen) or 1, max(chosen) + 1)}


def test_texts_that_are_no_utf_8_skip_nothing(spark: SparkSession) -> None:
    """Files of Parquet may have them, and Spark keeps their bytes; Python cannot."""
    texts = spark.sql("SELECT CAST(value AS STRING) AS value FROM VALUES (X'FF61'), (X'61'), (X'C3') AS t(value)")
    assert data_skipping.value_predicate(texts, "value") is None


@pytest.mark.parametrize("kind", ["double", "boolean", "binary", "timestamp_ntz", "array<int>", "struct<a:int>"])
def test_values_of_other_types_skip_nothing(spark: SparkSession, kind: str) -> None:
    assert data_skipping.value_predicate(spark.sql(f"SELECT CAST(NULL AS {kind}) AS value"), "value") is None


def test_no_rows_need_no_file(spark: SparkSession) -> None:
    near = data_skipping.value_predicate(spark.range(0), "id")
    assert near is not None
    assert spark.range(9).where(near(F.col("id"))).count() == 0
