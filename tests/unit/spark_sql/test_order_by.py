"""What is left of ORDER BY when rows stand in a table: which columns it means, and the order of ``sluicegate sql``."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from sluicegate.gold import clustering
from sluicegate.settings import Settings
from sluicegate.spark_sql.order_by import Key, Ordering
from sluicegate.spark_sql.query import Query
from sluicegate.tools.sqlshell import shell

pytestmark = pytest.mark.unit


def said(sql: str) -> tuple[list[str], str]:
    """The columns that a query orders its rows by, in SQL, and what else it asks for."""
    found = Query.parse(sql).ordering
    return [
        f"{key.column}{' DESC' * key.descending}{'' if key.nulls_first != key.descending else _nulls(key)}"
        for key in found.keys
    ], found.lost


def _nulls(key: Key) -> str:
    return f" NULLS {'FIRST' if key.nulls_first else 'LAST'}"


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_table_is_clustered_by_MOST_columns_at_most(beyond: int) -> None:
    """The first of those that can be, each once."""
    names = [f"c{number}" for number in range(clustering.MOST + beyond)]
    schema = StructType([StructField("b", BooleanType()), *[StructField(name, IntegerType()) for name in names]])
    ordering = Ordering(tuple(Key(name, False, True) for name in ("b", names[0], *names)))
    assert clustering.columns(ordering, schema) == names[: min(len(names), clustering.MOST)]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_table_is_clustered_by_columns_that_are_COUNTED(beyond: int) -> None:
    """Each field of a struct counts as a column."""
    inner = StructType([StructField(f"f{number}", IntegerType()) for number in range(5)])
    before = [StructField(f"c{number}", IntegerType()) for number in range(clustering.COUNTED - 1 - 5 + beyond)]
    schema = StructType([StructField("s", inner), *before, StructField("last", IntegerType())])
    found = clustering.columns(Ordering((Key("last", False, True), Key("c0", False, True))), schema)
    assert found == (["last", "c0"] if beyond <= 0 else ["c0"])


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT a, b FROM t", []),
        ("SELECT a, b FROM t ORDER BY b, a", ["b", "a"]),
        ("SELECT a, b FROM t ORDER BY B DESC, (a) ASC NULLS LAST", ["b DESC", "a NULLS LAST"]),
        ("SELECT a, b FROM t ORDER BY b DESC NULLS FIRST LIMIT 3", ["b DESC NULLS FIRST"]),
        ("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY 2 DESC, 1", ["n DESC", "a"]),
        ("SELECT a AS `the key`, b FROM t ORDER BY `The Key`", ["the key"]),
        ("SELECT a AS b, b AS a FROM t ORDER BY a", ["a"]),  # the output of this name, which is b
        ("SELECT t.a AS b, b AS c FROM t ORDER BY t.b", ["c"]),
        ("SELECT a AS x FROM t AS r ORDER BY r.a, a", ["x", "x"]),
        ("SELECT g, sum(x) AS s FROM t GROUP BY g ORDER BY SUM(t.X) DESC, g", ["s DESC", "g"]),
        ("SELECT date_trunc('DD', at) AS day, max(x) AS m FROM t GROUP BY 1 ORDER BY date_trunc('DD', `at`)", ["day"]),
        ("SELECT a, b FROM t ORDER BY ALL DESC", ["a DESC", "b DESC"]),
        ("SELECT `all`, b FROM t ORDER BY `all`", ["all"]),
        ("SELECT * FROM t ORDER BY a, t.b", ["a", "b"]),
        ("SELECT *, x + 1 AS y FROM t ORDER BY y, z", ["y", "z"]),
        ("SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY a", ["a"]),
        ("(SELECT a FROM t ORDER BY a)", ["a"]),
        ("((SELECT a FROM t ORDER BY a DESC)) LIMIT 3", ["a DESC"]),
        ("WITH w AS (SELECT a FROM t ORDER BY z) SELECT a, 1 AS c FROM w ORDER BY c", ["c"]),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) AS s", []),
        ("SELECT a FROM t UNION (SELECT b FROM u ORDER BY b)", []),
        ("SELECT a, row_number() OVER (ORDER BY b) AS n FROM t", []),
        ("SELECT a, array_agg(b) WITHIN GROUP (ORDER BY b) AS bs FROM t GROUP BY a", []),
        ("SELECT a FROM t SORT BY a", []),
    ],
)
def test_keys_that_are_columns_of_the_table(sql: str, keys: list[str]) -> None:
    assert said(sql) == (keys, "")


@pytest.mark.parametrize(
    ("sql", "keys", "lost"),
    [
        ("SELECT a FROM t ORDER BY b", [], "b"),
        ("SELECT a, b FROM t ORDER BY a, abs(b), b", ["a"], "ABS(b)"),
        ("SELECT upper(a) AS a FROM t ORDER BY t.a", [], "t.a"),
        ("SELECT upper(x) AS u, y AS x FROM t ORDER BY upper(x)", [], "UPPER(x)"),  # of y, there
        ("SELECT g, sum(x) AS x FROM t GROUP BY g ORDER BY sum(x)", [], "SUM(x)"),
        ("SELECT s FROM t ORDER BY s.f", [], "s.f"),
        ("SELECT a FROM t ORDER BY 2", [], "2"),
        ("SELECT a FROM t ORDER BY -1", [], "-1"),
        ("SELECT a FROM t ORDER BY '1'", [], "'1'"),
        ("SELECT *, a AS b FROM t ORDER BY 2", [], "2"),
        ("SELECT * FROM t ORDER BY ALL", [], "ALL"),
        ("SELECT * EXCEPT (a), upper(a) AS a FROM t ORDER BY t.a", [], "t.a"),
        ("SELECT a.* FROM a JOIN b USING (k) ORDER BY b.x", [], "b.x"),
        ("SELECT a.x FROM a JOIN b USING (k) ORDER BY b.x", [], "b.x"),
        ("SELECT upper(a) AS u FROM t UNION SELECT b FROM v ORDER BY upper(a)", [], "UPPER(a)"),
    ],
)
def test_what_is_no_column_is_lost_and_said(sql: str, keys: list[str], lost: str) -> None:
    assert said(sql) == (keys, lost)


def test_keys_end_where_the_table_has_no_such_column() -> None:
    ordering = Query.parse("SELECT * FROM t ORDER BY a, gone, b").ordering
    assert ordering.leading_keys(["B", "A"]) == (Key("A", descending=False, nulls_first=True),)


@dataclass
class Gold:
    """As much of a gold table as the SQL command looks at."""

    ordering: Ordering


@dataclass
class Stand:
    """As much of a definition as the SQL command looks at."""

    name: str
    gold: dict[str, Gold]
    database: None = None
    bronze: tuple[str, ...] = ()
    silver: tuple[str, ...] = ()
    deidentified_tables: tuple[str, ...] = ()
    ruled: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings.of)


ROWS = [(g, n, x) for g in ("b", None, "B", "a") for n, x in ((3, 0.5), (None, float("nan")), (1, None), (2, -1.0))]


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """Asks a lake with a table whose rows stand in no order, ordered by its definition: g downwards, then n."""
    rows = random.Random(1).sample(ROWS, len(ROWS))
    for part in (rows[:7], rows[7:]):
        columns = dict(zip("gnx", map(list, zip(*part, strict=True)), strict=True))
        for name in ("daily", "plain"):
            write_deltalake(str(tmp_path / "p/gold" / name), pa.table(columns), mode="append")
    queries = {"daily": "SELECT g, n, x FROM s ORDER BY g DESC, 2", "plain": "SELECT g, n, x FROM s"}
    stand = Stand("p", {name: Gold(Query.parse(query).ordering) for name, query in queries.items()})
    settings = Settings(str(tmp_path), str(tmp_path / "landing"), tmp_path / "pipelines", "local")

    def asked(sql: str) -> list[tuple[Any, ...]]:
        table = shell.query(sql, cast("Any", {"p": stand}), settings)
        return [tuple(row.values()) for row in table.to_pylist()]

    return asked


# As Spark has it: NULL is less than all values, and a capital less than a small letter.
IN_ORDER = [(g, n) for g in ("b", "a", "B", None) for n in (None, 1, 2, 3)]


def test_rows_come_in_the_order_of_the_definition(ask: Any) -> None:
    assert ask("SELECT g, n FROM p.daily") == IN_ORDER
    assert [row[:2] for row in ask("SELECT * FROM daily AS d WHERE d.n > 1")] == [
        row for row in IN_ORDER if (row[1] or 0) > 1
    ]
    assert ask("SELECT n FROM p.daily LIMIT 5") == [(n,) for _, n in IN_ORDER[:5]]
    assert ask("SELECT n FROM daily LIMIT 2 OFFSET 4") == [(None,), (1,)]
    # What a name means in the SELECT list does not matter, nor whether the key is shown.
    assert ask("SELECT -n AS g, g AS n FROM daily") == [(None if n is None else -n, g) for g, n in IN_ORDER]
    assert ask("SELECT upper(g) AS u FROM daily VERSION AS OF 1 WHERE n = 1") == [("B",), ("A",), ("B",), (None,)]
    assert ask("SELECT n FROM daily WHERE n = (SELECT max(n) FROM plain) AND g <> 'a'") == [(3,), (3,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT n FROM daily WHERE g = 'a' ORDER BY n DESC", [(3,), (2,), (1,), (None,)]),
        ("SELECT count(*) AS c, max(g) AS g FROM daily", [(16, "b")]),
        ("SELECT n, count(*) AS c FROM daily GROUP BY n ORDER BY n", [(None, 4), (1, 4), (2, 4), (3, 4)]),
        ("SELECT DISTINCT n FROM daily ORDER BY n DESC LIMIT 1", [(3,)]),
        ("SELECT n FROM daily WHERE g = 'a' UNION SELECT 9 ORDER BY n DESC LIMIT 1", [(9,)]),
        ("SELECT d.n FROM daily AS d JOIN plain AS e ON d.g = e.g AND d.n = e.n WHERE d.g = 'a' ORDER BY d.n DESC",
         [(3,), (2,), (1,)]),
        ("WITH w AS (SELECT n FROM daily WHERE g = 'a') SELECT n FROM w ORDER BY n LIMIT 2", [(None,), (1,)]),
    ],
)  # fmt: skip
def test_other_queries_are_as_they_were(ask: Any, sql: str, expected: list[Any]) -> None:
    assert ask(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT g FROM daily",
        "SELECT g FROM daily GROUP BY g",
        "SELECT g FROM plain GROUP BY ALL",
        "SELECT g FROM (SELECT DISTINCT g FROM daily) AS s",
    ],
)
def test_what_has_no_order_has_its_rows_nevertheless(ask: Any, sql: str) -> None:
    assert Counter(ask(sql)) == Counter([("a",), ("b",), ("B",), (None,)])
