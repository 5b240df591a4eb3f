"""Normalized names of columns in Spark: nothing is lost, and the landed name stays with the column."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField

from sluicegate.definition import BronzeTable
from sluicegate.lake import log
from sluicegate.lake import tables as lakes
from sluicegate.lake.commits.small_commits import can_write
from sluicegate.schema import history
from sluicegate.schema.evolution import Schema
from sluicegate.spark import table_reader
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  things:
    path: ${landing}/things
    format: json
    columnNames: normalized
    schemaHints: us_gross INT
    inferColumnTypes: true
  sheet: {path: "${landing}/sheet", format: csv, options: {header: true}, columnNames: normalized}
silver:
  made:
    sql: SELECT t.order_id, t.us_gross, t.order_id + 0 AS sum FROM STREAM(things) AS t
"""


def comments(workspace: Workspace, table: str) -> dict[str, str]:
    fields = lakes.table_at(workspace.uri(table)).schema().fields
    return {one.name: text for one in fields if (text := one.metadata.get("comment"))}


def test_a_column_has_a_name_that_can_be_said_and_nothing_is_lost(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    first = [{"Order ID": 1, "US Gross": 10, "a,b": "x"}, {"Order ID": 2, "US Gross": "none", "us gross": 5}]
    workspace.land("things/a.json", "\n".join(map(json.dumps, first)), age=90)
    workspace.land("sheet/a.csv", "Größe (m),Grösse m,%\n1,2,3\n", age=90)
    workspace.run(spark)
    rows = workspace.rows("things", "order_id", "us_gross", "a_b", "_rescued_data")
    found = sorted((*row[:3], json.loads(row[3]) if row[3] else {}) for row in rows)
    for row in found:
        row[3].pop("_file_path", None)
    assert found == [(1, 10, "x", {}), (2, None, None, {"US Gross": "none", "us gross": 5})]
    assert comments(workspace, "things") == {"order_id": "Order ID", "us_gross": "US Gross", "a_b": "a,b"}
    assert comments(workspace, "made") == {"order_id": "Order ID", "us_gross": "US Gross"}
    [sheet] = workspace.rows("sheet", "grosse_m", "_rescued_data")
    assert sheet[0] == "2"  # of two the first by its name, wherever it stands
    assert json.loads(sheet[1]) | {"_file_path": ""} == {"Größe (m)": "1", "%": "3", "_file_path": ""}
    for name in ("things", "made"):  # few rows still go past Spark
        table = lakes.table_at(workspace.uri(name))
        assert can_write(table)
        assert table_reader.is_plain(table)
    last = log.last_own_commit(lakes.table_at(workspace.uri("things")))
    assert last is not None
    assert last.ours is not None
    assert last.ours["collisions"] == {"us gross": "us_gross"}
    [version] = history.versions(workspace.lake, "things")
    assert "us_gross is of the field US Gross" in version["changes"]

    # A later file, with a new field.
    workspace.edit(
        "pipeline.yaml", "    inferColumnTypes: true", "    inferColumnTypes: true\n    column_comments: {new_one: x}"
    )
    workspace.land("things/b.json", json.dumps({"Order ID": 3, "NewOne": True, "us gross": 7}), age=80)
    workspace.run(spark)
    assert (3, None, True) in workspace.rows("things", "order_id", "us_gross", "new_one")
    assert comments(workspace, "things") == {
        "order_id": "Order ID", "us_gross": "US Gross", "a_b": "a,b", "new_one": "x",
    }  # fmt: skip
    assert "new_one BOOLEAN came, of the field NewOne" in history.versions(workspace.lake, "things")[-1]["changes"]
    assert sorted(workspace.rows("made", "order_id", "us_gross")) == [(1, 10), (3, None)]
    assert workspace.rows("made_quarantine", "order_id") == [(2,)]  # its US Gross, "none", is no number


def test_a_declared_column_gets_the_field_of_its_name(spark: SparkSession) -> None:
    fields = {"path": "/in", "format": "json", "columnNames": "normalized", "schema": "us_gross INT"}
    made = Schema("things", BronzeTable.model_validate(fields), {}, first=True)
    found = made.columns([StructField(name, StringType()) for name in ("US Gross", "other")])
    assert [(one.field, one.name) for one in found] == [("US Gross", "us_gross"), ("other", None)]
    assert found[0].type == IntegerType()


def test_a_column_that_the_definition_names_is_open_to_one_field(spark: SparkSession) -> None:
    """It may be in the table before its field comes; which of two comes first in a file does not count."""
    fields = {"path": "/in", "format": "json", "columnNames": "normalized", "schemaHints": "us_gross STRING"}
    table = BronzeTable.model_validate(fields)
    for names in (["us_gross", "US Gross"], ["US Gross", "us_gross"], ["US Gross"]):
        made = Schema("things", table, {"us_gross": StringType()}, first=False)
        found = {one.field: one.name for one in made.columns([StructField(name, StringType()) for name in names])}
        owner = min(names, key=lambda name: name != "us_gross")
        assert found == {name: "us_gross" if name == owner else None for name in names}
        assert made.landed == {"us_gross": owner}
