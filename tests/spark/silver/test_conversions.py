"""Conversions by functions: a value that one cannot convert is in quarantine, and is no NULL in a good row."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import QueryError
from sluicegate.spark_sql.query import CAST_PREFIX, Query
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Each expression over a text `s`, with texts that it converts and texts that it does not.
CONVERSIONS: list[tuple[str, list[str], list[str]]] = [
    ("to_date(s)", ["2024-01-31", "2024-01-31T10:00:00"], ["31.1.2024", "x"]),
    ("to_date(s, 'dd/MM/yyyy')", ["31/12/2024"], ["31/12/99", "13/13/2024", ""]),
    ("to_timestamp(s)", ["2024-01-31 10:00:00.123456"], ["at noon"]),
    ("to_timestamp(s, 'dd.MM.yyyy HH')", ["31.12.2024 10"], ["31.12.2024"]),
    ("to_timestamp_ntz(s)", ["2024-01-31 10:00:00+02:00"], ["x"]),
    ("to_timestamp_ntz(s, 'yyyyMMdd')", ["20240131"], ["20241331"]),
    ("to_timestamp_ltz(s, 'yyyyMMdd')", ["20240131"], ["20241331"]),
    ("unix_timestamp(s)", ["2024-01-31 10:00:00"], ["2024-01-31"]),
    ("to_unix_timestamp(s, 'yyyy')", ["2024"], ["x"]),
    ("to_number(s, '$999,999.99')", ["$1,234.50"], ["12,5", "x"]),
    ("to_binary(s, 'hex')", ["0aff"], ["0axx"]),
    ("unhex(s)", ["0aff"], ["xx"]),
    ("make_date(2024, CAST(s AS INT), 31)", ["1", "12"], ["2", "13"]),
    ("make_timestamp(2024, CAST(s AS INT), 31, 0, 0, 0)", ["1"], ["13"]),
    ("make_timestamp_ntz(2024, CAST(s AS INT), 31, 0, 0, 0)", ["1"], ["13"]),
    ("next_day(DATE '2024-01-01', s)", ["Mon", "TUESDAY"], ["Montag"]),
    ("to_json(parse_json(s))", ['{"a": 1}', "1"], ['{"a": ', "x"]),
    ("variant_get(try_parse_json(s), '$.a', 'int')", ['{"a": 1}', '{"b": 1}', '{"a": null}'], ['{"a": "x"}']),
    ("parse_url(s, 'HOST')", ["http://a.b/c", "mailto:a@b.c", "nothing"], ["http://a b/"]),
    ("url_decode(s)", ["a%20b"], ["a%zz"]),
    ("element_at(split(s, ','), 2)", ["a,b", "a,b,c"], ["a"]),
    ("element_at(map('a', 1), s)", ["a", "b"], []),
    ("element_at(map(DATE '2024-01-01', 1), try_to_date(s))", ["2024-01-01", "2024-01-02"], []),
    ("from_json(s, 'a INT, b STRING').a", ['{"a": 1}', '{"b": "x"}', '{"a": 1, "c": 2}'], ['{"a": "x"}', '{"a":', "x"]),
    ("from_json(s, 'ARRAY<INT>')", ["[1, 2]", "[null]"], ['[1, "x"]', "[1"]),
    ("from_json(s, 'array <INT>')", ["[1, 2]"], ['[1, "x"]']),
    ("to_json(from_json(s, 'variant'))", ['{"a": 1}', "1"], ['{"a": ', "x"]),
    ("from_json(s, 'STRUCT<d: DATE>', map('dateFormat', 'dd.MM.yyyy'))", ['{"d": "31.12.2024"}'], ['{"d": "x"}']),
    ("from_csv(s, 'a INT, b INT')", ["1,2"], ["1,x", "1,2,3"]),
    ("from_xml(s, 'a INT')", ["<r><a>1</a></r>"], ["<r><a>x</a></r>", "<r><a>1"]),
    ("get_json_object(s, '$.a')", ['{"a": 1}', '{"b": 1}'], ['{"b": ']),
    ("mod(10, CAST(s AS INT))", ["3"], ["0"]),
    ("CASE WHEN s LIKE '%/%' THEN to_date(s, 'dd/MM/yyyy') ELSE to_date(s) END", ["31/12/2024", "2024-12-31"], ["x/"]),
    ("COALESCE(try_to_date(s, 'yyyy'), to_date(s, 'dd/MM/yyyy'))", ["2024", "31/12/2024"], ["never"]),
    ("transform(split(s, ';'), x -> to_date(x, 'dd/MM/yyyy'))", ["31/12/2024;01/01/2025"], ["31/12/2024;x"]),
    ("year(to_date(concat(to_number(s, '9999'), '-01-01')))", ["2024"], ["x"]),
    ("try_to_date(s, 'dd/MM/yyyy')", ["31/12/2024", "never"], []),
    ("try_to_number(s, '999')", ["12", "never"], []),
    ("CASE WHEN s = 'y' THEN to_date('never') END", ["x"], []),
]


def test_a_value_that_a_function_does_not_convert_is_flagged(spark: SparkSession) -> None:
    """All of them in one query, a column each: a record has a text for one of the columns, and NULL for the others."""
    records, flagged = [], {}
    for number, (expression, right, wrong) in enumerate(CONVERSIONS):
        for text in (*right, *wrong):
            key = len(records)
            records.append((key, *(text if n == number else None for n in range(len(CONVERSIONS)))))
            if text in wrong:
                flagged[key] = expression
    named = [re.sub(r"\bs\b", f"c{n}", expression) for n, (expression, _, _) in enumerate(CONVERSIONS)]
    query = Query.parse(f"SELECT id, {', '.join(f'{one} AS v{n}' for n, one in enumerate(named))} FROM STREAM(raw)")
    assert query.stream_objections() == []
    columns = ", ".join(f"c{n} STRING" for n in range(len(CONVERSIONS)))
    spark.createDataFrame(records, f"id INT, {columns}").createOrReplaceTempView("conversions_of_texts")
    rows = spark.sql(query.text_with_identity({"raw": "conversions_of_texts"}, ())).collect()
    found = {row["id"]: [text for n, text in enumerate(query.casts) if row[f"{CAST_PREFIX}{n}"]] for row in rows}
    assert {key: rules for key, rules in found.items() if bool(rules) != (key in flagged)} == {}
    exact = ("to_", "make", "unix", "next", "year", "COALESCE", "CASE WHEN s LIKE")
    for row in rows:
        number = next(n for n in range(len(CONVERSIONS)) if records[row["id"]][n + 1] is not None)
        if row["id"] not in flagged and CONVERSIONS[number][0].startswith(exact):
            assert row[f"v{number}"] is not None, (CONVERSIONS[number][0], records[row["id"]][number + 1])


def test_what_the_help_of_a_stopped_query_says_quarantines_the_record(
    spark: SparkSession, workspace: Workspace
) -> None:
    """The error's own advice, followed: no value is NULL in a good row."""
    before = "SELECT id, 10 / CAST(d AS INT) AS share, year(day) AS y FROM STREAM(raw)"
    after = (
        "SELECT id, CAST(d AS INT) AS divisor, CASE WHEN CAST(d AS INT) <> 0 THEN 10 / CAST(d AS INT) END AS share, "
        "year(CAST(day AS DATE)) AS y, to_date(at, 'dd/MM/yyyy') AS at FROM STREAM(raw) "
        "WHERE to_date(at, 'dd/MM/yyyy') >= '2024-01-01'"
    )
    text = (
        'name: heart_rate\nbronze:\n  raw: {path: "${landing}/raw", format: json, schema: "id INT, d STRING, '
        'day STRING, at STRING"}\nsilver:\n  s:\n    sql: s.sql\n'
    )
    workspace.define(text, s__sql=before)
    day, at = "2024-01-01", "31/12/2024"
    fields = [("2", day, at), ("0", day, at), ("2", "never", at), ("2", day, "31/12/99"), ("2", day, "31/12/2023")]
    fields.append(("x", day, at))
    lines = [json.dumps({"id": n, "d": d, "day": on, "at": when}) for n, (d, on, when) in enumerate(fields)]
    workspace.land("raw/a.json", "\n".join(lines) + "\n")
    with pytest.raises(QueryError) as raised:
        workspace.run(spark, "bronze", "silver")
    assert "try_divide" not in raised.value.hint
    assert "CAST" in raised.value.hint
    assert "expect_or_quarantine" in raised.value.hint
    workspace.define(f"{text}    expectations: {{divisible: {{expect_or_quarantine: divisor <> 0}}}}\n", s__sql=after)
    workspace.run(spark, "silver")
    assert workspace.rows("s", "id", "share", "y") == [(0, 5.0, 2024)]
    broken = dict(workspace.rows("s_quarantine", "id", "_failed_expectations"))
    assert broken.keys() == {1, 2, 3, 5}
    assert broken[3] == ["to_date(at, 'dd/MM/yyyy') fits"]
