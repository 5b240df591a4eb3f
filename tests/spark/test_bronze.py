"""Bronze keeps every record as it came, whatever the files are like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import status
from sluicegate.errors import SluicegateError, SourceError
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JSON = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: "id BIGINT, price DECIMAL(20,4), at TIMESTAMP", EXTRA}
"""
CSV = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: csv, options: {header: true}, schemaHints: "id BIGINT", EXTRA}
"""


def define(workspace: Workspace, text: str, extra: str = "maxFilesPerTrigger: 1000") -> None:
    workspace.define(text.replace("EXTRA", extra))
    (workspace.folder / "landing" / "things").mkdir(parents=True)


def read(workspace: Workspace, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(workspace.rows("things", *columns), key=repr)


def test_values_fit_or_are_rescued_and_nothing_is_lost(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, JSON)
    lines = [
        '{"id": "1", "price": 12345678901234.5678, "at": "2024-05-01T12:00:00Z", "note": 1.10}',
        '{"id": 2.5, "price": "12,5", "nested": {"a": 1, "b": [1, {"c": "x"}]}}',
        '{"id": 3, "source_file": "a field with a name of ours", "né": "ü", "note": true}',
        '{"id": 4, "price": 1',
        "",
    ]
    workspace.land("things/a.json", "\n".join(lines))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt) == (4, 1)
    rows = read(workspace, "id", "price", "note", "nested", "né", "_rescued_data", "_corrupt_record")
    by_id = {row[0]: row for row in rows if row[0] is not None}
    assert str(by_id[1][1]) == "12345678901234.5678"  # more digits than a double has
    assert (by_id[1][2], by_id[3][2]) == ("1.10", "true")
    assert by_id[3][4] == "ü"
    assert json.loads(by_id[3][5])["source_file"] == "a field with a name of ours"
    [misfit] = [row for row in rows if row[0] is None and row[6] is None]
    rescued = json.loads(misfit[5])
    assert (rescued["id"], rescued["price"]) == ("2.5", "12,5")
    assert rescued["_file_path"].endswith("/things/a.json")
    assert misfit[3] == {"a": "1", "b": ["1", '{"c": "x"}']}
    [corrupt] = [row for row in rows if row[6] is not None]
    assert corrupt[6] == '{"id": 4, "price": 1'


def test_columns_come_and_go_in_one_run_and_over_runs(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, CSV)
    workspace.land("things/a.csv", "id,name\n1,a\n2,b\n", age=90)
    workspace.land("things/b.csv", "name,id,colour\nc,3,red\n", age=80)  # another order, and a new column
    workspace.run(spark, "bronze")
    workspace.land("things/c.csv", "\ufeffsize,id\nxl,4\nxs\n", age=70)  # a byte order mark, and a line too short
    workspace.land("things/only a header.csv", "id,name\n", age=60)
    workspace.run(spark, "bronze")
    rows = read(workspace, "id", "name", "colour", "size", "_corrupt_record")
    assert rows == sorted(
        [
            (1, "a", None, None, None),
            (2, "b", None, None, None),
            (3, "c", "red", None, None),
            (4, None, None, "xl", None),
            (None, None, None, "xs", "xs"),
        ],
        key=repr,
    )
    assert status.verify(workspace.definition, workspace.settings) == []
    told = {
        entry["path"].rsplit("/", 1)[-1]: entry["rows"]
        for entry in status.files("things", workspace.definition, workspace.settings)
    }
    assert told == {"a.csv": 2, "b.csv": 1, "c.csv": 2, "only a header.csv": 0}


def test_any_file_name(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, JSON, "maxFilesPerTrigger: 4")
    names = [
        "a b",
        "50%",
        "50%25",
        "x#y?z",
        "{a,b}",
        "[0-9]*",
        "ü日本",
        "a+b",
        "back\\slash",
        "sub folder/k=v/deep",
        "quo'te",
    ]
    for number, name in enumerate(names):
        workspace.land(f"things/{name}.json", [{"id": number}], age=100 - number)
    workspace.land("things/_hidden.json", [{"id": 100}])
    workspace.land("things/.hidden.json", [{"id": 101}])
    workspace.land("things/half.json.tmp", [{"id": 102}])
    workspace.land("things/_dir/x.json", [{"id": 103}])
    report = workspace.run(spark, "bronze")["things"]
    assert report.files == len(names)
    assert sorted(id for (id,) in workspace.rows("things", "id")) == list(range(len(names)))
    assert status.verify(workspace.definition, workspace.settings) == []
    assert {entry["rows"] for entry in status.files("things", workspace.definition, workspace.settings)} == {1}
    chunks = dict(workspace.rows("things", "id", "_chunk"))
    assert [chunks[number] for number in range(len(names))] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3]


def test_files_without_records(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, JSON, "options: {multiLine: true}")
    workspace.land("things/zero.json", "", age=90)
    workspace.land("things/empty array.json", "[]", age=80)
    assert workspace.run(spark, "bronze")["things"].read == 0
    workspace.land("things/not json.json", "this is not JSON", age=70)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt) == (1, 1)
    assert workspace.rows("things", "_corrupt_record") == [("this is not JSON",)]
    workspace.land("things/good.json", [{"id": 1}], age=60)
    workspace.run(spark, "bronze")
    assert sorted(workspace.rows("things", "id"), key=repr) == [(1,), (None,)]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_a_changed_file_is_reported_and_not_read_twice(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, JSON)
    workspace.land("things/a.json", [{"id": 1}], age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/a.json", [{"id": 1}, {"id": 2}], age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.state, report.changed_files) == ("idle", 1)
    assert any("changed since" in line for line in report.remarks())
    assert workspace.rows("things", "id") == [(1,)]
    states = [entry["state"] for entry in status.files("things", workspace.definition, workspace.settings)]
    assert states == ["ingested", "changed"]


def test_what_cannot_be_read_says_why_and_nothing_is_lost(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, CSV)
    path = workspace.land("things/a.csv", "id,Name,name\n1,a,b\n")
    with pytest.raises(SourceError, match="has Name, name twice"):
        workspace.run(spark, "bronze")
    path.unlink()
    workspace.land("things/b.csv", "id,name\n2,c\n")
    with pytest.raises(SluicegateError, match=r"a\.csv"):  # it is in the ledger, and its rows are nowhere: say so
        workspace.run(spark, "bronze")


def test_ledger_that_is_gone_does_not_double_the_table(spark: SparkSession, workspace: Workspace) -> None:
    import shutil

    define(workspace, JSON)
    workspace.land("things/a.json", [{"id": 1}])
    workspace.run(spark, "bronze")
    shutil.rmtree(workspace.lake.ledger("things"))
    with pytest.raises(SluicegateError, match="cannot go on"):
        workspace.run(spark, "bronze")
    assert workspace.rows("things", "id") == [(1,)]
