"""Records of many rows: elements that get fields, their texts in quarantine, few records with very many rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from sluicegate.errors import QueryError
from sluicegate.flow import thresholds
from sluicegate.flow.selection import Replay
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.flow.table_report import TableReport

pytestmark = pytest.mark.spark

DEFINED = """
name: heart_rate
bronze:
  orders:
    path: "${landing}/orders"
    format: json
    allowOverwrites: true
    inferColumnTypes: true
    schemaHints: "id BIGINT, lines ARRAY<STRUCT<sku: STRING, qty: BIGINT>>"
silver:
  lines:
    rows: many
    sql: QUERY
"""
LINES = "SELECT o.id, l.* FROM STREAM(orders) AS o LATERAL VIEW inline(o.lines) l"


def define(workspace: Workspace, query: str, more: str = "") -> None:
    workspace.define(DEFINED.replace("QUERY", json.dumps(query)) + more)


def land(workspace: Workspace, name: str, age: float, *records: list[dict[str, Any]]) -> None:
    """Lands orders with these lines, whose ids go through from 1."""
    texts = [json.dumps({"id": id_, "lines": lines}) for id_, lines in enumerate(records, 1)]
    workspace.land(f"orders/{name}", "\n".join(texts), age)


def line(sku: str, qty: int, **more: Any) -> dict[str, Any]:
    return {"sku": sku, "qty": qty, **more}


def run(spark: SparkSession, workspace: Workspace) -> None:
    workspace.run(spark, "bronze", "silver")
    assert status.verify(workspace.definition, workspace.settings) == []


def replay(spark: SparkSession, workspace: Workspace) -> TableReport:
    choice = Replay("lines", everything=True)
    return Job(workspace.definition, workspace.lake, "silver", {"run_id": "test"}, spark, choice=choice).run().tables[0]


def test_an_element_that_gets_a_field_stops_nothing_and_changes_no_number(
    spark: SparkSession, workspace: Workspace
) -> None:
    """A table of today and one that is made anew have the same winner of a key, though a double sorts otherwise."""
    define(workspace, "SELECT o.id, line FROM STREAM(orders) AS o LATERAL VIEW explode(o.lines) x AS line",
           "    keys: [id]\n  columns: {rows: many, sql: " + json.dumps(LINES) + "}\n")  # fmt: skip
    land(workspace, "a.json", 90, [line("a", 2), line("b", 1)])
    run(spark, workspace)
    land(workspace, "b.json", 80, [], [line("c", 3, price=0.5)])
    run(spark, workspace)
    held = sorted(
        (id_, number, row["sku"]) for id_, number, row in workspace.rows("lines", "id", "_record_row", "line")
    )
    assert held == [(1, 1, "b"), (2, 1, "c")]
    assert replay(spark, workspace).unchanged
    assert sorted(workspace.rows("columns", "id", "sku", "price"), key=str) == [
        (1, "a", None), (1, "b", None), (2, "c", 0.5),
    ]  # fmt: skip


@pytest.mark.more
def test_the_quarantine_has_the_text_of_a_record_once(spark: SparkSession, workspace: Workspace) -> None:
    """With each of its rows, a thousand lines would be there a million times."""
    define(workspace, LINES, "    expectations: {some: {expect_or_quarantine: qty > 1}}\n")
    land(workspace, "a.json", 90, [line("a", 1), line("b", 0), line("c", 0), line("d", 5)], [line("e", 0)])
    run(spark, workspace)

    def texts() -> list[tuple[int, str, list[str]]]:
        rows = workspace.rows("lines_quarantine", "id", "sku", "_record")
        return [(id_, sku, [one["sku"] for one in json.loads(text or '{"lines": []}')["lines"]])
                for id_, sku, text in sorted(rows, key=lambda row: row[:2])]  # fmt: skip

    whole = ["a", "b", "c", "d"]
    assert texts() == [(1, "a", whole), (1, "b", []), (1, "c", []), (2, "e", ["e"])]
    workspace.edit("pipeline.yaml", "qty > 1", "qty > 0")
    replay(spark, workspace)
    assert texts() == [(1, "b", whole), (1, "c", []), (2, "e", ["e"])]
    run(spark, workspace)
    assert replay(spark, workspace).unchanged


@pytest.mark.release
def test_few_records_of_many_rows_are_not_brought_to_the_driver(spark: SparkSession, workspace: Workspace) -> None:
    """Whether they come new or are applied again, and whether they have a key."""
    define(workspace, LINES, "    keys: [sku]\n")
    land(workspace, "a.json", 90, [line("a", 1)])
    run(spark, workspace)

    def engine(name: str, age: float, *skus: str) -> str:
        land(workspace, name, age, [line(sku, 1) for sku in skus])
        run(spark, workspace)
        return str(tables.table_at(workspace.uri("lines")).history(1)[0]["engineInfo"]).lower()

    with mock.patch.object(thresholds, "FEW", 4):
        assert "delta-rs" in engine("b.json", 80, "b", "c", "d", "e")
        assert "spark" in engine("c.json", 70, "f", "g", "h", "i", "j")
        assert "delta-rs" in engine("d.json", 60, "k", "l")
        assert "delta-rs" in engine("d.json", 50, "m", "n")  # two go and two come
        assert "spark" in engine("d.json", 40, "o", "p", "q")
    held = sorted(sku for (sku,) in workspace.rows("lines", "sku"))
    assert held == [*"abcdefghijopq"]


@pytest.mark.more
def test_a_star_that_brings_our_column_is_refused(spark: SparkSession, workspace: Workspace) -> None:
    """Other names of a line that begin like ours are columns like any other."""
    define(workspace, LINES)
    land(workspace, "a.json", 90, [line("a", 1, _order_1=2.5)])
    run(spark, workspace)
    assert workspace.rows("lines", "sku", "_order_1", "_record_row") == [("a", 2.5, 1)]
    land(workspace, "b.json", 80, [line("b", 1, _record_row=7)])
    with pytest.raises(QueryError, match="returns a column _record_row") as raised:
        workspace.run(spark, "bronze", "silver")
    assert "EXCEPT" in raised.value.hint


@pytest.mark.more
def test_a_record_of_very_many_rows_fits_into_memory(spark: SparkSession, workspace: Workspace) -> None:
    """Its rows do not hold it, neither when a generator makes them nor in quarantine: it has 1 MB, 20 GB with each."""
    define(workspace, LINES, "    quarantine: record\n    expectations: {some: {expect_or_quarantine: qty >= 0}}\n")
    lines = [line(f"sku {number}", number % 100) for number in range(20_000)]
    land(workspace, "a.json", 90, lines, [*lines, line("broken", -1)])
    run(spark, workspace)
    assert [len(workspace.rows(name)) for name in ("lines", "lines_quarantine")] == [20_000, 20_001]
    assert replay(spark, workspace).unchanged
