"""By what a table differs from its expected rows, and what it is once these are merged, with and without a key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from sluicegate.errors import SchemaMismatch
from sluicegate.frames import small_writes
from sluicegate.frames.difference.merge import OP, difference, exchange, merge_by_keys, merge_rows, merged_rows
from sluicegate.frames.record_ids import materialize
from sluicegate.lake import tables
from sluicegate.spark.session import override_settings
from tests.support.gold_world import comparable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "a INT, x DOUBLE, s STRING, m MAP<STRING, INT>"
NAN = float("nan")
STAYS = [(1, 0.5, "a", {"k": 1}), (2, NAN, None, None), (2, NAN, None, None)]


def test_rows_are_exchanged_as_often_as_they_should_be_there(spark: SparkSession, tmp_path: Path) -> None:
    held = [*STAYS, (3, 0.0, "a", None), (4, 1.0, "b", None), (4, 1.0, "b", None), (5, 1.0, "c", None),
            (None, None, None, None), (7, 1.0, "d", {"k": None}), (8, 0.0, "z", None)]  # fmt: skip
    due = [*STAYS, (3, -0.0, "a", None), (4, 1.0, "b", None), (5, 1.0, "c", None), (5, 1.0, "c", None),
           (5, 1.0, "c", None), (7, 1.0, "d", {"k": 2}), (8, 0.0, "z", None), (8, -0.0, "z", None)]  # fmt: skip
    uri = str(tmp_path / "table")
    other = (100, 9.0, "not among them", None)
    spark.createDataFrame([*held, other], COLUMNS).write.format("delta").save(uri)

    changes = materialize(exchange(*(spark.createDataFrame(rows, COLUMNS) for rows in (due, held))), few=True)
    written = _counted(changes.drop(OP).collect())
    assert not {row for row in _counted(STAYS) if row in written}  # what stays is not written
    assert sum(n for row, n in written.items() if row[0] == 5) == 2  # nor is what is there of what comes
    merge_rows(uri, changes, few=True)

    assert _counted(spark.read.format("delta").load(uri).collect()) == _counted([*due, other])
    again = exchange(spark.createDataFrame(due, COLUMNS), spark.read.format("delta").load(uri).where("a < 100"))
    assert again.isEmpty()


KEYED = "k INT, n INT, v STRING, _quarantined_at STRING"


def test_the_difference_by_keys_and_the_table_that_it_makes(spark: SparkSession) -> None:
    """NULL is a key like any other, and when a row was written is no part of what it says."""
    stays, updated, gone = [(1, None, "a", "old"), (None, None, None, "old")], (2, 1, "b", "old"), (3, 1, "c", "old")
    held = spark.createDataFrame([*stays, updated, gone], KEYED)
    comes = [(2, 1, None, "now"), (2, None, "d", "now"), (None, 1, "e", "now")]
    expected = spark.createDataFrame([(k, n, v, "now") for k, n, v, _ in stays] + comes, KEYED)
    changes = difference(expected, held, ["k", "n"])
    assert Counter(tuple(row) for row in changes.collect()) == Counter(
        [(*comes[0], "update"), (*comes[1], "insert"), (*comes[2], "insert"), (3, 1, None, None, "delete")]
    )
    after = merged_rows(held, changes, ["k", "n"])
    assert after.columns == held.columns
    assert Counter(map(tuple, after.collect())) == Counter([*stays, *comes])
    assert {row[OP] for row in difference(expected, None, ["k", "n"]).collect()} == {"insert"}


def test_a_column_that_the_table_does_not_have_yet_is_NULL_in_its_rows(spark: SparkSession) -> None:
    held = spark.createDataFrame([(1, "a"), (2, "b")], "k INT, V STRING")
    expected = spark.createDataFrame([(1, "a", None), (2, "b", 0.5)], "k INT, v STRING, x DOUBLE")
    changes = difference(expected, held, ["k"])
    assert [tuple(row) for row in changes.collect()] == [(2, "b", 0.5, "update")]


@pytest.mark.more
def test_rows_with_variants_are_exchanged(spark: SparkSession, tmp_path: Path) -> None:
    def rows(*texts: str) -> DataFrame:
        return spark.sql(" UNION ALL ".join(f"SELECT 1 AS a, parse_json('{text}') AS v" for text in texts))

    held, due = rows('{"a":1,"b":2}', '{"b":2,"a":1}', "1", "2"), rows('{"a":1,"b":2}', "1", "1", "true")
    uri = str(tmp_path / "table")
    held.write.format("delta").save(uri)
    changes = materialize(exchange(due, held), few=True)
    merge_rows(uri, changes, few=True)
    left = spark.read.format("delta").load(uri).selectExpr("to_json(v) AS v").collect()
    assert Counter(row.v for row in left) == Counter(['{"a":1,"b":2}', "1", "1", "true"])


def _counted(rows: Any) -> Counter[Any]:
    return Counter(tuple(map(comparable, row)) for row in rows)


def test_rows_of_another_type_are_neither_merged_nor_appended(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever Spark's own setting for store assignment is; and a validation calls their values other ones."""
    uri = str(tmp_path / "p" / "silver" / "t")
    held = spark.sql("SELECT 1 AS k, 12 AS v, named_struct('a', 1) AS s")
    held.write.format("delta").save(uri)
    made = spark.sql("SELECT 1 AS k, 12.50BD AS v, named_struct('a', 1) AS s")
    changes = difference(made, spark.read.format("delta").load(uri), ["k"])
    assert [row[OP] for row in changes.collect()] == ["update"]
    inner = spark.sql("SELECT 2 AS k, 1 AS v, named_struct('a', 1.5D) AS s")
    for policy in ("ANSI", "LEGACY"):
        with override_settings(spark, {"spark.sql.storeAssignmentPolicy": policy}):
            for rows in (made, inner):
                merged = rows.withColumn(OP, F.lit("update"))
                with pytest.raises(SchemaMismatch, match=r"column (v|s\.a) of t is INT, but the new rows have"):
                    merge_by_keys(uri, merged, ["k"], few=False, brought=None)
                with pytest.raises(SchemaMismatch, match="but the new rows have"):
                    small_writes.append(rows, uri, few=False)
    assert tables.table_at(uri).version() == 0
