"""Bronze keeps every record as it came, whatever the files are like."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.bronze import ingest
from sluicegate.errors import SluicegateError
from sluicegate.lake import log, tables
from sluicegate.landing import file_status, intake
from sluicegate.monitor import status
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


def test_what_stands_behind_a_record_on_its_line_is_kept(spark: SparkSession, workspace: Workspace) -> None:
    """Two files put together without a line break between them: Spark reads the first record and drops the second."""
    define(workspace, JSON)
    kept = ['{"id": 1}{"id": 2}', '{"id": 3}, {"id": 4}', '{"id": 5} and so on']
    kept += ['{"id": 3}, 4', '{"id": 5}, ["x"]', '{"id": 6}, null', '{"id": 1}, "b": 2}', '[]{"id": 8}']
    fine = ['{"id": 6, "note": "a} b", "l": [{"a": 1}, {"a": 2}]},', '  {"id": 7}  ', ""]
    workspace.land("things/a.json", "\n".join(kept + fine))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.corrupt) == (10, 8)
    assert sorted(text for (text,) in workspace.rows("things", "_corrupt_record") if text) == sorted(kept)
    assert sorted(n for (n,) in workspace.rows("things", "id") if n) == [6, 7]


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
        for entry in status.files("things", workspace.definition, workspace.settings).to_pylist()
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
    assert {
        entry["rows"] for entry in status.files("things", workspace.definition, workspace.settings).to_pylist()
    } == {1}
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
    assert any("changed after they were read" in line for line in report.remarks())
    assert workspace.rows("things", "id") == [(1,)]
    states = [entry["state"] for entry in status.files("things", workspace.definition, workspace.settings).to_pylist()]
    assert states == ["ingested", "changed"]


def rescued(workspace: Workspace) -> list[dict[str, Any]]:
    """What was rescued of each record that lost something, without the file."""
    found = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text is not None]
    assert all(entry.pop("_file_path") for entry in found)
    return sorted(found, key=repr)


def test_a_field_that_cannot_be_a_column_is_rescued(spark: SparkSession, workspace: Workspace) -> None:
    """Names in another case, doubled names, names that Delta refuses or that are the engine's own."""
    define(workspace, JSON)
    lines = ['{"ID": 1, "id": 2, "Note": "a", "note": "b"}', '{"patient name": "Ada", "_CHUNK": 7, "ti`ck": "x"}']
    workspace.land("things/a.json", "\n".join(lines))
    workspace.run(spark, "bronze")
    assert read(workspace, "id", "Note") == [(2, "a"), (None, None)]
    assert rescued(workspace) == [{"ID": "1", "note": "b"}, {"_CHUNK": "7", "patient name": "Ada", "ti`ck": "x"}]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_any_header(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace, CSV.replace("header: true", 'header: true, sep: "\\t", comment: "#", timestampFormat: "d.M.yyyy"')
    )
    workspace.edit("pipeline.yaml", 'schemaHints: "id BIGINT"', 'schemaHints: "id BIGINT, at TIMESTAMP"')
    workspace.land("things/a.csv", "# made by hand\n\nid\tname\tname\tfirst name\t\n1\ta\tb\tc\td\n", age=90)
    workspace.land("things/b.csv", "at\tid\n24.12.2024\t2\n2024-12-24\tthree\n", age=80)
    workspace.land("things/c.csv.gz", gzip.compress(b'name\tid\n"x\ty"\t4\n'), age=70)
    workspace.land("things/d.csv", "id\tNAME\n5\tz\n", age=60)
    workspace.run(spark, "bronze")
    rows = read(workspace, "id", "name", "_c4", "at")
    christmas = datetime(2024, 12, 24, tzinfo=UTC)
    want = [(1, "a", "d", None), (2, None, None, christmas), (4, "x\ty", None, None), (5, None, None, None)]
    want.append((None, None, None, None))
    assert rows == sorted(want, key=repr)
    assert rescued(workspace) == [
        {"NAME": "z"},
        {"at": "2024-12-24", "id": "three"},
        {"name_2": "b", "first name": "c"},
    ]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_separators_of_several_characters(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, CSV.replace("header: true", 'header: true, sep: "||"'))
    workspace.land("things/a.csv", "id||name\n1||a|b\n")
    workspace.run(spark, "bronze")
    assert read(workspace, "id", "name") == [(1, "a|b")]


def test_a_schema_of_its_own_takes_no_new_columns_and_loses_nothing(spark: SparkSession, workspace: Workspace) -> None:
    define(
        workspace,
        JSON.replace(
            'schemaHints: "id BIGINT, price DECIMAL(20,4), at TIMESTAMP"', 'schema: "id INT, o STRUCT<a: INT>"'
        ),
    )
    workspace.land("things/a.json", '{"id": 1, "extra": {"deep": [1.50]}, "o": {"a": 1}}\n{"id": "x"}', age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/b.json", '{"id": 2, "o": {"a": 2, "b": 3}}', age=80)
    workspace.run(spark, "bronze")
    assert read(workspace, "id", "o") == [(1, {"a": 1}), (2, {"a": 2}), (None, None)]
    texts = [{**entry, **({"o": json.loads(entry["o"])} if "o" in entry else {})} for entry in rescued(workspace)]
    assert sorted(texts, key=repr) == sorted(
        [{"extra": {"deep": ["1.50"]}}, {"id": "x"}, {"o": {"a": 2, "b": 3}}], key=repr
    )


def test_nested_columns_grow_and_keep_what_conflicts(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, JSON)
    workspace.land("things/a.json", '{"id": 1, "o": {"a": "x", "l": [{"p": 1}]}}', age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/b.json", '{"id": 2, "o": {"b": {"c": 1}, "l": [{"q": 2}]}}\n{"id": 3}', age=80)
    workspace.run(spark, "bronze")
    workspace.land("things/c.json", '{"id": 4, "o": "none"}\n{"id": 5, "o": {"a": "y"}}\n{"id": 6, "o": null}', age=70)
    workspace.run(spark, "bronze")
    rows = dict(read(workspace, "id", "o"))
    assert rows[1] == {"a": "x", "l": [{"p": "1", "q": None}], "b": None}
    assert rows[2] == {"a": None, "l": [{"p": None, "q": "2"}], "b": {"c": "1"}}
    assert (rows[3], rows[4], rows[6]) == (None, None, None)
    assert rows[5]["a"] == "y"
    texts = [entry["o"] for entry in rescued(workspace)]
    assert texts == ["none"]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_a_file_that_is_gone_is_on_record(spark: SparkSession, workspace: Workspace) -> None:
    """Deleted after it was entered into the ledger and before it was read: the others go in, and its fate is told."""
    define(workspace, CSV)
    path = workspace.land("things/a.csv", "id,name\n1,b\n", age=90)
    workspace.land("things/b.csv", "id,name\n2,c\n")
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake)
    path.unlink()
    report = workspace.run(spark, "bronze")["things"]
    assert list(report.failed) == [str(path)]
    assert "FileNotFoundError" in report.failed[str(path)]
    assert workspace.rows("things", "id", "name") == [(2, "c")]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_ledger_that_is_gone_does_not_double_the_table(spark: SparkSession, workspace: Workspace) -> None:
    import shutil

    define(workspace, JSON)
    workspace.land("things/a.json", [{"id": 1}])
    workspace.run(spark, "bronze")
    shutil.rmtree(workspace.lake.ledger("things"))
    with pytest.raises(SluicegateError, match="cannot continue"):
        workspace.run(spark, "bronze")
    assert workspace.rows("things", "id") == [(1,)]


def test_a_ledger_that_puts_its_files_together_gives_each_of_them_once(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between chunks that bronze has read, and between some that it has not; a chunk keeps its number all the same."""
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    define(workspace, JSON, "maxFilesPerTrigger: 1")
    table = workspace.definition.bronze["things"]
    for first, ahead in ((0, False), (3, True), (6, True), (9, False)):
        for number in range(first, first + 3):
            workspace.land(f"things/{number}.json", f'{{"id": {number}}}\n')
        if ahead:
            intake.enter("things", table, workspace.lake)
        if first != 3:  # bronze is two discoveries behind
            assert workspace.run(spark, "bronze")["things"].read == 3 * (1 + (first == 6))
    assert sorted(workspace.rows("things", "id")) == [(number,) for number in range(12)]
    ledger = tables.delta_table(workspace.lake.ledger("things"))
    assert ledger is not None
    entries = tables.dataset(ledger).to_table(["chunk", "path"]).to_pylist()
    assert len(ledger.file_uris()) < len(entries) == 12 < ledger.version() + 1
    taken = {(chunk, source.rpartition("/")[2]) for chunk, source in workspace.rows("things", "_chunk", "source_file")}
    assert taken == {(entry["chunk"], entry["path"].rpartition("/")[2]) for entry in entries}
    bronze = tables.delta_table(workspace.uri("things"))
    assert [commit.rows_written for commit in log.commits(bronze)] == [1] * 12
    assert workspace.run(spark, "bronze")["things"].state == "idle"
    assert {row["state"] for row in file_status.statuses(workspace.lake, "things").to_pylist()} == {"ingested"}
    # The change feed of a RESTORE has all rows of the files that were put together since.
    undone = {entry["path"] for entry in entries if entry["chunk"] == max(entry["chunk"] for entry in entries)}
    ledger.restore(max(entry["chunk"] for entry in entries) - 1)
    assert workspace.run(spark, "bronze")["things"].read == len(undone)
    rows = Counter(number for (number,) in workspace.rows("things", "id"))
    assert rows == Counter(dict.fromkeys(range(12), 1)) + Counter({11: 1})  # what its ledger does not know lands anew


def test_files_of_SMALL_BYTES_give_the_same_rows_as_larger_ones(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(workspace, JSON, "maxFilesPerTrigger: 1")
    workspace.land("things/a.json", '{"id": 0, "price": 1.5, "note": "first"}\n')
    workspace.run(spark, "bronze")
    odd = '{"id": 7, "price": 1.25, "at": "2024-05-01T12:00:00.000001Z", "note": "é"}\n{"id": "x"}\n{"id": 8\n'
    uri = workspace.lake.table("bronze", "things")
    for number, (more, few) in enumerate([(1, True), (0, True), (-1, False)]):
        monkeypatch.setattr(ingest, "SMALL_BYTES", len(odd.encode()) + more)
        workspace.land(f"things/{number}.json", odd)
        report = workspace.run(spark, "bronze")["things"]
        assert (report.read, report.corrupt, report.rescued) == (3, 1, 1)
        assert ("delta-rs" in tables.table_at(uri).history(1)[0]["engineInfo"]) is few
    rows = Counter(read(workspace, "id", "price", "at", "note", "_corrupt_record", "_pos"))
    assert sorted(rows.values()) == [1, 3, 3, 3]
