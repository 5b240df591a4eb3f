"""What is refused without Spark, Spark refuses too; and the table of its functions is that of this Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from scripts import signatures as script
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql import ddl
from sluicegate.spark_sql.analysis.kinds import kind_of_type
from sluicegate.spark_sql.analysis.queries import Schema, analyze
from sluicegate.spark_sql.analysis.signatures import ALL_KINDS, KINDS, TABLE
from tests.spark.gold.test_affected_keys import KEYED, SETTLED, UNSETTLED, WHOLE
from tests.spark.gold.test_affected_keys import TABLES as KEYED_TABLES
from tests.spark.spark_sql.test_lineage import NASTY
from tests.spark.spark_sql.test_lineage import TABLES as NASTY_TABLES
from tests.worlds.schema import Table, tables
from tests.worlds.shapes import Shapes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

COLUMNS = {
    "sales": "id INT, small SMALLINT, total BIGINT, amount DOUBLE, price DECIMAL(10,2), name STRING, paid BOOLEAN, "
    "day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, tags ARRAY<STRING>, more MAP<STRING, INT>, "
    "place STRUCT<street: STRING, number: INT>",
    "people": "name STRING, born DATE, height FLOAT, active BOOLEAN",
}
TYPED = {table: ddl.columns(text) for table, text in COLUMNS.items()}
OPERATORS = ["+", "-", "*", "/", "%", "DIV", "=", "<>", "<=>", "<", ">=", "AND", "OR", "||", "&", "LIKE", "RLIKE"]
LITERALS = ["1", "'x'", "'2024-01-01'", "1.5", "TRUE", "NULL", "DATE '2024-01-01'", "INTERVAL 1 DAY", "-2", "1L"]
FUNCTIONS = [
    "sum",
    "avg",
    "max",
    "count",
    "upper",
    "length",
    "year",
    "to_date",
    "abs",
    "round",
    "date_add",
    "coalesce",
    "concat",
    "explode",
    "size",
    "sqrt",
    "not_there",
    "date_trunc",
    "nullif",
    "if",
    "bool_or",
    "hour",
    "substr",
    "datediff",
    "to_json",
    "array_contains",
    "lag",
    "row_number",
    "cardinality",
    "isnan",
    "md5",
]
SHAPES = [
    "SELECT {0} AS x FROM sales", "SELECT {0} AS x, {1} AS y FROM sales WHERE {2}",
    "SELECT {0} AS x FROM sales GROUP BY ALL",
    "SELECT s.id, {0} AS x FROM sales AS s JOIN people AS p ON {1}",
    "SELECT y FROM (SELECT {0} AS y FROM sales) WHERE y {op} {2}",
    "WITH c AS (SELECT {0} AS y, id FROM sales) SELECT y {op} {1} AS z FROM c JOIN sales USING (id)",
    "SELECT CASE WHEN {0} THEN {1} ELSE {2} END AS x FROM sales", "SELECT {0} AS x, x {op} {1} AS y FROM sales",
    "SELECT id FROM sales WHERE EXISTS (SELECT 1 FROM people WHERE {0})", "SELECT CAST({0} AS {type}) AS x FROM sales",
    "SELECT max({0}) AS m FROM sales GROUP BY {1} HAVING m {op} {2}",
]  # fmt: skip

# Queries with names that Spark resolves otherwise than those of columns: all of them are accepted.
RESOLVED = [
    "SELECT transform(more, e -> e.a.b.c.d) AS x FROM (SELECT array(named_struct('a', named_struct('b', "
    "named_struct('c', named_struct('d', name))))) AS more FROM sales)",
    "SELECT transform(array(place), X -> x.street) AS x, exists(tags, E -> e > 'a') AS y FROM sales",
    "SELECT aggregate(array(1), 0, (Acc, x) -> acc + x, ACC -> acc * 2) AS x FROM sales",
    "SELECT forall(array(1, 2), Day -> day > 1) AS x, day FROM sales",
    "SELECT transform(array(array(1)), Outer_ -> transform(outer_, i -> i + OUTER_[0] + id)) AS x FROM sales",
    "SELECT s.id FROM sales AS s WHERE EXISTS (WITH c AS (SELECT p.name FROM people AS p WHERE p.name = s.name) "
    "SELECT 1 FROM c)",
    "SELECT s.id FROM sales AS s WHERE EXISTS (WITH c AS (SELECT p.name FROM people AS p WHERE p.name = s.name), "
    "d AS (SELECT name FROM c WHERE s.paid) SELECT 1 FROM d)",
    "SELECT s.name FROM sales AS s UNION ALL SELECT p.name FROM people AS p ORDER BY s.name",
    "SELECT s.name FROM sales AS s UNION SELECT name FROM people UNION SELECT 'x' ORDER BY upper(s.name)",
    "SELECT s.name FROM sales AS s INTERSECT SELECT p.name FROM people AS p ORDER BY s.name",
    "SELECT s.name FROM sales AS s EXCEPT SELECT p.name FROM people AS p SORT BY upper(s.name)",
    "SELECT 1 AS x FROM people WHERE name IN (SELECT s.name FROM sales AS s UNION SELECT p.name FROM people AS p "
    "ORDER BY s.name LIMIT 1)",
]

Columns = Mapping[str, Mapping[str, str]]


def columns_of(made: Sequence[Table]) -> Columns:
    return {table.name: {one.name: one.kind for one in table.columns} for table in made}


def create_views(spark: SparkSession, columns: Columns) -> None:
    for table, kinds in columns.items():
        text = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
        spark.createDataFrame([], text).createOrReplaceTempView(table)


def refused(spark: SparkSession, text: str) -> bool:
    try:
        spark.sql(text)
    except PySparkException:
        return True
    return False


def false_alarms(spark: SparkSession, columns: Columns, texts: Iterable[str], counts: Counter[str]) -> list[str]:
    """Queries that Spark accepts and the analysis does not, with the reason."""
    create_views(spark, columns)
    known = {
        table: Schema({name: kind_of_type(kind) for name, kind in kinds.items()}, complete=True)
        for table, kinds in columns.items()
    }
    wrong = []
    for text in texts:
        mistakes = analyze(text, known).mistakes
        by_spark = refused(spark, text)
        counts[f"{'refused' if by_spark else 'accepted'} by Spark"] += 1
        if by_spark and mistakes:
            counts["refused by both"] += 1
        elif mistakes:
            wrong.append(f"{text}: {mistakes[0].message}")
    return wrong


class Expressions:
    """Random expressions, right and wrong."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.columns = [name for text in COLUMNS.values() for name in ddl.columns(text)]

    def expression(self, depth: int = 2) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.3:
            return self.random.choice([*self.columns, *self.columns, *LITERALS, "amuont", "s.id", "place.street"])
        if choice < 0.65:
            return f"({self.expression(depth - 1)} {self.random.choice(OPERATORS)} {self.expression(depth - 1)})"
        if choice < 0.7:
            return f"(NOT {self.expression(depth - 1)})"
        arguments = [self.expression(depth - 1) for _ in range(self.random.choice([1, 1, 1, 2, 2, 3, 0]))]
        return f"{self.random.choice(FUNCTIONS)}({', '.join(arguments)})"

    def queries(self, count: int) -> Iterator[str]:
        for _ in range(count):
            shape = self.random.choice(SHAPES)
            parts = [self.expression() for _ in range(3)]
            yield shape.format(*parts, op=self.random.choice(OPERATORS), type=self.random.choice(KINDS))


def test_no_query_that_Spark_accepts_is_refused(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong = false_alarms(spark, TYPED, Expressions(Random(1)).queries(300), counts)
    wrong += false_alarms(spark, columns_of(NASTY_TABLES), NASTY, counts)
    with capsys.disabled():
        print(dict(counts))
    assert wrong == []
    assert counts["refused by both"] > counts["refused by Spark"] / 2


def test_names_that_are_no_columns_are_accepted_as_Spark_accepts_them(spark: SparkSession) -> None:
    counts: Counter[str] = Counter()
    assert false_alarms(spark, TYPED, RESOLVED, counts) == []
    assert counts == {"accepted by Spark": len(RESOLVED)}


@pytest.mark.more
@pytest.mark.parametrize("mode", ["true", "false"])
def test_no_query_that_Spark_accepts_is_refused_in_either_mode(spark: SparkSession, mode: str) -> None:
    counts: Counter[str] = Counter()
    with override_settings(spark, {"spark.sql.ansi.enabled": mode}):
        wrong = false_alarms(spark, TYPED, Expressions(Random(2)).queries(1000), counts)
    texts = [text for text, _ in ({**KEYED, **SETTLED, **WHOLE}).values()] + list(UNSETTLED.values())
    wrong += false_alarms(spark, columns_of(KEYED_TABLES), texts, counts)
    for seed in range(1, 11):
        random = Random(seed)
        made = tables(random)
        wrong += false_alarms(spark, columns_of(made), [Shapes(random, made).make().spark for _ in range(20)], counts)
    assert wrong == [], "\n".join(wrong)


def test_the_table_has_the_functions_of_this_Spark(spark: SparkSession) -> None:
    rows = [line.split("\t") for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    names = {row[1]: row[2] for row in rows if row[0] == "function"}
    assert {*names} == {*script.function_names(spark), *script.OF_THE_GRAMMAR}
    for name in ("abs", "concat_ws", "date_trunc", "sum", "substring"):
        assert names[name] == script.argument_counts(spark, name)


def test_the_table_has_the_results_of_this_Spark(spark: SparkSession) -> None:
    lines = TABLE.read_text("utf-8").splitlines()
    script.create_view(spark)
    for form, text in (("sum", "sum({})"), ("upper", "upper({})"), ("condition", script.UNARY["condition"])):
        assert {*script.result_rows(spark, form, text, 1)} <= {*lines}
    for before, form in product(("date", "boolean"), ("+", "=")):
        row = script.results_of_kinds(spark, script.BINARY[form], [before])
        assert "\t".join(["result", form, before, " ".join(row)]) in lines
        assert len(row) == len(ALL_KINDS)


@pytest.mark.release
def test_the_whole_table_is_that_of_this_Spark(spark: SparkSession) -> None:
    assert script.HEAD + "".join(f"{line}\n" for line in script.lines(spark)) == TABLE.read_text("utf-8")
