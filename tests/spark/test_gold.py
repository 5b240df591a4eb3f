"""Gold is what its queries give over the whole of silver, however silver came to be what it is."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluicegate import gold, lake
from sluicegate.aggregate import upkeep
from sluicegate.errors import QueryError
from sluicegate.grouped import outputs_sql
from sluicegate.partials import SIGN, Partials
from tests.gold_world import COLUMNS, GoldWorld, comparable, exact
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def kept(query: str) -> str:
    """A gold table that keeps what it needs of its groups, however small silver is."""
    return f'{{sql: "{query}", refresh: incremental}}'


SUMS = "SELECT g, k, count(*) AS n, count(x) AS c, sum(x) AS s, avg(x) AS a FROM t GROUP BY g, k"
QUERIES = {
    "sums": kept(SUMS),
    "small": SUMS,
    "mixed": kept(
        "SELECT date_trunc('DD', t) AS day, sum(n) AS n, avg(p) AS p, sum(d) AS d, min(x) AS lo, max(n) AS hi, "
        "count_if(b) AS b, sum(k) FILTER (WHERE b) AS kb, max(g) AS g, min(t) AS first FROM t WHERE k <> 3 "
        "GROUP BY 1 HAVING count(*) > 1"
    ),
    "nowhere": kept("SELECT count(*) + 1 AS n, max(x) AS x FROM t GROUP BY g"),
    "rows": "{sql: \"SELECT g, count(DISTINCT k) AS n, array_sort(collect_set(k)) AS ks, sum(n) AS s, "
    "percentile(k, 0.5) AS m FROM t GROUP BY g\", refresh: incremental}",
    "whole": "SELECT count(*) AS n, count(DISTINCT g) AS g FROM t",
}  # fmt: skip

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1.0, math.nan, math.inf, -math.inf, 5e-324, 1e-300, 1e300]),
    st.floats(-1e3, 1e3),
)
ROW = st.tuples(
    st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, 3, None]), NUMBERS, st.integers(-(2**60), 2**60),
    st.decimals(-(10**33), 10**33, places=4), st.decimals(-99999, 99999, places=2), st.integers(1, 3),
    st.sampled_from([True, False, None]),
)  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=8)),
    st.tuples(st.just("update"), st.integers(2, 4)),
    st.tuples(st.just("delete"), st.integers(2, 4)),
    st.tuples(st.just("group"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("restore"), st.just(0)),
    st.tuples(st.just("stop"), st.sampled_from(["gold.between_commits", "gold.before_commit", "gold.after_commit"])),
)


def rows(drawn: list[Any], first: int) -> list[tuple[Any, ...]]:
    """Rows of the silver table."""
    return [
        (first + i, g, k, x, n, d, p, dt.datetime(2024, 5, day, 12), b)
        for i, (g, k, x, n, d, p, day, b) in enumerate(drawn)
    ]


def step(world: GoldWorld, kind: str, what: Any, first: int) -> None:
    """Something that happens to silver."""
    if kind == "add":
        world.add(rows(what, first))
    elif kind == "update":
        world.sql(f"UPDATE {{t}} SET k = coalesce(k, 0) + 1, x = -x, g = CASE WHEN id % 2 = 0 THEN g END "
                  f"WHERE id % {what} = 0")  # fmt: skip
    elif kind == "delete":
        world.sql(f"DELETE FROM {{t}} WHERE id % {what} = 1")
    elif kind == "group":
        world.sql(f"DELETE FROM {{t}} WHERE g = '{what}'")
    elif kind == "restore":
        table = lake.delta_table(world.silver)
        assert table is not None
        world.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {max(table.version() - 1, 0)}")


def assert_right(world: GoldWorld) -> None:
    groups: dict[Any, list[Any]] = {}
    for row in world.silver_rows():
        groups.setdefault((row.g, row.k), []).append(row.x)
    expected = Counter(
        tuple(map(comparable, (*key, len(xs), sum(x is not None for x in xs), *exact(xs))))
        for key, xs in groups.items()
    )
    assert world.rows("sums") == expected
    assert world.rows("small") == expected
    for name in ("mixed", "nowhere", "rows", "whole"):
        assert world.rows(name) == world.expected(name), name


@settings(
    max_examples=int(os.environ.get("SLUICEGATE_EXAMPLES", "2")),
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(first=st.lists(ROW, min_size=3, max_size=20), steps=st.lists(STEP, min_size=1, max_size=5))
def test_gold_equals_its_queries_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], steps: list[Any]
) -> None:
    world = GoldWorld(tmp_path_factory.mktemp("gold"), QUERIES, spark)
    world.add(rows(first, 0))
    world.run()
    assert_right(world)
    for number, (kind, what) in enumerate(steps):
        if kind == "stop":
            with pytest.MonkeyPatch.context() as patch:
                stop_at(patch, what)
                world.add(rows(first[:3], 1000 * number))
                with pytest.raises(Stopped):
                    world.run()
        else:
            step(world, kind, what, 100 * (number + 1))
        world.run()
        assert_right(world)
    assert all(report.state == "idle" for report in world.run().values())


def sample(number: int) -> tuple[Any, ...]:
    """A row with values that its number tells."""
    return (
        number, "abc"[number % 3] if number % 7 else None, number % 4, [0.1, 1e16, -1e16, 2.5, None][number % 5],
        number**5 - 10**6, Decimal(number**3) / 7, Decimal(number * 37 % 1000) / 100,
        dt.datetime(2024, 5, 1 + number % 3, number % 24), [True, False, None][number % 3],
    )  # fmt: skip


TRICKY = [
    "SELECT g, count(*) AS n, count(k, b) AS kb FROM t GROUP BY g",
    "SELECT upper(g) || '!' AS u, length(upper(g) || '!') AS l, sum(n) AS s FROM t GROUP BY upper(g) || '!'",
    "SELECT g AS k, k AS g, min(n) AS lo, max(d) AS hi FROM t GROUP BY g, k",
    "SELECT g, sum(n) / count(*) AS mean, round(avg(p), 1) AS r FROM t GROUP BY g",
    "SELECT CASE WHEN n > 0 THEN 'up' ELSE 'down' END AS way, count(*) AS n FROM t GROUP BY ALL",
    "SELECT date(t) AS day, hour(min(t)) AS h, max(t) AS m, min(g) AS g FROM t GROUP BY day",
    "SELECT g, avg(d) AS ad, sum(d) AS sd, avg(p) AS ap, sum(p) AS sp FROM t GROUP BY g",
    "SELECT g, sum(n) AS s, s + 1 AS s1, sum(n) FILTER (WHERE k IN (1, 2)) AS f FROM t GROUP BY g HAVING s1 > 0",
    "SELECT r.g, count_if(r.b) AS c, count_if(b IS NULL) AS z FROM t AS r WHERE r.k BETWEEN 0 AND 2 GROUP BY r.g",
    "SELECT k % 2 AS odd, (k % 2) + 1 AS more, max(b) AS b FROM t GROUP BY k % 2",
    "SELECT g, sum(k) AS k, avg(k) AS ak, sum(CAST(k AS FLOAT)) AS f FROM t GROUP BY g",
    "SELECT k, avg(n) AS n FROM t WHERE n BETWEEN -1000000 AND 1000000 GROUP BY k",
    "SELECT g, max(x) AS hi, min(x) AS lo, count(x) AS c FROM t GROUP BY g ORDER BY hi",
    "SELECT count(NULL) AS nothing, count(1) AS one, k FROM t GROUP BY 3",
    "SELECT `g` AS `a name`, mean(`p`) AS `the mean` FROM t GROUP BY `t`.`g`",
    "SELECT g, greatest(max(n), 0) - least(min(n), 0) AS span, coalesce(sum(p), 0) AS p FROM t GROUP BY g",
    "SELECT d > 100 AS big, CAST(sum(n) AS STRING) AS s, sum(if(b, 1, 0)) AS b FROM t GROUP BY d > 100",
    "SELECT g, k FROM t GROUP BY g, k",
    "SELECT n - k - 1 AS a, k - 1 AS k1, n AS n1, count(*) AS c FROM t GROUP BY k - 1, n, k",
    "SELECT g LIKE ANY ('a%', 'b%') AS ab, k, count(*) AS n FROM t GROUP BY ALL",
    "SELECT trunc(t, 'MM') AS m, g, sum(p * 2) AS p2, sum(-p) AS np FROM t GROUP BY trunc(t, 'MM'), g",
]


@pytest.mark.parametrize("query", TRICKY)
def test_what_is_kept_gives_what_the_query_gives(spark: SparkSession, query: str) -> None:
    """Rows come, change and go; Spark runs the user's own text over what is left."""
    before, after = [sample(i) for i in range(1, 40)], [sample(i) for i in range(12, 60)]
    grouped = upkeep(query, [column.split()[0] for column in COLUMNS.split(", ") if " " in column]).grouped
    assert grouped is not None
    first = spark.createDataFrame(before, COLUMNS)
    partials = Partials.of(grouped, first)
    state = partials.fresh(partials.of_rows(first.selectExpr("*", f"1 AS {SIGN}")))
    gone, came = before[:11], after[28:]
    change = [(*row, -1) for row in gone] + [(*row, 1) for row in came]
    signed = spark.createDataFrame(change, f"{COLUMNS}, {SIGN} INT")
    now = partials.merged(partials.of_rows(signed), state)
    lost = now.where("_lost")
    whole = spark.createDataFrame(after, COLUMNS)
    again = partials.fresh(partials.of_groups(whole, lost))
    now = now.where("NOT _lost").drop("_lost").unionByName(partials.renewed(lost, again))
    partials.values(now).createOrReplaceTempView("_test_values")
    whole.createOrReplaceTempView("t")
    expected = Counter(tuple(map(comparable, row)) for row in spark.sql(query).collect())
    found = Counter(tuple(map(comparable, row)) for row in spark.sql(outputs_sql(grouped, "_test_values")).collect())
    assert found <= expected  # groups that no row came to or left are as they were, and not looked at
    touched = Partials.of(grouped, whole).of_rows(signed).count()
    assert 0 < sum(found.values()) <= touched
    assert (
        spark.sql(outputs_sql(grouped, "_test_values")).schema.simpleString() == spark.sql(query).schema.simpleString()
    )


def test_variances_lose_no_digits_where_sums_of_squares_would(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(
        tmp_path, {"v": kept("SELECT g, var_pop(x) AS v, stddev(x) AS s, variance(k) AS k FROM t GROUP BY g")}, spark
    )
    at = 1_700_000_000.0

    def add(first: int, *values: float) -> None:
        world.add([(first + i, "a", i, value, 0, None, None, None, None) for i, value in enumerate(values)])

    def assert_near() -> None:
        [(_, *found)], [(_, *expected)] = world.rows("v"), world.expected("v")
        assert [float(value) for value in found] == pytest.approx([float(value) for value in expected], rel=1e-9)

    add(0, at + 0.1)
    world.run()
    assert world.rows("v") == Counter([("a", "0.0", None, None)])
    add(1, at + 0.2, at + 0.3)
    world.run()
    assert_near()
    world.sql("DELETE FROM {t} WHERE id = 1")  # a row that leaves: the group is read again
    add(10, at + 5)
    world.run()
    assert_near()


def test_only_rows_that_are_other_are_written(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, {"kept": kept(SUMS), "small": SUMS, "rows": QUERIES["rows"]}, spark)
    world.add([sample(i) for i in range(40)])
    world.run()
    world.add([(100, "a", 1, 0.0, 0, None, None, None, None)])
    reports = world.run()
    for name in ("kept", "small", "rows"):
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
        changes = Counter(row["_change_type"] for row in feed.load(world.at.table("gold", name)).collect())
        # The group is there, with no other sum, but a row more; distinct values stay as they were.
        touched = {} if name == "rows" else {"update_preimage": 1, "update_postimage": 1}
        assert changes == touched, name
        assert (reports[name].inserted, reports[name].deleted) == (0, 0)
        assert world.commits(name)[0]["strategy"] == ("groups" if name == "rows" else "partial")
    world.sql("UPDATE {t} SET b = NOT b")
    assert all(report.updated == 0 for report in world.run().values())
    assert all(report.state == "idle" for report in world.run().values())


def test_what_cannot_be_followed_is_made_again_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = GoldWorld(tmp_path, {"a": kept(SUMS)}, spark)
    world.add([sample(i) for i in range(40)])
    assert world.run()["a"].state == "written"
    expected = world.rows("a")
    world.define({"a": kept(SUMS.replace("count(x) AS c", "min(k) AS c"))})
    report = world.run()["a"]
    assert (report.state, report.why) == ("rebuilt", "its definition changed")
    world.define({"a": kept(SUMS)})
    world.run()
    assert world.rows("a") == expected
    silver = spark.read.format("delta").load(world.silver)
    silver.where("id < 30").write.format("delta").mode("overwrite").save(world.silver)
    report = world.run()["a"]
    assert "t was changed by WRITE" in report.why
    assert world.commits("a")[0]["all"]
    world.add([sample(50)])
    world.run()
    assert not world.commits("a")[0]["all"]
    spark.sql(f"RESTORE TABLE delta.`{world.at.groups('a')}` TO VERSION AS OF 0")  # what is kept is not what it says
    world.add([sample(51)])
    world.run()
    assert world.commits("a")[0]["all"]
    monkeypatch.setattr(gold, "FEW", 0)
    world.sql("UPDATE {t} SET k = k + 1")  # all of them: to read everything is cheaper
    world.run()
    assert world.commits("a")[0]["all"]


def test_many_groups_are_merged(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gold, "FEW", 3)
    world = GoldWorld(tmp_path, {name: QUERIES[name] for name in ("sums", "small", "mixed", "rows")}, spark)
    world.add([sample(i) for i in range(40)])
    world.run()
    world.add([sample(i) for i in range(40, 50)])
    world.sql("DELETE FROM {t} WHERE g = 'a' AND k = 1")
    world.run()
    for name in ("mixed", "rows"):
        assert world.rows(name) == world.expected(name)
    assert world.rows("sums") == world.rows("small")


def test_a_query_that_must_be_incremental_and_cannot(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, {"a": kept("SELECT array(g) AS gs, count(*) AS n FROM t GROUP BY array(g)")}, spark)
    world.add([sample(i) for i in range(9)])
    world.run()  # by groups: an array is nothing to keep, but its rows can be found
    assert world.rows("a") == world.expected("a")
    world.define({"a": kept("SELECT count(*) AS n FROM t GROUP BY array(g)")})
    with pytest.raises(QueryError, match=re.escape("cannot be kept up to date by what changes")):
        world.run()


def test_a_reader_never_sees_a_half_changed_table(spark: SparkSession, tmp_path: Path) -> None:
    """Every version of the table is what its query gave over some version of silver."""
    world = GoldWorld(tmp_path, {"a": kept(SUMS), "b": SUMS}, spark)
    right = []
    for number in range(3):
        world.add([sample(number * 10 + i) for i in range(10)])
        world.run()
        right.append(world.rows("a"))
    for name in ("a", "b"):
        uri = world.at.table("gold", name)
        table = lake.delta_table(uri)
        assert table is not None
        versions = [
            Counter(
                tuple(map(comparable, row))
                for row in spark.read.format("delta").option("versionAsOf", v).load(uri).collect()
            )
            for v in range(table.version() + 1)
        ]
        assert versions == right
