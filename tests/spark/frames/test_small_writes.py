"""Few rows are written by delta-rs as Spark writes them, and by Spark where delta-rs could not."""

from __future__ import annotations

import functools
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.frames import small_writes
from sluicegate.frames.difference.merge import OP, collect_changes, merge_by_keys
from sluicegate.lake.commits import small_commits
from sluicegate.lake.commits.small_commits import Facts
from sluicegate.spark import commit_settings, table_reader
from sluicegate.spark.session import override_settings
from tests.support.same_rows import have_same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "k INT, `Select` STRING, big BIGINT, small SMALLINT, yes BOOLEAN, x DOUBLE, y FLOAT, d DATE, at TIMESTAMP, "
    "price DECIMAL(38,10), cents DECIMAL(9,2), tags ARRAY<STRING>, limbs MAP<BIGINT,BIGINT>, "
    "one STRUCT<a: INT, b: DOUBLE, c: STRUCT<d: STRING>>"
)
PLAIN = {
    "k": "1", "Select": "'it''s'", "big": "-9223372036854775808", "small": "-32768", "yes": "true", "x": "-0.0D",
    "y": "1.1F", "d": "DATE'1582-10-15'", "at": "TIMESTAMP'1900-01-01 00:00:00.000001'", "price": "12345.0000000001BD",
    "cents": "-9999999.99BD", "tags": "array('a', NULL, '')", "limbs": "map(1L, 2L, 3L, NULL)",
    "one": "named_struct('a', 1, 'b', 0.5D, 'c', named_struct('d', NULL))",
}  # fmt: skip
# Values that delta-rs writes, by column: at the ends of what it takes, and NULL.
TAKEN = [
    *[(column, "NULL") for column in PLAIN if column != "k"],
    ("x", "double('inf')"), ("x", "double('-inf')"), ("x", "4.9E-324D"), ("x", "1.7976931348623157E308D"),
    ("y", "float('-inf')"), ("y", "float(3.4028234663852886E38D)"), ("big", "9223372036854775807"), ("Select", "''"),
    ("Select", "repeat('z', 200)"), ("Select", "repeat('\U0010ffff', 80)"), ("Select", "char(0)"),
    ("d", "DATE'9999-12-31'"), ("at", "TIMESTAMP'1900-01-01 00:00:00'"),
    ("at", "TIMESTAMP'9999-12-31 23:59:59.999999'"),
    ("price", "99999.9999999999BD"), ("price", "-99999.9999999999BD"), ("cents", "9999999.99BD"), ("tags", "array()"),
    ("limbs", "map()"), ("one", "named_struct('a', NULL, 'b', NULL, 'c', NULL)"),
]  # fmt: skip
# Values that a file's statistics, as delta-rs makes them, would not tell rightly: Spark writes these.
NOT_TAKEN = [
    ("x", "double('NaN')"), ("y", "float('NaN')"), ("one", "named_struct('a', 1, 'b', double('NaN'), 'c', NULL)"),
    ("price", "100000.0000000000BD"), ("price", "9999999999999999999999999999.9999999999BD"),
    ("at", "timestamp_micros(9223372036854775807)"), ("at", "TIMESTAMP'1899-12-31 23:59:59.999999'"),
    ("d", "DATE'+10000-01-01'"), ("d", "DATE'1582-10-14'"),
]  # fmt: skip


class Pair:
    """Two tables that are written alike, the one as few rows are, the other by Spark."""

    def __init__(self, spark: SparkSession, folder: Path, columns: str = COLUMNS) -> None:
        self.spark, self.ours, self.sparks = spark, str(folder / "ours"), str(folder / "sparks")
        spark.sql(f"CREATE TABLE delta.`{self.ours}` ({columns}) USING delta")
        shutil.copytree(self.ours, self.sparks)

    def row(self, **values: str) -> DataFrame:
        every = PLAIN | values
        schema = self.spark.read.format("delta").load(self.ours).schema
        return self.spark.range(1).select(*[F.expr(every[f.name]).cast(f.dataType).alias(f.name) for f in schema])

    def append(self, rows: DataFrame) -> None:
        small_writes.append(rows, self.ours, few=True)
        small_writes.append(rows, self.sparks, few=False)

    def merge(self, rows: DataFrame, *keys: str) -> None:
        rows = rows.localCheckpoint()
        merge_by_keys(self.ours, rows, keys, few=True, brought=collect_changes(self.ours, rows, keys, few=True))
        merge_by_keys(self.sparks, rows, keys, few=False, brought=None)

    @property
    def by_delta_rs(self) -> bool:
        """Whether the last commit was."""
        return "delta-rs" in str(DeltaTable(self.ours).history(1)[0]["engineInfo"])

    def same(self, *but: str) -> bool:
        """Whether both have the same rows, read in either way, and the same change feed, but for some columns of it."""
        ours, theirs = (self.spark.read.format("delta").load(uri) for uri in (self.ours, self.sparks))
        by_list = table_reader.read(self.spark, self.ours)
        feeds = [self._changes(uri).drop(*but) for uri in (self.ours, self.sparks)]
        return have_same_rows(ours, theirs) and have_same_rows(by_list, theirs) and have_same_rows(*feeds)

    def _changes(self, uri: str) -> DataFrame:
        feed = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(uri)
        return feed.drop("_commit_timestamp")

    def found(self, condition: str) -> int:
        """Rows that a filter finds by the statistics that delta-rs made; as many as Spark finds by its own."""
        ours, theirs = (self.spark.read.format("delta").load(uri).where(condition) for uri in (self.ours, self.sparks))
        assert ours.count() == theirs.count()
        return ours.count()


@pytest.mark.more
def test_rows_with_values_at_their_ends_are_appended_as_spark_would(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path)
    pair.append(pair.row())
    assert pair.by_delta_rs
    rows = [pair.row(k=str(number), **{column: value}) for number, (column, value) in enumerate(TAKEN, 2)]
    for row, taken in zip(rows, TAKEN, strict=True):  # each by itself, for the statistics of a file are of its rows
        small_writes.append(row, pair.ours, few=True)
        assert pair.by_delta_rs, taken
    small_writes.append(functools.reduce(DataFrame.union, rows), pair.sparks, few=False)
    assert pair.same("_commit_version")
    for column, value in TAKEN:
        if value != "NULL" and column not in ("limbs", "tags", "one"):
            kind = dict(pair.row().dtypes)[column]
            assert pair.found(f"`{column}` = CAST({value} AS {kind})"), (column, value)


def test_values_that_statistics_of_delta_rs_would_get_wrong_are_written_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    pair = Pair(spark, tmp_path)
    for column, value in NOT_TAKEN:
        pair.append(pair.row(**{column: value}))
        assert not pair.by_delta_rs, (column, value)
    assert pair.same()


def test_few_rows_are_merged_as_spark_would(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path)
    every = pair.row().drop("k").crossJoin(spark.range(10).selectExpr("CAST(id AS INT) AS k"))
    pair.append(every)
    done = F.when(F.col("k") < 3, "delete").when(F.col("k") < 7, "update").otherwise("insert")
    change = every.withColumn(OP, done).withColumn("k", F.expr("IF(k < 7, k, k + 100)")).withColumn("x", F.col("x") + 1)
    pair.merge(change, "k")
    assert pair.by_delta_rs
    assert pair.same()
    pair.merge(change.where("k >= 100").withColumn(OP, F.lit("delete")), "k", "Select", "at", "cents")
    assert pair.by_delta_rs
    assert pair.same()


@pytest.mark.in_the_jvm
def test_code_is_not_compiled_again_for_the_constants_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path, "id BIGINT, doubled BIGINT, number BIGINT, moment TIMESTAMP")
    compilations = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]
    moment, counts = datetime(2026, 3, 1, 12, 30, 0, 5, tzinfo=UTC), []
    for number in (1, 2):
        computed = spark.range(5).selectExpr("id", "id * 2 AS doubled")
        rows = computed.select("*", F.lit(number).cast("bigint").alias("number"), F.current_timestamp().alias("moment"))
        before = compilations.getCount()
        small_writes.append(rows, pair.ours, few=True, constants={"number": number, "moment": moment})
        counts.append(compilations.getCount() - before)
        assert pair.by_delta_rs
    assert counts[1] == 0
    stored = spark.read.format("delta").load(pair.ours).withColumn("moment", F.unix_micros("moment"))
    expected = {(row, 2 * row, number, 1772368200000005) for number in (1, 2) for row in range(5)}
    assert {tuple(row) for row in stored.collect()} == expected


@pytest.mark.parametrize(
    ("columns", "key", "values"),
    [
        ("k DOUBLE, v INT", "k", ["0.0D", "-0.0D"]),
        pytest.param("k STRING, v INT", "k", ["NULL"], marks=pytest.mark.more),
        pytest.param("k STRUCT<a: INT>, v INT", "k", ["named_struct('a', 1)"], marks=pytest.mark.more),
        pytest.param("`a.b` STRING, v INT", "a.b", ["'a'"], marks=pytest.mark.more),
    ],
)
def test_keys_that_only_spark_compares_are_merged_by_spark(
    spark: SparkSession, tmp_path: Path, columns: str, key: str, values: list[str]
) -> None:
    pair = Pair(spark, tmp_path, columns)
    schema = spark.read.format("delta").load(pair.ours).schema
    for value in values:
        row = spark.range(1).select(F.expr(value).cast(schema[key].dataType).alias(key), F.lit(1).alias("v"))
        pair.merge(row.withColumn(OP, F.lit("insert")), key)
        assert not pair.by_delta_rs
        assert pair.same()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {} ADD CONSTRAINT some CHECK (k > 0)",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "ALTER TABLE {} CLUSTER BY (k)",
    ],
)
def test_a_table_with_more_to_heed_is_written_by_spark(spark: SparkSession, tmp_path: Path, change: str) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING")
    spark.sql(change.format(f"delta.`{pair.ours}`"))
    row = spark.range(1).selectExpr("1 AS k", "'a' AS v")
    small_writes.append(row, pair.ours, few=True)
    assert not pair.by_delta_rs
    assert [*map(tuple, table_reader.read(spark, pair.ours).collect())] == [(1, "a")]


@pytest.mark.parametrize("columns", ["k INT, v STRING NOT NULL", "k INT, v STRUCT<a: INT NOT NULL>"])
def test_a_table_with_columns_that_are_not_null_is_written_by_spark(
    spark: SparkSession, tmp_path: Path, columns: str
) -> None:
    pair = Pair(spark, tmp_path, columns)
    value = "'a'" if "STRING" in columns else "named_struct('a', 1)"
    pair.append(spark.range(1).selectExpr("1 AS k", f"{value} AS v"))
    assert not pair.by_delta_rs
    assert pair.same()
    if "STRING" in columns:
        with pytest.raises(Exception, match="DELTA_NOT_NULL_CONSTRAINT_VIOLATED"):
            small_writes.append(spark.range(1).selectExpr("1 AS k", "CAST(NULL AS STRING) AS v"), pair.ours, few=True)


def test_new_columns_and_new_tables_are_made_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "new")
    small_writes.append(spark.range(1), uri, few=True)
    small_writes.append(spark.range(1).withColumn("more", F.lit(1)), uri, few=True)
    small_writes.append(spark.range(1), uri, few=True)  # without the new column
    found = spark.read.format("delta").load(uri)
    assert sorted(map(tuple, found.collect()), key=str) == [(0, 1), (0, None), (0, None)]
    assert ["delta-rs" in one["engineInfo"] for one in DeltaTable(uri).history()] == [True, False, False]


def test_an_offset_is_committed_once_by_either_writer(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING")
    row = spark.range(1).selectExpr("1 AS k", "'a' AS v")
    for version, few in ((5, True), (5, False), (5, True), (4, True), (6, False), (6, True)):
        said = Facts(json.dumps({"version": version}), "flow", version)
        with override_settings(spark, commit_settings.settings(said)):
            small_writes.append(row, pair.ours, few=few)
            changes = row.withColumn("v", F.lit(str(version))).withColumn(OP, F.lit("update"))
            brought = collect_changes(pair.ours, changes, ["k"], few=few)
            merge_by_keys(pair.ours, changes, ["k"], few=few, brought=brought)  # the same offset is there by now
    table = DeltaTable(pair.ours)
    assert table.transaction_version("flow") == 6
    assert [json.loads(one["userMetadata"])["version"] for one in table.history(2)] == [6, 5]
    assert [*map(tuple, table_reader.read(spark, pair.ours).collect())] == [(1, "a"), (1, "a")]


def test_a_commit_without_rows_moves_the_offset(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path)
    for uri, change in ((pair.ours, ""), (pair.sparks, "ALTER TABLE delta.`{}` CLUSTER BY (k)")):
        if change:
            spark.sql(change.format(uri))
        with override_settings(spark, commit_settings.settings(Facts("{}", "flow", 3))):
            small_writes.commit_only(spark, uri)
        assert DeltaTable(uri).transaction_version("flow") == 3
        assert spark.read.format("delta").load(uri).count() == 0


@pytest.mark.more
def test_tables_of_more_than_MOST_BYTES_are_merged_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(spark, tmp_path, "k INT, v STRING")
    pair.append(spark.range(1).selectExpr("1 AS k", "'a' AS v"))
    [size] = pa.table(DeltaTable(pair.ours).get_add_actions())["size_bytes"].to_pylist()
    change = spark.range(1).selectExpr("1 AS k", "'b' AS v", f"'update' AS {OP}")
    for limit, of_delta_rs in ((size - 1, False), (size, True)):
        monkeypatch.setattr(small_commits, "MOST_BYTES", limit)
        pair.merge(change, "k")
        assert pair.by_delta_rs is of_delta_rs
        assert pair.same()
        spark.sql(f"RESTORE delta.`{pair.ours}` TO VERSION AS OF 1")
        spark.sql(f"RESTORE delta.`{pair.sparks}` TO VERSION AS OF 1")
