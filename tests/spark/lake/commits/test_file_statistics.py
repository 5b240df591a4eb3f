"""A MERGE by delta-rs writes rows again that stay, with statistics of its own: where these were wrong, Spark merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.frames.difference.merge import OP
from tests.spark.frames.test_small_writes import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LAST = "TIMESTAMP'9999-12-31 23:59:59.999999'"
# By type: a value that stays, a condition that it meets, and another value, with which delta-rs can do all.
STAY = {
    "DOUBLE": ("double('NaN')", "x > 5", "1.0D"),
    "FLOAT": ("float('NaN')", "x > 5", "float('-inf')"),
    "STRUCT<a: STRUCT<b: DOUBLE>>": (
        "named_struct('a', named_struct('b', double('NaN')))", "x.a.b > 5", "named_struct('a', NULL)"
    ),
    "DECIMAL(38,10)": ("9999999999999999999999999999.9999999999BD", "x > 9999999999999999999999999999BD", "1BD"),
    "DECIMAL(18,2)": ("9999999999999999.99BD", "x >= 9999999999999999.99BD", "NULL"),
    "TIMESTAMP": ("timestamp_micros(9223372036854775807)", f"x > {LAST}", LAST),
    "DATE": ("DATE'+10000-01-01'", "x > DATE'9999-12-31'", "DATE'1582-10-15'"),
}  # fmt: skip


def stored(pair: Pair, columns: str, *rows: str) -> None:
    """Has Spark write one file of rows."""
    every = " UNION ALL ".join(f"SELECT {row}" for row in rows)
    for uri in (pair.ours, pair.sparks):
        pair.spark.sql(f"INSERT INTO delta.`{uri}` ({columns}) SELECT /*+ COALESCE(1) */ * FROM ({every})")


def changed(pair: Pair, **values: str) -> None:
    """Merges another row, with some values."""
    schema = pair.spark.read.format("delta").load(pair.ours).schema
    made = [f"CAST({values.get(one.name, 'NULL')} AS {one.dataType.simpleString()}) `{one.name}`" for one in schema]
    pair.merge(pair.spark.range(1).selectExpr(*made, f"'update' AS {OP}"), "k")


@pytest.mark.parametrize("kind", [*STAY][:1] + [pytest.param(one, marks=pytest.mark.release) for one in [*STAY][1:]])
def test_rows_that_stay_are_found_by_every_value(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    value, condition, other = STAY[kind]
    for name, stays, of_delta_rs in (("odd", value, False), ("plain", other, True)):
        (tmp_path / name).mkdir()
        pair = Pair(spark, tmp_path / name, f"k INT, v STRING, x {kind}")
        stored(pair, "k, v, x", f"1, 'a', CAST({stays} AS {kind})", "2, 'b', NULL")
        changed(pair, k="2", v="'c'", x=f"CAST({other} AS {kind})")
        assert pair.same()
        assert pair.found(condition) == 1 - of_delta_rs
        assert pair.by_delta_rs is of_delta_rs


@pytest.mark.parametrize("columns", [32, *(pytest.param(one, marks=pytest.mark.release) for one in (31, 33))])
def test_rows_that_stay_in_columns_that_are_not_COUNTED_are_known_by_their_type_alone(
    spark: SparkSession, tmp_path: Path, columns: int
) -> None:
    """Of the last column beyond 32 the log has nothing, but Parquet's footers have: NaN is left out of these, too."""
    others = [f"c{number} INT" for number in range(columns - 2)]
    for kind, value, of_delta_rs in (("DOUBLE", "1.0D", columns <= 32), ("DECIMAL(38,10)", "1BD", True)):
        folder = tmp_path / kind[:3]
        folder.mkdir()
        pair = Pair(spark, folder, ", ".join(["k INT", *others, f"x {kind}"]))
        stored(pair, "k, x", f"1, {value}", f"2, {value}")
        changed(pair, k="2")
        assert pair.by_delta_rs is of_delta_rs
        assert pair.same()
    pair = Pair(spark, tmp_path, ", ".join(["k INT", *others, "x DOUBLE"]))
    stored(pair, "k, x", "1, double('NaN')", "2, 1.0D")
    changed(pair, k="2")
    assert pair.found("x > 5") == 1


@pytest.mark.more
@pytest.mark.parametrize("name", ["dataSkippingNumIndexedCols' = '2", "dataSkippingStatsColumns' = 'k"])
def test_a_table_that_says_which_columns_have_statistics(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING, x DOUBLE")
    for uri in (pair.ours, pair.sparks):
        spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.{name}')")
    stored(pair, "k, v, x", "1, 'a', double('NaN')", "2, 'b', 1.0D")
    changed(pair, k="2")
    assert not pair.by_delta_rs
    assert pair.same()
    assert pair.found("x > 5") == 1


def test_texts_that_are_not_utf_8_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING, many ARRAY<STRING>")
    odd = "CAST(X'41ff' AS STRING)"
    for v, many in ((odd, "NULL"), ("'a'", f"array('b', {odd})")):
        pair.append(spark.range(1).selectExpr("1 AS k", f"{v} AS v", f"CAST({many} AS ARRAY<STRING>) AS many"))
        assert not pair.by_delta_rs
    assert pair.same()
    changed(pair, k="7", v=odd)  # comes
    assert not pair.by_delta_rs
    stored(pair, "k, v", "2, 'a'", f"3, {odd}")
    changed(pair, k="2", v="'b'")  # stays, which delta-rs finds out when it reads the file
    assert not pair.by_delta_rs
    assert pair.same()
