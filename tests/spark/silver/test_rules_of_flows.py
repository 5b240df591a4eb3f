"""Rules of tables that several flows fill, and of those whose records give many rows: over the rows of all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import ExpectationFailed, TableRuleFailed
from sluicegate.frames.rules import table_rules
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]

DEFINITION = """\
name: heart_rate
params:
  most: {type: int, default: 100}
views:
  shops_known: SELECT shop FROM shops WHERE shop IS NOT NULL
bronze:
  eu: {path: "${landing}/eu", format: json, allowOverwrites: true, schemaHints: "id BIGINT, price BIGINT"}
  us: {path: "${landing}/us", format: json, allowOverwrites: true, schemaHints: "id BIGINT, price BIGINT"}
  shops: {path: "${landing}/shops", format: json}
silver:
  sales:
    COMMENT
    rows: many
    flows:
      eu: {sql: "SELECT id, 'eu' AS shop, explode(array(price, price + 1)) AS price FROM STREAM(eu)"}
      us: {sql: "SELECT id, 'us' AS shop, price, tip FROM STREAM(us)"}
    expectations:
      paid: {expect_or_quarantine: price > 0, fail_above: 2}
      tipped: {expect: tip > 0}
    expect_table:
      room: {rows: {min: 1, max: 8}}
      once: {unique: [id, price, tip]}
      known: {sql: "SELECT s.id FROM sales AS s LEFT ANTI JOIN shops_known AS k ON k.shop = s.shop"}
      cheap: {sql: "SELECT id FROM sales WHERE price > ${param:most}"}
"""


def land(workspace: Workspace, name: str, *records: dict[str, Any], age: float = 60) -> None:
    workspace.land(f"{name}.json", "\n".join(json.dumps(one) for one in records), age)


def run(spark: SparkSession, workspace: Workspace) -> dict[str, Any]:
    reports = workspace.run(spark, "bronze", "silver")
    assert status.verify(workspace.definition, workspace.settings) == []
    return reports


def sales(workspace: Workspace, table: str = "sales") -> list[Any]:
    return sorted(workspace.rows(table, "_record_flow", "id", "price", "_record_row"))


def test_all_flows_are_held_to_them_together(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One flow waits for its table, with a column that rules name; each refusal leaves the offsets of all of them."""
    workspace.define(DEFINITION.replace("COMMENT", "comment: of both"))
    for folder in ("eu", "us", "shops"):
        (workspace.folder / "landing" / folder).mkdir(parents=True)
    land(workspace, "shops/a", {"shop": "eu"})
    land(workspace, "eu/a", {"id": 1, "price": 5})
    done = run(spark, workspace)["sales"]
    assert done.table_rules == {"room": 0, "once": 0, "known": 0, "cheap": 0}
    assert done.expectations["tipped"] == {"passed": 0, "failed": 2}
    land(workspace, "us/a", {"id": 1, "price": 6, "tip": 1}, {"id": 2, "price": 200})
    land(workspace, "eu/b", {"id": 3, "price": -1})
    with pytest.raises(TableRuleFailed, match=r"broke known \(2 rows\), cheap \(1 rows\)"):
        workspace.run(spark, "bronze", "silver")
    assert sales(workspace) == [("eu", 1, 5, 1), ("eu", 1, 6, 2)]
    assert workspace.rows("sales_quarantine") == []
    land(workspace, "shops/b", {"shop": "us"})
    land(workspace, "us/a", {"id": 1, "price": 6, "tip": 1}, {"id": 2, "price": -1}, age=30)
    with pytest.raises(ExpectationFailed, match=r"paid \(3 of 4 rows, above 2\)"):
        workspace.run(spark, "bronze", "silver")
    assert sales(workspace, "sales_rejected") == [("eu", 3, -1, 1), ("eu", 3, 0, 2), ("us", 2, -1, 1)]
    land(workspace, "us/a", {"id": 1, "price": 6, "tip": 1}, {"id": 2, "price": 2}, age=20)
    done = run(spark, workspace)["sales"]
    assert (done.quarantined, done.flows["eu"]["quarantined"], done.flows["us"]["written"]) == (2, 2, 2)
    assert sales(workspace) == [("eu", 1, 5, 1), ("eu", 1, 6, 2), ("us", 1, 6, 1), ("us", 2, 2, 1)]
    assert workspace.rows("sales_rejected") == []
    # A comment is a commit, which changes no row: the keys of the rows that come are asked, and not those of all.
    workspace.edit("pipeline.yaml", "comment: of both", "comment: of all shops")
    run(spark, workspace)
    looked_for: list[int] = []
    sharing = table_rules._rows_with_keys

    def spy(rows: Any, columns: Any, keys: Any) -> Any:
        looked_for.append(keys.count())
        return sharing(rows, columns, keys)

    monkeypatch.setattr(table_rules, "_rows_with_keys", spy)
    land(workspace, "us/b", {"id": 9, "price": 9})
    run(spark, workspace)
    assert looked_for == [1, 0]
    # Rows of a flow that is taken out go, and too few are left.
    workspace.edit("pipeline.yaml", "rows: {min: 1, max: 8}", "rows: {min: 4, max: 8}")
    text = (workspace.folder / "pipelines" / "heart_rate" / "pipeline.yaml").read_text()
    eu = next(line for line in text.splitlines(True) if line.startswith("      eu: {sql"))
    workspace.edit("pipeline.yaml", eu, "")
    with pytest.raises(TableRuleFailed, match="room"):
        workspace.run(spark, "bronze", "silver")
    assert len(sales(workspace)) == 5
