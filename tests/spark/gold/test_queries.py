"""Queries of many kinds, some of them tricky: each gold table is what plain Spark makes of silver by the same text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.spark import connect
from tests.spark.gold.test_refresh import sample
from tests.support.gold_world import GoldWorld, kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTIAL = [
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
    "SELECT `g` AS `a-name`, mean(`p`) AS `the.mean` FROM t GROUP BY `t`.`g`",
    "SELECT g, greatest(max(n), 0) - least(min(n), 0) AS span, coalesce(sum(p), 0) AS p FROM t GROUP BY g",
    "SELECT d > 100 AS big, CAST(sum(n) AS STRING) AS s, sum(if(b, 1, 0)) AS b FROM t GROUP BY d > 100",
    "SELECT g, k FROM t GROUP BY g, k",
    "SELECT n - k - 1 AS a, k - 1 AS k1, n AS n1, count(*) AS c FROM t GROUP BY k - 1, n, k",
    "SELECT g LIKE ANY ('a%', 'b%') AS ab, k, count(*) AS n FROM t GROUP BY ALL",
    "SELECT trunc(t, 'MM') AS m, g, sum(p * 2) AS p2, sum(-p) AS np FROM t GROUP BY trunc(t, 'MM'), g",
    "SELECT count(*) AS n, count(g) AS g, max(t) AS t FROM t",
    "SELECT sum(n) AS s, avg(p) AS p FROM t WHERE k > 100",
    "SELECT k, min(x) AS lo, stddev_pop(k) AS s FROM t GROUP BY k HAVING count(*) > 2 AND max(n) > 0",
    "SELECT name, sum(n) AS n, count(*) AS c FROM t LEFT JOIN u USING (g) GROUP BY name",
    "SELECT k, count(*) AS n, min(d) AS d FROM t LEFT SEMI JOIN u ON t.g = u.g GROUP BY k",
    "SELECT g, count(*) AS n FROM t LEFT ANTI JOIN u ON t.g <=> u.g GROUP BY g",
    "SELECT `g` AS `order`, k AS `group`, count(*) AS `select` FROM t GROUP BY `g`, k, t.g HAVING sum(n) <> 0",
    "SELECT t.g AS a, u.g AS b, sum(p) AS s, max(t.n) AS hi FROM t JOIN u ON t.k = u.weight GROUP BY t.g, u.g",
    "SELECT k + 1 AS k, k + 1 + 2 AS z, count(*) AS c FROM t GROUP BY k + 1",
    "SELECT p.g AS t, q.g AS u, count(*) AS k FROM t AS p LEFT JOIN u AS q ON p.g = q.g AND weight < p.k GROUP BY 1, 2",
    "SELECT g, u.name, count(u.g) AS c, max(t.g) AS m FROM t LEFT JOIN u USING (g) GROUP BY g, u.name",
    "SELECT n DIV 10 AS n, CASE WHEN n DIV 10 > 5 THEN 'hi' ELSE 'lo' END AS up, avg(x) AS a FROM t GROUP BY n DIV 10",
    "SELECT g, sum(n) AS n FROM t GROUP BY g HAVING sum(n) > 10",
    "SELECT sha2(g, 256) AS h, count(*) AS n FROM t WHERE g <> 'now playing' GROUP BY sha2(g, 256)",
    "SELECT date_trunc('HOUR', t) AS h, u.g, min(weight) AS w FROM t JOIN u ON t.g = u.g WHERE b GROUP BY ALL",
    "SELECT g, sum(p) AS s, sum(p) FILTER (WHERE b) AS sb, sum(P) FILTER (WHERE NOT b) AS sn FROM t GROUP BY g",
    "SELECT k AS n, sum(n) AS s FROM t GROUP BY k, n HAVING n > 1",
]
GROUPS = [
    "SELECT g, count(DISTINCT k, b) AS n, sum(p) AS p FROM t GROUP BY g",
    "SELECT k, percentile_approx(n, 0.5) AS m, median(k) AS d, mode(b) AS b FROM t GROUP BY k",
    "SELECT g, max_by(n, t) AS last, min_by(n, t) AS first FROM t WHERE id % 5 <> 0 GROUP BY g",
    "SELECT date(t) AS day, array_sort(collect_set(g)) AS gs, bool_or(b) AS b FROM t GROUP BY day",
    "SELECT g, corr(k, k * 2) AS c, sum(DISTINCT k) AS s, sum(CAST(k AS DOUBLE)) AS d FROM t GROUP BY g",
    "SELECT name, count(DISTINCT k) AS n, sum(weight) AS w FROM t JOIN u USING (g) GROUP BY name",
    "SELECT array(g) AS gs, count(*) AS n FROM t GROUP BY array(g)",
    "SELECT g, aggregate(array_sort(collect_list(k)), 0, (a, v) -> a + v) AS s FROM t GROUP BY g",
    "SELECT g, count_min_sketch(k, 0.5d, 0.5d, 1) AS s FROM t GROUP BY g",
]
KEYS = [
    "SELECT g, k, count(*) AS n FROM t GROUP BY ROLLUP (g, k)",
    "SELECT g, b, sum(n) AS n FROM t GROUP BY CUBE (g, b)",
    "SELECT g, k, max(n) AS n FROM t GROUP BY GROUPING SETS ((g), (k), ())",
    "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t",
    "SELECT DISTINCT g, k FROM t",
    "WITH big AS (SELECT * FROM t WHERE n > 0) SELECT g, count(*) AS n FROM big GROUP BY g",
    "SELECT id, upper(g) AS g, n + 1 AS n FROM t WHERE b",
    "SELECT g, k FROM t WHERE b",
    "SELECT *, t.n * 2 AS twice FROM t",
    "SELECT t.id, u.name, weight FROM t LEFT JOIN u ON t.g = u.g",
    "SELECT t.id, u.name FROM t RIGHT JOIN u ON t.g = u.g AND t.b",
    "SELECT coalesce(t.g, u.g) AS g, t.id, u.name FROM t FULL JOIN u ON t.g = u.g",
    "SELECT id, x FROM t WHERE g IN (SELECT g FROM u WHERE weight > 0) OR NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g)",
    "SELECT g, k FROM t UNION ALL SELECT g, CAST(weight AS INT) FROM u",
    "SELECT g FROM t EXCEPT ALL SELECT g FROM u",
    "SELECT g, max(c) AS c, avg(s) AS s FROM (SELECT g, k, count(*) AS c, sum(p) AS s FROM t GROUP BY g, k) GROUP BY g",
    "SELECT id, k, sum(n) OVER (PARTITION BY k ORDER BY id) AS s, max(d) OVER (PARTITION BY g, k) AS m FROM t",
    "SELECT k, g, n FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, id) = 1",
    "SELECT t.id, a.c FROM t JOIN (SELECT g, count(*) AS c FROM u GROUP BY g) AS a ON a.g = t.g",
    "SELECT k, e, count(*) AS n FROM t LATERAL VIEW explode(array(g, upper(g))) AS e GROUP BY k, e",
]
WHOLE = [
    "SELECT g, sum(n) AS s, sum(sum(n)) OVER () AS all_of_them FROM t GROUP BY g",
    "SELECT g, sum(n) AS s FROM t GROUP BY g ORDER BY s DESC, g LIMIT 2",
    "SELECT g, count(*) AS n FROM t WHERE n > (SELECT avg(n) FROM t) GROUP BY g",
    "SELECT g, count(*) AS n FROM t GROUP BY g UNION ALL SELECT 'all', count(*) FROM t",
    "SELECT g, explode(array_sort(collect_set(k))) AS k FROM t GROUP BY g",
    "SELECT map(g, k) AS m, count(*) AS n FROM t WHERE g IS NOT NULL GROUP BY map(g, k)",
    "SELECT count(DISTINCT k) AS n FROM t GROUP BY g",
]


@pytest.mark.more
@pytest.mark.parametrize("one_in", [8, pytest.param(1, marks=pytest.mark.chaos)])
def test_each_query_gives_what_it_gives_over_all_of_silver(spark: SparkSession, tmp_path: Path, one_in: int) -> None:
    """Rows come, change and go; groups come, change and vanish."""
    queries = {f"partial_{i}": kept(query) for i, query in enumerate(PARTIAL[::one_in])}
    queries |= {f"groups_{i}": kept(query) for i, query in enumerate(GROUPS[::one_in])}
    if not connect.is_remote(spark):  # a client sees no plans
        queries |= {f"keys_{i}": kept(query) for i, query in enumerate(KEYS[::one_in])}
    queries |= {f"whole_{i}": query for i, query in enumerate(WHOLE[::one_in])}
    world = GoldWorld(tmp_path, queries, spark)
    world.add([sample(i) for i in range(1, 40)])
    world.name([("a", "Ann", 0.5), ("b", "Bob", 2.0), ("b", "Bill", 4.0)])
    world.run()
    world.sql("DELETE FROM {t} WHERE id < 12 OR g = 'c' AND k = 1")
    world.sql("UPDATE {t} SET k = k + 1, n = -n WHERE id % 7 = 3")
    world.add([sample(i) for i in range(40, 60)])
    world.sql("UPDATE {u} SET name = 'Bea' WHERE weight = 4.0")
    world.run()
    for name, table in world.pipeline.gold.items():
        assert world.rows(name) == world.expected(name), table.query.text
        assert world.commits(name)[0]["strategy"] == name.split("_")[0], table.query.text
        assert world.table(name).schema.simpleString() == world.plain(name).schema.simpleString(), table.query.text
