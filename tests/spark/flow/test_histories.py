"""Bronze and its ledger are put back to an earlier time than silver, and written on: nothing is wrong in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sluicegate.errors import SluicegateError
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  b: {path: "${landing}/b", format: json, schemaHints: "id INT, v INT"}
silver:
  s: {sql: "SELECT id, v FROM STREAM(b)", keys: [id], expectations: {positive: {expect_or_quarantine: v > 0}}}
"""


def land(workspace: Workspace, name: str, *rows: tuple[int, int]) -> Path:
    return workspace.land(f"b/{name}.json", "\n".join(json.dumps({"id": key, "v": v}) for key, v in rows))


def test_silver_stops_where_bronze_was_put_back_and_written_on(spark: SparkSession, workspace: Workspace) -> None:
    """As the jobs of a DAG run: bronze has committed before silver looks, the very version that silver has read."""
    workspace.define(DEFINITION)
    land(workspace, "1", (1, 10), (2, 20))
    workspace.run(spark, "bronze", "silver")
    home = workspace.folder / "lake" / "heart_rate"
    for part in ("_ledger", "bronze"):
        shutil.copytree(home / part, workspace.folder / "backup" / part)
    lost = land(workspace, "2", (3, 30), (4, -1))
    workspace.run(spark, "bronze", "silver")
    lost.unlink()
    for part in ("_ledger", "bronze"):
        shutil.rmtree(home / part)
        shutil.move(workspace.folder / "backup" / part, home / part)
    land(workspace, "3", (7, 70), (8, -1))

    workspace.run(spark, "bronze")
    for _ in range(2):
        with pytest.raises(SluicegateError, match="version 1 of b is not the commit that was read"):
            workspace.run(None, "silver")  # type: ignore[arg-type]
    assert sorted(workspace.rows("s", "id", "v")) == [(1, 10), (2, 20), (3, 30)]
    assert workspace.rows("s_quarantine", "id") == [(4,)]

    for name in ("s", "s_quarantine"):  # as the error says
        shutil.move(home / "silver" / name, workspace.folder / "away" / name)
    workspace.run(spark, "silver")
    assert sorted(workspace.rows("s", "id", "v")) == [(1, 10), (2, 20), (7, 70)]
    assert workspace.rows("s_quarantine", "id") == [(8,)]
    away = DeltaTable(str(workspace.folder / "away" / "s_quarantine"))
    assert away.to_pyarrow_table()["id"].to_pylist() == [4]
