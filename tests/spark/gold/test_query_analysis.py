"""A gold query's parts are used only if Spark says that they are the query, and what depends on the time is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.flow import flows as flow_flows
from sluicegate.flow.progress import progress
from sluicegate.gold import query_analysis
from sluicegate.monitor import backlog, plan
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.refresh.expressions import Expressions
from sluicegate.spark_sql.refresh.joins import ROWS, view
from sluicegate.spark_sql.refresh.strategy import RefreshStrategy, refresh_strategy
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import COLUMNS, NAMES, GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STAR = (
    "SELECT t.g AS a, u.g AS b, sum(t.x) AS s FROM t JOIN u ON t.k = u.weight WHERE n > 0 GROUP BY t.g, u.g "
    "HAVING sum(t.x) > 0"
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, list[str]]:
    """The columns of two tables, of which there are views."""
    frames = {"t": spark.createDataFrame([], COLUMNS), "u": spark.createDataFrame([], NAMES)}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    frames["t"].createOrReplaceTempView(ROWS)
    frames["u"].createOrReplaceTempView(view("u"))
    return {name: frame.columns for name, frame in frames.items()}


def disproved(spark: SparkSession, query: str, tables: dict[str, list[str]]) -> bool:
    """Whether Spark says that the parts of a query are not the query."""
    grouped = refresh_strategy(query, tables).grouped
    assert grouped is not None
    return bool(query_analysis.why_not_equivalent(spark, Query.parse(query), grouped))


def test_parts_that_are_another_query_are_found_out(
    spark: SparkSession, tables: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not disproved(spark, STAR, tables)
    grouped = refresh_strategy(STAR, tables).grouped
    assert grouped is not None
    for right, wrong in (
        ("(u.g) AS", "(t.g) AS"), ("sum(t.x)", "sum(t.k)"), ("WHERE n > 0", "WHERE n >= 0"), ("n > 0", "n > 0D"),
        ("GROUP BY (t.g), (u.g)", "GROUP BY (u.g), (t.g)"), ("HAVING (sum(t.x))", "HAVING (avg(t.x))"),
        ("t.k = u.weight", "t.n = u.weight"), (" JOIN ", " LEFT JOIN "),
    ):  # fmt: skip
        assert right in grouped.recomposed
        other = replace(grouped, recomposed=grouped.recomposed.replace(right, wrong))
        assert query_analysis.why_not_equivalent(spark, Query.parse(STAR), other), wrong
    [(call, _), *_] = grouped.sums
    other = replace(grouped, calls=(replace(call, arguments=("t.k",)),))
    assert query_analysis.why_not_equivalent(
        spark, Query.parse(STAR), other
    )  # what stands in the text for a sum is another sum

    def by_last_part(self: Expressions, start: int, end: int) -> list[str]:
        return [self.tokens.raw(end - 1).lower()]

    monkeypatch.setattr(Expressions, "names", by_last_part)  # takes two columns of one name for one
    assert disproved(spark, STAR, tables)


def test_a_wrong_cut_never_makes_wrong_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Expressions, "names", lambda self, start, end: [self.tokens.raw(end - 1).lower()])
    world = GoldWorld(tmp_path, {"star": STAR}, spark)
    world.add([sample(i) for i in range(1, 40)])
    world.name([("a", "Ann", 1.0), ("b", "Bob", 2.0)])

    def planned() -> RefreshStrategy:
        found = flow_flows.flows(world.pipeline, world.at, "gold")["star"].refresh_strategy
        assert found is not None
        return found

    assert (planned().kind, planned().expected) == ("partial", True)
    world.run()
    assert world.rows("star") == world.expected("star")
    said = world.commits("star")[0]
    assert said["strategy"] == "whole"
    assert "not equivalent" in said["because"]
    assert (planned().kind, planned().why, planned().expected) == ("whole", said["because"], False)


@pytest.mark.parametrize(
    ("query", "moment"),
    [
        ("SELECT g, current_date() AS d, count(*) AS n FROM t GROUP BY g", "current_date()"),
        ("SELECT g, unix_timestamp() AS d FROM t WHERE n > 1 GROUP BY g", "current_timestamp()"),
        ("SELECT user() AS u, now() AS n FROM t", "now(), user()"),
        ("WITH r AS (SELECT * FROM t WHERE t > localtimestamp()) SELECT count(*) AS n FROM r", "localtimestamp()"),
        ("SELECT g FROM t WHERE date(t) < DATE 'today'", "such as today"),
        ("SELECT g FROM t WHERE t < ' Yesterday UTC'", "such as today"),
        ("SELECT g, CAST('now' AS TIMESTAMP) AS d FROM t", "such as today"),
        ("SELECT g FROM t WHERE g = 'today' OR g = 'now playing' OR t < '2024-01-01T00:00:00Z'", ""),
        ("SELECT g, TIMESTAMP '2024-01-01 00:00:00Z' AS t, 'tomorrow' AS w, pi() AS p, map() AS m FROM t", ""),
        ("SELECT g, explode(array(n)) AS e FROM t", ""),
        ("SELECT concat(g, '') AS e, upper(')') AS u FROM t WHERE g LIKE '%call()%' OR g = \"user(\"", ""),
        ("SELECT from_json(g, 'a DECIMAL(9, 2)') AS j, upper('\n== a') AS h, now() AS n FROM t", "now()"),
        ("SELECT upper('\n== a') AS h, g = 'now()' AS e, current_user() AS n FROM t", "current_user()"),
        ("SELECT g, row_number() OVER (ORDER BY n) AS r, date_trunc('DD', t) AS d FROM t", ""),
        ("SELECT g FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY n) = 1", ""),
        ("SELECT now() AS `now() OVER (` FROM t", "now()"),
    ],
)
def test_what_depends_on_when_it_is_run_is_seen(
    spark: SparkSession, tables: dict[str, list[str]], query: str, moment: str
) -> None:
    found = query_analysis.Analysis(spark, Query.parse(query), {"t": spark.table("t").schema})
    assert (moment in found.run_dependent_calls) if moment else found.run_dependent_calls == ""
    assert found.makes_rows is ("explode" in query)


@pytest.mark.parametrize(
    ("query", "chance"),
    [
        ("SELECT g, sum(n) + rand() AS s FROM t GROUP BY g", True),
        ("SELECT t.g, count(*) AS n FROM t JOIN u ON t.g = u.g WHERE uuid() > 'a' GROUP BY t.g -- all", True),
        ("SELECT g, transform(array(n), v -> v + rand()) AS s FROM t", True),
        ("WITH r AS (SELECT *, monotonically_increasing_id() AS i FROM t) SELECT max(i) AS m FROM r", True),
        ("SELECT g, sha2(g, 256) AS h, count(*) AS n, first(n) AS f FROM t GROUP BY g -- all", False),
    ],
)
def test_what_may_be_other_each_time_is_sparks_word(
    spark: SparkSession, tables: dict[str, list[str]], query: str, *, chance: bool
) -> None:
    assert query_analysis.is_nondeterministic(spark, query) is chance


def test_a_query_of_the_time_of_a_run_is_made_again_by_each_run(spark: SparkSession, tmp_path: Path) -> None:
    queries = {
        "now": "SELECT current_timestamp() AS at, count(*) AS n FROM t",
        "since": "SELECT g, count(*) AS n, map('n', sum(n)) AS m FROM t WHERE t < current_date() GROUP BY g",
        "sums": kept("SELECT g, sum(n) AS s FROM t GROUP BY g"),
    }
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(1, 20)])
    world.run()
    [first] = world.rows("now")
    flows = flow_flows.flows(world.pipeline, world.at, "gold")
    works = {name: plan.TableWork(flow, progress(flow)) for name, flow in flows.items()}
    assert {name: (work.work, work.waits) for name, work in works.items()} == {
        "now": (True, False), "since": (True, False), "sums": (False, False),
    }  # fmt: skip
    assert backlog.waiting_tables(world.pipeline, world.where) == []
    reports = world.run()
    [second] = world.rows("now")
    assert first != second
    assert "current_timestamp()" in reports["now"].why
    assert world.commits("now")[0]["of_the_run"] == "current_timestamp()"
    # The same rows are no new version.
    assert {name: len(world.commits(name)) for name in queries} == {"now": 2, "since": 1, "sums": 1}
    world.add([sample(20)])
    world.run()
    assert world.rows("since") == world.expected("since")
    assert len(world.commits("since")) == 2
