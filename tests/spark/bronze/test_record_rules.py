"""Rules of bronze: records are counted, none is dropped, and what must not come in waits with its ledger batch."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.bronze import file_headers
from sluicegate.errors import ExpectationFailed, QueryError, TableRuleFailed
from sluicegate.lake import log, tables
from sluicegate.monitor import event_log, status
from tests.conftest import Workspace
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: "id BIGINT, x DOUBLE", maxFilesPerTrigger: 1, RULES}
"""


def begin(workspace: Workspace, rules: str) -> None:
    workspace.define(DEFINITION.replace("RULES", rules))
    (workspace.folder / "landing" / "things").mkdir(parents=True, exist_ok=True)


def land(workspace: Workspace, name: str, *values: Any, age: float = 60) -> None:
    workspace.land(f"things/{name}.json", [{"id": n, "x": x} for n, x in enumerate(values)], age=age)


def refused(spark: SparkSession, workspace: Workspace, code: str = "SG300") -> ExpectationFailed:
    with pytest.raises(ExpectationFailed) as raised:
        workspace.run(spark, "bronze")
    assert (raised.value.code, raised.value.exit_code) == (code, 3)
    return raised.value


def said(workspace: Workspace) -> dict[str, Any]:
    """What the newest commit of the table says."""
    table = tables.delta_table(workspace.uri("things"))
    assert table is not None
    return next(log.commits(table)).ours or {}


def values(workspace: Workspace, table: str = "things") -> list[Any]:
    return sorted((x for (x,) in workspace.rows(table, "x")), key=repr)


def test_records_are_counted_and_all_come_in(spark: SparkSession, workspace: Workspace) -> None:
    begin(workspace, "expect_all: {positive: X > 0, there: x IS NOT NULL, y: y IS NULL OR y > 0, z: z > 0}")
    land(workspace, "a", 1.0, -1.0, None, age=90)
    land(workspace, "b", 2.0, -2.0)
    report = workspace.run(spark, "bronze")["things"]
    assert {name: tuple(counts.values()) for name, counts in report.expectations.items()} == {
        "positive": (2, 3),
        "there": (4, 1),
        "y": (5, 0),  # a column that no file has had yet is NULL
        "z": (0, 5),
    }
    assert said(workspace)["expectations"]["positive"] == {"passed": 1, "failed": 1}  # of this ledger batch
    assert values(workspace) == sorted([1.0, -1.0, None, 2.0, -2.0], key=repr)


def test_what_must_not_come_in_waits_until_it_is_corrected(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(workspace, "expect_all_or_fail: {positive: x > 0}, expect_all: {great: x > 1}")
    land(workspace, "a", 1.0, 2.0, age=90)
    land(workspace, "b", 3.0, -1.0, age=80)
    land(workspace, "c", 4.0, age=70)
    stop_at(monkeypatch, "rules.after_rejection")
    with pytest.raises(Stopped):
        workspace.run(spark, "bronze")
    monkeypatch.undo()
    error = refused(spark, workspace)
    assert error.message == "the data of things broke positive (1 rows)"
    assert values(workspace) == [1.0, 2.0]  # the ledger batch before it; the one after it waits
    assert workspace.rows("things_rejected", "x", "_failed_expectations") == [(-1.0, ["great", "positive"])] or (
        workspace.rows("things_rejected", "x", "_failed_expectations") == [(-1.0, ["positive", "great"])]
    )
    now = next(one for one in status.status(workspace.definition, workspace.settings).tables if one.table == "things")
    assert (now.rejected, now.state) == (1, "behind")
    land(workspace, "b", 3.0, 5.0, age=75)
    stop_at(monkeypatch, "rules.after_clearing")
    with pytest.raises(Stopped):
        workspace.run(spark, "bronze")
    monkeypatch.undo()
    assert (values(workspace), values(workspace, "things_rejected")) == ([1.0, 2.0], [])
    workspace.run(spark, "bronze")
    assert (values(workspace), values(workspace, "things_rejected")) == ([1.0, 2.0, 3.0, 4.0, 5.0], [])
    events = event_log.newest_rows(workspace.lake, "things", 10).to_pylist()
    assert [(one["mode"], one["written"]) for one in events] == [
        ("incremental", 2), ("reject", 0), ("reject", 0), ("clear", 0), ("incremental", 2), ("incremental", 1),
        ("incremental", 2),  # the file that was corrected before it was read, once more
    ]  # fmt: skip
    assert workspace.run(spark, "bronze")["things"].changed_files == 0


@pytest.mark.more
def test_records_of_a_file_that_changes_while_it_is_read_are_counted_once(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ledger batch is committed, found to differ from the manifest, and committed without it."""
    workspace.define(
        DEFINITION.replace("format: json", "format: parquet").replace("RULES", "expect_all: {some: x > 0}")
    )
    for name, values in (("a", [1.0, -1.0]), ("b", [2.0, -2.0, -3.0])):
        file = io.BytesIO()
        parquet.write_table(pa.table({"x": values}), file)
        workspace.land(f"things/{name}.parquet", file.getvalue())
    workspace.edit("pipeline.yaml", "maxFilesPerTrigger: 1", "maxFilesPerTrigger: 2")
    true = file_headers.footer

    def exchanged(path: str, form: str) -> dict[str, Any]:
        return true(path, form) | ({"records": 5} if path.endswith("b.parquet") else {})

    monkeypatch.setattr(file_headers, "footer", exchanged)
    report = workspace.run(spark, "bronze")["things"]
    assert (len(report.failed), report.expectations["some"]) == (1, {"passed": 1, "failed": 1})
    assert said(workspace)["expectations"] == report.expectations
    monkeypatch.undo()
    assert workspace.run(spark, "bronze")["things"].expectations["some"] == {"passed": 1, "failed": 2}


@pytest.mark.parametrize("few", [True, False])
def test_a_share_of_the_records_may_break_a_rule(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    if not few:
        monkeypatch.setattr("sluicegate.bronze.ingest.SMALL_BYTES", 0)
    begin(workspace, "expectations: {positive: {expect: x > 0, warn_above: 1, fail_above: 50%}}")
    land(workspace, "a", 1.0, -1.0, age=90)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.warnings, "warnings" in said(workspace)) == ([], False)
    land(workspace, "b", 1.0, 2.0, -1.0, -2.0, age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert report.warnings == said(workspace)["warnings"] == ["positive: 2 of 4 rows failed, above 1"]
    assert "warning: positive: 2 of 4" in "\n".join(report.remarks())
    land(workspace, "c", 1.0, -1.0, -3.0, age=70)
    assert "positive (2 of 3 rows, above 50%)" in refused(spark, workspace).message
    assert values(workspace, "things_rejected") == [-1.0, -3.0]
    # Who takes the file away, or the rule, lets the others come in.
    (workspace.folder / "landing" / "things" / "c.json").unlink()
    land(workspace, "d", 7.0)
    report = workspace.run(spark, "bronze")["things"]
    assert (len(report.failed), values(workspace).count(7.0), values(workspace, "things_rejected")) == (1, 1, [])


def test_rows_of_a_delta_table(spark: SparkSession, workspace: Workspace) -> None:
    theirs = str(workspace.folder / "theirs")
    rules = "expect_all_or_fail: {positive: x > 0}"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '{theirs}', format: delta, {rules}}}\n")
    spark.sql("SELECT 1.0D AS x, 1 AS _broken").write.format("delta").save(theirs)
    workspace.run(spark, "bronze")
    assert said(workspace)["expectations"] == {"positive": {"passed": 1, "failed": 0}}
    spark.sql("SELECT -1.0D AS x, 2 AS _broken").write.format("delta").mode("append").save(theirs)
    refused(spark, workspace)
    assert (values(workspace), values(workspace, "things_rejected")) == ([1.0], [-1.0])
    spark.sql(f"UPDATE delta.`{theirs}` SET x = 2 WHERE x < 0")
    workspace.run(spark, "bronze")
    assert (values(workspace), values(workspace, "things_rejected")) == ([1.0, 2.0], [])


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.release)])
def test_rules_about_the_whole_table(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    if not few:
        monkeypatch.setattr("sluicegate.bronze.ingest.SMALL_BYTES", 0)
    rules = "room: {rows: {max: 4}}, once: {unique: [X]}, small: {sql: SELECT T.X FROM things AS t WHERE X > 99}"
    begin(workspace, f"allowOverwrites: true, expect_table: {{{rules}}}")
    land(workspace, "a", 1.0, 2.0, None, age=90)
    report = workspace.run(spark, "bronze")["things"]
    assert report.table_rules == said(workspace)["table_rules"] == {"room": 0, "once": 0, "small": 0}
    land(workspace, "b", 2.0, age=80)
    assert (refused_whole(spark, workspace), values(workspace, "things_rejected")) == ("once (2 rows)", [2.0, 2.0])
    land(workspace, "b", None, age=79)  # two that are NULL are the same, as in GROUP BY
    assert (refused_whole(spark, workspace), values(workspace, "things_rejected")) == ("once (2 rows)", [None, None])
    land(workspace, "b", 3.0, age=78)
    workspace.run(spark, "bronze")
    assert (len(values(workspace)), values(workspace, "things_rejected")) == (4, [])
    land(workspace, "c", 4.0, age=70)
    assert refused_whole(spark, workspace) == "room (it would have 5 rows)"
    land(workspace, "c", age=69)
    workspace.run(spark, "bronze")
    land(workspace, "a", 5.0, 6.0, 7.0, age=60)  # in the place of others: of the table as it would be then
    workspace.run(spark, "bronze")
    assert values(workspace) == [3.0, 5.0, 6.0, 7.0]
    land(workspace, "a", 3.0, 6.0, 7.0, age=50)
    assert refused_whole(spark, workspace) == "once (2 rows)"


def refused_whole(spark: SparkSession, workspace: Workspace) -> str:
    error = refused(spark, workspace, "SG303")
    assert isinstance(error, TableRuleFailed)
    return error.message.removeprefix("the data of things broke ")


def test_a_record_refers_to_another_table(spark: SparkSession, workspace: Workspace) -> None:
    """Of the same layer, which is then read first; while it has no rows, the records wait.

    Its values are texts here, and one of them is no number, as any may be in bronze.
    """
    begin(workspace, "expect_table: {known: {foreign_key: [x], references: others (y)}}")
    others = '  others: {path: "${landing}/others", format: json, schemaHints: "y STRING"}\n'
    file = workspace.folder / "pipelines" / "heart_rate" / "pipeline.yaml"
    file.write_text(file.read_text() + others)
    (workspace.folder / "landing" / "others").mkdir()
    land(workspace, "a", 1.0, None, age=90)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.state, report.why) == ("blocked", "one of its rules reads others, which has no rows yet")
    workspace.land("others/a.json", [{"y": "1.0"}, {"y": "none"}])
    assert workspace.run(spark, "bronze")["things"].written == 2
    land(workspace, "b", 1.0, 2.0)
    assert refused_whole(spark, workspace) == "known (1 rows)"
    workspace.land("others/b.json", [{"y": "2"}])
    workspace.run(spark, "bronze")
    assert values(workspace) == sorted([1.0, 1.0, 2.0, None], key=repr)


def test_a_rule_that_a_value_stops_is_named(spark: SparkSession, workspace: Workspace) -> None:
    begin(workspace, "expect_table: {high: {sql: SELECT id FROM things WHERE 1 / x > 9}}")
    land(workspace, "a", 1.0, 0.0)
    with pytest.raises(QueryError, match="the rule high of things cannot be evaluated") as raised:
        workspace.run(spark, "bronze")
    assert ("DIVIDE_BY_ZERO" in raised.value.cause, "try_divide" in raised.value.hint) == (True, True)
    assert tables.delta_table(workspace.uri("things")) is None


@pytest.mark.more
def test_rules_say_normalized_names_and_columns_keep_what_describes_them(
    spark: SparkSession, workspace: Workspace
) -> None:
    """The landed name, in the column's metadata, is there in tables with rules as in others."""
    begin(
        workspace,
        "columnNames: normalized, expect_all: {some: us_gross > 0}, expect_table: {once: {unique: [us_gross]}}",
    )
    workspace.land("things/a.json", [{"US Gross": 1}, {"US Gross": -2}], age=90)
    assert workspace.run(spark, "bronze")["things"].expectations["some"] == {"passed": 1, "failed": 1}
    workspace.land("things/b.json", [{"US Gross": 1}], age=80)
    refused(spark, workspace, "SG303")
    assert workspace.rows("things_rejected", "us_gross") == [("1",), ("1",)]
    table = tables.delta_table(workspace.uri("things"))
    assert table is not None
    metadata = {field.name: field.metadata for field in table.schema().fields}["us_gross"]
    assert (metadata["sluicegate.landed"], metadata["comment"]) == ("US Gross", "US Gross")
