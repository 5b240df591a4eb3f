"""Column expressions of DataFrames as SQL: whatever operators and methods surround a text, the meaning stays."""

from __future__ import annotations

import ast
import itertools
import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.settings import Settings
from sluicegate.tools.migrate.column_expressions import ExpressionConverter
from sluicegate.tools.migrate.create import create
from sluicegate.tools.migrate.queries import NotTaken

pytestmark = pytest.mark.unit

ROWS = list(itertools.product((1, 3, None), (2, 3), (True, False, None), (True, False)))
NUMBER_TEXTS = ("a + b", "a - 1", "1 + 1", "a - b - 1", "- a", "a * b + 1", "a % 2", "a - b AS named")
CONDITION_TEXTS = ("p OR q", "a = 1 OR b = 2", "p AND q", "NOT p", "a IS NULL", "a BETWEEN 1 AND 2", "a IN (1, 2)",
                   "a < b", "CASE WHEN p THEN q END", "a = 1 AND p OR q", "p OR q -- and more")  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """Expression as Python source, and as SQL with parentheses around every part, which is what it means."""

    python: str
    sql: str


def of_text(sql: str) -> Tree:
    return Tree(f'F.expr("{sql}")', f"({sql.removesuffix(' AS named').removesuffix(' -- and more')})")


def of_name(name: str) -> Tree:
    return Tree(f'F.col("{name}")', name)


def binary(parts: tuple[Tree, tuple[str, str], Tree]) -> Tree:
    left, (python, sql), right = parts
    return Tree(f"(({left.python}) {python} ({right.python}))", f"({left.sql} {sql} {right.sql})")


def between(parts: tuple[Tree, Tree, Tree]) -> Tree:
    value, low, high = parts
    sql = f"(({value.sql} >= {low.sql}) AND ({value.sql} <= {high.sql}))"
    return Tree(f"({value.python}).between({low.python}, {high.python})", sql)


def is_in(parts: tuple[Tree, Tree]) -> Tree:
    value, other = parts
    return Tree(f"({value.python}).isin({other.python}, 3)", f"({value.sql} IN ({other.sql}, 3))")


def is_null(parts: tuple[Tree, tuple[str, str]]) -> Tree:
    value, (method, sql) = parts
    return Tree(f"({value.python}).{method}()", f"({value.sql} {sql})")


def numbers(depth: int) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from(("a", "b")).map(of_name),
        st.sampled_from(("1", "2")).map(lambda number: Tree(f"F.lit({number})", number)),
        st.sampled_from(NUMBER_TEXTS).map(of_text),
    )
    if depth == 0:
        return leaves
    inner = numbers(depth - 1)
    operators = st.sampled_from([(sign, sign) for sign in "+-*"])
    casts = inner.filter(lambda tree: " AS named" not in tree.python).map(
        lambda tree: Tree(f'({tree.python}).cast("int")', f"CAST({tree.sql} AS INT)")
    )
    return st.one_of(leaves, st.tuples(inner, operators, inner).map(binary), casts)


def conditions(depth: int) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from(("p", "q")).map(of_name),
        st.sampled_from(CONDITION_TEXTS).map(of_text),
    )
    if depth == 0:
        return leaves
    inner, inner_numbers = conditions(depth - 1), numbers(depth - 1)
    junctions = st.sampled_from([("&", "AND"), ("|", "OR"), ("==", "="), ("!=", "<>")])
    comparisons = st.sampled_from([("==", "="), ("<", "<"), (">=", ">=")])
    nulls = st.sampled_from([("isNull", "IS NULL"), ("isNotNull", "IS NOT NULL")])
    return st.one_of(
        leaves,
        st.tuples(inner, junctions, inner).map(binary),
        st.tuples(inner_numbers, comparisons, inner_numbers).map(binary),
        inner.map(lambda tree: Tree(f"(~({tree.python}))", f"(NOT {tree.sql})")),
        st.tuples(st.one_of(inner, inner_numbers), nulls).map(is_null),
        st.tuples(inner_numbers, inner_numbers, inner_numbers).map(between),
        st.tuples(inner_numbers, inner_numbers).map(is_in),
        inner.map(lambda tree: Tree(f'({tree.python}).alias("z")', tree.sql)),
    )


@cache
def engines() -> tuple[duckdb.DuckDBPyConnection, sqlite3.Connection]:
    """Two engines whose operators bind differently: only parentheses give one meaning in both."""
    duck, lite = duckdb.connect(), sqlite3.connect(":memory:")
    for engine in (duck, lite):
        engine.execute("CREATE TABLE t (a INTEGER, b INTEGER, p BOOLEAN, q BOOLEAN)")
        engine.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
    return duck, lite


def converted(python: str) -> str:
    node = ast.parse(python, mode="eval").body
    return ExpressionConverter({}, {}, {"F"}).column(node).text


@given(st.one_of(numbers(3), conditions(3)))
@settings(max_examples=400, deadline=None)
def test_parentheses_keep_what_operators_and_methods_mean(tree: Tree) -> None:
    sql = converted(tree.python)
    for engine in engines():
        rows = engine.execute(f"SELECT a, b, p, q, ({sql}), {tree.sql} FROM t").fetchall()
        assert len(rows) == len(ROWS)
        assert [row for row in rows if row[4] != row[5]] == []


@pytest.mark.parametrize("text", ["", "a, b", "a FROM t", "a) OR (b", "(a", "explode(x) AS (a, b)"])
def test_a_text_that_is_not_one_expression_is_refused(text: str) -> None:
    with pytest.raises(NotTaken):
        converted(f'F.expr("{text}") == F.col("a")')


def test_texts_in_filters_and_selects_keep_their_bounds(tmp_path: Path) -> None:
    source = """import dlt
from pyspark.sql import functions as F

@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")

@dlt.table
def t():
    late = F.expr("due < paid OR due < closed")
    return (dlt.read_stream("raw").filter("kind = 1 -- the first").filter(late & F.col("open").isNull())
        .select("id", F.expr("a + b AS total"), (F.expr("a - b") * 2).alias("twice")))
"""
    (tmp_path / "source.py").write_text(source)
    folders = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    made = create(tmp_path / "source.py", "mine", folders)
    assert " ".join(made.draft.queries["t"].split()) == (
        "SELECT id, a + b AS total, ((a - b) * 2) AS twice FROM STREAM(raw) "
        "WHERE (kind = 1) AND (((due < paid OR due < closed) AND (open IS NULL)))"
    )
    assert made.error is None


CONSTANTS = """import dlt
from pyspark.sql import functions as F
TS = "ts"
SUFFIX = "_x"

@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")

@dlt.table
def t():
    return {chain}
"""


@pytest.mark.parametrize(
    ("chain", "query"),
    [
        (
            'dlt.read("raw").groupBy("id").agg(F.max(TS).alias(TS), F.countDistinct(TS).alias("n"))',
            "SELECT id, max(ts) AS ts, count(DISTINCT ts) AS n FROM raw GROUP BY id",
        ),
        (
            'dlt.read_stream("raw").select(F.upper(TS).alias("u"), F.col(TS), F.lit(TS).alias("l"))',
            "SELECT upper(ts) AS u, ts, 'ts' AS l FROM STREAM(raw)",
        ),
        (
            'dlt.read_stream("raw").select((F.col("s") / 3600.0).alias("h"), (F.col("n") * 1e-7).alias("m"))',
            "SELECT (s / 3600.0D) AS h, (n * 1e-07D) AS m FROM STREAM(raw)",
        ),
        ('dlt.read_stream("raw").select("id", "payload.*")', "SELECT id, payload.* FROM STREAM(raw)"),
        (
            'dlt.read_stream("raw").select("id", "payload.status").filter("id > 3 AND payload.kind = 1")',
            "SELECT id, payload.status FROM STREAM(raw) WHERE (id > 3 AND payload.kind = 1)",
        ),
    ],
)
def test_names_of_columns_and_numbers_mean_in_sql_what_they_meant(tmp_path: Path, chain: str, query: str) -> None:
    (tmp_path / "source.py").write_text(CONSTANTS.format(chain=chain))
    settings_ = Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines")
    pipeline = create(tmp_path / "source.py", "mine", settings_)
    assert " ".join(pipeline.draft.queries["t"].split()) == query
    assert pipeline.is_complete
    assert pipeline.error is None


@pytest.mark.parametrize(
    "chain",
    [
        """dlt.read_stream("raw").select("id", "payload.status").filter("status = 'x'")""",
        """dlt.read_stream("raw").select("id", F.col("payload.status")).filter("status = 'x'")""",
        """dlt.read_stream("raw").select("id", "payload.*").filter("status = 'x'")""",
        """dlt.read_stream("raw").select("id", F.col("ts").cast("date")).filter("ts > '2026-01-01'")""",
        'dlt.read_stream("raw").select(F.trim(F.col("id"), F.lit("#")).alias("id"))',
        'dlt.read_stream("raw").select((TS + SUFFIX).alias("id"))',
        'dlt.read_stream("raw").select((F.lit(TS) + SUFFIX).alias("id"))',
        'dlt.read_stream("raw").select("`a.b`")',
        'dlt.read_stream("raw").select(F.col("`a.b`"))',
        'dlt.read_stream("raw").select(F.lit(1e999).alias("id"))',
    ],
)
def test_a_column_that_may_mean_another_is_left(tmp_path: Path, chain: str) -> None:
    (tmp_path / "source.py").write_text(CONSTANTS.format(chain=chain))
    settings_ = Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines")
    pipeline = create(tmp_path / "source.py", "mine", settings_)
    assert "t" not in pipeline.draft.table_names
    assert [remark.line for remark in pipeline.remarks] == [12]
