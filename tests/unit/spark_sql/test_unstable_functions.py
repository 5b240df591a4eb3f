"""Functions that give a record of silver another value each time that it is evaluated."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sluicegate.spark_sql.query import Query, QuerySyntax
from sluicegate.spark_sql.unstable_functions import UNSTABLE

pytestmark = pytest.mark.unit


def objections(items: str, rest: str = "") -> list[str]:
    query = Query.parse(f"SELECT id,\n  {items}\nFROM STREAM(b) AS s {rest}")
    return [f"{one.line}: {one.message}" for one in query.stream_objections()]


@pytest.mark.parametrize("name", [*UNSTABLE])
def test_a_function_of_the_run_is_refused_with_what_to_write(name: str) -> None:
    told = f"2: {name} returns another value each time that a record is evaluated: {UNSTABLE[name]}"
    said = []
    for arguments in ("()", "(id)", " (id, 2)"):
        call = f"{name.upper()}{arguments}"
        with suppress(QuerySyntax):  # not every number of arguments is one
            said += objections(f"CASE WHEN id > 1 THEN concat('a', {call}) END AS x")
    assert said
    assert set(said) == {told}


@pytest.mark.parametrize(
    ("items", "rest", "told"),
    [
        ("current_date AS d", "", "current_date"),
        ("v", "WHERE day < current_timestamp", "current_timestamp"),
        ("unix_timestamp() AS t", "", "unix_timestamp"),
        ("x.share", "JOIN (SELECT k, rand() AS share FROM other) AS x ON x.k = s.id", "rand"),
        ("CAST('now' AS TIMESTAMP) AS t", "", "'now'"),
        ("DATE 'today' AS t", "", "'today'"),
        ("TIMESTAMP 'Tomorrow UTC' AS t", "", "'Tomorrow UTC'"),
        ("to_date('today') AS t", "", "'today'"),
        ("Try_To_Timestamp( 'now' ) AS t", "", "'now'"),
    ],
)
def test_other_spellings(items: str, rest: str, told: str) -> None:
    [said] = objections(items, rest)
    assert f": {told} " in said


@pytest.mark.parametrize(
    "items",
    [
        "user", "s.current_date", "s.`uuid`", "`now`", "v AS current_date", "current_date.year AS y", "'now()' AS t",
        "unix_timestamp(at) AS t", "'today' AS word", "CAST('epoch' AS DATE) AS d", "uuid", "shuffle AS s2 -- rand()",
        "CAST(now AS DATE) AS d", "details.rand",
        "to_date('today', 'yyyy') AS d", "to_date('2024-01-01') AS d", "to_date",
    ],
)  # fmt: skip
def test_columns_and_texts_of_these_names_are_none(items: str) -> None:
    assert objections(items) == []
