"""A table that lets its transactions go (``delta.setTransactionRetentionDuration``) stops, and has no row twice."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import SluicegateError
from sluicegate.lake import tables
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.more]

DEFINITION = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT"}
silver:
  things: {sql: "SELECT k, name FROM STREAM(raw)"}
"""


def test_a_run_stops_where_the_offset_has_expired(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    workspace.land("raw/0.json", json.dumps({"k": 0, "name": "a"}))
    workspace.run(spark, "bronze")
    uri = workspace.lake.table("bronze", "raw")
    wanted = "'delta.setTransactionRetentionDuration' = 'interval 1 seconds'"
    spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ({wanted})")
    time.sleep(2)
    workspace.land("raw/1.json", json.dumps({"k": 1, "name": "a"}))
    with pytest.raises(SluicegateError, match="is not the table that it was filled from"):
        workspace.run(spark, "bronze")
    assert tables.table_at(uri).to_pyarrow_table()["k"].to_pylist() == [0]
    spark.sql(f"ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')")
    workspace.run(spark, "bronze")  # what the log still has counts again
    assert sorted(tables.table_at(uri).to_pyarrow_table()["k"].to_pylist()) == [0, 1]
