"""Values of columns that are marked as personal data are in the tables, and in nothing that is said about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate.errors import ExpectationFailed, FanOut, QueryError, SluicegateError
from sluicegate.gold import group_state
from sluicegate.jobs import layer_job
from sluicegate.jobs.copy_into import mask_record
from sluicegate.lake import tables
from sluicegate.lake.commits import small_commits
from sluicegate.launch import submit
from sluicegate.spark.spark_errors import NOT_SHOWN, root_cause
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "Zaphod B'Beeblebrox"
SIGNS = ("zaphod", "beeblebrox")
DEFINITION = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT"}
  names_raw: {path: "${landing}/names", format: json, schemaHints: "k BIGINT"}
silver:
  failed_cast: {sql: "SELECT k, CAST(name AS INT) AS n, name FROM STREAM(raw)", pii: [n, name]}
  broken_rule:
    sql: "SELECT * EXCEPT (name), name AS Name FROM STREAM(raw)"
    pii: [NAME]
    expectations: {short: {expect_or_quarantine: length(Name) < 3}, shown: {expect: Name IS NULL}}
  fan_out: {sql: "SELECT r.k, n.name FROM STREAM(raw) AS r LEFT JOIN names_raw AS n ON r.name = n.name", pii: [name]}
  failing: {sql: "SELECT k, name FROM STREAM(raw)", pii: [name], expectations: {s: {expect_or_fail: name IS NULL}}}
  raising: {sql: "SELECT k, raise_error(concat('no ', name)) AS name FROM STREAM(raw)", pii: [name]}
  misfit: {sql: "SELECT k, name, name + 1 AS more FROM STREAM(raw)", pii: [name]}
  lookup: {sql: "SELECT r.k, n.name FROM STREAM(raw) AS r LEFT JOIN names_raw AS n ON r.k = n.name", pii: [name]}
  unmarked: {sql: "SELECT k, name + 2 AS e FROM STREAM(raw)"}
gold:
  summed: {sql: "SELECT k, name + 1 AS n FROM broken_rule_all"}
"""
COUNTED = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "k BIGINT"}
silver:
  people: {sql: "SELECT k, name FROM STREAM(raw)", pii: [name]}
gold:
  counted: {sql: "SELECT name, count(*) AS c FROM people GROUP BY name", refresh: incremental}
"""
REFUSED: dict[str, tuple[type[SluicegateError], str]] = {
    "fan_out": (FanOut, "returns 4 rows for 2 records"),
    "failing": (ExpectationFailed, "broke s (2 rows)"),
    "raising": (QueryError, "a value makes the query of raising fail"),
    "misfit": (QueryError, "a value makes the query of misfit fail"),
    "lookup": (QueryError, "a value makes the query of lookup fail"),
    "unmarked": (QueryError, "a value makes the query of unmarked fail"),
    "summed": (QueryError, "a value makes the query of summed fail"),
}


@pytest.fixture
def marked(workspace: Workspace) -> Workspace:
    text = DEFINITION.replace("gold:", '  broken_rule_all: {sql: "SELECT k, name FROM STREAM(raw)"}\ngold:')
    workspace.define(text)
    people = [{"k": 1, "name": SECRET}, {"k": 2, "name": SECRET}]
    for folder in ("raw", "names"):
        workspace.land(f"{folder}/a.json", "\n".join(json.dumps(person) for person in people))
    return workspace


def quotes(text: str) -> bool:
    return any(sign in text.lower() for sign in SIGNS)


def told_by_tables(workspace: Workspace) -> str:
    """What all commits of all tables say of themselves, and the tables in which runs keep their accounts."""
    said = []
    for log in Path(workspace.settings.lake).rglob("_delta_log/*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        said += [json.dumps(action, ensure_ascii=False) for action in actions if "add" not in action]
    for uri in (workspace.lake.events, *map(workspace.lake.file_status, workspace.definition.bronze)):
        said.append(str(tables.dataset(DeltaTable(uri)).to_table().to_pylist()))
    return "\n".join(said)


def test_no_message_and_no_commit_quotes_a_value(
    spark: SparkSession, marked: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    marked.run(spark, "bronze")
    work = layer_job.Job(marked.definition, marked.lake, "silver", {}, spark)
    with pytest.raises(SluicegateError):
        work.run()
    with pytest.raises(SluicegateError):
        marked.run(spark, "gold")
    reports = {table.table: table for table in work.done.tables}
    assert (reports["failed_cast"].quarantined, reports["broken_rule"].quarantined) == (2, 2)
    assert [sample["row"] for sample in reports["broken_rule"].samples] == [{"Name": "***"}]
    assert not quotes(json.dumps(work.done.as_dict()))
    assert quotes(str(marked.rows("broken_rule_quarantine", "_record")))  # it is kept, beside the table
    for table, (kind, words) in REFUSED.items():
        error = refusal(spark, marked, table)
        assert type(error) is kind, (table, error)
        assert words in error.message
        assert not quotes(error.for_people() + json.dumps(error.as_dict())), table
        assert error.__cause__ is None, table
    assert "[CAST_INVALID_INPUT] in name + 1" in refusal(spark, marked, "misfit").cause
    assert "[USER_RAISED_EXCEPTION]" in refusal(spark, marked, "raising").cause
    said = told_by_tables(marked)
    assert "broken_rule" in said
    assert not quotes(said)
    shown = capsys.readouterr()  # Spark's log is not among it: for that there is the next test
    assert "FAILED" in shown.out
    assert not quotes(shown.out)


@pytest.mark.parametrize(
    "by_spark", [pytest.param(False, id="delta-rs"), pytest.param(True, marks=pytest.mark.more, id="Spark")]
)
def test_a_commit_does_not_quote_the_keys_that_it_merges_by(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    """Files are skipped by the values of keys, and the condition of a MERGE is in the log."""
    monkeypatch.setattr(group_state, "IN_A_FILE", 1)
    monkeypatch.setattr(small_commits, "MOST_BYTES", -1 if by_spark else small_commits.MOST_BYTES)
    workspace.define(COUNTED)
    for file, names in (("a", [SECRET, "Ford", "Trillian"]), ("b", [SECRET]), ("c", ["Ford"])):
        workspace.land(f"raw/{file}.json", "\n".join(json.dumps({"k": 1, "name": name}) for name in names))
        workspace.run(spark)
    table = DeltaTable(workspace.lake.table("gold", "counted"))
    assert [commit["operation"] for commit in table.history(2)] == ["MERGE", "MERGE"]
    assert "delta-rs" in table.history(1)[0]["engineInfo"] or by_spark
    assert sorted(row["c"] for row in table.to_pyarrow_table().to_pylist()) == [1, 2, 2]
    assert "mergePredicate" in told_by_tables(workspace) or by_spark
    assert not quotes(told_by_tables(workspace))


def refusal(spark: SparkSession, workspace: Workspace, table: str) -> SluicegateError:
    layer = "gold" if table in workspace.definition.gold else "silver"
    with pytest.raises(SluicegateError) as caught:
        layer_job.Job(workspace.definition, workspace.lake, layer, {}, spark, only=table).run()
    return caught.value


@pytest.mark.more
def test_the_jobs_by_themselves_quote_no_value_either(
    spark: SparkSession, marked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's log is among what they print, and with SLUICEGATE_DEBUG whole traces."""
    marked.run(spark, "bronze")
    monkeypatch.setenv("SLUICEGATE_DEBUG", "1")
    lines: list[str] = []
    with pytest.raises(SluicegateError) as caught:
        submit.submit("silver", "heart_rate", marked.settings, {}, lines.append)
    printed = "\n".join(lines)
    assert printed.count("FAILED") == len(REFUSED) - 1
    assert "(not shown, since it may quote personal data)" in printed
    assert not quotes(printed + caught.value.for_people())


def test_a_pipeline_without_personal_data_tells_which_value_it_was(spark: SparkSession, marked: Workspace) -> None:
    path = marked.folder / "pipelines" / "heart_rate" / "pipeline.yaml"
    lines = [line for line in path.read_text().splitlines() if "pii: [NAME]" not in line]
    for mark in (", pii: [n, name]", ", pii: [name]"):
        lines = [line.replace(mark, "") for line in lines]
    path.write_text("\n".join(lines))
    assert not marked.definition.pii
    marked.run(spark, "bronze")
    assert quotes(refusal(spark, marked, "misfit").cause)


def test_reasons_of_files_that_cannot_be_read(spark: SparkSession) -> None:
    """What Java says of bytes and files is told; what its parsers say may be a value."""
    files = "x\nCaused by: java.io.EOFException: Unexpected end of input stream\n\tat java"
    assert root_cause(RuntimeError(files), private=True) == "EOFException: Unexpected end of input stream"
    parsers = f"x\nCaused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token '{SECRET}'\n\tat java"
    assert quotes(root_cause(RuntimeError(parsers)))
    assert root_cause(RuntimeError(parsers), private=True) == f"RuntimeError; {NOT_SHOWN}"


def test_records_that_are_shown_before_a_copy() -> None:
    row: dict[str, Any] = {"k": 1, "Name": SECRET, "_rescued_data": SECRET, "_corrupt_record": None}
    assert mask_record(row, frozenset({"name"})) == {
        "k": 1,
        "Name": "***",
        "_rescued_data": "***",
        "_corrupt_record": None,
    }
    assert mask_record(row, frozenset()) == row
