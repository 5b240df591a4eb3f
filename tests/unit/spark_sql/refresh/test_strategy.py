"""How a gold query can be kept up to date, as far as its text tells; Spark is asked by each run."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType

from sluicegate.gold.partial_aggregates import Partials
from sluicegate.spark_sql.refresh.group_by import outputs_sql
from sluicegate.spark_sql.refresh.strategy import refresh_strategy
from sluicegate.spark_sql.tokens import Tokens

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("query", "groups", "keys"),
    [
        ("SELECT g, count(*) AS n FROM t GROUP BY g", ("g",), {0: "g"}),
        ("SELECT t.g AS h, sum(x) AS s FROM t GROUP BY g", ("g",), {0: "h"}),
        ("SELECT a.g, avg(a.x) AS s FROM t AS a GROUP BY a.g ORDER BY s", ("a.g",), {0: "g"}),
        ("SELECT date_trunc('DD', at) AS day, max(x) AS m FROM t GROUP BY 1", ("date_trunc('DD', at)",), {0: "day"}),
        ("SELECT upper(g) AS u, h, min(x) AS m FROM t GROUP BY ALL", ("upper(g)", "h"), {0: "u", 1: "h"}),
        ("SELECT upper(g) AS u, count(1) AS m FROM t GROUP BY u", ("upper(g)",), {0: "u"}),
        ("SELECT count_if(x > 1) AS m FROM t GROUP BY g", ("g",), {}),
        (
            "SELECT g, ceil(avg(x)) + 1 AS c, stddev(x) AS s FROM t WHERE y > 0 GROUP BY g HAVING c > 2",
            ("g",),
            {0: "g"},
        ),
        ("SELECT ALL g, count(*) AS n FROM t GROUP BY (g) ORDER BY (g)", ("g",), {0: "g"}),
        ("SELECT g LIKE ANY ('a%') AS ab, sum(x) AS s FROM t GROUP BY ALL", ("g LIKE ANY ('a%')",), {0: "ab"}),
        ("SELECT g, k FROM t GROUP BY g, k", ("g", "k"), {0: "g", 1: "k"}),
        ("SELECT g, sum(x * 2) AS s FROM t WHERE s.where > 0 GROUP BY g", ("g",), {0: "g"}),
        ("SELECT g, sum(x) FILTER (WHERE y IN (1, 2)) AS s FROM t GROUP BY G", ("G",), {0: "g"}),
        ("SELECT count(*) AS n, avg(x) AS a FROM t WHERE y > 0 HAVING n > 1", ("TRUE",), {}),
        ("SELECT g, sum(transform(a, v -> v + 1)[0]) AS s FROM t GROUP BY g", ("g",), {0: "g"}),
        ("SELECT g, sum(main.tools.twice(x)) AS s FROM t WHERE g = 'now playing' GROUP BY g", ("g",), {0: "g"}),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g, t.g, 1", ("g",), {0: "g"}),
        ("SELECT g, struct(min(x) AS lo, CAST(max(x) AS INT) AS hi) AS s FROM t GROUP BY g", ("g",), {0: "g"}),
        ("SELECT g, max(x) IN (1, g) AS s, greatest(g, max(x)) AS m FROM t GROUP BY g", ("g",), {0: "g"}),
        (
            "SELECT to_json(struct(g)) AS j, max(length(to_json(struct(x)))) AS m FROM t GROUP BY to_json(struct(g))",
            ("to_json(struct(g))",),
            {0: "j"},
        ),
    ],
)
def test_counts_sums_and_extremes_are_kept(query: str, groups: tuple[str, ...], keys: dict[int, str]) -> None:
    found = refresh_strategy(query)
    assert (found.kind, found.grouped and found.grouped.groups, found.grouped and found.grouped.keys) == (
        "partial", groups, keys,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT g, count(DISTINCT x) AS n FROM t GROUP BY g", "count(DISTINCT …)"),
        ("SELECT g, percentile(x, 0.5) AS n FROM t GROUP BY g", "percentile"),
        ("SELECT g, max_by(x, y) AS n, sum(x) AS s FROM t GROUP BY g", "max_by"),
        ("SELECT g, collect_set(x) AS n FROM t GROUP BY g", "collect_set"),
        ("SELECT g, first(x) AS s FROM t GROUP BY g", "first needs"),
        ("SELECT g, my_function(x) AS s FROM t GROUP BY g", "x outside of the grouping expressions"),
        ("SELECT g, sum(x) + y AS s FROM t GROUP BY g", "y outside of the grouping expressions"),
        ("SELECT g AS t, sum(x) AS s FROM t GROUP BY g HAVING t.g > 1", "the name of a table"),
        ("SELECT g, sum(`twice`(x)) + `twice`(x) AS s FROM t GROUP BY g", "x outside of the grouping expressions"),
        ("SELECT g, sum(x) AS s, to_json(struct(s)) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        ("SELECT g, to_json(STRUCT(count(*))) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        ("SELECT g, to_json(`struct`(g)) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        ("SELECT g, to_json(struct(struct(g) AS a)) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        ("SELECT g, to_json((max(x), 1)) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        ("SELECT g, to_json(arrays_zip(array(1), g)) AS j FROM t GROUP BY g", "field names depend on its expressions"),
        (
            "SELECT g FROM t GROUP BY g HAVING to_json(struct(g, count(*))) > 'a'",
            "field names depend on its expressions",
        ),
    ],
)
def test_others_need_the_rows_of_a_group(query: str, why: str) -> None:
    found = refresh_strategy(query, {"t": ["g", "x", "y"]})
    assert found.kind == "groups"
    assert why in found.why


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT g, x FROM t WHERE x > 1", "no GROUP BY and no aggregate function"),
        ("SELECT g, sum(x) OVER (PARTITION BY g) AS s FROM t", "window"),
        ("SELECT DISTINCT g FROM t", "DISTINCT"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY ROLLUP (g)", "ROLLUP"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g WITH CUBE", "CUBE"),
        ("SELECT g, max(hash(*)) AS n FROM t GROUP BY g", "a star"),
        ("SELECT g, max(hash(x, t.*)) AS n FROM t GROUP BY g", "a star"),
        ("SELECT g, count(DISTINCT *) AS n FROM t GROUP BY g", "a star"),
        ("SELECT /*+ COALESCE(3) */ g, count(*) AS n FROM t GROUP BY g", "a hint"),
        ("SELECT upper(g) AS u, percentile(x, 0.5 AS p FROM t GROUP BY ALL", "cannot be"),
        ("SELECT g, count(*) AS n FROM t JOIN u ON t.g < u.g GROUP BY g", "is not joined to t by an equality"),
        ("SELECT g, count(*) AS n FROM t, u WHERE t.g = u.g GROUP BY g", "a join other than inner"),
        ("SELECT g, count(*) AS n FROM t FULL JOIN u USING (g) GROUP BY g", "a join other than inner"),
        ("SELECT g, count(*) AS n FROM t RIGHT JOIN u USING (g) GROUP BY g", "a join other than inner"),
        ("SELECT g, count(*) AS n FROM t NATURAL JOIN u GROUP BY g", "a join other than inner"),
        ("SELECT a.g, count(*) AS n FROM t AS a JOIN t AS b ON a.g = b.h GROUP BY a.g", "by an equality"),
        ("SELECT t.g, count(*) AS n FROM t JOIN u ON t.g = u.g JOIN v ON u.h = v.h GROUP BY t.g", "v is not joined"),
        ("SELECT g, count(*) AS n FROM t JOIN (SELECT * FROM u) AS u USING (g) GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM (SELECT * FROM t) GROUP BY g", "several queries"),
        ("WITH u AS (SELECT * FROM t) SELECT g, count(*) AS n FROM u GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM t WHERE x > (SELECT avg(x) FROM t) GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM t GROUP BY g UNION ALL SELECT 1, 2", "not a single SELECT"),
        ("SELECT g, count(*) AS n FROM t TABLESAMPLE (10 PERCENT) GROUP BY g", "not supported"),
    ],
)
def test_what_cannot_be_taken_apart_is_left_to_sparks_plan(query: str, why: str) -> None:
    found = refresh_strategy(query)
    assert (found.kind, found.grouped) == ("keys", None)
    assert why in found.why


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT count(DISTINCT g) AS n FROM t", "no GROUP BY, and count(DISTINCT …) needs all rows"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g LIMIT 3", "LIMIT"),
        ("SELECT g, x FROM t LIMIT 3 OFFSET 2", "LIMIT"),
        ("SELECT g, sum(x * rand()) AS s FROM t GROUP BY g", "rand"),
        ("SELECT current_date AS d, count(*) AS n FROM t GROUP BY current_date", "current_date"),
        ("SELECT 1 AS one", "not read a table"),
    ],
)
def test_what_only_all_rows_tell_is_made_again_whole(query: str, why: str) -> None:
    found = refresh_strategy(query)
    assert found.kind == "whole"
    assert why in found.why


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(DISTINCT x) AS n FROM t GROUP BY g",
        "SELECT window, sum(x) AS x FROM t GROUP BY window(g, '6 hours')",
        "SELECT window.start AS s, median(x) AS x FROM t GROUP BY window(g, '6 hours')",
        "SELECT window.start AS s, date(window.end) AS e FROM t GROUP BY window(g, '6 hours')",
        "SELECT window.start AS s, sum(x) AS x FROM t GROUP BY window(g, '6 hours') HAVING window.end > '2026-05-01'",
        "SELECT window.start AS s, sum(x) AS x FROM t GROUP BY window(g, '6 hours'), upper(g)",
    ],
)
def test_groups_that_are_not_selected_are_left_to_keys_of_the_plan(query: str) -> None:
    found = refresh_strategy(query, {"t": ["g", "x"]})
    assert (found.kind, found.grouped is not None) == ("keys", True)
    assert "not in its SELECT list" in found.why
    assert "there" in found.cheaper


@pytest.mark.parametrize(
    ("items", "fields"),
    [
        ("window(g, '6 hours').start AS s", {"start": "s"}),
        ("window(g, '6 hours').end e, window.start", {"start": "start", "end": "e"}),
        ("date_add(window.end, 1) AS d, WINDOW.END AS e", {"end": "e"}),
    ],
)
def test_rows_are_grouped_by_the_selected_fields_of_a_window(items: str, fields: dict[str, str]) -> None:
    query = f"SELECT h, {items}, sum(x) AS x FROM t GROUP BY window(g, '6 hours'), h"
    for schemas in ({}, {"t": ["g", "h", "x"]}):
        found = refresh_strategy(query, schemas)
        assert found.kind == "partial"
        assert found.grouped is not None
        keys = {found.grouped.groups[number]: name for number, name in found.grouped.keys.items()}
        assert keys == {"h": "h", **{f"window(g, '6 hours').{field}": name for field, name in fields.items()}}
        assert "GROUP BY (window(g, '6 hours')), (h)" in found.grouped.recomposed


def test_sums_beside_fields_of_a_window_written_in_several_ways_are_calls_of_the_parts() -> None:
    query = (
        "SELECT window.start AS s, max(window.end) AS e, max(window(t.g,'1 hour').end) AS f, sum(x) AS x, avg(y) AS y "
        "FROM t GROUP BY window(t.g,'1 hour')"
    )
    grouped = refresh_strategy(query, {"t": ["g", "x", "y"]}).grouped
    assert grouped is not None
    texts = {grouped.distinct_calls[call.number].sql(): Tokens(query).raw(span.first) for call, span in grouped.sums}
    assert texts == {"sum(x)": "sum", "avg(y)": "avg"}


def test_a_column_named_window_is_no_field_of_a_window() -> None:
    query = "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(g, '6 hours'), window.start"
    found = refresh_strategy(query, {"t": ["g", "window"]})
    assert found.grouped is not None
    assert (found.kind, found.grouped.groups) == ("partial", ("window(g, '6 hours')", "window.start"))
    assert not found.grouped.is_locatable


@pytest.mark.parametrize("item", ["window(g, '6 hours').start", "struct(g AS k).k", "h[0].k.j"])
def test_a_field_of_a_call_has_no_name_by_which_groups_are_found(item: str) -> None:
    query = f"SELECT {item}, count(*) AS n FROM t GROUP BY 1"
    unnamed = refresh_strategy(query, {"t": ["g", "h"]}).grouped
    assert unnamed is not None
    assert unnamed.keys == {}
    named = refresh_strategy(query.replace(", count", " AS k, count"), {"t": ["g", "h"]}).grouped
    assert named is not None
    assert named.keys == {0: "k"}


def test_a_session_window_is_left_to_sparks_plan() -> None:
    found = refresh_strategy("SELECT `session_window`(g, '1 hour') AS w, count(*) AS n FROM t GROUP BY 1")
    assert (found.kind, found.grouped) == ("keys", None)
    assert "session window" in found.why


def test_a_join_is_followed_by_its_equality() -> None:
    found = refresh_strategy(
        "SELECT r.g, name, count(p.g) AS n FROM a.t AS r /* who */ LEFT JOIN p USING (g)\n"
        "JOIN main.v ON v.h = lower(r.h) AND v.x > 0 WHERE r.x > 1 GROUP BY g, p.name"
    )
    assert found.kind == "partial"
    assert found.why.endswith("; a changed row of p affects those with its g; a changed row of main.v "
                              "affects those with its h")  # fmt: skip
    grouped = found.grouped
    assert grouped is not None
    assert (grouped.table, grouped.groups, grouped.keys) == ("a.t", ("g", "p.name"), {0: "g", 1: "name"})
    assert grouped.from_ == (
        "_sluicegate_rows AS r LEFT JOIN _sluicegate_joined_p AS p USING (g) "
        "JOIN _sluicegate_joined_main_v AS v ON v.h = lower(r.h) AND v.x > 0"
    )
    assert [tie.columns for tie in grouped.joins["main.v"]] == [("h",)]
    # Of a row that finds no other p.g is NULL, and g is not.
    query = "SELECT p.g, count(*) AS n FROM t LEFT JOIN p USING (g) GROUP BY g"
    other = refresh_strategy(query, {"t": ["g"], "p": ["g"]}).grouped
    assert other is not None
    assert other.keys == {}


def test_a_name_in_group_by_is_a_columns_first() -> None:
    query = "SELECT upper(g) AS g, count(*) AS n FROM t GROUP BY g"
    known, unknown = (refresh_strategy(query, {"t": columns}).grouped for columns in (["g", "x"], ["x"]))
    assert known is not None
    assert unknown is not None
    assert (known.groups, known.keys) == (("g",), {})
    assert (unknown.groups, unknown.keys) == (("upper(g)",), {0: "g"})


def test_expressions_are_cut_out_as_they_are_written() -> None:
    query = (
        "SELECT r.g || '-' || date(r.at) AS k, r.g, round(avg(x)  /*why*/, 2) AS a FROM t r GROUP BY r.g, date(r.at) "
    )
    grouped = refresh_strategy(query + "HAVING avg(x) > 1 AND r.g <> 'g'").grouped
    assert grouped is not None
    assert outputs_sql(grouped, "v") == (
        "SELECT `k`, `g`, `a` FROM (SELECT _group_0 || '-' || _group_1 AS `k`, _group_0 AS `g`, "
        "round(_value_0 , 2) AS `a`, _value_0 > 1 AND _group_0 <> 'g' AS _sluicegate_having FROM v) "
        "WHERE _sluicegate_having"
    )
    assert [(call.function, call.arguments) for call in grouped.calls] == [("avg", ("x",)), ("avg", ("x",))]


@pytest.mark.parametrize(
    ("item", "by", "over"),
    [
        ("sum(x) / price * qty", "price, qty, price * qty", "_value_0 / _group_0 * _group_1"),
        ("max(f) * (price * qty)", "price * qty", "_value_0 * (_group_0)"),
        ("NOT a AND b", "a, b, a AND b", "NOT _group_0 AND _group_1"),
        ("coalesce(a + b, 0)", "a + b", "coalesce(_group_0, 0)"),
        ("a + b * 2", "a, b, a + b", "_group_0 + _group_1 * 2"),
        ("upper(a) || 'x' || 'y'", "upper(a) || 'x'", "_group_0 || 'y'"),
        ("CASE WHEN n DIV 10 > 5 THEN n DIV 10 END", "n DIV 10", "CASE WHEN _group_0 > 5 THEN _group_0 END"),
        ("max(x) / 2024 + `2024`", "`2024`", "_value_0 / 2024 + _group_0"),
        ("t.`a` + A", "a", "_group_0 + _group_0"),
    ],
)
def test_a_group_is_found_only_where_it_is_one(item: str, by: str, over: str) -> None:
    grouped = refresh_strategy(f"SELECT {item} AS z FROM t GROUP BY {by}").grouped
    assert grouped is not None
    assert grouped.outputs == ((over, "z"),)


def test_columns_of_one_name_of_two_tables_are_two() -> None:
    query = (
        "SELECT s.name AS store, c.name AS customer, sum(x) AS x, max(day) AS day FROM sales JOIN stores AS s "
        "ON sales.store_id = s.id JOIN customers AS c ON sales.customer_id = c.id GROUP BY s.name, c.name"
    )
    sales = ["store_id", "customer_id", "x", "day"]
    for schemas in (None, {"sales": sales, "stores": ["id", "name"], "customers": ["id", "name"]}):
        found = refresh_strategy(query, schemas)
        assert found.kind == "partial"
        assert found.grouped is not None
        assert found.grouped.keys == {0: "store", 1: "customer"}
        assert [text for text, _ in found.grouped.outputs] == ["_group_0", "_group_1", "_value_0", "_value_1"]


def test_a_name_that_no_table_has_is_an_output_before_it() -> None:
    query = "SELECT n DIV 10 AS n, sum(x) AS s, s + n AS z FROM t GROUP BY n DIV 10 HAVING s > 1"
    taken = refresh_strategy(query, {"t": ["n", "x"]})  # here n is the column, which is not grouped by
    assert taken.kind == "groups"
    free = refresh_strategy(
        query.replace("DIV 10 AS n", "DIV 10 AS m").replace("s + n", "s + m"), {"t": ["n", "x"]}
    ).grouped
    assert free is not None
    assert free.outputs[2] == ("(_value_0) + (_group_0)", "z")
    assert free.having == "(_value_0) > 1"


def test_one_row_is_that_of_a_query_without_group_by() -> None:
    queries = "SELECT count(*) AS n FROM t", "SELECT count(*) AS n FROM t GROUP BY TRUE"
    found = [refresh_strategy(query).grouped for query in queries]
    assert [(one.one_row, one.groups) for one in found if one] == [(True, ("TRUE",)), (False, ("TRUE",))]


def test_calls_are_one_only_if_all_of_them_is_the_same() -> None:
    query = "SELECT sum(x) AS a, sum(T.X) AS b, sum(x) FILTER (WHERE g) AS c, sum(x) FILTER (WHERE y) AS d FROM t"
    grouped = refresh_strategy(query, {"t": ["x", "g", "y"]}).grouped
    assert grouped is not None
    assert [call.number for call in grouped.calls] == [0, 0, 1, 2]


def test_a_query_is_put_together_again_from_the_parts_that_are_used() -> None:
    query = (
        "SELECT upper(g) AS u, g, mean(x) FILTER (WHERE y > 0) AS a, a + 1 AS b FROM t WHERE x <> 0 "
        "GROUP BY ALL HAVING count(*) > max(y) AND a > 0 ORDER BY a"
    )
    grouped = refresh_strategy(query, {"t": ["g", "x", "y"]}).grouped
    assert grouped is not None
    assert grouped.recomposed == (
        "SELECT (upper(g)) AS `u`, (g), (avg(x) FILTER (WHERE y > 0)) AS `a`, a + 1 AS `b` "
        "FROM _sluicegate_rows AS `t` WHERE x <> 0 GROUP BY (upper(g)), (g) "
        "HAVING (count(*)) > (max(`t`.`y`)) AND a > 0 ORDER BY a"
    )


def test_outputs_of_sums_that_spark_rounds_are_known() -> None:
    sql = "SELECT g, count(*) AS n, round(sum(x) / count(*), 2) AS a, max(x) AS m, sum(k) AS k FROM t GROUP BY g"
    types = {
        "_group_0": StringType(),
        "_argument_1": DoubleType(),
        "_argument_2": DoubleType(),
        "_argument_3": LongType(),
    }

    def rounded(query: str) -> set[str]:
        grouped = refresh_strategy(query).grouped
        assert grouped is not None
        return Partials(grouped, dict(types)).rounded_outputs

    assert rounded(sql) == {"a"}
    assert rounded(f"{sql} HAVING sum(k) > 1") == {"a"}
    assert rounded(f"{sql} HAVING sum(x) > 1") == {"g", "n", "a", "m", "k"}  # it says which rows there are
