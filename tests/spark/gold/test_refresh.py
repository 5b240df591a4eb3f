"""Gold is what its queries give over the whole of silver, however silver came to be what it is."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import pvariance, variance
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.errors import QueryError
from sluicegate.flow import flows as flow_flows
from sluicegate.flow import refresh_cost, thresholds
from sluicegate.flow.progress import progress
from sluicegate.flow.refresh_cost import Rates
from sluicegate.lake import log, tables
from sluicegate.monitor import estimate
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.gold_world import GoldWorld, comparable, exact, kept
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
    "rows": kept(
        "SELECT g, count(DISTINCT k) AS n, array_sort(collect_set(k)) AS ks, sum(n) AS s, percentile(k, 0.5) AS m "
        "FROM t GROUP BY g"
    ),
    "exact": kept(
        "SELECT g, k, count(*) AS n, count(x) AS c, sum(t.x) AS s, avg(x) AS a FROM t GROUP BY g, k "
        "HAVING count(DISTINCT id) > 0 AND coalesce(sum(x) = 0 OR true, true)"
    ),
    "one": kept("SELECT count(*) + 1 AS n, sum(n) AS s, max(d) AS d, sum(p) FILTER (WHERE b) AS p FROM t"),
    "whole": "SELECT count(*) AS n, count(DISTINCT g) AS g FROM t",
}  # fmt: skip

# Whose sums Spark by itself gets wrong, and Python does not.
BY_HAND = {"sums", "small", "exact"}

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
        table = tables.delta_table(world.silver)
        assert table is not None
        world.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {max(table.version() - 1, 0)}")


def stop(world: GoldWorld, point: str, rows: list[tuple[Any, ...]]) -> None:
    """Silver gets rows, and a run over them is stopped at a point."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, point)
        world.add(rows)
        with pytest.raises(Stopped):
            world.run()


def after_every_run(
    world: GoldWorld,
    first: list[Any],
    steps: list[Any],
    happen: Callable[..., None],
    right: Callable[..., None],
    stop: Callable[..., None] = stop,
) -> None:
    """Runs, and runs again after the events of each step; gold is right each time, and then there is nothing to do."""
    world.run()
    right(world)
    for number, events in enumerate(steps):
        for kind, what in events:
            if kind == "stop":
                stop(world, what, rows(first[:3], 1000 * number))
            else:
                happen(world, kind, what, 100 * (number + 1))
        world.run()
        right(world)
    assert all(report.state == "idle" for report in world.run().values())


def assert_right(world: GoldWorld) -> None:
    groups: dict[Any, list[Any]] = {}
    for row in world.silver_rows():
        groups.setdefault((row.g, row.k), []).append(row.x)
    expected = Counter(
        tuple(map(comparable, (*key, len(xs), sum(x is not None for x in xs), *exact(xs))))
        for key, xs in groups.items()
    )
    for name in world.pipeline.gold:
        assert world.rows(name) == (expected if name in BY_HAND else world.expected(name)), name


FIRST = [
    ("a", 1, 0.1, 5, Decimal("1.0000"), Decimal("2.50"), 1, True),
    ("a", 1, 1e16, -7, Decimal("-3.5000"), None, 2, False),
    ("a", 1, -1e16, 2**59, Decimal(10) ** 33, Decimal("0.01"), 1, None),
    ("b", 2, 5e-324, 2**60, -(Decimal(10) ** 33), Decimal("-99999.99"), 3, True),
    ("b", 2, -1e300, -(2**60), None, Decimal("0.01"), 1, True),
    (None, 2, math.nan, 3, Decimal("0.0001"), Decimal("9.99"), 3, True),
    (None, 2, math.inf, 3, None, None, 3, None),
    ("c", None, -0.0, 4, None, None, 2, False),
    ("c", 3, None, 4, None, None, 2, False),
]
STEPS = [
    [("add", FIRST[1:7]), ("update", 2), ("stop", "gold.between_commits")],
    [("delete", 3), ("stop", "gold.before_commit")],
    [("restore", 0), ("group", "a"), ("add", FIRST[:1])],
]


SOME = ("sums", "rows", "one", "whole")
OTHERS = tuple(name for name in QUERIES if name not in SOME)


@pytest.mark.parametrize("names", [SOME, pytest.param(OTHERS, marks=pytest.mark.release)], ids=["some", "others"])
@in_spark(examples=0)
@example(first=FIRST, steps=STEPS)
@given(
    first=st.lists(ROW, min_size=3, max_size=20),
    steps=st.lists(st.lists(STEP, min_size=1, max_size=2), min_size=1, max_size=4),
)
def test_gold_equals_its_queries_after_every_run(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    names: tuple[str, ...],
    first: list[Any],
    steps: list[Any],
) -> None:
    world = GoldWorld(tmp_path_factory.mktemp("gold"), {name: QUERIES[name] for name in names}, spark)
    world.add(rows(first, 0))
    after_every_run(world, first, steps, step, assert_right)


def rows_of(table: DeltaTable) -> list[dict[str, Any]]:
    """The rows of a table, read without Spark."""
    found: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return found


def sample(number: int) -> tuple[Any, ...]:
    """A row with values that its number tells."""
    return (
        number, "abc"[number % 3] if number % 7 else None, number % 4, [0.1, 1e16, -1e16, 2.5, None][number % 5],
        number**5 - 10**6, Decimal(number**3) / 7, Decimal(number * 37 % 1000) / 100,
        dt.datetime(2024, 5, 1 + number % 3, number % 24), [True, False, None][number % 3],
    )  # fmt: skip


@pytest.mark.release
def test_variances_are_exact_whatever_came_and_went(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(
        tmp_path, {"v": kept("SELECT g, var_pop(x) AS v, stddev(x) AS s, variance(k) AS k FROM t GROUP BY g")}, spark
    )
    at = 1_700_000_000.0

    def add(first: int, *values: float) -> None:
        world.add([(first + i, "a", i, value, 0, None, None, None, None) for i, value in enumerate(values)])

    def assert_exact() -> None:
        xs, ks = ([Fraction(row[name]) for row in world.silver_rows()] for name in ("x", "k"))
        found = ("a", float(pvariance(xs)), math.sqrt(variance(xs)), float(variance(ks)))
        assert world.rows("v") == Counter([tuple(map(comparable, found))])  # Spark's own is other in the eighth digit

    add(0, at + 0.1)
    world.run()
    assert world.rows("v") == Counter([("a", "0.0", None, None)])
    add(1, at + 0.2, at + 0.3)
    world.run()
    assert_exact()
    world.sql("DELETE FROM {t} WHERE id = 1")
    add(10, at + 5)
    world.run()
    assert_exact()


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


@pytest.mark.release
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
    spark.sql(
        f"RESTORE TABLE delta.`{world.at.group_state('a')}` TO VERSION AS OF 0"
    )  # what is kept is not what it says
    world.add([sample(51)])
    world.run()
    assert world.commits("a")[0]["all"]
    monkeypatch.setattr(thresholds, "FEW", 0)
    monkeypatch.setattr(refresh_cost, "RATES", {"partial": Rates(1.0), "restart": Rates(1e-6)})
    world.sql("UPDATE {t} SET k = k + 1")  # all of them: to read everything is cheaper
    world.run()
    assert world.commits("a")[0]["all"]


def test_groups_are_kept_of_tables_that_are_not_SMALL(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of one row, of two and, joined, of three: more than two are not small."""
    monkeypatch.setattr(thresholds, "SMALL", 2)
    queries = {
        "below": "SELECT g, sum(k) AS s FROM t GROUP BY g",
        "exactly": "SELECT name, count(*) AS n FROM u GROUP BY name",
        "above": "SELECT u.name, count(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY u.name",
    }
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(1)])
    world.name([("b", "Ann", 0.5), ("c", "Bob", 0.5)])
    world.run()
    there = [name for name in queries if tables.delta_table(world.at.group_state(name)) is not None]
    assert there == ["above"]
    for name in queries:
        assert world.rows(name) == world.expected(name), name


@pytest.mark.release
def test_state_is_made_again_at_most_where_more_than_FEW_rows_changed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was foreseen. What is kept of no more than FEW groups is written anew, and of more it is merged."""
    monkeypatch.setattr(refresh_cost, "RATES", {"partial": Rates(1.0), "restart": Rates(1e-6)})
    queries = {
        "one": kept("SELECT g, count(*) AS n, sum(k) AS s FROM t GROUP BY g"),
        "two": kept("SELECT b, count(*) AS n, sum(k) AS s FROM t GROUP BY b"),
        "three": kept("SELECT name, count(*) AS n FROM u GROUP BY name"),
    }
    world = GoldWorld(tmp_path, queries, spark)
    sizes = {"t": 0, "u": 0}

    def came(few: int, **rows: int) -> dict[str, bool]:
        """Adds rows and runs; whether each table that is behind was made of all rows."""
        monkeypatch.setattr(thresholds, "FEW", few)
        for table, count in rows.items():
            numbers = range(sizes[table], sizes[table] + count)
            if table == "t":
                world.add([(n, "a", n, None, None, None, None, None, n % 2 == 0) for n in numbers])
            else:
                world.name([("a", ("Ann", "Bob", "Cy")[n % 3], 0.5) for n in numbers])
            sizes[table] += count
        flows = flow_flows.flows(world.pipeline, world.at, "gold")
        behind = {name: now for name, flow in flows.items() if (now := progress(flow)).has_work}
        seen = {
            name: estimate.estimate_refresh(world.pipeline.gold[name], flows[name], now) for name, now in behind.items()
        }
        world.run()
        for name in queries:
            assert world.rows(name) == world.expected(name), name
        made = {name: bool(world.commits(name)[0]["all"]) for name in behind}
        assert {name: bool(one.all_of) for name, one in seen.items()} == made
        return made

    def how(name: str) -> str:
        table = tables.delta_table(world.at.group_state(name))
        assert table is not None
        return next(log.commits(table)).operation

    assert came(2, t=6, u=6) == {"one": True, "two": True, "three": True}
    assert came(2, t=1, u=2) == {"one": False, "two": False, "three": False}
    assert [how(name) for name in queries] == ["WRITE", "WRITE", "MERGE"]
    assert came(2, t=3) == {"one": True, "two": True}
    assert came(10, t=10, u=6) == {"one": False, "two": False, "three": False}
    assert came(15, u=16) == {"three": True}


@pytest.mark.more
def test_many_groups_are_merged(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "FEW", 3)
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
    with pytest.raises(QueryError, match=re.escape("cannot be refreshed incrementally")):
        world.run()


def test_a_reader_never_sees_a_half_changed_table(spark: SparkSession, tmp_path: Path) -> None:
    """Who polls it all the while, without Spark, sees what its query gives over one version of silver or another."""
    world = GoldWorld(tmp_path, {"a": kept(SUMS), "b": SUMS, "c": f"{{sql: '{SUMS}', refresh: full}}"}, spark)
    seen: dict[str, list[Counter[Any]]] = {name: [] for name in world.pipeline.gold}
    done = Event()

    def poll() -> None:
        while not done.is_set():
            for name, found in seen.items():
                table = tables.delta_table(world.at.table("gold", name))
                assert table is not None
                found.append(Counter(tuple(map(comparable, row.values())) for row in rows_of(table)))

    world.add([sample(i) for i in range(10)])
    world.run()
    right = [world.rows("a")]
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(poll)
        try:
            for change in ("add", "add", "delete"):
                if change == "add":
                    world.add([sample(10 * len(right) + i) for i in range(10)])
                else:
                    world.sql("DELETE FROM {t} WHERE id < 15")
                world.run()
                right.append(world.rows("a"))
        finally:
            done.set()
        reader.result()
    for name, found in seen.items():
        assert len(found) > len(right)
        assert all(one in right for one in found), name
        assert found[-1] == right[-1]


def clustered(world: GoldWorld, name: str) -> list[str]:
    """The columns that Delta says a gold table is clustered by."""
    [detail] = world.spark.sql(f"DESCRIBE DETAIL delta.`{world.at.table('gold', name)}`").collect()
    return list(detail.clusteringColumns)


@pytest.mark.more
def test_a_table_is_clustered_by_what_its_query_orders_by(spark: SparkSession, tmp_path: Path) -> None:
    total = "SELECT b, k, count(*) AS n, array_sort(collect_set(g)) AS gs FROM t GROUP BY b, k"
    queries = {"kept": kept(f"{SUMS} ORDER BY s DESC, k, g"), "whole": f"{total} ORDER BY gs, b, n LIMIT 20"}
    world = GoldWorld(tmp_path, queries, spark)
    for first in (0, 20):
        world.add([sample(i) for i in range(first, first + 20)])
        world.run()
        # Delta clusters by no booleans and arrays. The table is made in one commit, and keeps this through all others.
        assert {name: clustered(world, name) for name in queries} == {"kept": ["s", "k", "g"], "whole": ["n"]}
        assert all(commit for name in queries for commit in world.commits(name))
    table = tables.delta_table(world.at.table("gold", "kept"))
    assert table is not None
    assert sorted(table.to_pyarrow_table()["n"].to_pylist()) == sorted(row[2] for row in world.rows("kept").elements())
    spark.sql(f"OPTIMIZE delta.`{world.at.table('gold', 'kept')}`")
    before = world.rows("kept")
    world.define({"kept": kept(f"{SUMS} ORDER BY ALL"), "whole": total})
    assert world.run()["kept"].state == "rebuilt"
    assert (world.rows("kept"), world.rows("whole")) == (before, world.expected("whole"))
    assert (clustered(world, "kept"), clustered(world, "whole")) == (["g", "k", "n", "c"], [])
    world.define({"kept": kept(SUMS.replace("sum(x) AS s", "sum(n) AS s") + " ORDER BY 5"), "whole": total})
    world.run()
    assert clustered(world, "kept") == ["s"]  # of another type now, so that its columns are written anew


def test_commits_and_events_say_what_a_run_wrote_for_what_changed(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, {"kept": kept(SUMS), "small": SUMS}, spark)
    world.add([sample(i) for i in range(40)])
    world.run()
    world.add([(100 + i, "a", 1, 0.0, i, None, None, None, None) for i in range(9)])
    [flow] = [flow for name, flow in flow_flows.flows(world.pipeline, world.at, "gold").items() if name == "kept"]
    told = estimate.estimate_refresh(world.pipeline.gold["kept"], flow, progress(flow))
    assert (told.rows, told.groups, told.exact, told.all_of) == (9, 1, True, ())
    world.run()
    assert {name: world.commits(name)[0]["groups"] for name in ("kept", "small")} == {"kept": 1, "small": None}
    events = tables.delta_table(world.at.events)
    assert events is not None
    [said] = [
        json.loads(event["details"])["bytes"]
        for event in events.to_pyarrow_table().to_pylist()
        if (event["table"], event["version"]) == ("kept", 1)
    ]
    newest = max(Path(world.silver).glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert said["changed"] == told.reads == newest.stat().st_size
    written = [action for action in log.actions(world.at.table("gold", "kept"), 1) if {"add", "cdc"} & action.keys()]
    assert said["written"] == sum(next(iter(action.values()))["size"] for action in written)
    assert said["written_per_byte_changed"] == round(said["written"] / said["changed"], 3)


@pytest.mark.more
def test_a_python_function_is_called_whenever_a_table_that_it_reads_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    code = tmp_path / "pipelines" / "w" / "transforms.py"
    code.parent.mkdir(parents=True)
    code.write_text(
        "from pyspark.sql import functions as F\n"
        "def named(tables):\n"
        "    found = tables['t'].join(tables['u'], 'g').groupBy('name')\n"
        "    return found.agg(F.count('*').alias('n'), F.sum('n').alias('s'))\n"
    )
    world = GoldWorld(tmp_path, {"named": "{python: transforms.py:named, reads: [t, u]}"}, spark)

    def right() -> None:
        names = {row.g: row.name for row in spark.read.format("delta").load(world.names).collect()}
        groups: dict[str, list[int]] = {}
        for row in world.silver_rows():
            if row.g in names:
                groups.setdefault(names[row.g], []).append(row.n)
        assert world.rows("named") == Counter((name, len(ns), sum(ns)) for name, ns in groups.items())

    some = [("a", 1, 0.5, n, Decimal(1), Decimal(2), 1, True) for n in (3, 4)] + [
        ("b", 1, 0.5, 5, Decimal(1), Decimal(2), 1, True)
    ]
    world.add(rows(some, 0))
    world.name([("a", "Ann", 0.1), ("b", "Bob", 3.5)])
    world.run()
    right()
    assert world.commits("named")[0]["strategy"] == "whole"
    for number, change in enumerate((
        lambda: world.add(rows(some, 10)),
        lambda: world.sql("DELETE FROM {t} WHERE n = 4"),
        lambda: world.sql("UPDATE {u} SET name = 'Eve' WHERE g = 'b'"),
        lambda: stop(world, "gold.before_commit", rows(some[:1], 30)),
        lambda: stop(world, "gold.after_commit", rows(some[1:], 40)),
    )):  # fmt: skip
        change()
        world.run()
        right()
        assert tables.delta_table(world.at.table("gold", "named")).version() == number + 1  # type: ignore[union-attr]
    assert world.run()["named"].state == "idle"
    code.write_text(code.read_text().replace("count('*')", "countDistinct('n')"))
    world.define({"named": "{python: transforms.py:named, reads: [t, u]}"})
    assert world.run()["named"].state != "idle"
    assert sum(n for _, n, _ in world.rows("named")) < len(world.silver_rows())
