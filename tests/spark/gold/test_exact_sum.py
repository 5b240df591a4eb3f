"""Variances are the exact ones, rounded once, however the rows came and went; sums of decimals lose no digit."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from statistics import pvariance
from statistics import variance as of_sample
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from sluicegate.gold.partial_aggregates import SIGN, Partials
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.refresh.strategy import refresh_strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

GROUPS: dict[str, list[float | None]] = {
    "near": [1.7e9 + i / 7 for i in range(20)], "great": [1e200, 1e200, -3e199, 7.0], "one": [0.1], "none": [None],
    "small": [5e-324, 1e-310, -1e-308, 1e-140], "beyond": [1.7976931348623157e308, -1.7976931348623157e308],
    "nan": [1.0, math.nan], "infinite": [1.0, math.inf], "same": [0.1] * 7, "ulp": [1.0, 1.0000000000000002],
    "edges": [2.0**500, -(2.0**500) * 1.1, 2.0**499, 2.0**-450, 2.0**-451], "mixed": [-1e3, 0.0, -0.0, None, 1e-3],
}  # fmt: skip


def expected(values: list[float | None]) -> tuple[float | None, ...]:
    """The variance of all values, and standard deviation and variance of a sample."""
    there = [value for value in values if value is not None]
    if not all(math.isfinite(value) for value in there):
        return math.nan, math.nan, math.nan
    terms = [Fraction(value) for value in there]
    of_all = _rounded(pvariance(terms)) if terms else None
    sample = _rounded(of_sample(terms)) if len(terms) > 1 else None
    return of_all, None if sample is None else math.sqrt(sample), sample


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def test_variances_are_exact_and_can_be_taken_back(spark: SparkSession) -> None:
    rows = [(g, value) for g, values in GROUPS.items() for value in values]
    noise = [(g, value) for g in GROUPS for value in (3.7e11, -1e-200, 1e180)]
    there, gone = (spark.createDataFrame(some, "g STRING, x DOUBLE") for some in (rows, noise))
    query = "SELECT g, var_pop(x) AS v, std(x) AS s, variance(x) AS k FROM t GROUP BY g"
    grouped = refresh_strategy(query, {"t": ["g", "x"]}).grouped
    assert grouped is not None
    partials = Partials.from_query(grouped, there)
    assert partials.stored_calls == []  # what goes is taken back, and no row is read again

    def made(frame: DataFrame) -> dict[str, tuple[float | None, ...]]:
        found = partials.values(partials.initial_state(partials.aggregate_deltas(frame))).collect()
        return {row[0]: tuple(row[1:]) for row in found}

    came = there.withColumn(SIGN, F.lit(1)).unionByName(gone.withColumn(SIGN, F.lit(1)))
    found = made(came.unionByName(gone.withColumn(SIGN, F.lit(-1))).repartition(3))
    assert {g: repr(values) for g, values in found.items()} == {g: repr(expected(v)) for g, v in GROUPS.items()}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_no_digit_of_a_small_decimal_is_lost_in_either_mode(spark: SparkSession, ansi: str) -> None:
    """Without ANSI mode Spark writes one as 1E-7."""
    terms = [Decimal(text) for text in ("0.0000001", "-0.0000000123", "12.5", "0", "3E-10")]
    with override_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        there = spark.createDataFrame([("a", term) for term in terms], "g STRING, d DECIMAL(20, 10)")
        grouped = refresh_strategy("SELECT g, sum(d) AS s, avg(d) AS a FROM t GROUP BY g", {"t": ["g", "d"]}).grouped
        assert grouped is not None
        partials = Partials.from_query(grouped, there)
        change = partials.aggregate_deltas(there.withColumn(SIGN, F.lit(1)))
        [row] = partials.values(partials.initial_state(change)).collect()
    assert tuple(row)[1:] == (sum(terms), sum(terms) / 5)
