"""Gold by time windows, tumbling and sliding: each row of silver counts once in each window in which its time is."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluicegate.flow import thresholds
from tests.spark.gold.test_refresh import stop
from tests.support.gold_world import GoldWorld, comparable, kept
from tests.support.properties import in_spark
from tests.support.techniques import by_lot

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TUMBLING, SLIDING = "window(t, '6 hours')", "window(t, '9 hours', '4 hours', '1 hour')"
HOUR = dt.timedelta(hours=1)
EPOCH = dt.datetime(1970, 1, 1)

# The columns of each are a start, an end if it has one, g if it has it, a count and a sum, or a count of different k.
QUERIES = {
    "named": f"SELECT window.start, window.end, g, count(*) AS c, sum(n) AS s FROM t GROUP BY {TUMBLING}, g",
    "called": f"SELECT {TUMBLING}.start AS b, g, count(*) AS c, sum(n) AS s FROM t GROUP BY g, {TUMBLING}",
    "sliding": f"SELECT g, window.end AS e, count(*) AS c, sum(n) AS s FROM t GROUP BY {SLIDING}, g",
    "different": f"SELECT {SLIDING}.start AS b, count(*) AS c, count(DISTINCT k) AS ks FROM t GROUP BY 1",
    "struct": f"SELECT {SLIDING} AS w, g, count(*) AS c, max(n) AS hi FROM t GROUP BY 1, 2",
    "doubles": f"SELECT window.start, count(*) AS c, max(x) AS hi, sum(x) AS s FROM t GROUP BY {TUMBLING}",
}  # fmt: skip
STRATEGIES = {"named": "partial", "called": "partial", "sliding": "partial", "different": "groups",
              "struct": "groups", "doubles": "partial"}  # fmt: skip


def windows(time: dt.datetime, length: dt.timedelta, slide: dt.timedelta, first: dt.timedelta) -> Iterator[Any]:
    """The windows in which a time is, each by its start and end."""
    start = EPOCH + first + (time - EPOCH - first) // slide * slide
    while start + length > time:
        yield start, start + length
        start -= slide


def expected(world: GoldWorld) -> dict[str, Counter[Any]]:
    """What Python makes of silver."""
    tumbling, sliding = defaultdict(list), defaultdict(list)
    for row in world.silver_rows():
        if row.t is not None:
            for window in windows(row.t, 6 * HOUR, 6 * HOUR, 0 * HOUR):
                tumbling[(*window, row.g)].append(row)
            for window in windows(row.t, 9 * HOUR, 4 * HOUR, HOUR):
                sliding[(*window, row.g)].append(row)
    of_all: dict[Any, list[Any]] = defaultdict(list)
    for (start, _, _), rows in sliding.items():
        of_all[start] += rows
    found = {
        "named": [(*key, len(rows), sum(row.n for row in rows)) for key, rows in tumbling.items()],
        "called": [(start, g, len(rows), sum(row.n for row in rows)) for (start, _, g), rows in tumbling.items()],
        "sliding": [(g, end, len(rows), sum(row.n for row in rows)) for (_, end, g), rows in sliding.items()],
        "different": [(start, len(rows), len({row.k for row in rows} - {None})) for start, rows in of_all.items()],
        "struct": [
            ((start, end), g, len(rows), max(row.n for row in rows)) for (start, end, g), rows in sliding.items()
        ],
    }
    return {name: Counter(tuple(map(comparable, row)) for row in rows) for name, rows in found.items()}


ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([1, 2, None]),
    st.sampled_from([0.5, -0.0, None]),
    st.integers(-9, 9),
    st.one_of(st.none(), st.integers(-3 * 10**10, 3 * 10**10)),
)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.just("update"), st.integers(2, 4)),
    st.tuples(st.just("delete"), st.integers(2, 4)),
    st.tuples(st.just("stop"), st.sampled_from(["gold.between_commits", "gold.before_commit"])),
)
SIX_HOURS = 6 * 3600 * 10**6
FIRST = [
    ("a", 1, 0.5, 1, 0),
    ("a", 2, -0.0, 2, SIX_HOURS - 1),
    ("b", 1, None, 3, SIX_HOURS),
    (None, None, 0.5, 4, -1),
    ("a", 2, 0.5, 5, None),
    ("b", 2, 0.5, 6, 3 * SIX_HOURS + 1),
]
STEPS = [("add", FIRST[:3]), ("update", 2), ("stop", "gold.between_commits"), ("delete", 3), ("add", FIRST[3:])]


def rows(drawn: list[Any], first: int) -> list[tuple[Any, ...]]:
    """Rows of silver, whose times are microseconds after a midnight."""
    midnight = dt.datetime(2024, 5, 2)
    return [
        (first + i, g, k, x, n, None, None, None if time is None else midnight + dt.timedelta(microseconds=time), True)
        for i, (g, k, x, n, time) in enumerate(drawn)
    ]


def assert_right(world: GoldWorld) -> None:
    for name, counted in expected(world).items():
        assert world.rows(name) == counted, name
    for name in QUERIES:
        assert world.rows(name) == world.expected(name), name


@pytest.mark.more
@in_spark(examples=0)
@example(first=FIRST, steps=STEPS)
@given(first=st.lists(ROW, min_size=3, max_size=9), steps=st.lists(STEP, min_size=2, max_size=5))
def test_gold_by_windows_is_what_python_counts_after_every_run(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, first: list[Any], steps: list[Any]
) -> None:
    world = GoldWorld(tmp_path_factory.mktemp("gold"), {name: kept(text) for name, text in QUERIES.items()}, spark)
    world.add(rows(first, 0))
    world.run()
    assert_right(world)
    for number, (kind, what) in enumerate(steps, 1):
        if kind == "add":
            world.add(rows(what, 100 * number))
        elif kind == "update":
            world.sql(f"UPDATE {{t}} SET t = t - INTERVAL 5 HOURS, n = n + 1, k = 1 WHERE id % {what} = 0")
        elif kind == "delete":
            world.sql(f"DELETE FROM {{t}} WHERE id % {what} = 1")
        else:
            stop(world, what, rows(first[:3], 100 * number))
        world.run()
        assert_right(world)
    assert {name: world.commits(name)[0]["strategy"] for name in QUERIES} == STRATEGIES


@pytest.mark.more
def test_windows_are_the_same_by_groups_as_by_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", -1)
    lot = by_lot(monkeypatch, 1)
    world = GoldWorld(tmp_path, QUERIES, spark)
    for first in (0, 100):
        world.add(rows(FIRST, first))
        world.run()
        assert_right(world)
    monkeypatch.setattr(lot, "preferred", {"groups"})
    world.add(rows(FIRST[:2], 200))
    world.run()
    assert_right(world)
    assert {world.commits(name)[0]["cost"]["technique"] for name in QUERIES} == {"groups"}


def test_a_session_that_grows_takes_the_place_of_the_former(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", -1)
    monkeypatch.setattr(by_lot(monkeypatch, 1), "preferred", {"keys", "groups"})
    session = "session_window(t, '2 hours')"
    queries = {
        "struct": f"SELECT g, {session} AS w, count(*) AS c FROM t GROUP BY 1, 2",
        "named": f"SELECT session_window.start AS b, g, count(DISTINCT k) AS c FROM t GROUP BY g, {session}",
    }
    world = GoldWorld(tmp_path, queries, spark)
    hour = 3600 * 10**6
    world.add(rows([("a", 1, None, start, start * hour) for start in (0, 1, 4, 9, 10)], 0))
    world.run()
    world.add(rows([("a", 2, None, 1, int(2.5 * hour))], 100))
    world.run()
    for name in queries:
        assert world.rows(name) == world.expected(name), name
    assert sum(world.rows("struct").values()) == 2
