"""Python transforms on real batches, and the columns that a table declares."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.definition.tables.python_function import GOLD_PARAMETERS, PythonTransform
from sluicegate.errors import SchemaMismatch, TransformError
from sluicegate.frames import python_function
from sluicegate.silver.columns.declared_columns import cast_to_declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PYTHON = """\
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

limit = 100

@udf("double")
def capped(value):
    return min(value, limit)

def enrich(batch, tables):
    named = batch.join(tables["names"], "mrn", "left")
    return named.withColumn("heartrate", capped("heartrate"))

def unknown_column(batch, tables):
    seen = batch.count()
    return batch.select("mrm")

def unknown_table(batch, tables):
    return batch.join(tables["patients"], "mrn")

def stops(batch, tables):
    return _deeper(batch)

def _deeper(batch):
    raise ValueError("not today")

def leaves(batch, tables):
    raise SystemExit(0)

def nothing(batch, tables):
    batch.count()

def rows(batch, tables):
    return batch.collect()

def no_pos(batch, tables):
    return batch.drop("_pos")

def as_text(batch, tables):
    return batch.withColumn("_chunk", F.col("_chunk").cast("string"))

def twice(batch, tables):
    return batch.join(tables["names"], batch.mrn == tables["names"].mrn)

def hidden(batch, tables):
    return batch.withColumn("_mine", F.lit(1))
"""


def run(spark: SparkSession, folder: Path, function: str) -> DataFrame:
    (folder / "transforms.py").write_text(PYTHON)
    batch = spark.createDataFrame(
        [(1, 60.0, 3, 0), (2, 300.0, 3, 1)], "mrn INT, heartrate DOUBLE, _chunk BIGINT, _pos BIGINT"
    )
    # A silver table has identities of its own rows.
    names = spark.createDataFrame([(1, "Ada", 9, 9)], "mrn INT, name STRING, _chunk BIGINT, _pos BIGINT")
    loaded = python_function.load(folder, f"transforms.py:{function}")
    return python_function.run(loaded, batch, {"names": names}, "made")


def test_a_transform_joins_and_computes(spark: SparkSession, tmp_path: Path) -> None:
    made = run(spark, tmp_path, "enrich")
    rows = sorted(tuple(row) for row in made.select("mrn", "heartrate", "name", "_chunk", "_pos").collect())
    assert rows == [(1, 60.0, "Ada", 3, 0), (2, 100.0, None, 3, 1)]


def assert_told(error: TransformError, folder: Path, code: str, at: str, words: str) -> None:
    """The error says what is wrong, in which table, and at the line of the user's file that has ``at``."""
    line = next(n for n, text in enumerate(code.splitlines(), 1) if at in text)
    assert (error.where.table, error.where.file, error.where.line) == ("made", str(folder / "transforms.py"), line)
    assert words in error.for_people()
    assert error.hint


@pytest.mark.parametrize(
    ("function", "at", "words"),
    [
        # A client's frame is refused when it is returned, so that the line is that of the function.
        pytest.param("unknown_column", 'batch.select("mrm")', "UNRESOLVED_COLUMN", marks=pytest.mark.in_the_jvm),
        (
            "unknown_table",
            'tables["patients"]',
            "add patients to the lookups of this table's definition",
        ),
        ("stops", 'raise ValueError("not today")', "ValueError: not today"),
        ("leaves", "raise SystemExit(0)", "SystemExit: 0"),
        ("nothing", "def nothing", "the transform nothing returned None instead of a DataFrame"),
        ("rows", "def rows", "returned a list instead of a DataFrame"),
        ("no_pos", "def no_pos", "returned rows without _pos"),
        ("as_text", "def as_text", "returned _chunk as STRING"),
        ("twice", "def twice", "returned a duplicate column mrn"),
        ("hidden", "def hidden", "returned a new column _mine"),
    ],
)
def test_a_mistake_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path, function: str, at: str, words: str
) -> None:
    with pytest.raises(TransformError) as caught:
        run(spark, tmp_path, function)
    assert_told(caught.value, tmp_path, PYTHON, at, words)


# Columns as declared


def one(spark: SparkSession, expression: str) -> DataFrame:
    return spark.sql(f"SELECT {expression} AS v, 7L AS _chunk, 0L AS _pos")


@pytest.mark.parametrize(
    ("expression", "kind", "value", "lost"),
    [
        ("'12'", "INT", 12, False),
        ("'twelve'", "INT", None, True),
        ("CAST(NULL AS STRING)", "INT", None, False),
        ("'1.5'", "INT", None, True),
        ("1.5D", "INT", None, True),
        ("2D", "INT", 2, False),
        ("3000000000", "INT", None, True),
        ("'1.25'", "DECIMAL(5,1)", None, True),
        ("1.25D", "DECIMAL(5,2)", Decimal("1.25"), False),
        ("9007199254740993", "DOUBLE", None, True),
        ("0.1D", "FLOAT", pytest.approx(0.1), False),
        ("1e300D", "FLOAT", float("inf"), True),
        ("1.5D", "TIMESTAMP", datetime(1970, 1, 1, 0, 0, 1, 500000), False),
        ("TIMESTAMP'2020-01-01 10:00:00'", "DATE", None, True),
        ("TIMESTAMP'2020-01-01 00:00:00'", "DATE", date(2020, 1, 1), False),
        ("5", "STRING", "5", False),
        ("'abcd'", "VARCHAR(3)", "abcd", True),
        ("'abc'", "VARCHAR(3)", "abc", False),
        ("parse_json('5')", "INT", 5, False),
        ("parse_json('\"x\"')", "INT", None, True),
        ("parse_json('null')", "INT", None, False),
        ("named_struct('b', '2', 'a', 1)", "STRUCT<a: INT, b: INT, c: DATE>", (1, 2, None), False),
        ("named_struct('b', 'x', 'a', 1)", "STRUCT<a: INT, b: INT>", (1, None), True),
        ("named_struct('b', 1, 'a', 1)", "STRUCT<a: INT>", (1,), True),
        ("array('1', NULL)", "ARRAY<INT>", [1, None], False),
        ("array('1', 'x')", "ARRAY<INT>", [1, None], True),
        ("CAST(NULL AS ARRAY<STRING>)", "ARRAY<INT>", None, False),
        ("map('k', '1', 'l', 'x')", "MAP<STRING, INT>", {"k": 1, "l": None}, True),
    ],
)
def test_a_value_fits_its_type_or_says_so(
    spark: SparkSession, expression: str, kind: str, value: Any, lost: bool
) -> None:
    made, flags = cast_to_declared(one(spark, expression), {"v": kind}, None, "addNewColumns", "t")
    row = made.collect()[0]
    found = tuple(row["v"]) if isinstance(value, tuple) else row["v"]
    assert found == value
    assert any(row[flag] for flag in flags) is lost
    assert set(flags.values()) <= {f"v as {kind}"}
    assert all(row[flag] is not None for flag in flags)


def test_a_type_that_is_right_already_is_left_alone(spark: SparkSession) -> None:
    made, flags = cast_to_declared(one(spark, "named_struct('a', 1)"), {"V": "STRUCT<a: INT>"}, None, "none", "t")
    assert (made.columns, flags) == (["V", "_chunk", "_pos"], {})


@pytest.mark.parametrize(
    ("expression", "kind"), [("5", "ARRAY<INT>"), ("array(1)", "STRUCT<a: INT>"), ("map(1, 2)", "MAP<STRING, INT>")]
)
def test_a_type_that_nothing_can_become(spark: SparkSession, expression: str, kind: str) -> None:
    with pytest.raises(SchemaMismatch, match="cannot be cast to it") as caught:
        cast_to_declared(one(spark, expression), {"v": kind}, None, "none", "t")
    assert caught.value.where.table == "t"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("declared", "known", "evolution", "columns"),
    [
        (None, None, "addNewColumns", ["b", "A", "c"]),
        (None, None, "none", ["b", "A", "c"]),
        (None, None, "failOnNewColumns", ["b", "A", "c"]),
        (None, ["a", "b"], "addNewColumns", ["b", "A", "c"]),
        (None, ["a", "b"], "none", ["b", "A"]),
        (None, ["a", "b", "c", "gone"], "failOnNewColumns", ["b", "A", "c"]),
        ({"a": "STRING", "b": "INT"}, None, "addNewColumns", ["a", "b", "c"]),
        ({"a": "STRING", "b": "INT"}, ["a", "b", "c"], "none", ["a", "b"]),
    ],
)
def test_which_columns_there_are(
    spark: SparkSession, declared: dict[str, str] | None, known: list[str] | None, evolution: str, columns: list[str]
) -> None:
    frame = spark.sql("SELECT 1 AS b, 2L AS _chunk, 'x' AS A, true AS _sluicegate_cast_0, 3 AS c")
    made, flags = cast_to_declared(frame, declared, known, evolution, "t")
    assert made.columns == [*columns, "_chunk", "_sluicegate_cast_0"]
    assert flags == {}


def test_new_columns_that_may_not_be(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS a, 2 AS b, 1L AS _chunk")
    for declared, known in (({"a": "INT"}, ["a", "b"]), (None, ["a"])):
        with pytest.raises(SchemaMismatch, match="returns a new column, b"):
            cast_to_declared(frame, declared, known, "failOnNewColumns", "t")


def test_a_declared_column_that_is_not_made(spark: SparkSession) -> None:
    with pytest.raises(SchemaMismatch, match="declares a column heartrate") as caught:
        cast_to_declared(spark.sql("SELECT 1 AS heart_rate"), {"heartrate": "INT"}, None, "addNewColumns", "t")
    assert caught.value.hint == "did you mean heart_rate?"


def test_flags_are_numbered_with_their_texts(spark: SparkSession) -> None:
    frame = spark.sql("SELECT '1' AS a, 2 AS b, 'x' AS c, 1L AS _chunk")
    made, flags = cast_to_declared(frame, {"c": "DATE", "b": "INT", "a": "INT"}, None, "none", "t")
    assert made.columns == ["c", "b", "a", "_chunk", "_sluicegate_conform_0", "_sluicegate_conform_1"]
    assert flags == {"_sluicegate_conform_0": "c as DATE", "_sluicegate_conform_1": "a as INT"}
    assert [tuple(row) for row in made.collect()] == [(None, 2, 1, 1, True, False)]


# Functions of whole tables

TABLES_PYTHON = """\
from pyspark.sql import functions as F

def totals(tables):
    t, names = tables["t"], tables["names"]
    return t.join(names, "mrn").groupBy("name").agg(F.count("*").alias("n"))

def unknown_table(tables):
    return tables["people"]

def stops(tables):
    raise ValueError("not today")

def rows(tables):
    return tables["t"].collect()

def twice(tables):
    return tables["t"].join(tables["names"], tables["t"].mrn == tables["names"].mrn)

def hidden(tables):
    return tables["t"].withColumn("_mine", F.lit(1))

def spaced(tables):
    return tables["t"].withColumnRenamed("mrn", "patient's number")
"""


def of_tables(spark: SparkSession, folder: Path, function: str) -> DataFrame:
    (folder / "transforms.py").write_text(TABLES_PYTHON)
    tables = {
        "t": spark.createDataFrame([(1, 3, 0), (1, 3, 1), (2, 3, 2)], "mrn INT, _chunk BIGINT, _pos BIGINT"),
        "names": spark.createDataFrame([(1, "Ada", 9, 9)], "mrn INT, name STRING, _chunk BIGINT, _pos BIGINT"),
    }
    found = PythonTransform.find(folder, f"transforms.py:{function}", GOLD_PARAMETERS)
    return python_function.run_over_tables(python_function.load_function(found), tables, "made", private=False)


def test_a_function_of_tables_makes_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert of_tables(spark, tmp_path, "totals").collect() == [("Ada", 2)]


@pytest.mark.parametrize(
    ("function", "at", "words"),
    [
        ("unknown_table", 'tables["people"]', "add people to reads of this table's definition, which has t, names"),
        ("stops", 'raise ValueError("not today")', "ValueError: not today"),
        ("rows", "def rows", "returned a list instead of a DataFrame"),
        ("twice", "def twice", "returned a duplicate column mrn"),
        ("hidden", "def hidden", "returned a column _mine"),
        ("spaced", "def spaced", "returned a column patient's number"),
    ],
)
def test_a_mistake_of_a_function_of_tables(
    spark: SparkSession, tmp_path: Path, function: str, at: str, words: str
) -> None:
    with pytest.raises(TransformError) as caught:
        of_tables(spark, tmp_path, function)
    assert_told(caught.value, tmp_path, TABLES_PYTHON, at, words)
