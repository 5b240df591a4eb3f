"""The change feed of gold tables has changes only: no row goes and comes as it was, whatever made the table anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate.flow import thresholds
from sluicegate.gold.table_changes import TableChanges
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import GoldWorld, comparable, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

SHARE = "SELECT id, n, sum(n) OVER () AS s FROM t WHERE id < 30"
QUERIES = {
    "known by keys": {
        "latest": "SELECT k, g, n FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, id) = 1",
        "twice": "SELECT g, x FROM t",
        "kept": kept("SELECT k, count(*) AS c, max(n) AS m FROM t GROUP BY k"),
    },
    "known as a whole": {
        "share": SHARE,
        "maps": "SELECT id % 3 AS k, map('a', n, 'b', NULL) AS m, array(named_struct('x', x)) AS a FROM t LIMIT 100",
        "variants": "SELECT id % 2 AS k, parse_json(to_json(named_struct('n', n))) AS v FROM t LIMIT 100",
    },
}


def feed(world: GoldWorld, name: str, since: int) -> list[Counter[Any]]:
    """Rows that went and rows that came after a version of a gold table, in comparable values."""
    return feed_of(world.spark, world.at.table("gold", name), since)


def feed_of(spark: SparkSession, uri: str, since: int) -> list[Counter[Any]]:
    """Rows that went and rows that came after a version of a table, in comparable values."""
    if DeltaTable(uri).version() <= since:
        return [Counter(), Counter()]
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since + 1)
    changes = reader.load(uri).collect()
    sides = (("delete", "update_preimage"), ("insert", "update_postimage"))
    return [Counter(shown(row) for row in changes if row["_change_type"] in kinds) for kinds in sides]


def shown(row: Any) -> Any:
    """Row in comparable values, without the columns of a change."""
    own = [str(value) if type(value).__name__ == "VariantVal" else value for value in row]
    names = [name for name in row.__fields__ if not name.startswith("_c")]
    return tuple(comparable(value) for value in own[: len(names)])


def version(world: GoldWorld, name: str) -> int:
    """Version of a gold table now."""
    return int(DeltaTable(world.at.table("gold", name)).version())


def rows(world: GoldWorld, name: str) -> Counter[Any]:
    """Rows of a gold table, in comparable values."""
    return Counter(map(shown, world.table(name).collect()))


def changed_rows_only(world: GoldWorld, step: str, *, differing: bool = True) -> None:
    """Runs gold, and compares its change feed with how its tables differ from before."""
    before = {name: (version(world, name), rows(world, name)) for name in world.pipeline.gold}
    world.run()
    for name, (since, was) in before.items():
        now = rows(world, name)
        assert now == Counter(map(shown, world.plain(name).collect())), (step, name)
        assert differing or now == was
        assert feed(world, name, since) == [was - now, now - was], (step, name)


@pytest.mark.parametrize("kind", QUERIES)
def test_a_change_feed_has_changes_only(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    queries = QUERIES[kind]
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(12)])
    world.run()

    world.add([sample(3), sample(40)])
    world.sql("UPDATE {t} SET n = n + 1000, x = -0.0 WHERE id = 4")
    world.sql("DELETE FROM {t} WHERE id = 5")
    changed_rows_only(world, "rows come, change and go")
    world.sql("INSERT OVERWRITE {t} SELECT * FROM {t}")
    changed_rows_only(world, "the source was written anew with the rows that it had", differing=False)
    first, *others = queries
    spark.sql(f"RESTORE TABLE delta.`{world.at.table('gold', first)}` TO VERSION AS OF 0")
    world.define({**queries, **{name: queries[name].replace("FROM t", "FROM t AS t") for name in others}})
    changed_rows_only(world, "a table was restored, and other definitions give the same rows")


@pytest.mark.parametrize("keys", [["id"], []])
def test_many_rows_are_compared_until_most_of_them_differ(
    spark: SparkSession, tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", 3)
    uri, columns = str(tmp_path / "t"), "id INT, k INT, x DOUBLE"
    held = [(i, i % 2, None if i % 3 else 0.0) for i in range(8)] + ([(1, 1, None)] if not keys else [])
    first = spark.createDataFrame(held, columns).coalesce(1).write.format("delta")
    first.option("delta.enableChangeDataFeed", "true").save(uri)

    def changes(made: list[Any]) -> TableChanges | None:
        there = spark.read.format("delta").load(uri)
        return TableChanges.compare_all(uri, spark.createDataFrame(made, columns), there, keys, few=False)

    same = changes(held)
    assert same is not None
    assert same.counts == {}
    other = [(0, 0, -0.0), *held[1:-1]]  # as a key it is what it was
    few = changes(other)
    assert few is not None
    few.write(None)
    # No one of two equal rows can be told from the other: both are deleted, and the one that stays is inserted.
    twin = [] if keys else [held[1]]
    assert feed_of(spark, uri, 0) == [
        Counter(map(comparable, rows)) for rows in ([held[0], held[-1], *twin], [other[0], *twin])
    ]
    assert changes([(i + 100, k, x) for i, k, x in other]) is None


def test_tables_of_more_than_COMPARED_rows_are_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "COMPARED", 4)
    world = GoldWorld(tmp_path, {"share": SHARE}, spark)
    world.add([sample(i) for i in range(4)])
    world.run()
    world.sql("UPDATE {t} SET n = n + 1 - 1")
    world.run()
    assert feed(world, "share", 0) == [Counter(), Counter()]
    world.add([sample(4)])
    world.run()
    world.sql("UPDATE {t} SET n = n + 1 - 1")
    since = version(world, "share")
    world.run()
    assert feed(world, "share", since) == [rows(world, "share")] * 2
