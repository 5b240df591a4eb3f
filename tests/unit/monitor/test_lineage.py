"""Lineage of a pipeline's columns, by its definition and by what its tables have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate import api
from sluicegate.errors import DefinitionError
from sluicegate.monitor.lineage import TableLineage
from sluicegate.spark_sql.lineage.model import Origins
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

SHOP = """\
name: heart_rate
bronze:
  raw: {path: "${landing}/in", format: json, schemaHints: "id INT, who STRING, price DOUBLE"}
  names: {path: "${landing}/names", format: csv, schema: "id INT, name STRING"}
silver:
  orders:
    sql: SELECT id, who, price * 2 AS price, name, day FROM STREAM(raw) LEFT JOIN names USING (id)
    keys: [id]
    sequence_by: day
    expectations:
      dear: {expect_or_drop: price > 0}
      late: {expect: day IS NOT NULL}
    pii: [who]
    deidentified: {who: hmac, name: drop}
"""


def words(origins: Origins) -> set[str]:
    return {f"{of.table}.{of.column} {use.subtype.lower()}{'*' * use.masked}" for of, use in origins}


def columns(table: TableLineage) -> dict[str, set[str]]:
    return {name: words(origins) for name, origins in table.columns.items()}


def of(workspace: Workspace, table: str) -> TableLineage:
    return api.lineage(workspace.definition)[table]


@pytest.fixture
def shop(workspace: Workspace) -> Workspace:
    workspace.define(SHOP)
    return workspace


def test_columns_and_rows_of_a_silver_table(shop: Workspace) -> None:
    found = of(shop, "orders")
    assert columns(found) == {
        "id": {"raw.id identity"},
        "who": {"raw.who identity"},
        "price": {"raw.price transformation"},
        "name": {"names.name identity"},
        "day": {"raw.day identity", "names.day identity"},  # either may have it before there is a table
    }
    assert words(found.rows) == {
        "raw.id join", "names.id join", "raw.price filter", "raw.id group_by", "raw.day sort", "names.day sort",
    }  # fmt: skip


def test_a_table_tells_which_of_two_has_a_column(shop: Workspace) -> None:
    write_deltalake(shop.uri("names"), pa.table({"id": [1], "name": ["x"], "source_file": ["f"], "_chunk": [1]}))
    assert columns(of(shop, "orders"))["day"] == {"raw.day identity"}


def test_of_its_quarantine(shop: Workspace) -> None:
    found = of(shop, "orders_quarantine")
    assert columns(found)["_failed_expectations"] == {"raw.price conditional"}
    assert columns(found)["_record"] == {"raw.* transformation"}
    assert columns(found)["price"] == {"raw.price transformation"}


def test_of_its_deidentified_copy(shop: Workspace) -> None:
    assert columns(of(shop, "orders_deidentified")) == {
        "id": {"orders.id identity"},
        "who": {"orders.who transformation*"},
        "price": {"orders.price identity"},
        "day": {"orders.day identity"},
    }


def test_a_star_brings_what_the_table_before_has(workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/in', format: json}\n"
        "silver:\n  s: {sql: SELECT * FROM STREAM(raw)}\ngold:\n  g: {sql: SELECT * EXCEPT (b) FROM s}\n"
    )
    assert of(workspace, "g").rest == {"s"}
    write_deltalake(workspace.uri("raw"), pa.table({"A": [1], "b": [1], "_chunk": [1], "_pos": [1]}))
    found = columns(of(workspace, "g"))
    assert found["A"] == {"s.a identity"}
    assert {"b", "_chunk", "_pos"}.isdisjoint(found)
    assert found["source_file"] == {"s.source_file identity"}


def test_a_history_has_its_times_by_the_sequence(workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  raw:\n    path: ${landing}/in\n    format: json\n"
        "    schemaHints: id INT, v INT, w INT, n INT\n"
        "silver:\n  s:\n    from: raw\n    apply_changes: {keys: [id], sequence_by: n, stored_as_scd_type: 2,"
        " apply_as_deletes: w > 1, track_history_column_list: [v], except_column_list: [w]}\n"
    )
    found = of(workspace, "s")
    assert columns(found)["__START_AT"] == {"raw.n transformation", "raw.v conditional"}
    assert columns(found)["v"] == {"raw.v identity"}
    assert "w" not in columns(found)
    assert words(found.rows) == {"raw.id group_by", "raw.n sort", "raw.w filter"}


FLOWS = """\
name: heart_rate
bronze:
  a: {path: "${landing}/a", format: json, schemaHints: x INT}
  b: {path: "${landing}/b", format: json, schemaHints: y INT}
silver:
  both: {sql: SELECT x AS v FROM STREAM(a) UNION ALL SELECT y FROM STREAM(b)}
"""


def test_flows_make_columns_together(workspace: Workspace) -> None:
    workspace.define(FLOWS)
    assert columns(of(workspace, "both")) == {"v": {"a.x identity", "b.y identity"}}


PYTHON = """\
name: heart_rate
bronze:
  raw: {path: "${landing}/in", format: json, schemaHints: "x INT, y INT"}
gold:
  g: {python: "g.py:make", reads: [raw], lineage: {v: [raw.X]}}
"""


def test_of_a_function_as_it_is_declared_and_else_all(workspace: Workspace) -> None:
    workspace.define(PYTHON, g__py="def make(tables): ...\n")
    write_deltalake(workspace.uri("g"), pa.table({"v": [1], "w": [1]}))
    found = of(workspace, "g")
    assert columns(found) == {"v": {"raw.x transformation"}, "w": {"raw.* transformation"}}
    assert found.unsure == "a Python function computes it"


@pytest.mark.parametrize(
    ("lineage", "said"),
    [
        ("{v: [row.x]}", "does not read row"),
        ("{v: [x]}", "TABLE.COLUMN"),
        ("{v: [raw.x, raw.x]}", "duplicate name"),
    ],
)
def test_what_is_declared_is_of_tables_that_are_read(workspace: Workspace, lineage: str, said: str) -> None:
    workspace.define(PYTHON.replace("{v: [raw.X]}", lineage), g__py="def make(tables): ...\n")
    with pytest.raises(DefinitionError, match=said) as error:
        _ = workspace.definition
    assert error.value.mistakes[0].line == 5


def test_a_query_declares_nothing(shop: Workspace) -> None:
    shop.edit("pipeline.yaml", "    keys: [id]", "    keys: [id]\n    lineage: {id: [raw.id]}")
    with pytest.raises(DefinitionError, match="Python functions"):
        _ = shop.definition


def test_what_is_declared_makes_no_table_anew(workspace: Workspace) -> None:
    workspace.define(PYTHON, g__py="def make(tables): ...\n")
    before = workspace.definition.gold["g"].fingerprint
    workspace.edit("pipeline.yaml", "{v: [raw.X]}", "{}")
    assert workspace.definition.gold["g"].fingerprint == before
