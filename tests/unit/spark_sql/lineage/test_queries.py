"""Where the columns of a query come from, by its text and the columns of its tables."""

from __future__ import annotations

import pytest

from sluicegate.spark_sql.lineage.model import EVERY, Columns, Lineage, Origins, Use
from sluicegate.spark_sql.lineage.queries import lineage

pytestmark = pytest.mark.unit

TABLES = {
    "t": Columns(("a", "b", "c", "arr", "s"), ("_chunk",), True),
    "u": Columns(("a", "d", "e"), (), True),
    "open": Columns(("k",), (), False),
}


def found(text: str) -> Lineage:
    return lineage(text, TABLES)


def words(origins: Origins) -> set[str]:
    """Origins as ``t.a identity``, with a star for what is masked."""
    return {f"{of.table}.{of.column} {use.subtype.lower()}{'*' * use.masked}" for of, use in origins}


def of(text: str, column: str) -> set[str]:
    made = found(text)
    assert made.unsure == ""
    return words(made.columns[column])


@pytest.mark.parametrize(
    ("expression", "origins"),
    [
        ("a", {"t.a identity"}),
        ("T.A", {"t.a identity"}),
        ("`a`", {"t.a identity"}),
        ("(t.a)", {"t.a identity"}),
        ("_chunk", {"t._chunk identity"}),
        ("1", set()),
        ("a + b", {"t.a transformation", "t.b transformation"}),
        ("CAST(a AS INT)", {"t.a transformation"}),
        ("s.f.g", {"t.s transformation"}),
        ("t.s.f", {"t.s transformation"}),
        ("arr[b]", {"t.arr transformation", "t.b transformation"}),
        ("transform(arr, a -> a + b)", {"t.arr transformation", "t.b transformation"}),
        ("transform(arr, A -> a + b)", {"t.arr transformation", "t.b transformation"}),
        ("transform(arr, x -> x.f.g.h.i)", {"t.arr transformation"}),
        ("struct(a AS b, c)", {"t.a transformation", "t.c transformation"}),
        ("named_struct('b', a)", {"t.a transformation"}),
        ("CASE WHEN a > 0 THEN b ELSE c END", {"t.a conditional", "t.b transformation", "t.c transformation"}),
        ("CASE a WHEN 1 THEN b END", {"t.a conditional", "t.b transformation"}),
        ("if(a IS NULL, b, c)", {"t.a conditional", "t.b transformation", "t.c transformation"}),
        ("sum(a)", {"t.a aggregation"}),
        ("count(*)", set()),
        ("count(t.*)", {f"t.{one} aggregation*" for one in ("a", "b", "c", "arr", "s")}),
        ("count(*, a)", {f"t.{one} aggregation*" for one in ("a", "b", "c", "arr", "s")}),
        ("count(* EXCEPT (s))", {f"t.{one} aggregation*" for one in ("a", "b", "c", "arr", "s")}),
        ("count(DISTINCT *)", {f"t.{one} aggregation*" for one in ("a", "b", "c", "arr", "s")}),
        ("grouping(a)", set()),
        ("count(a)", {"t.a aggregation*"}),
        ("round(sum(a) / max(b))", {"t.a aggregation", "t.b aggregation"}),
        ("sum(a) FILTER (WHERE b > 0)", {"t.a aggregation", "t.b conditional"}),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", {"t.a aggregation"}),
        ("mean(a)", {"t.a aggregation"}),
        ("sum(a) OVER (PARTITION BY b ORDER BY c)", {"t.a aggregation", "t.b window", "t.c window"}),
        ("lag(a) OVER (PARTITION BY b ORDER BY c)", {"t.a transformation", "t.b window", "t.c window"}),
        ("row_number() OVER (ORDER BY a)", {"t.a window"}),
        ("sha2(a, 256)", {"t.a transformation*"}),
        ("xxhash64(a)", {"t.a transformation*"}),
        ("hash(*)", {f"t.{one} transformation*" for one in ("a", "b", "c", "arr", "s")}),
        ("(SELECT max(d) FROM u WHERE u.a = t.b)", {"u.d aggregation", "u.a filter", "t.b filter"}),
        ("a IN (SELECT d FROM u)", {"t.a transformation", "u.d transformation"}),
        ("EXISTS (WITH c AS (SELECT d FROM u WHERE e > t.a) SELECT 1 FROM c)", {"u.e filter", "t.a filter"}),
        ("EXISTS (SELECT d FROM u WHERE e > t.a)", {"u.e filter", "t.a filter"}),
    ],
)  # fmt: skip
def test_an_expression_comes_from(expression: str, origins: set[str]) -> None:
    assert of(f"SELECT {expression} AS x FROM t", "x") == origins


@pytest.mark.parametrize(
    ("clauses", "rows"),
    [
        ("", set()),
        ("WHERE b > 0 AND c > 0", {"t.b filter", "t.c filter"}),
        ("GROUP BY a, b", {"t.a group_by", "t.b group_by"}),
        ("GROUP BY 1", {"t.a group_by"}),
        ("GROUP BY ALL", {"t.a group_by"}),
        ("GROUP BY a, ROLLUP (b, c)", {"t.a group_by", "t.b group_by", "t.c group_by"}),
        ("GROUP BY GROUPING SETS ((a), (b, c))", {"t.a group_by", "t.b group_by", "t.c group_by"}),
        ("GROUP BY x", {"t.a group_by"}),
        ("GROUP BY a HAVING sum(b) > 0", {"t.a group_by", "t.b filter"}),
        ("ORDER BY b", {"t.b sort"}),
        ("ORDER BY x", {"t.a sort"}),
        ("ORDER BY 1 LIMIT 3", {"t.a sort"}),
        ("ORDER BY ALL", {"t.a sort"}),
        ("SORT BY b", {"t.b sort"}),
        ("JOIN u ON t.a = u.d AND b > 0", {"t.a join", "u.d join", "t.b join"}),
        ("LEFT SEMI JOIN u ON t.a = u.d", {"t.a join", "u.d join"}),
        ("JOIN u USING (a)", {"t.a join", "u.a join"}),
        ("NATURAL JOIN u", {"t.a join", "u.a join"}),
        ("LATERAL VIEW explode(arr) e AS item", {"t.arr filter"}),
        ("WHERE EXISTS (SELECT 1 FROM u WHERE u.d = t.b)", {"u.d filter", "t.b filter"}),
        ("QUALIFY row_number() OVER (PARTITION BY b ORDER BY c) = 1", {"t.b window", "t.c window"}),
    ],
)
def test_clauses_decide_about_the_rows(clauses: str, rows: set[str]) -> None:
    made = found(f"SELECT t.a AS x FROM t {clauses}")
    assert made.unsure == ""
    assert words(made.rows) == rows


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM u", {"a": {"u.a identity"}, "d": {"u.d identity"}, "e": {"u.e identity"}}),
        ("SELECT * EXCEPT (D, a) FROM u", {"e": {"u.e identity"}}),
        ("SELECT u.* EXCEPT (a), t.b FROM t, u", {"d": {"u.d identity"}, "e": {"u.e identity"}, "b": {"t.b identity"}}),
        ("SELECT b AS a, a AS b FROM t", {"a": {"t.b identity"}, "b": {"t.a identity"}}),
        ("SELECT a AS b, b AS q FROM t", {"b": {"t.a identity"}, "q": {"t.b identity"}}),
        ("SELECT a AS z, z + 1 AS q FROM t", {"z": {"t.a identity"}, "q": {"t.a transformation"}}),
        ("SELECT x, y FROM (SELECT a, sum(b) FROM t GROUP BY a) AS q(x, y)",
         {"x": {"t.a identity"}, "y": {"t.b aggregation"}}),
        ("WITH u AS (SELECT a AS d FROM t) SELECT d FROM u", {"d": {"t.a identity"}}),
        ("WITH q(x) AS (SELECT a FROM t), r AS (SELECT x + 1 AS y FROM q) SELECT y FROM r",
         {"y": {"t.a transformation"}}),
        ("SELECT a FROM t UNION ALL SELECT d FROM u", {"a": {"t.a identity", "u.d identity"}}),
        ("SELECT a FROM t EXCEPT SELECT d FROM u", {"a": {"t.a identity"}}),
        ("SELECT a, i FROM t LATERAL VIEW posexplode(arr) p AS n, i",
         {"a": {"t.a identity"}, "i": {"t.arr transformation"}}),
        ("SELECT explode(arr) AS i FROM t", {"i": {"t.arr transformation"}}),
        ("SELECT stack(1, a, b) AS (x, y) FROM t",
         {"x": {"t.a transformation", "t.b transformation"}, "y": {"t.a transformation", "t.b transformation"}}),
        ("SELECT a FROM t FULL JOIN u USING (a)", {"a": {"t.a transformation", "u.a transformation"}}),
        ("SELECT a FROM t RIGHT JOIN u USING (a)", {"a": {"u.a identity"}}),
        ("SELECT a FROM t LEFT JOIN u USING (a)", {"a": {"t.a identity"}}),
        ("SELECT u.a AS x FROM t LEFT JOIN u USING (a)", {"x": {"u.a identity"}}),
        ("SELECT l.x FROM t, LATERAL (SELECT t.b + u.d AS x FROM u) l",
         {"x": {"t.b transformation", "u.d transformation"}}),
        ("SELECT e.d FROM (t JOIN u ON t.a = u.a) JOIN u AS e ON e.a = t.a", {"d": {"u.d identity"}}),
        ("SELECT v, id FROM range(3) CROSS JOIN VALUES (1) AS q(v)", {"v": set(), "id": set()}),
        ("SELECT a FROM STREAM(t)", {"a": {"t.a identity"}}),
        ("SELECT sum(a) OVER w AS x FROM t WINDOW w AS (PARTITION BY b)", {"x": {"t.a aggregation", "t.b window"}}),
    ],
)  # fmt: skip
def test_columns_of(text: str, columns: dict[str, set[str]]) -> None:
    made = found(text)
    assert made.unsure == ""
    assert {name: words(origins) for name, origins in made.columns.items()} == columns


def test_of_a_table_whose_columns_are_not_all_known() -> None:
    made = found("SELECT *, f(x) AS y FROM open")
    assert words(made.columns["y"]) == {"open.x transformation"}
    assert made.rest == {"open"}


def test_a_name_that_several_unknown_tables_may_have_comes_from_all_of_them() -> None:
    made = lineage("SELECT x FROM p JOIN q ON p.i = q.i", {})
    assert words(made.columns["x"]) == {"p.x identity", "q.x identity"}
    assert words(made.rows) == {"p.i join", "q.i join"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nope FROM t",
        "SELECT t.nope FROM t",
        "SELECT s.* FROM t",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        "SELECT * FROM t LATERAL VIEW inline(arr) i",
        "SELECT * FROM open UNION ALL SELECT a FROM t",
        "SELECT x FROM json_tuple('{}', 'x')",
        "SELECT a FROM open NATURAL JOIN t",
        "SELECT a + 1 FROM t",
        "SELECT a FROM t WINDOW w AS (ORDER BY b) QUALIFY sum(a) OVER v > 1",
        "this is not SQL",
        f"SELECT {'a + ' * 2000}1 AS x FROM t",
    ],
)
def test_what_is_not_certain_is_every_column(text: str) -> None:
    """Never a narrow answer that may be wrong."""
    made = found(text)
    assert made.unsure
    assert "recursion" not in made.unsure
    assert words(made.columns[EVERY]) == {"t.* transformation", "u.* transformation", "open.* transformation"}
    assert words(made.rows) == {"t.* filter", "u.* filter", "open.* filter"}


@pytest.mark.parametrize(
    ("outer", "inner", "both"),
    [
        ("IDENTITY", "IDENTITY", "IDENTITY"),
        ("TRANSFORMATION", "IDENTITY", "TRANSFORMATION"),
        ("IDENTITY", "AGGREGATION", "AGGREGATION"),
        ("FILTER", "AGGREGATION", "FILTER"),
        ("IDENTITY", "WINDOW", "WINDOW"),
        ("JOIN", "WINDOW", "WINDOW"),
    ],
)
def test_a_use_of_a_use(outer: str, inner: str, both: str) -> None:
    assert Use(outer).compose(Use(inner)) == Use(both)  # type: ignore[arg-type]
    assert Use(outer).compose(Use(inner, masked=True)).masked  # type: ignore[arg-type]
