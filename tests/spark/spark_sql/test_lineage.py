"""Column lineage by a query's text is that of Spark's analyzed plan, whatever the query."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from sluicegate.spark_sql.lineage.model import Columns, Lineage, Origins
from sluicegate.spark_sql.lineage.queries import lineage
from tests.spark.gold.test_affected_keys import KEYED, SETTLED, UNSETTLED, WHOLE
from tests.spark.gold.test_affected_keys import TABLES as KEYED_TABLES
from tests.support.plan_lineage import PlanLineage, Spark
from tests.worlds.schema import Column, Table, tables
from tests.worlds.shapes import Shapes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

TABLES = (
    Table("t", (Column("a", "INT"), Column("b", "INT"), Column("c", "STRING"), Column("u", "STRUCT<a:INT,d:INT>"),
                Column("arr", "ARRAY<INT>"), Column("Odd Name", "INT"))),
    Table("u", (Column("a", "INT"), Column("d", "INT"), Column("c", "STRING"))),
    Table("v", (Column("d", "INT"), Column("e", "INT"), Column("t", "STRUCT<a:INT>"))),
)  # fmt: skip

# Names that mean one thing or another by rules that are easily got wrong.
NASTY = [
    "SELECT a + 1 AS b, b + 1 AS q FROM t",
    "SELECT a + 1 AS z, z + 1 AS q FROM t",
    "SELECT b AS a, a AS b FROM t ORDER BY a, t.b",
    "SELECT max(a) AS b, count(*) AS n FROM t GROUP BY b",
    "SELECT a AS z, count(*) AS n FROM t GROUP BY z",
    "SELECT a AS b, max(b) AS m FROM t GROUP BY a HAVING max(b) > 1",
    "SELECT a AS k, sum(b) AS b FROM t GROUP BY a HAVING b > 1",
    "SELECT sum(b) AS s FROM t GROUP BY a ORDER BY max(c), a",
    "SELECT u.a AS x FROM t",
    "SELECT u.a AS x FROM t, u",
    "SELECT u.d AS x, t.u.d AS y FROM t JOIN u ON t.a = u.a",
    "SELECT t.a AS x FROM v",
    "SELECT t.a AS x FROM v, t",
    "SELECT `Odd Name` AS x, t.`odd name` AS y FROM T",
    "SELECT * FROM t JOIN u USING (a, c)",
    "SELECT * FROM (SELECT a, d FROM u) NATURAL JOIN (SELECT d, e FROM v)",
    "SELECT a, u.a AS ua, x.a AS xa FROM u RIGHT JOIN u AS x USING (a)",
    "SELECT a, count(*) AS n FROM u FULL JOIN (SELECT a FROM t) AS x USING (a) GROUP BY a",
    "SELECT x.* EXCEPT (d), y.d FROM u AS x LEFT JOIN v AS y ON x.d = y.e",
    "SELECT d FROM v LEFT SEMI JOIN u ON u.a = v.e",
    "SELECT a, (SELECT max(d) FROM u WHERE u.a = t.b) AS m FROM t",
    "SELECT a, (SELECT max(a) FROM v JOIN u USING (d) WHERE e = b) AS m FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND d > 1)",
    "SELECT a FROM t WHERE (a, b) IN (SELECT d, e FROM v)",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE c = t.c)",
    "WITH u AS (SELECT a AS d FROM t), w AS (SELECT d + 1 AS a FROM u) SELECT w.a, u.d FROM w JOIN u ON w.a = u.d",
    "WITH t AS (SELECT d AS a FROM u) SELECT a FROM t WHERE a IN (WITH t AS (SELECT e AS q FROM v) SELECT q FROM t)",
    "SELECT a FROM (SELECT a FROM t UNION ALL SELECT d FROM v) UNION SELECT a FROM u",
    "SELECT a, b FROM t INTERSECT SELECT d, e FROM v",
    "SELECT a FROM t EXCEPT SELECT a FROM u EXCEPT SELECT d FROM v",
    "(SELECT a AS x FROM t ORDER BY b LIMIT 1) UNION ALL (SELECT d FROM v ORDER BY e LIMIT 1) ORDER BY x",
    "SELECT a, e.col AS i FROM t LATERAL VIEW explode(arr) e AS col",
    "SELECT a, n, i FROM t LATERAL VIEW OUTER posexplode(arr) AS n, i LATERAL VIEW explode(array(i, b)) AS j",
    "SELECT explode(arr) AS a, b FROM t",
    "SELECT l.x, t.a FROM t, LATERAL (SELECT t.b + u.d AS x FROM u WHERE u.a = t.a) AS l",
    "SELECT transform(arr, a -> a + b) AS x, aggregate(arr, 0, (b, c) -> b + c + a) AS y FROM t",
    "SELECT filter(arr, x -> exists(array(b), y -> y = x)) AS x FROM t",
    "SELECT sum(a) OVER w AS s, row_number() OVER w AS r FROM t WINDOW w AS (PARTITION BY b ORDER BY c)",
    "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY c) = 1",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY c) AS r FROM t QUALIFY r = 1",
    "SELECT a, b, sum(a) FILTER (WHERE c = 'x') AS s FROM t GROUP BY CUBE (a, b)",
    "SELECT a, c, count(DISTINCT b) AS n, grouping_id() AS g FROM t GROUP BY GROUPING SETS ((a), (a, c), ())",
    "SELECT a % 2 AS p, sum(b) AS s FROM t GROUP BY ALL",
    "SELECT DISTINCT a, b + 1 AS q FROM t WHERE c > 'x' ORDER BY q",
    "SELECT struct(a, b AS z).z AS x, named_struct('a', b).a AS y, map('k', c)['k'] AS m FROM t",
    "SELECT CASE WHEN a > 0 THEN b ELSE length(c) END AS x, if(a > 0, b, 1) AS y, coalesce(a, b) AS z FROM t",
    "SELECT listagg(c, ',') WITHIN GROUP (ORDER BY b) AS l, percentile_cont(0.5) WITHIN GROUP (ORDER BY a) AS p FROM t",
    "SELECT x.p, y.q FROM (SELECT a, b FROM t) AS x(p, b) CROSS JOIN (VALUES (1, 2)) AS y(q, r)",
    "SELECT q.a FROM (t JOIN u AS x ON t.b = x.d) JOIN u AS q ON q.a = x.a",
    "SELECT stack(2, a, b, b, a) AS (x, y) FROM t",
    "SELECT id, t.a FROM range(10) JOIN t ON id = b",
    "SELECT hash(*) AS h, count(*) AS n, to_json(struct(u.*)) AS j FROM u GROUP BY ALL",
    "SELECT max_by(a, b) AS m, any_value(c) IGNORE NULLS AS c, first(a, true) AS f FROM t GROUP BY c",
    "SELECT timestampadd(MONTH, a, TIMESTAMP '2024-01-01') AS x, extract(YEAR FROM current_date) AS y FROM t",
    "SELECT a FROM t TABLESAMPLE (50 PERCENT) AS q WHERE q.b > 1 SORT BY c",
]


def names(origins: Origins) -> frozenset[str]:
    return frozenset(f"{source.table}.{source.column}" for source, _ in origins)


def differences(text: str, ours: Lineage, theirs: PlanLineage) -> list[str]:
    """Where the text says another thing than the plan."""
    if ours.unsure:
        return [f"{text}: {ours.unsure}"]
    wrong = []
    if [one.lower() for one in ours.columns] != [one.lower() for one in theirs.columns]:
        return [f"{text}: columns {list(ours.columns)}, and Spark {list(theirs.columns)}"]
    for (name, origins), of_spark in zip(ours.columns.items(), theirs.columns.values(), strict=True):
        if names(origins) != of_spark:
            wrong.append(f"{text}: {name} comes from {sorted(names(origins))}, and by Spark {sorted(of_spark)}")
    # Of a name in HAVING or QUALIFY that is a column of the table and an alias, both are taken.
    either = "HAVING" in text or "QUALIFY" in text
    if not (names(ours.rows) >= theirs.rows if either else names(ours.rows) == theirs.rows):
        wrong.append(f"{text}: rows are by {sorted(names(ours.rows))}, and by Spark {sorted(theirs.rows)}")
    return wrong


def compared(spark: SparkSession, made: Sequence[Table], texts: Sequence[str]) -> list[str]:
    schemas = {table.name: Columns(tuple(one.name for one in table.columns), (), True) for table in made}
    theirs = Spark(spark, made)
    return [one for text in texts for one in differences(text, lineage(text, schemas), theirs.lineage(text))]


def test_names_that_are_easily_taken_for_others(spark: SparkSession) -> None:
    assert compared(spark, TABLES, NASTY) == []


@pytest.mark.more
def test_queries_of_gold(spark: SparkSession) -> None:
    known = {"session", "session of a group"}  # their window is a column of its own in Spark's plan
    cases = {**KEYED, **SETTLED, **WHOLE}
    texts = [text for name, (text, _) in cases.items() if name not in known] + list(UNSETTLED.values())
    assert compared(spark, KEYED_TABLES, texts) == []


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.more if seed < 2 else pytest.mark.release) for seed in range(1, 31)]
)
def test_random_queries(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    made = tables(random)
    schemas = {table.name: Columns(tuple(one.name for one in table.columns), (), True) for table in made}
    of_spark = Spark(spark, made)
    wrong: list[str] = []
    counted = {"certain": 0, "unsure": 0}
    while sum(counted.values()) < 20:
        text = Shapes(random, made).make().spark
        try:
            theirs = of_spark.lineage(text)
        except PySparkException:
            continue  # a grammar does not know all rules of Spark's
        ours = lineage(text, schemas)
        counted["unsure" if ours.unsure else "certain"] += 1
        wrong += [] if ours.unsure else differences(text, ours, theirs)
    assert not wrong, "\n".join(wrong)
    assert counted["certain"] >= 18, counted
