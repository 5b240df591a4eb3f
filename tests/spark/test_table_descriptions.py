"""Comments, properties and tags in Spark: they reach Delta, cost no run without a change, and no rebuild with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.flow.flows import flows
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import log
from sluicegate.lake import tables as lakes
from sluicegate.lake.table_description import NOTE, Change
from sluicegate.monitor import plan
from sluicegate.spark.describe import describe
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  raw:
    path: ${landing}/things
    format: json
    schemaHints: id INT, price DOUBLE
    comment: what the shop's "tills" sent
    column_comments: {id: the receipt's number, later: comes later}
  lookup: {path: "${landing}/lookup", format: json, schemaHints: "low DOUBLE, name STRING", comment: names of prices}
silver:
  sold:
    sql: SELECT r.id, r.price, l.name FROM STREAM(raw) AS r LEFT JOIN lookup AS l ON r.price >= l.low
    keys: [id]
    comment: receipts
    column_comments: {price: in euros}
    table_properties: {delta.checkpointInterval: 20, team.name: tills}
    tags: {domain: sales}
gold:
  totals:
    sql: SELECT name, count(*) AS n, count(DISTINCT id) AS ids FROM sold GROUP BY name
    comment: one row a price
    column_comments: {n: how many}
    tags: {domain: sales, critical: true}
  ranked:
    sql: SELECT id, rank() OVER (ORDER BY price) AS place FROM sold
    column_comments: {place: "1 is the cheapest"}
"""
TABLES = ("raw", "lookup", "sold", "totals", "ranked")


def said(workspace: Workspace, table: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """Comment, comments of columns, and properties of a table that are not the engine's."""
    found = lakes.table_at(workspace.uri(table))
    columns = {one.name: text for one in found.schema().fields if (text := one.metadata.get("comment"))}
    own = {name: text for name, text in found.metadata().configuration.items() if not name.startswith(("delta.", NOTE))}
    return found.metadata().description or "", columns, own


def versions(workspace: Workspace) -> dict[str, int]:
    return {name: lakes.table_at(workspace.uri(name)).version() for name in TABLES}


def operations(workspace: Workspace, table: str, since: int) -> list[str]:
    found = lakes.table_at(workspace.uri(table))
    return [one.operation for one in log.commits(found, found.version() - since)][::-1]


def mode(workspace: Workspace, table: str) -> Any:
    last = log.last_own_commit(lakes.table_at(workspace.uri(table)))
    assert last is not None
    assert last.ours is not None
    return last.ours["mode"]


def test_a_comment_reaches_delta_and_changes_by_metadata_alone(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/things', format: json, column_comments: {id: the key}}\n"
        "gold:\n  totals: {sql: 'SELECT id, count(*) AS n FROM raw GROUP BY id', comment: old, tags: {domain: sales}}\n"
    )
    workspace.land("things/a.json", [{"id": 1}])
    workspace.run(spark)
    tables = {name: lakes.table_at(workspace.uri(name)).version() for name in ("raw", "totals")}
    assert said(workspace, "raw") == ("", {"id": "the key"}, {})
    assert said(workspace, "totals") == ("old", {"id": "the key"}, {"sluicegate.tag.domain": "sales"})
    assert plan.pending(workspace.definition, workspace.settings).layers == []

    workspace.edit("pipeline.yaml", "comment: old", "comment: new")
    done = workspace.run(spark)
    assert {name: lakes.table_at(workspace.uri(name)).version() - was for name, was in tables.items()} == {
        "raw": 0, "totals": 1,
    }  # fmt: skip
    assert said(workspace, "totals")[0] == "new"
    assert [report.state for report in done.values()] == ["idle", "idle"]
    assert plan.pending(workspace.definition, workspace.settings).layers == []


@pytest.mark.release
def test_what_a_definition_says_of_tables_reaches_delta_and_costs_nothing_else(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(DEFINITION)
    workspace.land("lookup/a.json", [{"low": 0.0, "name": "all"}], age=100)
    workspace.land("things/a.json", [{"id": 1, "price": 1.5}, {"id": 2, "price": 2.5}], age=90)
    workspace.run(spark)
    assert said(workspace, "raw") == ('what the shop\'s "tills" sent', {"id": "the receipt's number"}, {})
    assert said(workspace, "sold")[0] == "receipts"
    assert said(workspace, "sold")[1] == {"id": "the receipt's number", "price": "in euros"}  # the former from bronze
    assert said(workspace, "sold")[2] == {"team.name": "tills", "sluicegate.tag.domain": "sales"}
    assert lakes.table_at(workspace.uri("sold")).metadata().configuration["delta.checkpointInterval"] == "20"
    assert said(workspace, "totals")[0] == "one row a price"
    assert said(workspace, "totals")[1]["n"] == "how many"
    assert said(workspace, "totals")[2] == {"sluicegate.tag.domain": "sales", "sluicegate.tag.critical": "true"}

    # Nothing new: no work, and no commit.
    before = versions(workspace)
    assert plan.pending(workspace.definition, workspace.settings).layers == []
    workspace.run(spark)
    assert versions(workspace) == before

    # New rows, and a column that has its comment from its first commit on: one commit each, with what is said kept.
    workspace.land("things/b.json", [{"id": 3, "price": 0.5, "later": "x"}], age=80)
    workspace.run(spark)
    after = versions(workspace)
    assert {name: after[name] - before[name] for name in TABLES} == {
        "raw": 1, "lookup": 0, "sold": 1, "totals": 1, "ranked": 1,
    }  # fmt: skip
    assert said(workspace, "raw")[1] == {"id": "the receipt's number", "later": "comes later"}
    assert said(workspace, "ranked")[1]["place"] == "1 is the cheapest"  # it is replaced as a whole each time

    # Another comment: metadata alone, and nobody who reads the table is made again.
    workspace.edit("pipeline.yaml", "names of prices", "names of the prices")
    workspace.edit("pipeline.yaml", "price: in euros", "price: in cents")
    workspace.edit("pipeline.yaml", "comment: one row a price", "comment: it's one row a price")
    content = workspace.content()
    waiting = plan.pending(workspace.definition, workspace.settings)
    assert waiting.layers == ["bronze", "silver", "gold"]
    assert waiting.nothing
    described = {one.table: str(one.described) for one in waiting.tables if one.described}
    assert described == {
        "lookup": "the table's comment", "sold": "comments of price", "totals": "the table's comment"
    }  # fmt: skip
    workspace.run(spark)
    assert said(workspace, "lookup")[0] == "names of the prices"
    assert said(workspace, "sold")[1]["price"] == "in cents"
    assert said(workspace, "totals")[0] == "it's one row a price"
    assert workspace.content() == content
    for table in ("sold", "totals"):
        assert {"CHANGE COLUMN", "CHANGE COLUMNS", "SET TBLPROPERTIES"} & {*operations(workspace, table, after[table])}
        assert mode(workspace, table) == "incremental"
    workspace.land("things/c.json", [{"id": 4, "price": 4.5}], age=70)
    workspace.run(spark)
    assert [mode(workspace, table) for table in ("raw", "sold", "totals")] == ["incremental"] * 3
    assert sorted(workspace.rows("sold", "id")) == [(1,), (2,), (3,), (4,)]
    assert plan.pending(workspace.definition, workspace.settings).layers == []

    # Made again whole: rows and comments come in one commit.
    for layer, table in (("silver", "sold"), ("gold", "totals")):
        was = lakes.table_at(workspace.uri(table)).version()
        pipeline, at = workspace.definition, workspace.lake
        Job(pipeline, at, layer, {"run_id": "test"}, spark, only=table, full_refresh=True).run()
        assert lakes.table_at(workspace.uri(table)).version() == was + 1
        assert flows(pipeline, at, layer)[table].description.columns.items() <= said(workspace, table)[1].items()

    # Nothing said any more: it goes, and what others said stays.
    spark.sql(f"ALTER TABLE delta.`{workspace.uri('sold')}` SET TBLPROPERTIES ('of.others' = 'stays')")
    kept = [line for line in DEFINITION.splitlines() if not line.strip().startswith(("comm", "column_c", "ta", "tags"))]
    workspace.define("\n".join(kept).replace(", comment: names of prices", "") + "\n")
    workspace.run(spark)
    assert said(workspace, "sold")[0] == ""
    assert "price" not in said(workspace, "sold")[1]
    assert said(workspace, "sold")[2] == {"of.others": "stays"}
    assert said(workspace, "totals")[2] == {}
    assert plan.pending(workspace.definition, workspace.settings).layers == []


@pytest.mark.more
@pytest.mark.in_the_jvm
def test_a_catalog_shows_what_the_table_says(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    workspace.land("lookup/a.json", [{"low": 0.0, "name": "all"}])
    workspace.land("things/a.json", [{"id": 1, "price": 1.5}])
    workspace.run(spark, "bronze")
    spark.sql(f"CREATE TABLE described_lookup USING delta LOCATION '{workspace.uri('lookup')}'")
    try:
        shown = {row["col_name"]: row["data_type"] for row in spark.sql("DESCRIBE EXTENDED described_lookup").collect()}
        assert shown["Comment"] == "names of prices"
    finally:
        spark.sql("DROP TABLE described_lookup")


@pytest.mark.more
def test_a_name_of_landed_files_is_no_variable_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    uri, text = str(tmp_path / "t"), "it's ${env:HOME} \\ ${x"
    write_deltalake(uri, pa.table({"a": [1]}))
    describe(spark, uri, Change(text, {"a": text}, {"b": text}, ()), None)
    found = lakes.table_at(uri)
    assert found.schema().fields[0].metadata["comment"] == text
    assert (found.metadata().description, found.metadata().configuration["b"]) == (text, text)
