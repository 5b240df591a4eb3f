"""Conversions by functions: where they are flagged and replaced, and where they stay as they are."""

from __future__ import annotations

import pytest

from sluicegate.spark_sql.query import Query

pytestmark = pytest.mark.unit


def rewritten(text: str) -> str:
    query = Query.parse(text)
    return query.text_with_identity({name: "v" for name in query.tables}, ())


@pytest.mark.parametrize(
    ("expression", "casts", "there"),
    [
        ("to_date(a, 'yyyy')", ["to_date(a, 'yyyy')"], "SELECT try_to_date(a, 'yyyy') AS x"),
        ("to_date ( a )", ["to_date ( a )"], "SELECT try_to_date ( a ) AS x"),
        ("t.to_date", [], "SELECT t.to_date AS x"),
        ("'to_date(a)'", [], "SELECT 'to_date(a)' AS x"),
        ("try_to_date(a)", [], "SELECT try_to_date(a) AS x"),
        (
            "to_date(CAST(a AS STRING))",
            ["to_date(CAST(a AS STRING))", "CAST(a AS STRING)"],
            "SELECT try_to_date(TRY_CAST(a AS STRING)) AS x",
        ),
        (
            "make_date(to_number(a, '9'), 1, 1)",
            ["make_date(to_number(a, '9'), 1, 1)", "to_number(a, '9')"],
            "try_make_timestamp_ntz(try_to_number(a, '9'), 1, 1, 0, 0, 0)",
        ),
        ("aggregate(b, 0, (s, e) -> s + to_number(e, '9'))", [], "s + to_number(e, '9')"),
        ("(SELECT max(to_date(l.a)) FROM l)", [], "max(to_date(l.a))"),
    ],
)
def test_what_is_flagged_and_replaced(expression: str, casts: list[str], there: str) -> None:
    text = f"SELECT {expression} AS x FROM STREAM(t)"
    assert Query.parse(text).casts == casts
    assert there in rewritten(text)
    assert Query.parse(text).stream_objections() == []


def test_a_conversion_in_a_generator_stays_as_it_is() -> None:
    query = Query.parse("SELECT explode(from_json(a, 'ARRAY<INT>')) AS x FROM STREAM(t)")
    assert query.casts == []
