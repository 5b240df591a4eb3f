"""Keys that changes touch: rows of all other keys are the same, as often, before and after."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from sluicegate.gold.affected.operators import TouchesAll
from sluicegate.spark_sql.query import Query
from tests.support.keyed_world import KeyedWorld, missed, strategies
from tests.worlds.schema import Column, Table, tables
from tests.worlds.shapes import Shapes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

FACTS = Table("t", (Column("id", "BIGINT"), Column("g", "STRING"), Column("k", "INT"), Column("n", "BIGINT"),
                    Column("x", "DOUBLE"), Column("days", "ARRAY<INT>"), Column("m", "MAP<STRING,INT>")))  # fmt: skip
NAMES = Table("u", (Column("g", "STRING"), Column("name", "STRING"), Column("k", "INT")))
TABLES = (FACTS, NAMES)

# Each with the columns by which its rows are found.
KEYED = {
    "rows": ("SELECT id, g, n + 1 AS n1 FROM t WHERE n > 1", "id, g, n1"),
    "without an id": ("SELECT upper(g) AS u, x FROM t", "u"),
    "of doubles": ("SELECT x FROM t", "x"),
    "casts that fail": ("SELECT id, CAST(g AS INT) AS i FROM t WHERE g RLIKE '^[0-9]+$'", "id, i"),
    "of both sides": ("SELECT t.id, u.name, count(*) AS c FROM t JOIN u ON t.g = u.g GROUP BY t.id, u.name",
                      "id, name"),
    "inner": ("SELECT t.id, u.name FROM t JOIN u ON t.g = u.g", "id"),
    "theta": ("SELECT t.id, u.name FROM t JOIN u ON t.k < u.k", "id"),
    "comma": ("SELECT t.id, u.name FROM t, u WHERE t.g = u.g AND u.k > 1", "id"),
    "left": ("SELECT t.id, t.n, u.name FROM t LEFT JOIN u ON t.g = u.g AND u.k > 1", "id, n"),
    "right": ("SELECT t.id, u.name, u.g FROM t RIGHT JOIN u ON t.g = u.g", "id"),
    "full": ("SELECT coalesce(t.g, u.g) AS g, t.n, u.name FROM t FULL JOIN u ON t.g = u.g", "n"),
    "full using": ("SELECT g, count(*) AS c FROM t FULL JOIN u USING (g) GROUP BY g", "g"),
    "semi": ("SELECT id FROM t WHERE g IN (SELECT g FROM u WHERE k > 1)", "id"),
    "anti": ("SELECT id FROM t WHERE g NOT IN (SELECT g FROM u)", "id"),
    "exists": ("SELECT id, k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.k > 1)", "id, k"),
    "not exists or": ("SELECT id FROM t WHERE n > 2 OR NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g)", "id"),
    "compared": ("SELECT id FROM t WHERE n >= (SELECT max(x.n) FROM t AS x WHERE x.g = t.g)", "id"),
    "derived": ("SELECT g, max(c) AS c FROM (SELECT g, k, count(*) AS c FROM t GROUP BY g, k) GROUP BY g", "g"),
    "with": ("WITH a AS (SELECT g, count(*) AS c FROM t GROUP BY g) SELECT a.g, b.c FROM a JOIN a AS b USING (g)", "g"),
    "union all": ("SELECT g, k FROM t UNION ALL SELECT name, k FROM u", "g, k"),
    "union": ("SELECT g FROM t UNION SELECT g FROM u", "g"),
    "except": ("SELECT g FROM t EXCEPT SELECT g FROM u", "g"),
    "distinct": ("SELECT DISTINCT g, k FROM t", "g, k"),
    "window": ("SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t", "g"),
    "other window": ("SELECT id, count(*) OVER (PARTITION BY g) AS c FROM t", "id"),
    "two windows": ("SELECT id, count(*) OVER (PARTITION BY g) AS c, max(n) OVER (PARTITION BY k) AS m FROM t", "id"),
    "newest": ("SELECT g, k, n FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY n DESC, id) = 1", "g"),
    "joined newest": ("SELECT t.id, a.name FROM t LEFT JOIN (SELECT * FROM (SELECT *, row_number() OVER "
                      "(PARTITION BY g ORDER BY name) AS r FROM u) WHERE r = 1) AS a ON a.g = t.g", "id"),
    "rollup": ("SELECT g, k, count(*) AS c FROM t GROUP BY ROLLUP (g, k)", "g, k"),
    "sets": ("SELECT g, k, count(*) AS c, grouping(g) AS o FROM t GROUP BY GROUPING SETS ((g), (k), ())", "g, k"),
    "lateral view": ("SELECT id, day FROM t LATERAL VIEW explode(days) AS day", "id, day"),
    "of elements": ("SELECT day, count(*) AS c FROM t LATERAL VIEW OUTER explode(days) AS day GROUP BY day", "day"),
    "two facts": ("SELECT g, c, d FROM (SELECT g, count(*) AS c FROM t GROUP BY g) FULL JOIN "
                  "(SELECT g, count(*) AS d FROM u GROUP BY g) USING (g)", "g"),
    "a WITH that nothing reads": ("WITH a AS (SELECT * FROM u) SELECT id, g FROM t", "id, g"),
    "the first table in such a WITH": ("WITH a AS (SELECT * FROM t) SELECT g, name FROM u", "g, name"),
    "a WITH first": ("WITH a AS (SELECT g, name FROM u) SELECT t.id, a.name FROM t JOIN a ON a.g = t.g", "id"),
    "grouped by a window": ("SELECT window(timestamp_seconds(n % 60), '2 seconds').start AS s, g, count(*) AS c FROM t "
                            "GROUP BY window(timestamp_seconds(n % 60), '2 seconds'), g", "s, g"),
    "a column twice": ("SELECT a.g, count(*) AS c FROM (SELECT id, g, k, k FROM t) AS a GROUP BY ROLLUP (a.g)", "g"),
    "elements that fail": ("SELECT id, day FROM (SELECT * FROM t WHERE g IN (SELECT g FROM u WHERE g < 'a')) "
                           "LATERAL VIEW explode(array(CAST(g AS INT))) AS day", "id, day"),
}  # fmt: skip
# Rows of constants that a join chooses by rows of a table.
CONSTANTS = {
    "spine": ("SELECT s.k, count(t.id) AS c FROM (SELECT explode(sequence(0, 4)) AS k) AS s LEFT JOIN t ON t.k = s.k "
              "GROUP BY s.k", "k"),
    "spine on the right": ("SELECT s.k, sum(t.n) AS n FROM t RIGHT JOIN (SELECT explode(sequence(0, 4)) AS k) AS s "
                           "ON t.k = s.k GROUP BY s.k", "k"),
    "spine and a column": ("SELECT s.k, t.g, count(t.id) AS c FROM (SELECT explode(sequence(0, 4)) AS k) AS s "
                           "LEFT JOIN t ON t.k = s.k GROUP BY s.k, t.g", "k, g"),
    "spine of two tables": ("SELECT s.k, count(t.id) AS c, count(u.name) AS d FROM (SELECT explode(sequence(0, 4)) "
                            "AS k) AS s LEFT JOIN t ON t.k = s.k LEFT JOIN u ON u.k = s.k GROUP BY s.k", "k"),
    "values": ("SELECT c.label, count(*) AS c FROM t JOIN (VALUES ('a', 'Alpha'), ('b', 'Beta'), ('c', 'Beta')) "
               "AS c(g, label) ON t.g = c.g GROUP BY c.label", "label"),
    "values alone": ("SELECT c.label FROM t JOIN (VALUES ('a', 'Alpha'), ('b', 'Beta')) AS c(g, label) ON t.g = c.g",
                     "label"),
    "values in rows": ("SELECT t.id, c.label FROM t LEFT JOIN (VALUES ('a', 'Alpha')) AS c(g, label) ON t.g = c.g",
                       "id"),
    "ranges": ("SELECT c.label, sum(t.n) AS n FROM (VALUES (0, 2, 'low'), (2, 9, 'high')) AS c(a, b, label) LEFT JOIN "
               "t ON t.k >= c.a AND t.k < c.b GROUP BY c.label", "label"),
    "both": ("SELECT c.label, s.k, count(*) AS c FROM t JOIN (VALUES ('a', 'A'), ('b', 'B')) AS c(g, label) ON t.g = "
             "c.g JOIN (SELECT explode(array(1, 2, 3)) AS k) AS s ON t.k >= s.k GROUP BY c.label, s.k", "label, k"),
    "united": ("SELECT label, count(*) AS c FROM (SELECT c.label FROM t JOIN (VALUES ('a', 'A')) AS c(g, label) ON "
               "t.g = c.g UNION ALL SELECT name FROM u) GROUP BY label", "label"),
    "semi": ("SELECT c.g FROM (VALUES ('a'), ('b'), ('c')) AS c(g) WHERE c.g IN (SELECT g FROM t)", "g"),
    "anti": ("SELECT c.g FROM (VALUES ('a'), ('b'), ('c')) AS c(g) WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.g = c.g)",
             "g"),
}  # fmt: skip
# Queries with a part of which a change touches all, beside a table that is followed.
BESIDE = {
    "compared with one row": "WITH p AS (SELECT max(k) AS c FROM u) SELECT t.id FROM t CROSS JOIN p WHERE t.n > p.c",
    "one row first": "SELECT t.id FROM (SELECT max(k) AS c FROM u) AS p JOIN t ON t.n > p.c",
    "a subquery's value": "SELECT id, n - (SELECT max(k) FROM u) AS d FROM t",
    "a limit first": "SELECT t.id, a.name FROM (SELECT * FROM u ORDER BY g, name, k LIMIT 3) AS a JOIN t ON a.g = t.g",
}
# Windows that take equal rows in any order, where that decides which rows there are and where it does not.
SETTLED = {
    "no condition": ("SELECT id, lag(n) OVER (PARTITION BY g ORDER BY k) AS l FROM t", "id"),
    "by a number": ("SELECT id, k FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY k) = 1", "k"),
    "by a neighbour": ("SELECT g, k FROM t QUALIFY lag(n) OVER (PARTITION BY g ORDER BY k) = 1", "g"),
    "by a rank": ("SELECT id, k FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY k) = 1", "id, k"),
    "by a sum": ("SELECT id FROM t QUALIFY sum(n) OVER (PARTITION BY g ORDER BY k) = 1", "id"),
    "beside another": ("SELECT id, count(*) OVER (PARTITION BY k) AS c FROM t "
                       "QUALIFY row_number() OVER (PARTITION BY g ORDER BY n, id) = 1", "id"),
    "joined": ("SELECT t.id FROM t JOIN (SELECT * FROM u QUALIFY row_number() OVER (PARTITION BY g ORDER BY name) = 1) "
               "AS a ON a.g = t.g", "id"),
    "first of a group": ("SELECT g, f FROM (SELECT g, k, first(n) AS f FROM t GROUP BY g, k) WHERE f > 1", "g"),
    "joined with the first": ("SELECT t.id, a.f FROM t JOIN (SELECT g, first(k) AS f FROM u GROUP BY g) AS a "
                              "ON a.g = t.g", "id"),
    "joined by a sum": ("SELECT t.id FROM t JOIN (SELECT g, sum(k) AS f FROM u GROUP BY g) AS a ON a.f = t.k", "id"),
    "grouped by it": ("SELECT g, count(*) AS c FROM (SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY g "
                      "ORDER BY k) < 3) GROUP BY g", "g"),
}  # fmt: skip
UNSETTLED = {
    "by a number": "SELECT n FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY k) = 1",
    "by a neighbour": "SELECT k FROM t QUALIFY lag(n) OVER (PARTITION BY g ORDER BY k) = 1",
    "by rows of a sum": "SELECT k FROM t QUALIFY sum(n) OVER (PARTITION BY g ORDER BY k ROWS 1 PRECEDING) = 1",
    "grouped": "SELECT n, count(*) AS c FROM (SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY k) "
               "= 1) GROUP BY n",
    "counted again": "SELECT id FROM (SELECT *, count(*) OVER (PARTITION BY n) AS c FROM (SELECT * FROM t QUALIFY "
                     "row_number() OVER (PARTITION BY g ORDER BY k) = 1)) WHERE c > 1",
    "joined": "SELECT t.id FROM t JOIN (SELECT * FROM u QUALIFY row_number() OVER (PARTITION BY g ORDER BY name) = 1) "
              "AS a ON a.k = t.k",
    "joined by the first": "SELECT t.id FROM t JOIN (SELECT g, first(k) AS f FROM u GROUP BY g) AS a ON a.f = t.k",
    "left out": "SELECT k, n FROM t EXCEPT SELECT n, row_number() OVER (PARTITION BY g ORDER BY k) FROM t",
}  # fmt: skip
WHOLE = {
    "limit": ("SELECT * FROM (SELECT id FROM t ORDER BY n, id LIMIT 3)", "within its LIMIT"),
    "global": ("SELECT id, n - top AS d FROM t CROSS JOIN (SELECT max(n) AS top FROM t)", "an aggregate of all rows"),
    "global window": ("SELECT id, row_number() OVER (ORDER BY n, id) AS r FROM t", "a window of all rows"),
    "scalar": ("SELECT id FROM t WHERE n > (SELECT avg(n) FROM t)", "a subquery over all rows"),
    "map": ("SELECT m FROM t", "no column of its SELECT list"),
    "constants": ("SELECT 'a' AS a, count(*) AS c FROM t GROUP BY 'a'", "no column of its SELECT list"),
    "constants of no condition": ("SELECT c.g, count(*) AS c FROM t CROSS JOIN (VALUES ('a'), ('b')) AS c(g) "
                                  "GROUP BY c.g", "no column of its SELECT list"),
    "no key": ("SELECT max(n) AS n FROM t GROUP BY g", "no column of its SELECT list"),
    "session": ("SELECT w.start AS s, count(*) AS c FROM (SELECT session_window(timestamp_seconds(n), '1 minute') AS w "
                "FROM t) GROUP BY w", "session windows"),
    "session of a group": ("SELECT g, session_window.start AS s, count(DISTINCT k) AS c FROM t "
                           "GROUP BY g, session_window(timestamp_seconds(n), '1 minute')", "session windows"),
}  # fmt: skip


def _hold(world: KeyedWorld, texts: dict[str, str], steps: list[list[str]]) -> tuple[Counter[str], list[str]]:
    """Changes tables, and demands of each query's touched keys that they are enough.

    Args:
        world: the tables.
        texts: the queries.
        steps: the tables that change together; none where all rows of all tables go.

    Returns:
        how many steps touched all rows or keys, and what was missed.
    """
    found = {name: world.keys(text) for name, text in texts.items()}
    columns = {name: world.spark.sql(text).columns for name, text in _seen(world, texts).items()}
    was = {name: world.result(text) for name, text in texts.items()}
    counted: Counter[str] = Counter()
    wrong = []
    for names in steps:
        if names:
            world.change(names)
        else:
            world.clear()
        for name, text in texts.items():
            is_, touched = world.result(text), world.touched(found[name], Query.parse(text).tables)
            counted["all" if touched is None else "keys"] += 1
            if touched is not None and (lost := missed(found[name], columns[name], was[name], is_, touched)):
                wrong.append(f"{name}: {text}\n  {names}: missed {lost}, touched {touched}")
            was[name] = is_
    return counted, wrong


def _seen(world: KeyedWorld, texts: dict[str, str]) -> dict[str, str]:
    world.result(next(iter(texts.values())))  # which makes the views
    return texts


def test_the_keys_of_each_shape(spark: SparkSession) -> None:
    world = KeyedWorld(spark, TABLES, Random(1))
    assert {name: ", ".join(world.keys(text).names) for name, (text, _) in KEYED.items()} == {
        name: keys for name, (_, keys) in KEYED.items()
    }
    for text, why in WHOLE.values():
        with pytest.raises(TouchesAll, match=why):
            world.keys(text)


def test_no_key_depends_on_the_order_of_equal_rows(spark: SparkSession) -> None:
    found = strategies(KeyedWorld(spark, TABLES, Random(1)), {name: text for name, (text, _) in SETTLED.items()} | {
        f"unsettled {name}": text for name, text in UNSETTLED.items()
    })  # fmt: skip
    why = "whole: its result depends on which of several equal rows a window puts first"
    keys = {name: keys for name, (_, keys) in SETTLED.items()}
    assert found == keys | {f"unsettled {name}": why for name in UNSETTLED}


@pytest.mark.parametrize(
    "one_in", [pytest.param(6, marks=pytest.mark.more), pytest.param(1, marks=pytest.mark.release)]
)
def test_changes_touch_enough(spark: SparkSession, one_in: int) -> None:
    texts = dict([(name, text) for name, (text, _) in KEYED.items()][::one_in])
    steps = [["u"], []] if one_in > 1 else [["t"], ["u"], ["t", "u"], []]
    counted, wrong = _hold(KeyedWorld(spark, TABLES, Random(2)), texts, steps)
    assert not wrong, "\n".join(wrong)
    assert counted == {"keys": len(texts) * len(steps)}


def test_changes_touch_enough_of_constants(spark: SparkSession) -> None:
    world = KeyedWorld(spark, TABLES, Random(3))
    texts = {name: text for name, (text, _) in CONSTANTS.items()}
    assert strategies(world, texts) == {name: keys for name, (_, keys) in CONSTANTS.items()}
    steps = [["t"], ["t", "u"], ["t"], []]
    counted, wrong = _hold(world, texts, steps)
    assert not wrong, "\n".join(wrong)
    assert counted == {"keys": len(texts) * len(steps)}


def test_a_table_is_followed_beside_one_of_which_a_change_touches_all(spark: SparkSession) -> None:
    world = KeyedWorld(spark, TABLES, Random(6))
    assert {(keys.followed, *keys.names) for keys in map(world.keys, BESIDE.values())} == {("t", "id")}
    counted, wrong = _hold(world, BESIDE, [["t"], ["u"], ["t"]])
    assert not wrong, "\n".join(wrong)
    assert counted == {"keys": 2 * len(BESIDE), "all": len(BESIDE)}


READS = {
    "SELECT g, count(*) AS c FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM t) "
    "WHERE r = 1 GROUP BY g": {("t", "g"), ("t", "id")},
    "WITH a AS (SELECT * FROM u) SELECT t.id, a.name FROM t LEFT JOIN a ON a.g = t.g": {
        ("t", "id"), ("t", "g"), ("u", "g"), ("u", "name")},
    "SELECT id FROM t NATURAL JOIN (SELECT g, k FROM u)": {("t", "id"), ("t", "g"), ("t", "k"), ("u", "g"), ("u", "k")},
    "SELECT g FROM (SELECT g, k FROM t UNION ALL SELECT name, k FROM u)": {("t", "g"), ("u", "name")},
    "SELECT g FROM (SELECT g, k FROM t UNION SELECT name, k FROM u)": {
        ("t", "g"), ("t", "k"), ("u", "name"), ("u", "k")},
    "SELECT id FROM t WHERE g NOT IN (SELECT g FROM u WHERE k > 1)": {
        ("t", "id"), ("t", "g"), ("u", "g"), ("u", "k")},
    "SELECT id, n - (SELECT max(k) FROM u) AS d FROM t": {("t", "id"), ("t", "n"), ("u", "k")},
    "SELECT * FROM t": {("t", column.name) for column in FACTS.columns},
    "SELECT id, day FROM t LATERAL VIEW explode(days) AS day": {("t", "id"), ("t", "days")},
}  # fmt: skip


def test_columns_are_read_that_the_result_depends_on(spark: SparkSession) -> None:
    world = KeyedWorld(spark, TABLES, Random(1))
    assert {text: {*world.keys(text).reads} for text in READS} == READS


def test_a_pair_of_which_both_sides_go_is_touched(spark: SparkSession) -> None:
    text = KEYED["of both sides"][0]
    world = KeyedWorld(spark, TABLES, Random(5))
    world.now = {"t": [(1, "a", 1, 1, None, None, None)], "u": [("a", "Ann", 1)]}
    was, keys = world.result(text), world.keys(text)
    world.clear()
    touched = world.touched(keys, ["t", "u"])
    assert touched is not None
    assert not missed(keys, ["id", "name", "c"], was, Counter(), touched)


def test_a_joined_table_below_a_limit_touches_all_where_it_changed(spark: SparkSession) -> None:
    text = "SELECT t.id, a.name FROM t LEFT JOIN (SELECT * FROM u ORDER BY g, name, k LIMIT 3) AS a ON a.g = t.g"
    counted, wrong = _hold(KeyedWorld(spark, TABLES, Random(4)), {"limited": text}, [["t"], ["u"]])
    assert not wrong, "\n".join(wrong)
    assert counted == {"keys": 1, "all": 1}


@pytest.mark.release
@pytest.mark.parametrize("seed", range(1, 6))
def test_changes_touch_enough_whatever_the_query(spark: SparkSession, seed: int) -> None:
    counted, taken, wrong = _random(spark, seed, 12)
    assert not wrong, "\n".join(wrong)
    assert taken["keys"] >= 3 * (taken.total() - taken["keys"]), taken  # else an operator has become opaque
    assert counted["keys"] >= 8 * counted["all"], counted


def _random(spark: SparkSession, seed: int, queries: int) -> tuple[Counter[str], Counter[str], list[str]]:
    """Random queries: steps that touched keys or all, queries that have keys or none, and what was missed."""
    random = Random(seed)
    made = tables(random)
    world = KeyedWorld(spark, made, random)
    texts: dict[str, str] = {}
    taken: Counter[str] = Counter()
    world.result("SELECT 1")
    while len(texts) < queries:
        text = Shapes(random, made).make().spark
        try:
            spark.sql(text)
            world.keys(text)
        except TouchesAll as reason:
            taken[str(reason.args[0])] += 1
        except PySparkException:
            continue  # a grammar does not know all rules of Spark's
        else:
            taken["keys"] += 1
            texts[f"query_{len(texts)}"] = text
    counted, wrong = _hold(world, texts, [["sales"], ["stores", "customers"], [table.name for table in made], []])
    return counted, taken, wrong
