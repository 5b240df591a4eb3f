"""Which rescued values are misfits: the judgement alone, over rows with all kinds of columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from sluicegate.schema import misfits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Type of a column, its stored value as SQL, the landed value that was rescued, and whether it is a misfit.
CASES: list[tuple[str, str, Any, bool]] = [
    ("INT", "NULL", "x", True),
    ("INT", "NULL", 2.5, True),
    ("INT", "2", 2.5, True),  # as former versions stored it
    ("INT", "7", "007", False),
    ("DECIMAL(10,2)", "1.23", 1.2345, True),
    ("DECIMAL(10,2)", "1.20", "1.2", False),
    ("DATE", "DATE '2024-01-01'", "2024-01-01T10:00:00", True),
    ("DATE", "DATE '2024-01-01'", "2024-01-01", False),
    ("TIMESTAMP", "NULL", "2024-01-01 10:00:00.123456789", True),
    ("DOUBLE", "0.1", "0.1", False),
    ("STRING", "'a'", "b", False),
    ("STRING", "NULL", {"a": 1}, True),
    ("BINARY", "X'00'", "AA==", False),
    ("VARIANT", "NULL", "x", True),
    ("STRUCT<a: INT, b: STRING>", "named_struct('a', 1, 'b', 'x')", {"a": 1, "b": "x", "c": 1}, False),
    ("STRUCT<a: INT, b: STRING>", "named_struct('a', CAST(NULL AS INT), 'b', 'x')", {"a": "y", "b": "x"}, True),
    ("STRUCT<a: INT, b: STRING>", "named_struct('a', CAST(NULL AS INT), 'b', 'x')", {"a": None, "b": "x"}, False),
    ("STRUCT<a: INT, b: STRING>", "NULL", {"c": 1}, False),
    ("STRUCT<a: INT, b: STRING>", "NULL", {"a": 1}, True),
    ("STRUCT<a: INT, b: STRING>", "NULL", "text", True),
    ("STRUCT<a: INT, b: STRING>", "NULL", [1], True),
    ("STRUCT<a: INT, b: STRING>", "named_struct('a', 1, 'b', 'x')", '{"a": 1, "b": "x", "c": 2}', False),
    ("STRUCT<a: STRUCT<b: INT>>", "named_struct('a', named_struct('b', CAST(NULL AS INT)))", {"a": {"b": 2.5}}, True),
    ("STRUCT<a: STRUCT<b: INT>>", "named_struct('a', named_struct('b', 2))", {"a": {"b": 2, "c": 3}, "d": 4}, False),
    ("ARRAY<INT>", "array(1, CAST(NULL AS INT))", [1, "x"], True),
    ("ARRAY<INT>", "array(1, CAST(NULL AS INT))", [1, None], False),
    ("ARRAY<INT>", "NULL", [], False),
    ("ARRAY<INT>", "NULL", [1], True),
    ("ARRAY<INT>", "array(1)", [1, 2], True),
    ("ARRAY<INT>", "NULL", {"a": 1}, True),
    ("ARRAY<STRUCT<a: INT>>", "array(named_struct('a', 1))", [{"a": 1, "b": 2}], False),
    ("ARRAY<STRUCT<a: INT>>", "array(named_struct('a', CAST(NULL AS INT)))", [{"a": "x"}], True),
    ("ARRAY<ARRAY<INT>>", "array(array(1, CAST(NULL AS INT)))", [[1, 2.5]], True),
    ("MAP<STRING, INT>", "map('a', 1)", {"a": 1, "b": "x"}, True),
    ("MAP<STRING, INT>", "map('a', 1, 'b', CAST(NULL AS INT))", {"a": 1, "b": None}, False),
    ("MAP<INT, STRUCT<a: INT>>", "map(1, named_struct('a', 1))", {"1": {"a": 1, "z": 1}}, False),
    ("MAP<INT, STRUCT<a: INT>>", "map(1, named_struct('a', 1))", {"1": {"a": 1}, "x": {"a": 1}}, True),
    ("MAP<INT, INT>", "NULL", {"x": None}, True),
    ("MAP<INT, INT>", "NULL", {}, False),
    (
        "MAP<DATE, STRUCT<a: INT>>",
        "map(DATE '2024-01-01', named_struct('a', 1))",
        {"2024-01-01": {"a": 1, "z": 1}},
        False,
    ),
    ("MAP<BINARY, STRUCT<a: INT>>", "map(X'00FF', named_struct('a', 1))", {"AP8=": {"a": 1, "z": 1}}, False),
    ("MAP<BINARY, STRUCT<a: INT>>", "map(X'00FF', named_struct('a', 1))", {"AP8=": {"a": 1}, "AA==": {"a": 1}}, True),
    ("MAP<STRUCT<k: INT>, INT>", "map(struct(1), 1)", [{"key": {"k": 1}, "value": 1}], False),
    ("MAP<STRUCT<k: INT>, INT>", "map(struct(1), CAST(NULL AS INT))", [{"key": {"k": 1}, "value": 2.5}], True),
    ("MAP<STRUCT<k: INT>, INT>", "NULL", [{"key": {"k": 1}}], True),
    (
        "MAP<ARRAY<INT>, STRUCT<a: INT>>",
        "map(array(1), named_struct('a', 1))",
        [{"key": [1], "value": {"a": 1, "z": 2}}],
        False,
    ),
    ("MAP<ARRAY<INT>, INT>", "map(array(1), CAST(NULL AS INT))", {"address@1": 1}, True),  # as former versions wrote it
]


def test_a_value_that_the_column_lacks_is_a_misfit(spark: SparkSession) -> None:
    """A column for each case; all other columns are NULL, and no other field was rescued."""
    kinds = [f"CAST({value} AS {kind}) AS c{number}" for number, (kind, value, _, _) in enumerate(CASES)]
    kinds = [
        k.replace(f"CAST({v} AS VARIANT)", "CAST(NULL AS VARIANT)")
        for k, (_, v, _, _) in zip(kinds, CASES, strict=True)
    ]
    rows = spark.sql(f"SELECT {', '.join(kinds)}")
    texts = [json.dumps({f"field {n}": landed, "_file_path": "f"}) for n, (_, _, landed, _) in enumerate(CASES)]
    rescued = spark.createDataFrame([(n, text) for n, text in enumerate([*texts])], "n INT, rescued STRING")
    stored = {f"c{n}": misfits.StoredColumn(rows.schema[n].dataType, f"c{n}", f"field {n}") for n in range(len(CASES))}
    every = rescued.crossJoin(rows)
    found = every.select("n", misfits.misfits(stored, F.col("rescued"), any_case=False)).collect()
    wrong = [CASES[n] for n, names in found if names != ([f"c{n}"] if CASES[n][3] else [])]
    assert wrong == []


def test_names_in_another_case_and_rows_without_rescued_data(spark: SparkSession) -> None:
    texts = [None, '{"Amount": "x"}', '{"Amount": 5}', '{"new": 1}', '{"amount": "x", "day": "y", "new": 1}']
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n INT, rescued STRING")
    rows = rows.selectExpr("*", "CAST(NULL AS INT) AS amount", "CAST(NULL AS DATE) AS day")
    stored = {c: misfits.StoredColumn(rows.schema[c].dataType, c, c) for c in ("amount", "day")}
    both = [misfits.misfits(stored, F.col("rescued"), any_case=any_case) for any_case in (False, True)]
    found = [tuple(row) for row in rows.orderBy("n").select(*both).collect()]
    assert found == [(None, None), ([], ["amount"]), ([], ["amount"]), ([], []), (["amount", "day"], ["amount", "day"])]


def test_the_path_of_the_file_is_no_field_of_that_name(spark: SparkSession) -> None:
    texts = ['{"new": 1, "_file_path": "f"}', '{"_file_path": "x", "_file_path": "f"}']
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n INT, rescued STRING")
    rows = rows.selectExpr("*", "CAST(NULL AS INT) AS _file_path")
    stored = {"path": misfits.StoredColumn(rows.schema["_file_path"].dataType, "_file_path", "_file_path")}
    found = rows.orderBy("n").select(misfits.misfits(stored, F.col("rescued"), any_case=False)).collect()
    assert [names for (names,) in found] == [[], ["path"]]
