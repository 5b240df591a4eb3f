"""By which rows a table becomes its expected rows, and that it does, with unique keys, with others and with none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.flow import thresholds
from sluicegate.frames.record_ids import materialize
from sluicegate.gold.table_changes import TableChanges
from sluicegate.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "k INT, v STRING"
HELD = [(1, "stays"), (2, "old"), (3, "goes"), (None, "stays")]
EXPECTED = [(1, "stays"), (2, "new"), (None, "stays"), (4, "comes")]


@pytest.fixture
def uri(spark: SparkSession, tmp_path: Path) -> str:
    uri = str(tmp_path / "p" / "gold" / "t")
    spark.createDataFrame(HELD, COLUMNS).coalesce(1).write.format("delta").save(uri)
    return uri


def frame(spark: SparkSession, rows: list[Any]) -> DataFrame:
    return materialize(spark.createDataFrame(rows, COLUMNS), few=True)


def rows_of(spark: SparkSession, uri: str) -> Counter[Any]:
    return Counter(tuple(row) for row in spark.read.format("delta").load(uri).collect())


def test_with_unique_keys_a_row_is_updated(spark: SparkSession, uri: str) -> None:
    changes = TableChanges.compare_some(uri, frame(spark, EXPECTED), frame(spark, HELD), ["k"], few=True)
    assert changes.counts == {"update": 1, "insert": 1, "delete": 1}
    assert sorted(row.k for row in changes.upserted_rows.collect()) == [2, 4]
    held = spark.read.format("delta").load(uri)
    assert Counter(tuple(row) for row in changes.merged_rows(held).collect()) == Counter(EXPECTED)
    changes.write(None)
    assert rows_of(spark, uri) == Counter(EXPECTED)


@pytest.mark.parametrize("twice", ["held", "expected"])
def test_with_keys_that_are_not_unique_rows_are_exchanged(spark: SparkSession, uri: str, twice: str) -> None:
    """Whichever of the two has a key twice: a MERGE by it would find two rows for one."""
    held, expected = ([*rows, (1, "other")] if name == twice else rows
                      for name, rows in (("held", HELD), ("expected", EXPECTED)))  # fmt: skip
    spark.createDataFrame(held, COLUMNS).write.format("delta").mode("overwrite").save(uri)
    changes = TableChanges.compare_some(uri, frame(spark, expected), frame(spark, held), ["k"], few=True)
    assert changes.counted
    changes.write(None)
    assert rows_of(spark, uri) == Counter(expected)


def test_no_change_is_a_commit_alone(spark: SparkSession, uri: str) -> None:
    changes = TableChanges.compare_by_key(uri, frame(spark, HELD), frame(spark, HELD), ["k"], few=True)
    assert changes.counts == {}
    changes.write(None)
    assert (tables.table_at(uri).version(), rows_of(spark, uri)) == (1, Counter(HELD))


@pytest.mark.parametrize("keys", [["k"], []], ids=["by key", "by all columns"])
@pytest.mark.parametrize("few", [True, False])
def test_of_all_rows_those_that_differ_are_written(spark: SparkSession, uri: str, few: bool, keys: list[str]) -> None:
    held = spark.read.format("delta").load(uri)
    changes = TableChanges.compare_all(uri, frame(spark, EXPECTED), held, keys, few=few)
    assert changes is not None
    kinds = {"update": 1, "insert": 1, "delete": 1} if keys else {"insert": 2, "delete": 2}
    assert dict(changes.counts) == kinds
    changes.write(None)
    assert rows_of(spark, uri) == Counter(EXPECTED)


def test_a_table_of_which_no_row_or_too_few_of_many_stay_is_replaced(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, others = spark.read.format("delta").load(uri), frame(spark, [(7, "a"), (8, "b")])
    assert TableChanges.compare_all(uri, others, held, [], few=True) is None
    monkeypatch.setattr(thresholds, "SMALL", 2)
    assert TableChanges.compare_all(uri, frame(spark, EXPECTED), held, ["k"], few=False) is None  # three keys of four
    assert TableChanges.compare_all(uri, frame(spark, [*HELD, (9, "c")]), held, ["k"], few=False) is not None
