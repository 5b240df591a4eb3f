"""Other programs change columns of a table that is followed: readers go on by a full refresh, or say what is gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import QueryError
from sluicegate.lake import log, tables
from tests.conftest import Workspace
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

QUERIES = {
    "by_struct": kept("SELECT s, count(*) AS c FROM t GROUP BY s"),
    "by_number": kept("SELECT k, count(*) AS c FROM t GROUP BY k"),
    "not_read": kept("SELECT g, sum(n) AS s FROM t GROUP BY g"),
}
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"


def _right(world: GoldWorld) -> None:
    world.run()
    for name in QUERIES:
        assert world.rows(name) == world.expected(name), name


def test_gold_goes_on_over_other_columns_of_the_table_that_it_follows(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, QUERIES, spark)
    world.add([sample(i) for i in range(12)])
    world.sql("ALTER TABLE {t} ADD COLUMNS (s STRUCT<a: INT, b: STRING>)")
    world.sql("UPDATE {t} SET s = named_struct('a', id % 2, 'b', 'x')")
    _right(world)

    world.sql("ALTER TABLE {t} ADD COLUMNS (s.c INT)")
    world.sql("UPDATE {t} SET s = named_struct('a', 9, 'b', 'nine', 'c', 99) WHERE id IN (2, 5)")
    _right(world)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    world.sql("ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT")
    world.sql("UPDATE {t} SET k = 5000000000 WHERE id IN (3, 6)")
    _right(world)
    assert "columns of t were changed by" in world.commits("not_read")[0]["why"]

    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    world.sql("ALTER TABLE {t} RENAME COLUMN b TO renamed")
    world.sql("ALTER TABLE {t} DROP COLUMN d")
    _right(world)
    world.sql("ALTER TABLE {t} RENAME COLUMN g TO other")
    with pytest.raises(QueryError, match="not_read") as refused:
        world.run("not_read")
    assert "`g`" in str(refused.value.cause)


def test_silver_goes_on_over_other_columns_of_bronze(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define("""
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json}
silver:
  s: {sql: "SELECT id, v FROM STREAM(raw)"}
""")
    workspace.land("raw/a.json", '{"id": 1, "v": 2, "other": 3}', 60)
    workspace.run(spark)
    bronze = f"delta.`{workspace.uri('raw')}`"
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ({MAPPED})")
    spark.sql(f"ALTER TABLE {bronze} RENAME COLUMN other TO another")
    report = workspace.run(spark)["s"]
    assert (report.state, workspace.rows("s", "id", "v")) == ("rebuilt", [("1", "2")])
    assert "columns of raw were changed by RENAME COLUMN" in report.why
    spark.sql(f"ALTER TABLE {bronze} RENAME COLUMN v TO w")
    with pytest.raises(QueryError) as refused:
        workspace.run(spark)
    assert "`v`" in str(refused.value.cause)
    assert log.last_own_commit(tables.delta_table(workspace.uri("s"))) is not None
