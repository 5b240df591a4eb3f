"""The keys of rows that one of two frames has more often, and the rows that have these keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sluicegate.frames.difference.same_rows import keys_of_differing_rows, rows_with_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "k INT, x DOUBLE, v STRING"
ROWS = [(1, 0.0, "a"), (1, 0.0, "a"), (2, float("nan"), None), (None, None, None)]


@pytest.mark.parametrize(
    ("other", "same"),
    [(ROWS[::-1], True), (ROWS[1:], False), ([*ROWS, ROWS[2]], False), ([*ROWS[:3], (None, None, "")], False),
     ([(1, -0.0, "a"), *ROWS[1:]], False)],
    ids=["another order", "once and twice", "one more", "another value", "zero with a sign"],
)  # fmt: skip
def test_keys_differ_unless_each_of_their_rows_is_there_as_often(
    spark: SparkSession, other: list[tuple[int | None, float | None, str | None]], same: bool
) -> None:
    one = spark.createDataFrame(ROWS, COLUMNS)
    assert keys_of_differing_rows(one, spark.createDataFrame(other, COLUMNS), ["k"]).isEmpty() == same


def test_rows_of_a_key_of_which_one_differs(spark: SparkSession) -> None:
    """All of the key, also where what differs is a part of the key itself: zero with and without a sign are one key."""
    rows = [(1, 0.0, "a"), (1, 0.0, "b"), (2, 0.0, "a"), (3, 0.0, "a"), (None, 1.0, "a"), (5, 1.0, "a"), (5, 1.0, "a")]
    one = spark.createDataFrame(rows, COLUMNS)
    other = [(1, 0.0, "a"), (1, 0.0, "c"), (2, -0.0, "a"), (3, 0.0, "a"), (None, 1.0, "b"), (5, 1.0, "a")]
    for keys in (["k", "x"], ["k"]):
        differing = keys_of_differing_rows(one, spark.createDataFrame(other, COLUMNS), keys)
        assert differing.count() == 4
        for few in (True, False):
            found = rows_with_keys(one, differing, keys, few=few)
            assert found.columns == one.columns
            assert Counter(map(tuple, found.collect())) == Counter(row for row in rows if row[0] != 3)
