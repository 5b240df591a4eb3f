"""Parameters in Spark: each literal has the type and the value that its parameter has, and a changed one is a changed
definition of the tables that use it, and of no other.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sluicegate.lake import tables as lakes
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = r"""
name: heart_rate
params:
  shop: {type: string, default: "it's \\ a\nshop"}
  folder: {type: string, default: north}
  least: {type: decimal, default: "2.50"}
  most: {type: int, default: -5}
  big: {type: bigint, default: 5000000000}
  rate: {type: double, default: 1.0e-7}
  day: {type: date, default: 2024-05-01}
  at: {type: timestamp, default: "2024-05-01T12:00:00.000001+02:00"}
  on: {type: boolean, default: true}
  ids: {type: "list<int>", default: [1, 2]}
bronze:
  raw: {path: "${landing}/${param:folder}", format: json, schemaHints: "id INT, price DECIMAL(10,2)"}
silver:
  sold:
    sql: |
      SELECT r.id, r.price, ${param:shop} AS shop FROM STREAM(raw) AS r WHERE r.id IN (${param:ids})
    expect_all_or_drop: {dear: "price >= ${param:least}"}
gold:
  values:
    sql: |
      SELECT id, max(price) AS price, 10 -${param:most} AS most, ${param:big} AS big, ${param:rate} AS rate,
        ${param:day} AS day, ${param:at} AS at, ${param:on} AS is_on, ${param:least} AS least
      FROM sold GROUP BY id
  counts: {sql: "SELECT shop, count(*) AS n FROM sold GROUP BY shop"}
"""


def test_literals_have_the_types_and_values_of_their_parameters(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    (workspace.folder / "landing" / "south").mkdir()
    workspace.land("north/a.json", [{"id": id, "price": price} for id, price in ((1, 2.5), (2, 2.49), (3, 9.0))])
    workspace.run(spark)
    assert workspace.rows("sold", "id", "price", "shop") == [(1, Decimal("2.50"), "it's \\ a\nshop")]
    [row] = workspace.rows("values")
    assert row == (
        1, Decimal("2.50"), 15, 5_000_000_000, 1.0e-7, date(2024, 5, 1),
        datetime(2024, 5, 1, 10, 0, 0, 1, UTC), True, Decimal("2.50"),
    )  # fmt: skip
    found = lakes.table_at(workspace.uri("values")).schema().to_arrow()
    kinds = {field.name: str(field.type).lower() for field in pa.schema(found)}
    assert [kinds[name] for name in ("most", "big", "rate", "day", "is_on")] == [
        "int32", "int64", "double", "date32[day]", "bool"
    ]  # fmt: skip

    workspace.edit("pipeline.yaml", "default: 5000000000", "default: 5000000001")
    done = workspace.run(spark)
    assert [(name, report.state) for name, report in done.items() if report.state != "idle"] == [("values", "rebuilt")]
    assert done["values"].why == "its definition changed"
    assert workspace.rows("values", "big") == [(5_000_000_001,)]
