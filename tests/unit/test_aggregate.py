"""How a gold query is kept up to date is decided by its text: what is not known to be safe is done the next way."""

from __future__ import annotations

import pytest

from sluicegate.aggregate import upkeep
from sluicegate.grouped import outputs_sql

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
    ],
)
def test_counts_sums_and_extremes_are_kept(query: str, groups: tuple[str, ...], keys: dict[int, str]) -> None:
    found = upkeep(query)
    assert (found.way, found.grouped and found.grouped.groups, found.grouped and found.grouped.keys) == (
        "partial", groups, keys,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT g, count(DISTINCT x) AS n FROM t GROUP BY g", "count(DISTINCT …)"),
        ("SELECT g, percentile(x, 0.5) AS n FROM t GROUP BY g", "percentile"),
        ("SELECT g, max_by(x, y) AS n, sum(x) AS s FROM t GROUP BY g", "max_by"),
        ("SELECT g, collect_set(x) AS n FROM t GROUP BY g", "collect_set"),
        ("SELECT g + 1 AS g, sum(x) AS s FROM t GROUP BY t.g, g HAVING g > 3", ""),
    ],
)
def test_others_need_the_rows_of_a_group(query: str, why: str) -> None:
    found = upkeep(query, ["g", "x", "y"])
    assert found.way == ("groups" if why else "whole")
    assert why in found.why


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT count(DISTINCT g) AS n FROM t", "no GROUP BY, and count(DISTINCT …) needs all rows"),
        ("SELECT g, x FROM t WHERE x > 1", "no GROUP BY and no aggregate function"),
        ("SELECT g, sum(x) OVER (PARTITION BY g) AS s FROM t", "window"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g LIMIT 3", "LIMIT"),
        ("SELECT DISTINCT g FROM t", "DISTINCT"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY ROLLUP (g)", "ROLLUP"),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g WITH CUBE", "CUBE"),
        ("SELECT g, my_function(x) AS s FROM t GROUP BY g", "my_function"),
        ("SELECT g, sum(main.tools.twice(x)) AS s FROM t GROUP BY g", "twice"),
        ("SELECT g, sum(`twice`(x)) AS s FROM t GROUP BY g", "twice"),
        ("SELECT g, first(x) AS s FROM t GROUP BY g", "first may have another value"),
        ("SELECT g, sum(x * rand()) AS s FROM t GROUP BY g", "rand"),
        ("SELECT current_date AS d, count(*) AS n FROM t GROUP BY current_date", "current_date"),
        ("SELECT g, count(*) AS n FROM t WHERE at < DATE 'today' GROUP BY g", "another time"),
        ("SELECT g, count(*) AS n FROM t WHERE at >= ' Yesterday UTC' GROUP BY g", "another time"),
        ("SELECT g, max(hash(*)) AS n FROM t GROUP BY g", "a star"),
        ("SELECT g, max(hash(x, t.*)) AS n FROM t GROUP BY g", "a star"),
        ("SELECT g, count(*) AS n FROM t WHERE at < `current_date` GROUP BY g", "current_date may have"),
        ("SELECT /*+ COALESCE(3) */ g, count(*) AS n FROM t GROUP BY g", "a hint"),
        ("SELECT upper(g) AS u, percentile(x, 0.5 AS p FROM t GROUP BY ALL", "cannot be"),
        ("SELECT g, count(*) AS n FROM t JOIN u ON t.g < u.g GROUP BY g", "no equality with a column of t"),
        ("SELECT g, count(*) AS n FROM t, u WHERE t.g = u.g GROUP BY g", "a join that is no inner"),
        ("SELECT g, count(*) AS n FROM t FULL JOIN u USING (g) GROUP BY g", "a join that is no inner"),
        ("SELECT g, count(*) AS n FROM t RIGHT JOIN u USING (g) GROUP BY g", "a join that is no inner"),
        ("SELECT g, count(*) AS n FROM t NATURAL JOIN u GROUP BY g", "a join that is no inner"),
        ("SELECT a.g, count(*) AS n FROM t AS a JOIN t AS b ON a.g = b.h GROUP BY a.g", "no equality"),
        ("SELECT t.g, count(*) AS n FROM t JOIN u ON t.g = u.g JOIN v ON u.h = v.h GROUP BY t.g", "a row of v touches"),
        ("SELECT g, count(*) AS n FROM t JOIN (SELECT * FROM u) AS u USING (g) GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM (SELECT * FROM t) GROUP BY g", "several queries"),
        ("WITH u AS (SELECT * FROM t) SELECT g, count(*) AS n FROM u GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM t WHERE x > (SELECT avg(x) FROM t) GROUP BY g", "several queries"),
        ("SELECT g, count(*) AS n FROM t GROUP BY g UNION ALL SELECT 1, 2", "more than one SELECT"),
        ("SELECT g, count(*) AS n FROM t TABLESAMPLE (10 PERCENT) GROUP BY g", "cannot be followed"),
        ("SELECT count(DISTINCT x) AS n FROM t GROUP BY g", "not in its SELECT list"),
        ("SELECT g, sum(transform(a, v -> v + 1)[0]) AS s FROM t GROUP BY g", "lambda"),
    ],
)
def test_what_is_not_known_to_be_safe_is_made_again_whole(query: str, why: str) -> None:
    found = upkeep(query)
    assert found.way == "whole"
    assert why in found.why


def test_a_join_is_followed_by_its_equality() -> None:
    found = upkeep(
        "SELECT r.g, name, count(p.g) AS n FROM a.t AS r /* who */ LEFT JOIN p USING (g)\n"
        "JOIN main.v ON v.h = lower(r.h) AND v.x > 0 WHERE r.x > 1 GROUP BY g, p.name"
    )
    assert found.way == "partial"
    assert found.why.endswith("; a row that changes in p touches those with its g; a row that changes in main.v "
                              "touches those with its h")  # fmt: skip
    grouped = found.grouped
    assert grouped is not None
    assert (grouped.table, grouped.groups, grouped.keys) == ("a.t", ("g", "p.name"), {0: "g", 1: "name"})
    assert grouped.from_ == (
        "_sluicegate_rows AS r LEFT JOIN _sluicegate_joined_p AS p USING (g) "
        "JOIN _sluicegate_joined_main_v AS v ON v.h = lower(r.h) AND v.x > 0"
    )
    assert [tie.columns for tie in grouped.joins["main.v"]] == [("h",)]
    # Of a row that finds no other p.g is NULL, and g is not.
    other = upkeep("SELECT p.g, count(*) AS n FROM t LEFT JOIN p USING (g) GROUP BY g", ["g"]).grouped
    assert other is not None
    assert other.keys == {}


def test_a_name_in_group_by_is_a_columns_first() -> None:
    query = "SELECT upper(g) AS g, count(*) AS n FROM t GROUP BY g"
    known, unknown = upkeep(query, ["g", "x"]).grouped, upkeep(query, ["x"]).grouped
    assert known is not None
    assert unknown is not None
    assert (known.groups, known.keys) == (("g",), {})
    assert (unknown.groups, unknown.keys) == (("upper(g)",), {0: "g"})


def test_expressions_are_cut_out_as_they_are_written() -> None:
    query = (
        "SELECT r.g || '-' || date(r.at) AS k, r.g, round(avg(x)  /*why*/, 2) AS a FROM t r GROUP BY r.g, date(r.at) "
    )
    grouped = upkeep(query + "HAVING avg(x) > 1 AND r.g <> 'g'").grouped
    assert grouped is not None
    assert outputs_sql(grouped, "v") == (
        "SELECT `k`, `g`, `a` FROM (SELECT _group_0 || '-' || _group_1 AS `k`, _group_0 AS `g`, "
        "round(_value_0 , 2) AS `a`, _value_0 > 1 AND _group_0 <> 'g' AS _having FROM v) WHERE _having"
    )
    assert [(call.function, call.arguments) for call in grouped.calls] == [("avg", ("x",)), ("avg", ("x",))]


@pytest.mark.parametrize(
    ("item", "by", "over"),
    [
        ("sum(x) / price * qty", "price, qty, price * qty", "_value_0 / _group_0 * _group_1"),
        ("f * (price * qty)", "price * qty", "f * (_group_0)"),
        ("NOT a AND b", "a, b, a AND b", "NOT _group_0 AND _group_1"),
        ("coalesce(a + b, 0)", "a + b", "coalesce(_group_0, 0)"),
        ("a + b * 2", "a, b, a + b", "_group_0 + _group_1 * 2"),
        ("upper(a) || upper(a).b", "upper(a)", "_group_0 || upper(a).b"),
        ("max(x) / 2024 + `2024`", "`2024`", "_value_0 / 2024 + _group_0"),
        ("t.`a` + A", "a", "_group_0 + _group_0"),
    ],
)
def test_a_group_is_found_only_where_it_is_one(item: str, by: str, over: str) -> None:
    grouped = upkeep(f"SELECT {item} AS z FROM t GROUP BY {by}").grouped
    assert grouped is not None
    assert grouped.outputs == ((over, "z"),)
