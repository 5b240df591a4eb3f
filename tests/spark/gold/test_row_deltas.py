"""Gold tables that join others: a change of any of them is followed, and reaches only the rows that it touches."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.spark.gold.test_refresh import ROW, after_every_run, rows, sample, step, stop
from tests.support.gold_world import GoldWorld, comparable, exact, kept
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "inner": kept(
        "SELECT u.name, count(*) AS n, sum(t.n) AS s, max(k) AS hi FROM t JOIN u ON t.g = u.g GROUP BY u.name"
    ),
    "left": kept(
        "SELECT r.g, name, count(w.g) AS found, count(*) AS n, sum(p) AS p FROM t AS r LEFT JOIN u AS w USING (g) "
        "WHERE k IS NOT NULL GROUP BY r.g, w.name"
    ),
    "doubles": kept("SELECT name, sum(x * weight) AS s, avg(weight) AS w FROM t LEFT JOIN u ON u.g = t.g GROUP BY 1"),
    "rows": kept(
        "SELECT k, count(DISTINCT name) AS n, array_sort(collect_set(w.g)) AS gs FROM t AS r JOIN u AS w "
        "ON lower(w.g) = lower(r.g) AND w.weight > 0 GROUP BY k HAVING count(*) > 1"
    ),
    "untied": "SELECT count(*) AS n FROM t JOIN u ON t.g < u.g",
}

NAME = st.tuples(
    st.sampled_from(["a", "b", "c", "A", None]),
    st.sampled_from(["Ann", "Bob", None]),
    st.sampled_from([0.1, -1e16, 3.5]),
)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.just("update"), st.integers(2, 3)),
    st.tuples(st.just("delete"), st.integers(2, 4)),
    st.tuples(st.just("name"), st.lists(NAME, min_size=1, max_size=3)),
    st.tuples(st.just("rename"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("forget"), st.sampled_from(["a", "c"])),
    st.tuples(st.just("anew"), st.just(0)),
    st.tuples(st.just("stop"), st.sampled_from(["gold.between_commits", "gold.before_commit", "gold.after_commit"])),
)


def happen(world: GoldWorld, kind: str, what: Any, first: int) -> None:
    """Something that happens to one of the two tables."""
    if kind == "name":
        world.name(what)
    elif kind == "rename":
        world.sql(f"UPDATE {{u}} SET name = concat(name, '!'), weight = -weight WHERE g = '{what}'")
    elif kind == "forget":
        world.sql(f"DELETE FROM {{u}} WHERE g = '{what}'")
    elif kind == "anew":  # the same rows in new files touch nothing
        table = world.spark.read.format("delta").load(world.names)
        table.write.format("delta").mode("overwrite").save(world.names)
    else:
        step(world, kind, what, first)


def assert_right(world: GoldWorld) -> None:
    for table in world.pipeline.gold:
        if table != "doubles":
            assert world.rows(table) == world.expected(table), table
    found: dict[Any, tuple[list[Any], list[Any]]] = {}
    names = [row.asDict() for row in world.spark.read.format("delta").load(world.names).collect()]
    for row in world.silver_rows():
        joined = [name for name in names if name["g"] is not None and name["g"] == row.g]
        for name in joined or [{"name": None, "weight": None}]:
            products, weights = found.setdefault(name["name"], ([], []))
            both = row.x is not None and name["weight"] is not None
            products.append(row.x * name["weight"] if both else None)
            weights.append(name["weight"])
    expected = Counter(
        tuple(map(comparable, (name, exact(products)[0], exact(weights)[1])))
        for name, (products, weights) in found.items()
    )
    assert world.rows("doubles") == expected


FIRST = [
    ("a", 1, 0.1, 5, Decimal("1.0000"), Decimal("2.50"), 1, True),
    ("a", 1, 1e16, -7, Decimal("-3.5000"), None, 2, False),
    ("b", 2, -1e16, 2**59, None, Decimal("0.01"), 1, None),
    (None, 2, None, 3, Decimal("0.0001"), Decimal("9.99"), 3, True),
    ("c", None, -0.0, 4, None, None, 2, False),
]
STEPS = [
    [("name", [("c", "Cy", 3.5), ("A", "Ann", 0.1)]), ("add", FIRST[:2])],
    [("rename", "a"), ("update", 2), ("stop", "gold.between_commits")],
    [("forget", "a"), ("delete", 3), ("anew", 0)],
    [("name", [("a", "Al", 3.5), ("b", None, -1e16)]), ("forget", "c")],
]


@pytest.mark.release
@in_spark(examples=0)
@example(first=FIRST, names=[("a", "Ann", 0.1), ("a", "Bob", 3.5), ("b", "Bob", -1e16), (None, "No", 3.5)], steps=STEPS)
@given(
    first=st.lists(ROW, min_size=3, max_size=12),
    names=st.lists(NAME, min_size=1, max_size=5),
    steps=st.lists(st.lists(STEP, min_size=1, max_size=2), min_size=2, max_size=4),
)
def test_gold_equals_its_joins_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], names: list[Any], steps: list[Any]
) -> None:
    world = GoldWorld(tmp_path_factory.mktemp("gold"), QUERIES, spark)
    world.add(rows(first, 0))
    world.name(names)
    after_every_run(world, first, steps, happen, assert_right)


def test_a_changed_row_of_a_joined_table_reaches_only_the_rows_that_it_touches(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = GoldWorld(tmp_path, {name: QUERIES[name] for name in ("left", "rows")}, spark)
    world.add([sample(i) for i in range(40)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 1.0)])
    world.run()
    world.sql("UPDATE {u} SET name = 'Anna' WHERE g = 'a'")
    reports = world.run()
    assert reports["left"].why == "u changed"
    assert (reports["left"].inserted, reports["left"].deleted, reports["left"].updated) == (1, 1, 0)
    assert reports["rows"].updated == 0
    for name in ("left", "rows"):
        assert world.rows(name) == world.expected(name)
        assert not world.commits(name)[0]["all"]
    assert all(report.state == "idle" for report in world.run().values())
    # State of a run that was stopped has the version that the next one ends at, and not what changed since in the join.
    stop(world, "gold.between_commits", [sample(i) for i in range(40, 43)])
    world.sql("UPDATE {u} SET name = 'Bo' WHERE g = 'b'")
    for number in (43, 46):
        world.run()
        assert world.rows("left") == world.expected("left")
        world.add([sample(i) for i in range(number, number + 3)])


@pytest.mark.more
def test_a_joined_table_that_changes_after_a_stop_reaches_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """State of the stopped run is there with the version that the next run ends at, and is not up to date."""
    world = GoldWorld(tmp_path, {name: QUERIES[name] for name in ("inner", "left")}, spark)
    world.add([sample(i) for i in range(10)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 1.0)])
    world.run()
    stop(world, "gold.between_commits", [sample(i) for i in range(10, 13)])
    world.sql("UPDATE {u} SET name = 'Bo' WHERE g = 'b'")
    for number in (13, 16):
        world.run()
        for name in ("inner", "left"):
            assert world.rows(name) == world.expected(name)
        world.add([sample(i) for i in range(number, number + 3)])
