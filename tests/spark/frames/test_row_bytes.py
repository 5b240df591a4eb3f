"""Rows come to the driver only if they have few bytes, which no job counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from sluicegate.frames import row_bytes, small_writes
from sluicegate.frames.difference.merge import OP, collect_changes
from sluicegate.frames.record_ids import materialize
from tests.spark.frames.test_small_writes import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BYTES = 2_000_000


@pytest.fixture
def heavy(spark: SparkSession) -> DataFrame:
    """Two rows of a million bytes each."""
    return materialize(spark.range(2).selectExpr("CAST(id AS INT) AS k", "repeat('x', 1000000) AS v"), few=True)


def test_bytes_of_rows_are_known_without_a_job(spark: SparkSession, heavy: DataFrame) -> None:
    spark.sparkContext.setJobGroup("bytes", "")
    try:
        whole = row_bytes.size(heavy)
        some = row_bytes.size(heavy.where("k > 0").withColumn("more", F.lit(1)))
        none = row_bytes.size(spark.range(1).where("id < 0"))
        assert not spark.sparkContext.statusTracker().getJobIdsForGroup("bytes")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert BYTES <= whole <= BYTES * 1.1
    assert some == whole
    assert none < 100
    assert row_bytes.size(materialize(heavy.where("k > 5"), few=True)) < 1000


def test_rows_of_more_than_MOST_BYTES_are_not_brought_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heavy: DataFrame
) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING")
    changes = materialize(heavy.withColumn(OP, F.lit("insert")), few=True)
    for limit in (-1, 0, 1):
        monkeypatch.setattr(row_bytes, "MOST_BYTES", row_bytes.size(heavy) + limit)
        small_writes.append(heavy, pair.ours, few=True)
        assert pair.by_delta_rs is (limit >= 0)
        monkeypatch.setattr(row_bytes, "MOST_BYTES", row_bytes.size(changes) + limit)
        assert (collect_changes(pair.ours, changes, ["k"], few=True) is not None) is (limit >= 0)
