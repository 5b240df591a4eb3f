"""Gold queries that Spark reads otherwise than their parts give what they give over all of silver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.lake import tables
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "json": ("groups", kept("SELECT g, count(*) AS c, to_json(struct(c, sum(k))) AS j FROM t GROUP BY g")),
    "alias": ("whole", "SELECT date(t) AS day, year(date(t)) AS y, count(*) AS c FROM t GROUP BY day, year(day)"),
    "rounded": ("keys", "SELECT date(t) AS day, count(DISTINCT g) AS c, sum(x) AS s FROM t GROUP BY day, year(day)"),
    "map": ("whole", "SELECT map(k, g) AS m, count(*) AS n FROM t WHERE k IS NOT NULL GROUP BY map(k, g)"),
    "none": ("partial", kept("SELECT count(*) AS n FROM t WHERE id < 0 GROUP BY TRUE")),
    "filtered": (
        "partial", kept("SELECT k, count(CAST(concat('a', id) AS INT)) FILTER (WHERE g > 'z') AS n FROM t GROUP BY k"),
    ),
}  # fmt: skip
"""Queries by name, each with the strategy that refreshes it."""


def test_what_has_another_meaning_in_parts_is_not_kept_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    world = GoldWorld(tmp_path, {name: query for name, (_, query) in QUERIES.items()}, spark)
    for first in (1, 20):
        world.add([sample(i) for i in range(first, first + 19)])
        reports = world.run()
        for name, (_, query) in QUERIES.items():
            assert reports[name].state == "written" or first > 1
            assert world.rows(name) == world.expected(name), query
    strategies = {name: world.commits(name)[0]["strategy"] for name in QUERIES}
    assert strategies == {name: strategy for name, (strategy, _) in QUERIES.items()}


def test_a_map_whose_value_is_null_is_no_group_of_one_whose_value_is_0(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's generated code takes the one for the other."""
    of = "map('k', if(id % 3 = 0, NULL, CAST(0 AS INT)))"
    queries = {"plain": f"SELECT {of} AS m, count(*) AS n FROM t GROUP BY {of}",
               "inside": f"SELECT m, n FROM (SELECT {of} AS m, count(*) AS n FROM t GROUP BY ALL)"}  # fmt: skip
    world = GoldWorld(tmp_path, queries, spark)
    for first in (1, 20):
        world.add([sample(i) for i in range(first, first + 9)])
        world.run()
    for name in queries:
        found = tables.delta_table(world.at.table("gold", name))
        assert found is not None
        rows = tables.dataset(found).to_table().to_pylist()
        assert sorted((dict(row["m"])["k"] is None, row["n"]) for row in rows) == [(False, 12), (True, 6)]
