"""Queries: what is read out of them, what is refused, and that nothing but the intended places changes in the text."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.query import Query, QuerySyntax

pytestmark = pytest.mark.unit

HEART_RATE = """\
-- STREAM(marks) what is read, FROM CAST(here AS INT)
SELECT r.device_id, r.mrn, p.name, CAST(r.time AS TIMESTAMP) AS time, r.heartrate -- FROM nowhere
FROM STREAM(recordings_bronze) AS r LEFT JOIN patients AS p USING (mrn);
"""


def rewritten(text: str) -> str:
    query = Query.parse(text)
    return query.text_with_identity({name: f"v_{name}" for name in query.tables})


def objections(text: str) -> list[str]:
    return [objection.message for objection in Query.parse(text).stream_objections()]


def test_reads_what_a_silver_query_is_made_of() -> None:
    query = Query.parse(HEART_RATE)
    assert query.stream == "recordings_bronze"
    assert query.stream_alias == "r"
    assert query.lookups == ["patients"]
    assert query.tables == ["recordings_bronze", "patients"]
    assert query.outputs == ["device_id", "mrn", "name", "time", "heartrate"]
    assert query.casts == ["CAST(r.time AS TIMESTAMP)"]
    assert query.keeps_every_record
    assert query.stream_objections() == []


def test_rewrites_the_places_and_leaves_the_rest_as_it_is() -> None:
    assert rewritten(HEART_RATE) == (
        "-- STREAM(marks) what is read, FROM CAST(here AS INT)\n"
        "SELECT r.device_id, r.mrn, p.name, TRY_CAST(r.time AS TIMESTAMP) AS time, r.heartrate, r._chunk AS _chunk, "
        "r._pos AS _pos, r._sluicegate_record AS _sluicegate_record, "
        "((r.time) IS NOT NULL AND TRY_CAST((r.time) AS TIMESTAMP) IS NULL) AS _sluicegate_cast_0 -- FROM nowhere\n"
        "FROM v_recordings_bronze AS r LEFT JOIN v_patients AS p USING (mrn)"
    )


def test_what_is_exchanged_does_not_run_into_the_next_word() -> None:
    assert (
        Query.parse("SELECT a FROM STREAM(t)WHERE a > 1").text_over_views({"t": "v"})
        == "SELECT a FROM v AS t WHERE a > 1"
    )
    assert Query.parse("SELECT a FROM STREAM(t)r").text_over_views({"t": "v"}) == "SELECT a FROM v r"


def test_with_views_changes_tables_only() -> None:
    query = Query.parse(
        "SELECT CAST(a.x AS INT) AS x, b FROM a JOIN other AS o USING (k) WHERE a.y = 'a' GROUP BY ALL;"
    )
    assert query.text_over_views({"a": "one", "other": "`two`"}) == (
        "SELECT CAST(a.x AS INT) AS x, b FROM one AS a JOIN `two` AS o USING (k) WHERE a.y = 'a' GROUP BY ALL"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT 'STREAM(x) FROM CAST(y AS INT)' AS a FROM STREAM(t)",
            "'STREAM(x) FROM CAST(y AS INT)' AS a, t._chunk",
        ),
        ("SELECT 'it\\'s FROM' AS a FROM STREAM(t)", "'it\\'s FROM' AS a, t._chunk"),
        ("SELECT r'\\' AS a FROM STREAM(t)", "r'\\' AS a, t._chunk"),
        ("SELECT `CAST`, `FROM` FROM STREAM(t)", "`CAST`, `FROM`, t._chunk"),
        ("SELECT x.cast, x.from AS b FROM STREAM(t)", "x.cast, x.from AS b, t._chunk"),
        ("SELECT a IS NOT DISTINCT FROM b AS c FROM STREAM(t)", "a IS NOT DISTINCT FROM b AS c, t._chunk"),
        ("SELECT extract(DAY FROM d) AS c FROM STREAM(t)", "extract(DAY FROM d) AS c, t._chunk"),
        ("SELECT a /* FROM */ FROM STREAM(t)", "a, t._chunk"),
        ("SELECT a, 1L AS b FROM STREAM(t)", "a, 1L AS b, t._chunk"),
    ],
)
def test_hidden_columns_stand_at_the_end_of_the_select_list(text: str, wanted: str) -> None:
    assert f"SELECT {wanted} AS _chunk" in rewritten(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT a FROM STREAM(t)", "FROM v_t AS t"),
        ("SELECT a FROM STREAM( /* c */ `T` )", "FROM v_t AS t"),
        ("SELECT a FROM stream(t) r", "FROM v_t r"),
        ("SELECT t.a FROM STREAM(t) LEFT JOIN `p` USING (k)", "FROM v_t AS t LEFT JOIN v_p AS p USING (k)"),
        ("SELECT a FROM STREAM(t) LEFT JOIN (SELECT * FROM p) q USING (k)", "LEFT JOIN (SELECT * FROM v_p AS p) q"),
        ("SELECT a FROM STREAM(t) WHERE k IN (SELECT k FROM p)", "WHERE k IN (SELECT k FROM v_p AS p)"),
        ("SELECT a FROM p TABLESAMPLE (5 ROWS) JOIN STREAM(t)", "FROM v_p TABLESAMPLE (5 ROWS) AS p JOIN v_t AS t"),
        ("SELECT /*+ BROADCAST(p) */ p.a, t.p FROM STREAM(t) LEFT JOIN p", "/*+ BROADCAST(p) */ p.a, t.p,"),
        ("SELECT a FROM p RIGHT JOIN STREAM(t) ON p.k = t.k", "FROM v_p AS p RIGHT JOIN v_t AS t ON p.k = t.k"),
    ],
)
def test_tables_are_exchanged_wherever_they_are_read(text: str, wanted: str) -> None:
    assert wanted in rewritten(text)


def test_names_of_a_with_are_no_tables_but_what_they_hide_is() -> None:
    text = "WITH p AS (SELECT * FROM p), q AS (SELECT * FROM p JOIN s) SELECT t.a FROM STREAM(t) LEFT JOIN q USING (a)"
    query = Query.parse(text)
    assert query.lookups == ["p", "s"]
    assert query.text_over_views({"p": "v1", "s": "v2", "t": "v3"}) == (
        "WITH p AS (SELECT * FROM v1 AS p), q AS (SELECT * FROM p JOIN v2 AS s) "
        "SELECT t.a FROM v3 AS t LEFT JOIN q USING (a)"
    )


def test_both_branches_of_a_union_see_the_with() -> None:
    query = Query.parse("WITH c AS (SELECT a FROM s) SELECT a FROM c UNION ALL SELECT a FROM c JOIN u USING (a)")
    assert query.tables == ["s", "u"]
    assert query.outputs == ["a"]


@pytest.mark.parametrize(
    ("columns", "added"),
    [
        ("*", []),
        ("r.*", []),
        ("R.*, 1 AS one", []),
        ("* EXCEPT (_chunk, x)", ["_chunk"]),
        ("p.*", ["_chunk", "_pos", "_sluicegate_record"]),
        ("r.address.*", ["_chunk", "_pos", "_sluicegate_record"]),
        ("count.a", ["_chunk", "_pos", "_sluicegate_record"]),
    ],
)
def test_a_star_of_the_stream_brings_the_identity(columns: str, added: list[str]) -> None:
    text = rewritten(f"SELECT {columns} FROM STREAM(t) AS r LEFT JOIN p USING (k)")
    assert text == (
        f"SELECT {columns}{''.join(f', r.{name} AS {name}' for name in added)} "
        "FROM v_t AS r LEFT JOIN v_p AS p USING (k)"
    )


def test_the_identity_is_taken_from_the_stream_by_its_alias() -> None:
    assert Query.parse("SELECT a FROM STREAM(t) AS `my t`").text_with_identity({"t": "v"}, ["_id"]) == (
        "SELECT a, `my t`._id AS _id FROM v AS `my t`"
    )


@pytest.mark.parametrize("text", ["SELECT *, a FROM STREAM(t)", "SELECT t.* FROM STREAM(t)"])
def test_outputs_are_unknown_with_a_star(text: str) -> None:
    assert Query.parse(text).outputs is None


def test_outputs_have_the_names_that_spark_gives() -> None:
    query = Query.parse("SELECT a, t.b, c.d.e, f AS g, 1 AS `h i`, explode(m) AS (k, v), x + 1 FROM t")
    assert query.outputs == ["a", "b", "e", "g", "h i", "k", "v", ""]


class TestCasts:
    @pytest.mark.parametrize(
        ("expression", "told"),
        [
            ("CAST(a AS INT)", "{a}"),
            ("CASE WHEN k = 1 THEN CAST(a AS INT) ELSE 0 END", "CASE WHEN k = 1 THEN {a} ELSE false END"),
            (
                "CASE k WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE CAST(a AS INT) END",
                "CASE k WHEN 1 THEN false WHEN 3 THEN false ELSE {a} END",
            ),
            ("CASE WHEN x THEN 1 WHEN CAST(a AS INT) > 1 THEN 2 END", "CASE WHEN x THEN false ELSE {a} END"),
            ("CASE WHEN CAST(a AS INT) > 1 THEN 2 END", "{a}"),
            ("CASE CAST(a AS INT) WHEN 1 THEN 2 END", "{a}"),
            ("IF(k > 1, CAST(a AS INT), 0)", "CASE WHEN (k > 1) THEN {a} ELSE false END"),
            ("IF(k > 1, 0, CAST(a AS INT))", "CASE WHEN (k > 1) THEN false ELSE {a} END"),
            ("NVL2(k, 1, CAST(a AS INT))", "CASE WHEN (k) IS NOT NULL THEN false ELSE {a} END"),
            ("COALESCE(x, y, CAST(a AS INT))", "CASE WHEN COALESCE(x, y) IS NOT NULL THEN false ELSE {a} END"),
            ("COALESCE(CAST(a AS INT), 0)", "{a}"),
            (
                "transform(xs, x -> CAST(a AS INT))",
                "COALESCE(exists(transform(xs, x -> {a}), _failed -> _failed), false)",
            ),
            ("round((CAST(a AS INT) + 1) / 2, 1)", "{a}"),
            ("xs[CAST(a AS INT)]", "{a}"),
        ],
    )
    def test_a_cast_has_failed_only_where_it_is_reached(self, expression: str, told: str) -> None:
        query = Query.parse(f"SELECT {expression} AS c FROM STREAM(t)")
        wanted = told.replace("{a}", "((a) IS NOT NULL AND TRY_CAST((a) AS INT) IS NULL)")
        assert query.casts == ["CAST(a AS INT)"]
        assert f", {wanted} AS _sluicegate_cast_0 FROM v AS t" in query.text_with_identity({"t": "v"})

    def test_nested_casts_are_all_told(self) -> None:
        query = Query.parse("SELECT CAST(CAST(a AS DOUBLE) AS DECIMAL(10, 2)) AS c FROM STREAM(t)")
        assert query.casts == ["CAST(CAST(a AS DOUBLE) AS DECIMAL(10, 2))", "CAST(a AS DOUBLE)"]
        inner = "TRY_CAST(a AS DOUBLE)"
        assert query.text_with_identity({"t": "v"}, ()) == (
            f"SELECT TRY_CAST({inner} AS DECIMAL(10, 2)) AS c, "
            f"(({inner}) IS NOT NULL AND TRY_CAST(({inner}) AS DECIMAL(10, 2)) IS NULL) AS _sluicegate_cast_0, "
            "((a) IS NOT NULL AND TRY_CAST((a) AS DOUBLE) IS NULL) AS _sluicegate_cast_1 FROM v AS t"
        )

    def test_casts_elsewhere_are_tried_and_not_told(self) -> None:
        text = (
            "WITH c AS (SELECT CAST(x AS INT) AS x FROM p) "
            "SELECT a, (SELECT max(CAST(y AS INT)) FROM p) AS m FROM STREAM(t) "
            "LEFT JOIN c ON c.x = cast(t.x AS INT) WHERE a IN (SELECT CAST(b AS INT) FROM p)"
        )
        assert Query.parse(text).casts == []
        result = rewritten(text)
        assert result.count("TRY_CAST(") == 4
        assert "_sluicegate_cast_" not in result

    @pytest.mark.parametrize(
        ("where", "becomes"),
        [
            ("CAST(a AS INT) > 5", "((C > 5) OR ((C > 5) IS NULL AND (F)))"),
            ("b AND CAST(a AS INT) > 5 AND d", "b AND ((C > 5) OR ((C > 5) IS NULL AND (F))) AND d"),
            ("CAST(a AS INT) > 5 OR b AND d", "((C > 5 OR b AND d) OR ((C > 5 OR b AND d) IS NULL AND (F)))"),
            ("(b OR CAST(a AS INT) > 5) AND d", "(((b OR C > 5) OR ((b OR C > 5) IS NULL AND (F)))) AND d"),
            ("x BETWEEN 1 AND CAST(a AS INT) AND d",
             "((x BETWEEN 1 AND C) OR ((x BETWEEN 1 AND C) IS NULL AND (F))) AND d"),
            ("CASE WHEN b AND d THEN e END AND CAST(a AS INT) > 5",
             "CASE WHEN b AND d THEN e END AND ((C > 5) OR ((C > 5) IS NULL AND (F)))"),
            ("CAST(a AS INT) IS NOT NULL AND d", "((C IS NOT NULL) OR (F)) AND d"),
            ("COALESCE(CAST(a AS INT), 0) > 5", "((COALESCE(C, 0) > 5) OR (F))"),
            ("COALESCE(b, CAST(a AS INT)) > 5",
             "((COALESCE(b, C) > 5) OR (CASE WHEN COALESCE(b) IS NOT NULL THEN false ELSE F END))"),
            ("EXTRACT(YEAR FROM CAST(a AS INT)) = 2024",
             "((EXTRACT(YEAR FROM C) = 2024) OR ((EXTRACT(YEAR FROM C) = 2024) IS NULL AND (F)))"),
            ("TRIM(BOTH ' ' FROM CAST(a AS INT)) = 'b'",
             "((TRIM(BOTH ' ' FROM C) = 'b') OR ((TRIM(BOTH ' ' FROM C) = 'b') IS NULL AND (F)))"),
            ("b IS DISTINCT FROM CAST(a AS INT) AND d", "((b IS DISTINCT FROM C) OR (F)) AND d"),
            ("isnan(CAST(a AS INT))", "((isnan(C)) OR (F))"),
            ("nullif(b, CAST(a AS INT)) = 5", "((nullif(b, C) = 5) OR (F))"),
            ("(b IS NOT NULL AND b = 'a' AND CAST(a AS INT) > 5)",
             "(b IS NOT NULL AND b = 'a' AND ((C > 5) OR ((C > 5) IS NULL AND (F))))"),
            ("d AND ((b IS NULL AND (CAST(a AS INT) > 5)) AND (e OR b))",
             "d AND ((b IS NULL AND (((C > 5) OR ((C > 5) IS NULL AND (F))))) AND (e OR b))"),
            ("NOT (b IS NOT NULL AND CAST(a AS INT) > 5)", "((NOT (b IS NOT NULL AND C > 5)) OR (F))"),
        ],
    )  # fmt: skip
    def test_a_where_leaves_no_record_out_for_a_value_that_does_not_cast(self, where: str, becomes: str) -> None:
        query = Query.parse(f"SELECT d FROM STREAM(t) WHERE {where}")
        cast, failed = "TRY_CAST(a AS INT)", "((a) IS NOT NULL AND TRY_CAST((a) AS INT) IS NULL)"
        told = query.text_with_identity({"t": "v"}, ())
        assert query.casts == ["CAST(a AS INT)"]
        assert told.endswith(f" FROM v AS t WHERE {becomes.replace('C ', f'{cast} ').replace('C,', f'{cast},')}"
                             .replace("(F)", f"({failed})").replace("F END", f"{failed} END")
                             .replace("C)", f"{cast})"))  # fmt: skip
        assert " IS NOT TRUE AND " in told.rpartition(" FROM v AS t")[0]

    def test_comments_and_lines_in_a_cast_do_not_come_along(self) -> None:
        query = Query.parse("SELECT CAST(a -- b)\n  + 1 /* AS */ AS INT) AS c FROM STREAM(t)")
        assert query.casts == ["CAST(a + 1 AS INT)"]
        assert (
            "((a + 1) IS NOT NULL AND TRY_CAST((a + 1) AS INT) IS NULL) AS _sluicegate_cast_0"
            in query.text_with_identity({"t": "v"})
        )

    def test_tables_in_the_condition_of_a_cast_are_exchanged_too(self) -> None:
        text = "SELECT IF(EXISTS (SELECT 1 FROM p), CAST(a AS INT), 0) AS c FROM STREAM(t)"
        assert rewritten(text).count("(SELECT 1 FROM v_p AS p)") == 2

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("a::INT", "write CAST(value AS TYPE) instead of value::TYPE"),
            ("int(a)", "write CAST(value AS INT) instead of int(value)"),
            ("DECIMAL(a)", "write CAST(value AS DECIMAL) instead of DECIMAL(value)"),
            ("CAST(xs AS ARRAY<INT>)", "CAST to ARRAY"),
            ("aggregate(xs, 0, (s, x) -> s + CAST(x AS INT))", "lambda"),
        ],
    )
    def test_casts_that_cannot_be_followed_are_refused(self, expression: str, message: str) -> None:
        (found,) = objections(f"SELECT {expression} AS c FROM STREAM(t)")
        assert message in found

    @pytest.mark.parametrize("expression", ["TRY_CAST(xs AS ARRAY<DECIMAL(3, 1)>)", "DATE '2024-01-01'", "string(a)"])
    def test_what_cannot_fail_is_left_alone(self, expression: str) -> None:
        assert objections(f"SELECT {expression} AS c FROM STREAM(t)") == []
        assert f"SELECT {expression} AS c, t._chunk" in rewritten(f"SELECT {expression} AS c FROM STREAM(t)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM STREAM(t)",
        "SELECT a FROM STREAM(t) LEFT JOIN p USING (k) LEFT OUTER JOIN q ON true",
        "SELECT a FROM p RIGHT JOIN STREAM(t) USING (k)",
        "SELECT a FROM STREAM(t) LATERAL VIEW OUTER explode(xs) e AS x",
        "SELECT a, (SELECT max(x) FROM p WHERE p.k = t.k) AS m FROM STREAM(t)",
    ],
)
def test_a_query_without_filter_or_inner_join_keeps_every_record(text: str) -> None:
    assert Query.parse(text).keeps_every_record


@pytest.mark.parametrize(
    "rest",
    [
        "a FROM STREAM(t) WHERE true",
        "a FROM STREAM(t) JOIN p",
        "a FROM STREAM(t) CROSS JOIN p",
        "a FROM STREAM(t), p",
        "a FROM p JOIN STREAM(t)",
        "a FROM STREAM(t) LEFT SEMI JOIN p USING (k)",
        "a FROM STREAM(t) LEFT ANTI JOIN p USING (k)",
        "a FROM STREAM(t) LATERAL VIEW explode(xs) e AS x",
        "a FROM STREAM(t) TABLESAMPLE (10 PERCENT)",
        "a FROM STREAM(t) LIMIT 3",
        "DISTINCT a FROM STREAM(t)",
        "explode(xs) AS x FROM STREAM(t)",
        "1 + explode(xs) AS x FROM STREAM(t)",
        "posexplode(xs) AS (p, x) FROM STREAM(t)",
        "stack(1, a) AS x FROM STREAM(t)",
        "some_function(xs) AS x FROM STREAM(t)",
        "a FROM STREAM(t) RIGHT JOIN p USING (k)",
        "a FROM t",
    ],
)
def test_is_not_certain_to_keep_every_record(rest: str) -> None:
    assert not Query.parse(f"SELECT {rest}").keeps_every_record


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "empty", 1),
        ("-- nothing\n;", "empty", 1),
        ("DROP TABLE x", "SELECT or WITH, not DROP", 1),
        ("VALUES (1)", "SELECT or WITH, not VALUES", 1),
        ("FROM t SELECT a", "SELECT or WITH, not FROM", 1),
        ("SELECT a\nFROM t;\nDROP TABLE t", "second statement", 2),
        ("SELECT a\nFROM t WHERE", "incomplete", 2),
        ("SELECT a FROM\n(t", "Expecting )", 2),
        ("SELECT a,\n FROM t", "comma", 1),
        ("SELECT a,\n,b FROM t", "comma", 1),
        ("SELECT a\nFROM 'x", "unclosed string", 2),
        ("SELECT a\nFROM STREAM t", "STREAM(t)", 2),
        ("SELECT a\nFROM STREAM(t) JOIN\nSTREAM(u)", "duplicate STREAM(…)", 3),
        ("SELECT STREAM(t) AS a FROM t", "STREAM(…) is only allowed", 1),
        ("SELECT a FROM STREAM('t')", "table name", 1),
        ("WITH c AS (\nSELECT a FROM STREAM(t)) SELECT a FROM c", "outermost SELECT", 2),
        ("SELECT a FROM (SELECT a FROM STREAM(t))", "outermost SELECT", 1),
        ("SELECT a FROM p WHERE a IN (SELECT a FROM STREAM(t))", "outermost SELECT", 1),
        ("SELECT a FROM STREAM(t) UNION ALL SELECT a FROM p", "outermost SELECT", 1),
        ("(SELECT a FROM STREAM(t))", "outermost SELECT", 1),
        ("SELECT a FROM t |> WHERE a > 1", "pipe syntax", 1),
        ("SELECT a FROM t VERSION AS OF 3", "AS OF", 1),
        ("SELECT a FROM IDENTIFIER('t')", "IDENTIFIER(…)", 1),
        ("SELECT a FROM t WHERE b > :b", "parameter markers", 1),
        ("SELECT a FROM t WHERE b > ${b}", "parameter markers", 1),
        ("SELECT TRANSFORM(a) USING 'rm' AS (b) FROM t", "TRANSFORM … USING", 1),
        ("SELECT a -- why \\\n, b\nFROM t", "backslash", 1),
        ("SELECT CAST(a) AS b FROM t", "Expected AS after CAST", 1),
    ],
)
def test_refuses_what_is_not_one_select(text: str, message: str, line: int) -> None:
    with pytest.raises(QuerySyntax) as caught:
        Query.parse(text)
    assert message in caught.value.message
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a FROM t", "STREAM(…) is missing"),
        ("SELECT a FROM STREAM(t) GROUP BY a", "GROUP BY combines several records"),
        ("SELECT DISTINCT a FROM STREAM(t)", "DISTINCT combines several records"),
        ("SELECT a FROM STREAM(t) ORDER BY a LIMIT 1", "LIMIT combines several records"),
        ("SELECT a FROM STREAM(t) ORDER BY a", "ORDER BY has no effect"),
        ("SELECT a FROM STREAM(t) SORT BY a", "SORT BY has no effect"),
        ("SELECT max(a) AS m FROM STREAM(t)", "MAX combines several records"),
        ("SELECT std(a) AS m FROM STREAM(t)", "STD combines several records"),
        ("SELECT row_number() OVER (ORDER BY a) AS n FROM STREAM(t)", "window function"),
        ("SELECT a FROM STREAM(t) FULL JOIN p USING (k)", "FULL JOIN"),
        ("SELECT a FROM STREAM(t) RIGHT JOIN p USING (k)", "RIGHT JOIN"),
        ("SELECT a FROM p LEFT JOIN STREAM(t) USING (k)", "LEFT JOIN STREAM(…)"),
        ("SELECT a FROM p LEFT SEMI JOIN STREAM(t) USING (k)", "LEFT SEMI JOIN STREAM(…)"),
        ("SELECT a FROM STREAM(t) NATURAL JOIN p", "NATURAL JOIN"),
        ("SELECT a FROM STREAM(t) LEFT JOIN t AS o USING (k)", "t is read as a stream"),
        ("SELECT a FROM STREAM(t) AS r(a, b)", "alias of STREAM(…)"),
        ("SELECT a + 1 FROM STREAM(t)", "no column name"),
        ("SELECT CAST(a AS INT) FROM STREAM(t)", "no column name"),
        ("SELECT a, b AS A FROM STREAM(t)", "column name A"),
    ],
)
def test_objects_to_what_is_not_record_by_record(text: str, message: str) -> None:
    found = objections(text)
    assert [objection for objection in found if message in objection], found
    with pytest.raises(QuerySyntax):
        Query.parse(text).text_with_identity({"t": "v", "p": "w"})


def test_objections_come_all_at_once_with_their_lines() -> None:
    query = Query.parse("SELECT a,\n  count(*) AS n,\n  b + 1\nFROM STREAM(t)\nGROUP BY a")
    assert [(found.message.split()[0], found.line) for found in query.stream_objections()] == [
        ("GROUP", 5),
        ("COUNT", 2),
        ("an", 3),
    ]


def test_an_aggregate_over_a_lookup_is_fine() -> None:
    text = "WITH p AS (SELECT k, max(x) AS x FROM s GROUP BY k) SELECT a, x FROM STREAM(t) LEFT JOIN p USING (k)"
    assert objections(text) == []


def test_gold_takes_tables_whole() -> None:
    query = Query.parse("SELECT a, count(*)\nFROM STREAM(t) GROUP BY a")
    assert [found.message for found in query.table_objections()] == [
        "STREAM(…) is only for silver: a gold query reads whole tables, write t",
        "an expression has no column name: add AS name",
    ]
    assert Query.parse("SELECT a, count(*) AS n FROM t GROUP BY a").table_objections() == []


def test_the_fingerprint_is_of_the_words_alone() -> None:
    one = Query.parse("SELECT a, 'b' AS c FROM STREAM(t) -- why\n;").fingerprint
    assert one == Query.parse("/* x */ SELECT a , 'b'   AS c\nFROM STREAM( t )").fingerprint
    others = [
        "SELECT a, 'B' AS c FROM STREAM(t)",
        "SELECT a, b AS c FROM STREAM(t)",
        'SELECT a, "b" AS c FROM STREAM(t)',
    ]
    assert one not in [Query.parse(other).fingerprint for other in others]


def test_a_missing_view_is_told() -> None:
    with pytest.raises(KeyError, match="p"):
        Query.parse(HEART_RATE).text_over_views({"recordings_bronze": "v"})


_GAPS = st.sampled_from([" ", "\n", " -- FROM STREAM(x), CAST(y AS INT)\n", " /* ; 'it */ ", "\t"])
_COLUMNS = st.sampled_from(
    ["a", "`b c` AS d", "'FROM STREAM(z)' AS e", "CAST(f AS INT) AS f", "IF(g > 1, CAST(h AS DATE), NULL) AS h", "p.i"]
)


@given(st.lists(_COLUMNS, min_size=1, unique=True), st.lists(_GAPS, min_size=6, max_size=6))
def test_whatever_stands_between_the_words_the_rewriting_is_the_same_query(columns: list[str], gaps: list[str]) -> None:
    plain = f"SELECT {', '.join(columns)} FROM STREAM(t) AS r LEFT JOIN p USING (k)"
    words = ["SELECT", ", ".join(columns), "FROM", "STREAM(t) AS r", "LEFT JOIN", "p", "USING (k)"]
    spread = "".join(word + gap for word, gap in zip(words, [*gaps, ""], strict=True))
    views = {"t": "x", "p": "y"}
    assert Query.parse(spread).fingerprint == Query.parse(plain).fingerprint
    again = Query.parse(Query.parse(spread).text_with_identity(views))
    assert again.fingerprint == Query.parse(Query.parse(plain).text_with_identity(views)).fingerprint


class TestCondition:
    def test_columns_are_those_of_the_row(self) -> None:
        condition = Condition.parse("a > 0 AND s.field = b AND exists(xs, x -> x > a) -- c")
        assert condition.columns == ["a", "s", "b", "xs"]
        assert condition.text == "a > 0 AND s.field = b AND exists(xs, x -> x > a)"
        of_lambdas = Condition.parse("exists(xs, E -> e > a) AND forall(x, X -> size(filter(x, Y -> x > y)) > 1)")
        assert of_lambdas.columns == ["xs", "a", "x"]

    def test_casts_in_a_condition_become_try_casts(self) -> None:
        assert Condition.parse("CAST(a AS INT) > 'CAST('").tried == "TRY_CAST(a AS INT) > 'CAST('"

    def test_unique_is_a_condition_of_several_rows(self) -> None:
        condition = Condition.parse("Unique(a, `b c`) -- by day")
        assert condition.unique == ("a", "b c")
        assert condition.columns == ["a", "b c"]
        assert Condition.parse("unique > 1").unique == ()

    @pytest.mark.parametrize(
        "text",
        ["ok", "NOT ok", "a IS NULL OR b", "a BETWEEN 1 AND 2", "a RLIKE 'x'", "isnan(a)", "a LIKE 'b/%' ESCAPE '/'",
         "a LIKE ANY ('b', 'c')", "a ILIKE SOME ('b')"],
    )  # fmt: skip
    def test_an_expression_that_is_true_or_false_is_a_condition(self, text: str) -> None:
        assert Condition.parse(text).text == text

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "empty"),
            ("a >", "the condition a >"),
            ("a) OR (b", "a) OR (b is not a single condition"),
            ("a), (b", "a), (b is not a single condition"),
            ("a) AS x FROM t WHERE (b", "a) AS x FROM t WHERE (b is not a single condition"),
            ("1", "1 is not a condition"),
            ("a + 1", "a + 1 is not a condition"),
            ("a IN (SELECT a FROM t)", "subquery"),
            ("count(*) > 1", "aggregate"),
            ("any(a)", "aggregate"),
            ("a = any(b)", "aggregate"),
            ("unique(a) AND b > 0", "unique(…)"),
            ("NOT unique(a)", "unique(…)"),
            ("unique()", "unique(…)"),
            ("unique(a + 1)", "unique(…)"),
            ("unique(a,)", "unique(…)"),
            ("unique(unique(a))", "unique(…)"),
            ("unique(r.a)", "unique(…)"),
            ("explode(a) > 1", "several rows"),
            ("a > :b", "parameter markers"),
            ("a::INT > 1", "write CAST(value AS TYPE)"),
            ("a > 1; DROP TABLE t", "a > 1; DROP TABLE t"),
        ],
    )
    def test_what_is_not_one_condition_of_one_row_is_refused(self, text: str, message: str) -> None:
        with pytest.raises(QuerySyntax) as caught:
            Condition.parse(text)
        assert message in caught.value.message


RECORDS = [
    (1, "9", "a"), (2, "3", "a"), (3, "nine", "a"), (4, "nine", "b"), (5, None, "a"), (6, "nine", None), (7, "9", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "kept", "told"),
    [
        ("CAST(v AS INT) > 5 AND w = 'a'", [1], [3]),
        ("w = 'a' AND CAST(v AS INT) > 5", [1], [3]),
        ("NOT CAST(v AS INT) > 5", [2], [3, 4, 6]),
        ("CAST(v AS INT) > 5 OR w = 'a'", [1, 2, 3, 5, 7], [4, 6]),
        ("(CAST(v AS INT) > 5 AND w = 'a') OR w = 'b'", [1, 4], [3, 6]),
        ("CAST(v AS INT) BETWEEN 5 AND 10 AND w = 'a'", [1], [3]),
        ("COALESCE(CAST(v AS INT), 0) > 5 AND w = 'a'", [1], [3]),
        ("COALESCE(w, CAST(v AS VARCHAR)) = 'a' AND k > 0", [1, 2, 3, 5], []),
        ("CASE WHEN w = 'b' THEN CAST(v AS INT) > 5 ELSE w = 'a' END", [1, 2, 3, 5], [4]),
        ("CAST(v AS INT) IS NULL", [3, 4, 5, 6], []),
    ],
)
def test_a_record_stays_where_a_cast_alone_would_leave_it_out(where: str, kept: list[int], told: list[int]) -> None:
    """By another engine, which has the same words for this; a record that the query's own words leave out goes."""
    query = Query.parse(f"SELECT k FROM STREAM(t) WHERE {where}")
    flags = " OR ".join(f"_sluicegate_cast_{number}" for number in range(len(query.casts))) or "false"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE v (k INT, v VARCHAR, w VARCHAR)")
        connection.executemany("INSERT INTO v VALUES (?, ?, ?)", RECORDS)
        found = connection.execute(
            f"SELECT k, {flags} FROM ({query.text_with_identity({'t': 'v'}, ())}) ORDER BY k"
        ).fetchall()
    assert [k for k, failed in found if not failed] == kept
    assert [k for k, failed in found if failed] == told


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM t JOIN u ON t.k = u.k", "t u"),
        ("WITH d AS (SELECT * FROM u) SELECT * FROM t JOIN d ON t.k = d.k", "t u"),
        ("WITH a AS (SELECT * FROM u), b AS (SELECT * FROM t JOIN a) SELECT * FROM b JOIN v", "t u v"),
        ("WITH a AS (SELECT * FROM u), b AS (SELECT * FROM a) SELECT * FROM t JOIN b JOIN b AS c", "t u"),
        ("SELECT t.n / (SELECT max(n) FROM u) FROM t", "t u"),
        ("SELECT * FROM (SELECT (SELECT max(n) FROM u) AS n FROM t)", "t u"),
        ("SELECT (SELECT max(n) FROM u) AS n FROM t UNION ALL SELECT n FROM v", "t v u"),
        ("(SELECT n FROM u) UNION SELECT n FROM t", "u t"),
        ("SELECT * FROM (t JOIN u ON t.k = u.k) JOIN v ON v.k = u.k", "t u v"),
        ("SELECT * FROM (VALUES (1)) AS c(k) JOIN t ON t.k = c.k", "t"),
        ("SELECT * FROM range(3) AS r JOIN t ON t.k = r.id, LATERAL (SELECT max(n) FROM u) AS z", "t u"),
        ("WITH RECURSIVE r(n) AS (SELECT n FROM u UNION ALL SELECT n + 1 FROM r) SELECT * FROM r JOIN t", "u t"),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM u JOIN t", "u t"),
        ("WITH a AS (SELECT * FROM u) SELECT * FROM s.t", "s.t u"),
        ("SELECT (SELECT max(n) FROM u) AS n", "u"),
    ],
)  # fmt: skip
def test_the_table_with_which_FROM_begins_is_first(text: str, tables: str) -> None:
    query = Query.parse(text)
    assert query.tables_by_from == tables.split()
    assert {*query.tables} == {*query.tables_by_from}
