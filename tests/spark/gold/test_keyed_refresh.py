"""Gold tables of any shape, kept by affected keys, through what can happen to the tables that they read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate.cli.inspecting.plan import _strategy_text
from sluicegate.errors import QueryError, TableRuleFailed
from sluicegate.flow import flows as flow_flows
from sluicegate.flow import thresholds
from sluicegate.gold.proved_query import ProvedQuery
from sluicegate.gold.verify_gold import prove
from sluicegate.lake import layout
from sluicegate.spark_sql.query import Query
from tests.spark.gold.test_refresh import sample, stop
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

JOINED = "SELECT t.id, t.n, u.name FROM t LEFT JOIN u ON t.g = u.g"
QUERIES = {
    "twice": kept("SELECT g, k FROM t WHERE n IS NOT NULL"),
    "star": kept("SELECT * FROM t"),
    "joined": kept(JOINED),
    "best": kept("SELECT k, g, n FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, id) = 1"),
}


def _technique(world: GoldWorld, name: str) -> tuple[Any, ...]:
    said = world.commits(name)[0]
    return said["strategy"], said["cost"]["technique"], said.get("changed")


def _right(world: GoldWorld) -> None:
    for name in QUERIES:
        assert world.rows(name) == world.expected(name), name


@pytest.mark.release
def test_a_history_by_keys(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, QUERIES, spark)
    world.add([sample(i) for i in range(30)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 2.0)])
    world.run()
    _right(world)

    world.add([sample(30), sample(3), (40, None, None, None, 1, None, None, None, None)])  # one is there twice now
    world.run()
    _right(world)
    assert _technique(world, "twice") == ("keys", "keys", {"insert": 3})
    assert _technique(world, "joined")[:2] == ("keys", "keys")
    assert world.commits("joined")[0]["groups"] == 3

    world.sql("DELETE FROM {t} WHERE id = 3")
    world.sql("UPDATE {t} SET n = 7, k = 9 WHERE id = 4")
    world.name([("c", "Cy", 1.0), ("a", "Anna", 1.0)])  # late ones
    world.run()
    _right(world)

    stop(world, "gold.before_commit", [sample(50)])
    stop(world, "gold.after_commit", [sample(51)])
    world.run()
    _right(world)

    there = spark.read.format("delta").load(world.names)
    there.write.format("delta").mode("overwrite").save(world.names)  # the same rows
    world.run()
    _right(world)
    assert _technique(world, "joined") == ("keys", "keys", {})

    world.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    world.run()
    _right(world)

    world.sql("ALTER TABLE {t} ADD COLUMNS (extra STRING)")
    world.sql("UPDATE {t} SET extra = 'new' WHERE id < 3")
    world.run()
    _right(world)
    assert _technique(world, "star")[:2] == ("keys", "whole")  # a star means other columns now
    world.sql("UPDATE {t} SET extra = 'other' WHERE id < 2")
    world.run()
    _right(world)
    assert _technique(world, "star") == ("keys", "keys", {"insert": 2, "delete": 2})
    assert not [one for one in prove(spark, world.pipeline, world.at) if one.kind == "wrong"]


@pytest.mark.release
def test_rules_hold_for_rows_that_have_no_key_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """What is dropped, refused and counted is of all rows that the table would have, those of other keys included."""
    rules = ("expectations: {known: {expect_or_drop: g IS NOT NULL}, low: {expect: n < 50}}, "
             "expect_table: {once: {unique: [g, n]}}")  # fmt: skip
    world = GoldWorld(tmp_path, {"twice": f'{{sql: "SELECT g, n FROM t", refresh: incremental, {rules}}}'}, spark)

    def add(*rows: tuple[int, str | None, int]) -> None:
        world.add([(i, g, None, None, n, None, None, None, None) for i, g, n in rows])

    def has(*rows: tuple[str, int]) -> bool:
        return world.rows("twice") == Counter(rows)

    add((1, "a", 1), (2, "a", 60), (3, None, 1), (4, "b", 2))
    world.run()
    add((5, None, 2), (6, "b", 70))
    assert world.run()["twice"].expectations == {"known": {"passed": 1, "failed": 1}, "low": {"passed": 2, "failed": 2}}
    assert _technique(world, "twice") == ("keys", "keys", {"insert": 1})
    add((7, "b", 2))
    with pytest.raises(TableRuleFailed, match=r"once \(2 rows\)"):
        world.run()
    assert has(("a", 1), ("a", 60), ("b", 2), ("b", 70))
    rejected = spark.read.format("delta").load(layout.rejected_table(world.at.table("gold", "twice")))
    assert Counter(tuple(row) for row in rejected.select("g", "n").collect()) == Counter({("b", 2): 2})
    world.sql("DELETE FROM {t} WHERE id IN (2, 4)")
    assert world.run()["twice"].expectations["low"] == {"passed": 2, "failed": 1}
    assert has(("a", 1), ("b", 2), ("b", 70))
    assert (
        rejected.sparkSession.read.format("delta")
        .load(layout.rejected_table(world.at.table("gold", "twice")))
        .isEmpty()
    )

    there = spark.read.format("delta").load(world.silver)
    there.write.format("delta").mode("append").save(world.silver)  # each is there twice, and none is so by its key
    with pytest.raises(TableRuleFailed, match=r"once \(6 rows\)"):
        world.run()
    world.sql("RESTORE TABLE {t} TO VERSION AS OF 3")
    world.run()
    assert has(("a", 1), ("b", 2), ("b", 70))
    assert not [one for one in prove(spark, world.pipeline, world.at) if one.kind == "wrong"]


@pytest.mark.release
def test_readers_of_views_and_of_gold_are_followed_by_keys(spark: SparkSession, tmp_path: Path) -> None:
    queries = {
        "few": kept("SELECT v.id, v.g, u.name FROM v LEFT JOIN u ON v.g = u.g"),
        "best": kept("SELECT g, id, name FROM few QUALIFY row_number() OVER (PARTITION BY g ORDER BY id DESC) = 1"),
        "days": kept("SELECT g, count(*) AS n FROM v GROUP BY g"),
    }
    world = GoldWorld(tmp_path, {}, spark)
    world.define(queries, {"v": "SELECT id, g FROM t WHERE b"})
    found = world.pipeline.gold["days"].refresh_strategy()
    assert (found.kind, found.why) == ("keys", "it reads v, a view, inlined as WITH")
    world.add([sample(i) for i in range(12)])
    world.name([("a", "Ann", 1.0)])
    world.run()
    for step in ("UPDATE {t} SET g = 'b' WHERE id = 1", "UPDATE {t} SET b = NOT b WHERE id < 4",
                 "UPDATE {u} SET name = 'Anna'", "DELETE FROM {t} WHERE g = 'a'"):  # fmt: skip
        world.sql(step)
        world.run()
        for name in queries:
            assert world.rows(name) == world.expected(name), (step, name)
    assert {name: _technique(world, name)[:2] for name in queries} == dict.fromkeys(queries, ("keys", "keys"))


@pytest.mark.more
def test_small_tables_are_read_whole_and_plans_say_how_rows_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = "SELECT g, n FROM (SELECT g, n FROM t ORDER BY n, id LIMIT 5)"
    world = GoldWorld(tmp_path, {"joined": JOINED, "limited": limited}, spark)
    world.add([sample(i) for i in range(9)])
    world.name([("a", "Ann", 1.0)])

    def planned(name: str) -> str:
        found = flow_flows.flows(world.pipeline, world.at, "gold")[name].refresh_strategy
        assert found is not None
        return _strategy_text(found)

    assert "the first run checks it with Spark" in planned("joined")
    world.run()
    assert planned("joined") == (
        "the affected rows are recomputed: it has no GROUP BY and no aggregate function; "
        "its rows are found by id, n, following t"
    )
    assert planned("limited").endswith("depends on all of them; cheaper: remove the LIMIT")
    world.add([sample(9)])
    world.run()
    assert _technique(world, "joined")[:2] == ("keys", "whole")
    monkeypatch.setattr(thresholds, "SMALL", 10)
    world.add([sample(10)])
    world.run()
    assert {*world.commits("joined")[0]["cost"]["estimates"]} == {"keys", "whole"}
    assert world.rows("joined") == world.expected("joined")
    world.define({"limited": kept(limited)})
    world.add([sample(11)])
    with pytest.raises(QueryError, match="which rows are within its LIMIT"):
        world.run()


@pytest.mark.release
def test_texts_of_a_length_and_tables_that_nothing_reads_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    queries = {
        "padded": kept("SELECT id, c FROM t WHERE c = 'a'"),
        "unread": kept("WITH a AS (SELECT * FROM u) SELECT g, n FROM t"),
        "unfollowed": kept("WITH a AS (SELECT * FROM t) SELECT g, name FROM u"),
    }
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(6)])
    world.name([("a", "Ann", 1.0)])
    world.sql("ALTER TABLE {t} ADD COLUMNS (c CHAR(3))")
    world.run()
    for step in ("UPDATE {t} SET c = 'a' WHERE id < 3", "UPDATE {u} SET name = 'Anna'"):
        world.sql(step)
        world.run()
        for name in queries:
            assert world.rows(name) == world.expected(name), (step, name)
    assert world.rows("padded").total() == 3
    assert {name: _technique(world, name)[:2] for name in queries} == dict.fromkeys(queries, ("keys", "keys"))


def test_the_cost_of_keys_is_that_of_all_rows_which_they_have(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three keys have all 30 rows: these are replaced by keys, whatever the number of keys."""
    monkeypatch.setattr(thresholds, "SMALL", -1)
    numbered = "SELECT g, row_number() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t WHERE g IS NOT NULL"
    world = GoldWorld(tmp_path, {"numbered": numbered}, spark)
    world.add([(i, "abc"[i % 3], None, None, i, None, None, None, None) for i in range(30)])
    world.run()
    world.sql("UPDATE {t} SET n = n + 100 WHERE id = 0")
    world.run()
    world.sql("UPDATE {t} SET n = n + 100 WHERE id < 3")
    world.run()
    world.sql("DELETE FROM {t} WHERE id = 4")
    world.add([(40, "d", None, None, 1, None, None, None, None)])
    world.run()
    assert world.rows("numbered") == world.expected("numbered")
    costs = [commit["cost"] for commit in world.commits("numbered")]
    assert [cost["rows"]["touched"] for cost in costs] == [10, 30, 10, 0]
    assert {*costs[0]["estimates"]} == {"keys", "whole"}


SPINE = "(SELECT explode(sequence(DATE'2024-04-30', DATE'2024-05-04', INTERVAL 1 DAY)) AS day)"
EVERYDAY = {
    "with_first": kept("WITH a AS (SELECT g, name FROM u) SELECT t.id, a.name, t.n FROM t LEFT JOIN a ON t.g = a.g"),
    "compared": kept("WITH top AS (SELECT max(weight) AS w FROM u) SELECT t.id FROM t CROSS JOIN top WHERE t.k >= w"),
    "shared": kept("SELECT t.id, t.k / (SELECT max(weight) FROM u) AS share FROM t"),
    "windows": kept("SELECT window(t, '6 hours').start AS w, g, count(*) AS c, sum(p) AS p FROM t "
                    "GROUP BY window(t, '6 hours'), g"),
    "spine": kept(f"SELECT s.day, count(t.id) AS c, sum(t.n) AS n FROM {SPINE} AS s "
                  "LEFT JOIN t ON CAST(t.t AS DATE) = s.day GROUP BY s.day"),
    "labels": kept("SELECT c.label, count(*) AS c FROM t JOIN (VALUES ('a', 'Alpha'), ('b', 'Beta')) AS c(g, label) "
                   "ON t.g = c.g GROUP BY c.label"),
}  # fmt: skip
ALL_BY_U = {"compared", "shared"}
BY_STATE = {"windows"}


def test_everyday_queries_follow_their_facts(spark: SparkSession, tmp_path: Path) -> None:
    """Rows come, change, go and move to other keys and to NULL, in one table, the other and both."""
    world = GoldWorld(tmp_path, EVERYDAY, spark)
    world.add([sample(i) for i in range(30)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 2.0)])
    world.run()
    facts = ["UPDATE {t} SET n = 7 WHERE id = 4", "UPDATE {t} SET g = 'b', t = t + INTERVAL 1 DAY WHERE id IN (3, 6)",
             "UPDATE {t} SET g = NULL, t = NULL, k = NULL WHERE id = 9", "DELETE FROM {t} WHERE id = 10"]  # fmt: skip
    names = ["UPDATE {u} SET name = 'Anna', weight = 3.0 WHERE g = 'a'", "DELETE FROM {u} WHERE g = 'b'"]
    for statements in (facts, names, [facts[0].replace("7", "8"), "INSERT INTO {u} VALUES ('c', 'Cy', 0.5)"]):
        for statement in statements:
            world.sql(statement)
        world.add([sample(50 + len(statements))])
        world.run()
        by_keys = EVERYDAY.keys() - BY_STATE
        if statements is not facts:
            by_keys -= ALL_BY_U
        for name in EVERYDAY:
            assert world.rows(name) == world.expected(name), (statements, name)
        assert {name for name in EVERYDAY if _technique(world, name)[:2] == ("keys", "keys")} == by_keys
    assert not [one for one in prove(spark, world.pipeline, world.at) if one.kind == "wrong"]


def test_a_table_that_followed_the_first_name_of_its_text_is_filled_from_all_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1.0 followed u: the offset in the table's log is a version of u."""
    world = GoldWorld(tmp_path, {"with_first": EVERYDAY["with_first"]}, spark)
    world.add([sample(i) for i in range(9)])
    world.name([("a", "Ann", 1.0)])
    with monkeypatch.context() as former:
        former.setattr(Query, "tables_by_from", property(lambda query: query.tables))
        world.run()
        assert world.commits("with_first")[0]["source_id"] == DeltaTable(world.names).metadata().id
    world.sql("UPDATE {u} SET name = 'Anna'")
    world.sql("DELETE FROM {t} WHERE id = 3")
    [finding] = prove(spark, world.pipeline, world.at)
    assert finding.what == "the next run does a full refresh: t is not the table that it was filled from"
    assert world.run()["with_first"].why == "t is not the table that it was filled from"
    assert world.rows("with_first") == world.expected("with_first")
    world.sql("DELETE FROM {t} WHERE id = 6")
    world.run()
    assert world.rows("with_first") == world.expected("with_first")
    assert _technique(world, "with_first") == ("keys", "keys", {"delete": 1})


def test_a_new_column_that_a_query_does_not_read_is_no_reason_to_recompute_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    queries = {
        "newest": kept("SELECT g, id FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY id DESC) AS r FROM t) "
                       "WHERE r = 1"),
        "star": kept("SELECT t.*, u.name FROM t LEFT JOIN u ON t.g = u.g"),
        "alias": kept("SELECT id, n + 1 AS later, later * 2 AS doubled FROM t"),
        "natural": kept("SELECT id, name FROM t NATURAL LEFT JOIN u"),
    }  # fmt: skip
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(9)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 2.0)])
    world.run()

    def techniques() -> dict[str, str]:
        world.run()
        for name in queries:
            assert world.rows(name) == world.expected(name), name
        return {name: _technique(world, name)[1] for name in queries}

    world.sql("ALTER TABLE {t} ADD COLUMNS (weight DOUBLE)")  # which u has, too
    world.sql("UPDATE {t} SET weight = 2.0 WHERE id > 6")
    assert techniques() == {"newest": "keys", "star": "whole", "alias": "keys", "natural": "whole"}
    world.sql("ALTER TABLE {t} ADD COLUMNS (later BIGINT)")  # of which "doubled" is made now
    world.sql("UPDATE {t} SET later = 4 WHERE id > 6")
    assert techniques() == {"newest": "keys", "star": "whole", "alias": "whole", "natural": "keys"}
    world.sql("UPDATE {t} SET later = 5 WHERE id = 7")
    assert {*techniques().values()} == {"keys"}


def test_columns_that_version_0_1_0_recorded_are_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It recorded all columns of the tables."""
    world = GoldWorld(tmp_path, {"few": kept("SELECT id, g FROM t")}, spark)
    world.add([sample(i) for i in range(9)])
    with monkeypatch.context() as former:
        former.setattr(ProvedQuery, "columns_fingerprint", property(lambda query: query.fingerprint_of_all_columns))
        world.run()
    world.sql("DELETE FROM {t} WHERE id = 6")
    world.run()
    assert _technique(world, "few") == ("keys", "keys", {"delete": 1})
