"""Branches of a UNION ALL over streams."""

from __future__ import annotations

import pytest

from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax
from sluicegate.spark_sql.union_all import branches

pytestmark = pytest.mark.unit

WHOLE = """\
WITH x AS (SELECT n, 1 AS a FROM y), z AS (SELECT 2 AS b)
(SELECT a.id, a.b FROM STREAM(a) AS a JOIN x)  -- the first
UNION ALL
SELECT id, b FROM STREAM(b) WHERE b IN (SELECT 1 UNION SELECT 2)
UNION ALL ((SELECT 3 AS d, e FROM STREAM(c)) UNION ALL SELECT id, b FROM d);
"""


def test_each_branch_stands_where_it_stood_with_what_with_declares() -> None:
    found = [Query.parse(text) for text in branches(WHOLE)]
    assert [query.stream for query in found] == ["a", "b", "c", None]
    assert [query.outputs for query in found] == [["id", "b"], ["id", "b"], ["d", "e"], ["id", "b"]]
    assert [query.line_of(str(query.stream)) for query in found[:3]] == [2, 4, 5]
    assert found[0].lookups == ["y"]


def test_what_a_star_leaves_out_is_no_other_branch() -> None:
    found = branches("SELECT * EXCEPT (a) FROM STREAM(b) UNION ALL SELECT c.* EXCEPT (a) FROM STREAM(c) AS c")
    assert [Query.parse(text).outputs for text in found] == [None, None]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM STREAM(b)",
        "SELECT a FROM b UNION ALL SELECT a FROM c",
        "SELECT a FROM STREAM(b) WHERE a IN (SELECT 1 UNION ALL SELECT 2)",
        "SELECT `union` AS a FROM STREAM(b)",
    ],
)
def test_other_queries_have_none(text: str) -> None:
    assert branches(text) == []


@pytest.mark.parametrize("word", ["UNION", "UNION DISTINCT", "INTERSECT", "EXCEPT ALL", "MINUS"])
def test_flows_are_put_together_by_union_all_alone(word: str) -> None:
    with pytest.raises(QuerySyntax, match="UNION ALL") as raised:
        branches(f"SELECT a FROM STREAM(b)\n{word}\nSELECT a FROM STREAM(c)")
    assert raised.value.line == 2
