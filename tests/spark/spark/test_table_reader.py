"""Tables are read by the list of their files where the files alone give the rows, and else by Delta."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sluicegate.lake import layout
from sluicegate.spark import table_reader
from tests.support.same_rows import have_same_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]


def by_list(frame: DataFrame) -> bool:
    """Whether Spark reads files that it was told of, and asks Delta for nothing."""
    return "TahoeFileIndex" not in str(frame._jdf.queryExecution().analyzed().toString()) and any(
        "InMemoryFileIndex" in line for line in frame._jdf.queryExecution().executedPlan().toString().splitlines()
    )


def of_delta(spark: SparkSession, uri: str, version: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", version).load(uri)


def test_every_version_has_its_own_rows_and_stays_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "a folder, with: signs" / "t")
    spark.sql(f"CREATE TABLE delta.`{uri}` (k INT COMMENT 'a key', v STRING) USING delta")
    spark.range(3).selectExpr("CAST(id AS INT) k", "'a' v").write.format("delta").mode("append").save(uri)
    spark.sql(f"UPDATE delta.`{uri}` SET v = 'b' WHERE k = 1")
    spark.sql(f"ALTER TABLE delta.`{uri}` ADD COLUMN more ARRAY<DOUBLE>")
    before = table_reader.read(spark, uri)
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE k < 2")
    spark.sql(f"INSERT INTO delta.`{uri}` VALUES (7, NULL, array(double('NaN')))")
    newest = DeltaTable(uri).version()
    for version in range(newest + 1):
        found, due = table_reader.read(spark, uri, version), of_delta(spark, uri, version)
        assert found.schema == due.schema
        assert have_same_rows(found, due)
        assert by_list(found) is (version > 0)  # the first has no files
    assert have_same_rows(before, of_delta(spark, uri, newest - 2))
    assert have_same_rows(
        table_reader.read(spark, uri, newest, DeltaTable(uri, version=2)), of_delta(spark, uri, newest)
    )


@pytest.mark.parametrize(
    "made",
    [
        "(k INT, v STRING) USING delta PARTITIONED BY (v)",
        "(k INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "(k INT, v STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "(k INT, v VARIANT) USING delta",
        "(k INT, v CHAR(3)) USING delta",
        "(k INT, v STRUCT<`a`: ARRAY<VARCHAR(5)>>) USING delta",
        "(k INT, v STRING) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    ],
)
def test_a_table_of_which_a_reader_has_more_to_know_is_read_by_delta(
    spark: SparkSession, tmp_path: Path, made: str
) -> None:
    uri = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{uri}` {made}")
    kind = spark.read.format("delta").load(uri).schema["v"].dataType
    null = "parse_json('1')" if "VARIANT" in made else "NULL"
    source = spark.range(4).selectExpr("CAST(id AS INT) AS k", f"CAST({null} AS {kind.simpleString()}) AS v")
    source.coalesce(1).write.format("delta").mode("append").save(uri)
    spark.sql(f"DELETE FROM delta.`{uri}` WHERE k = 1")
    found = table_reader.read(spark, uri)
    assert not by_list(found)
    assert sorted(row["k"] for row in found.collect()) == [0, 2, 3]


def test_files_of_another_table_are_read_by_delta(spark: SparkSession, tmp_path: Path) -> None:
    """A shallow clone has the addresses of another table's files in its log."""
    original, clone = str(tmp_path / "t"), str(tmp_path / "clone")
    spark.range(3).coalesce(1).write.format("delta").save(original)
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{original}`")
    spark.range(3, 5).coalesce(1).write.format("delta").mode("append").save(clone)
    found = table_reader.read(spark, clone)
    assert not by_list(found)
    assert sorted(row[0] for row in found.collect()) == [0, 1, 2, 3, 4]


def test_more_files_than_MOST_FILES_or_bytes_than_MOST_BYTES_are_read_by_delta(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    spark.range(3).repartition(3).write.format("delta").save(uri)
    sizes = pa.table(DeltaTable(uri).get_add_actions())["size_bytes"].to_pylist()
    assert len(sizes) == 3
    for name, limits in (("MOST_FILES", (2, 3, 4)), ("MOST_BYTES", (sum(sizes) - 1, sum(sizes), sum(sizes) + 1))):
        before = getattr(table_reader, name)
        for limit, listed in zip(limits, (False, True, True), strict=True):
            monkeypatch.setattr(table_reader, name, limit)
            found = table_reader.read(spark, uri)
            assert by_list(found) is listed
            assert sorted(row[0] for row in found.collect()) == [0, 1, 2]
        monkeypatch.setattr(table_reader, name, before)
    monkeypatch.setattr(layout, "is_local", lambda _: False)  # on a store each file costs requests
    for limit, listed in ((2, False), (3, True)):
        monkeypatch.setattr(table_reader, "MOST_OBJECTS", limit)
        assert bool(table_reader._files(uri, DeltaTable(uri))) is listed
