"""Analysis of queries without Spark: what is certainly wrong is told, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from sluicegate.spark_sql.analysis.checked_expressions import SHOWN
from sluicegate.spark_sql.analysis.plain_tree import parse_plainly
from sluicegate.spark_sql.analysis.queries import QueryAnalysis, Schema, analyze
from sluicegate.spark_sql.analysis.signatures import signatures

pytestmark = pytest.mark.unit

SCHEMAS = {
    "orders": Schema(
        {"order_id": "int", "customer": "string", "amount": "double", "price": "decimal", "shipped": "date",
         "placed_at": "timestamp", "gift": "boolean", "address": "?", "items": "?"},
        complete=True,
    ),
    "customers": Schema({"customer": "string", "region": "string", "birthday": "date"}, complete=True),
    "landed": Schema({"known": "int"}),
}  # fmt: skip

ACCEPTED = [
    "SELECT order_id, upper(customer) AS customer FROM orders WHERE amount > 1 AND gift",
    "SELECT o.order_id, c.region FROM orders AS o JOIN customers AS c ON o.customer = c.customer",
    "SELECT region, sum(amount) AS total FROM orders JOIN customers USING (customer) GROUP BY region HAVING total > 5",
    "WITH paid AS (SELECT customer, amount * 2 AS twice FROM orders) SELECT twice + 1 AS m FROM paid ORDER BY customer",
    "SELECT order_id FROM orders WHERE EXISTS (SELECT 1 FROM customers WHERE birthday < shipped)",
    "SELECT order_id, (SELECT max(region) FROM customers AS c WHERE c.customer = orders.customer) AS r FROM orders",
    "SELECT amount + 1 AS next, next + 1 AS later FROM orders",
    "SELECT row_number() OVER (PARTITION BY customer ORDER BY placed_at DESC) AS r FROM orders QUALIFY r = 1",
    "SELECT order_id, item.sku FROM orders LATERAL VIEW explode(items) i AS item",
    "SELECT transform(items, item -> item.price + amount) AS prices, address.street FROM orders",
    "SELECT order_id FROM (SELECT order_id, region FROM orders, customers) AS both WHERE both.region = 'x'",
    "SELECT count(DISTINCT customer, region) AS n FROM orders FULL JOIN customers USING (customer)",
    "SELECT max(shipped) FILTER (WHERE gift) AS last FROM orders GROUP BY GROUPING SETS ((customer), ())",
    "SELECT transform(items, e -> e.resource.code.coding.display) AS a, exists(items, E -> e > 1) AS b FROM orders",
    "SELECT aggregate(items, 0, (Acc, x) -> acc + x + amount, ACC -> acc * 2) AS total FROM orders",
    "SELECT o.order_id FROM orders AS o WHERE EXISTS (WITH c AS (SELECT c.region FROM customers AS c WHERE c.customer "
    "= o.customer), d AS (SELECT region FROM c WHERE o.gift) SELECT 1 FROM d)",
    "SELECT transform(items, Part -> transform(part.parts, p -> p.a.b.c + PART.cost)) AS prices FROM orders",
]

SILENT = [
    "SELECT known, other FROM landed",
    "SELECT l.other, o.amount FROM landed AS l JOIN orders AS o ON o.order_id = l.whatever",
    "SELECT window.start FROM orders GROUP BY window(placed_at, '1 day')",
    "SELECT current_date, current_date() AS today FROM orders",
    "SELECT `upper(customer)` FROM (SELECT upper(customer) FROM orders)",
    "SELECT _metadata.file_path, source_file, order_id FROM orders",
    "SELECT timestampadd(DAY, 1, placed_at) AS t, datediff(MONTH, placed_at, shipped) AS d FROM orders",
    "SELECT mine.rate(amount) AS r, /*+ BROADCAST(c) */ 1 AS one FROM orders",
    "SELECT * FROM range(3) WHERE id > 1",
    "SELECT day + 1 AS x FROM (SELECT gift AS day FROM orders UNION ALL SELECT '2024-01-01')",
    "SELECT shipped + 1 AS a, shipped - shipped AS b, customer + 1 AS c, sum(customer) AS d FROM orders GROUP BY ALL",
    "SELECT CASE amount WHEN 1 THEN 2 END AS a, mask(customer, upperChar => 'Q') AS b FROM orders",
    "SELECT shipped = '2024-01-01' AS a, gift = 1 AS b, placed_at > shipped AS c FROM orders",
    "SELECT o.customer FROM orders AS o UNION ALL SELECT c.customer FROM customers AS c ORDER BY o.customer",
    "SELECT o.customer FROM orders AS o EXCEPT SELECT customer FROM customers SORT BY upper(o.customer)",
    "SELECT 1 AS x FROM orders WHERE customer IN (SELECT c.customer FROM customers AS c INTERSECT SELECT o.customer "
    "FROM orders AS o ORDER BY c.customer LIMIT 1)",
    "SELECT forall(items, Shipped -> shipped > 1) AS a FROM orders",
]

WRONG = [
    ("SELECT amuont FROM orders", "unknown-column", 1, "did you mean amount?"),
    ("SELECT\n  o.amuont\nFROM orders AS o", "unknown-column", 2, "did you mean amount?"),
    ("SELECT 1 AS x FROM orders AS o WHERE orders.amount > 1", "unknown-column", 1, "did you mean o.amount?"),
    ("SELECT a.x FROM (SELECT amount AS y FROM orders) AS a", "unknown-column", 1, "known columns: y"),
    ("SELECT 1 AS x FROM orders JOIN customers USING (custmer)", "unknown-column", 1, "did you mean customer?"),
    ("SELECT 1 AS x FROM orders JOIN customers USING (amount)", "unknown-column", 1, "known columns:"),
    ("SELECT customer FROM orders UNION SELECT customer FROM customers ORDER BY amuont", "unknown-column", 1, ""),
    ("SELECT total FROM orders GROUP BY total", "unknown-column", 1, ""),
    ("SELECT 1 AS x FROM orders WHERE later > 1 AND amount > 1", "unknown-column", 1, ""),
    ("SELECT uper(customer) AS u FROM orders", "unknown-function", 1, "did you mean upper?"),
    ("SELECT unknown_one(other) AS u FROM landed", "unknown-function", 1, ""),
    ("SELECT 1,\n concat_ws() AS u FROM orders", "wrong-arguments", 2, ""),
    ("SELECT date_trunc('day') AS u FROM orders", "wrong-arguments", 1, ""),
    ("SELECT to_date(customer, 'y', 1) AS u FROM orders", "wrong-arguments", 1, ""),
    ("SELECT shipped + customer AS x FROM orders", "type-mismatch", 1, ""),
    ("SELECT sum(shipped) AS x FROM orders", "type-mismatch", 1, ""),
    ("SELECT 1 AS x FROM orders WHERE amount", "type-mismatch", 1, ""),
    ("SELECT 1 AS x FROM orders JOIN customers ON order_id", "type-mismatch", 1, ""),
    ("SELECT if(amount, 1, 2) AS x, CASE WHEN price THEN 1 END AS y FROM orders", "type-mismatch", 1, ""),
    ("SELECT 1 AS x FROM orders WHERE placed_at > amount", "type-mismatch", 1, ""),
    ("SELECT NOT order_id AS x FROM orders", "type-mismatch", 1, ""),
    ("SELECT 1 AS x FROM orders WHERE gift AND order_id", "type-mismatch", 1, ""),
    ("SELECT CAST(gift AS DATE) AS x FROM orders", "type-mismatch", 1, ""),
    ("SELECT y + 1 AS z FROM (SELECT gift AS y FROM orders)", "type-mismatch", 1, ""),
    ("SELECT gift - (1 + order_id) * 2 AS z FROM orders", "type-mismatch", 1, ""),
]  # fmt: skip


def analysis(text: str) -> QueryAnalysis:
    return analyze(text, {name: schema for name, schema in SCHEMAS.items() if name in text})


def summary(text: str) -> list[tuple[str, int, str]]:
    return [(mistake.code, mistake.line, mistake.hint) for mistake in analysis(text).mistakes]


@pytest.mark.parametrize("text", [*ACCEPTED, *SILENT])
def test_what_Spark_accepts_or_only_Spark_knows_is_no_mistake(text: str) -> None:
    assert summary(text) == []


@pytest.mark.parametrize(("text", "code", "line", "hint"), WRONG)
def test_what_Spark_refuses_is_told_with_its_line_and_the_nearest_name(
    text: str, code: str, line: int, hint: str
) -> None:
    mistakes = summary(text)
    assert {mistake[:2] for mistake in mistakes} == {(code, line)}
    assert mistakes[0][2].startswith(hint)


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("luhn_check()", "1, not 0"),
        ("ntile(1, 2)", "0 or 1, not 2"),
        ("make_dt_interval(1, 2, 3, 4, 5)", "0 to 4, not 5"),
        ("make_timestamp(1, 2, 3, 4)", "1 or 2 or 3 or 6 or 7, not 4"),
        ("concat_ws()", "at least 1, not 0"),
    ],
)
def test_the_numbers_of_arguments_are_those_that_the_function_takes(call: str, numbers: str) -> None:
    messages = [mistake.message for mistake in analysis(f"SELECT {call} AS x FROM orders").mistakes]
    assert messages == [f"the number of arguments of {call.partition('(')[0]} must be {numbers}"]


@pytest.mark.parametrize(("beyond", "ending"), [(-1, ""), (0, ""), (1, " and 1 more")])
def test_SHOWN_columns_are_listed_once_and_all_are_counted(beyond: int, ending: str) -> None:
    names = [f"column_{number}" for number in range(SHOWN + beyond)]
    wide = Schema(dict.fromkeys(names, "int"), complete=True)
    for text in ("SELECT qqq FROM wide", "SELECT x.qqq FROM wide", "SELECT wide.qqq FROM wide"):
        [mistake] = analyze(text, {"wide": wide}).mistakes
        assert mistake.hint == f"known columns: {', '.join(names[:SHOWN])}{ending}"


def test_all_mistakes_are_told_at_once() -> None:
    text = "SELECT amuont, uper(customer) AS u FROM orders\nWHERE amount\nGROUP BY gfit"
    assert sorted(summary(text)) == [
        ("type-mismatch", 2, ""),
        ("unknown-column", 1, "did you mean amount?"),
        ("unknown-column", 3, "did you mean gift?"),
        ("unknown-function", 1, "did you mean upper?"),
    ]


def test_what_cannot_be_checked_is_told() -> None:
    assert [bool(analysis(text).unsure) for text in ACCEPTED] == [False] * len(ACCEPTED)
    assert "landed" in analysis("SELECT known FROM landed").unsure
    assert analysis("SELECT * FROM orders PIVOT (sum(amount) FOR gift IN (true, false))").unsure
    assert analysis("SELECT address.* FROM orders").unsure
    assert analysis(f"SELECT {'amount + ' * 2000}1 AS x FROM orders").unsure == "it is nested too deeply"


def test_the_columns_of_a_query_have_the_kinds_that_its_expressions_give() -> None:
    text = "SELECT order_id, amount + 1 AS a, CAST(customer AS DATE) AS b, 'x' AS c, count(*) AS n, items FROM orders"
    assert analysis(text).schema == Schema(
        {"order_id": "int", "a": "double", "b": "date", "c": "string", "n": "?", "items": "?"}, complete=True
    )
    assert analysis("SELECT * FROM orders").schema == SCHEMAS["orders"]
    assert not analysis("SELECT *, known FROM landed").schema.complete


@given(st.data())
def test_a_misspelled_column_is_told_with_its_right_name(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(ACCEPTED))
    known = {name for schema in SCHEMAS.values() for name in schema.columns}
    columns = [node for node in parse_plainly(text).find_all(exp.Column) if node.name in known]
    column = data.draw(st.sampled_from(columns))
    place = data.draw(st.integers(0, len(column.name)))
    letter = data.draw(st.sampled_from("xqz"))
    wrong = column.name[:place] + letter + column.name[place:]
    start = column.this.meta["start"]
    mistakes = summary(f"{text[:start]}{wrong}{text[start + len(column.name) :]}")
    assert ("unknown-column", 1, f"did you mean {column.name}?") in [
        (code, line, hint.replace(f"{column.table}.", "")) for code, line, hint in mistakes
    ]


@given(st.data())
def test_a_misspelled_function_is_told_with_a_near_name(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(signatures().counts)))
    wrong = f"{name}_{data.draw(st.sampled_from('xqz'))}"
    [mistake] = analysis(f"SELECT {wrong}(amount) AS x FROM orders").mistakes
    assert mistake.code == "unknown-function"
    assert wrong in mistake.message
