"""What becomes of each landed file: it keeps no other from being read, and its fate is on record."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.bronze import ingest, unreadable_files
from sluicegate.errors import SchemaMismatch, SourceError
from sluicegate.lake import layout, tables
from sluicegate.landing import discovery, file_status, intake
from sluicegate.monitor import plan, status
from sluicegate.witness import landed_files
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARQUET_MAGIC = b"PAR1"


def define(workspace: Workspace, table: str) -> None:
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', {table}}}\n")
    (workspace.folder / "landing" / "things").mkdir(parents=True, exist_ok=True)


def ids(workspace: Workspace) -> list[Any]:
    return sorted((id for (id,) in workspace.rows("things", "id")), key=repr)


def states(workspace: Workspace) -> list[tuple[str, str]]:
    entries = status.files("things", workspace.definition, workspace.settings).to_pylist()
    return [(entry["path"].rsplit("/", 1)[-1], entry["state"]) for entry in entries]


def verified(workspace: Workspace) -> bool:
    return status.verify(workspace.definition, workspace.settings) == []


def test_a_bad_file_fails_alone_and_is_read_when_it_is_repaired(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaHints: id BIGINT")
    whole = gzip.compress("\n".join(json.dumps({"id": n}) for n in range(5000)).encode())
    workspace.land("things/half.json.gz", whole[: len(whole) // 2], age=90)  # a truncated archive: not half of its rows
    workspace.land("things/no.json.gz", b"this is not gzip", age=85)
    for number in range(5):
        workspace.land(f"things/{number}.json", json.dumps({"id": -number - 1}), age=80 - number)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.state, report.read) == ("written", 5)
    assert sorted(path.rsplit("/", 1)[-1] for path in report.failed) == ["half.json.gz", "no.json.gz"]
    assert "EOF" in next(why for path, why in report.failed.items() if "half" in path)
    assert ids(workspace) == [-1, -2, -3, -4, -5]
    assert dict(states(workspace))["half.json.gz"] == "failed"
    assert verified(workspace)
    workspace.land("things/half.json.gz", whole, age=50)
    again = workspace.run(spark, "bronze")["things"]
    assert (again.read, again.failed) == (5000, {})
    assert Counter(states(workspace))["half.json.gz", "ingested"] == 1
    assert verified(workspace)
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]


def test_a_file_out_of_reach_is_tried_again(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights or a network, not its content, kept it from being read: it need not change to be read later."""
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json.gz", b"?", age=90)
    monkeypatch.setattr(unreadable_files, "_is_unreachable", lambda _path: True)
    assert len(workspace.run(spark, "bronze")["things"].failed) == 1
    found = discovery.discover("things", workspace.definition.bronze["things"], workspace.lake)
    assert found.new["action"].to_pylist() == ["replace"]
    monkeypatch.undo()
    assert len(workspace.run(spark, "bronze")["things"].failed) == 1  # its content, this time: that must change
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    assert verified(workspace)


@pytest.mark.more
def test_a_file_that_always_meets_passing_trouble_keeps_no_newer_one_waiting(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a text that no executor has the memory for: that looks like a machine's trouble each time."""
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json.gz", b"?", age=90)
    monkeypatch.setattr(unreadable_files, "is_transient", lambda _error: True)
    with pytest.raises(SourceError, match="cannot be read"):
        workspace.run(spark, "bronze")
    workspace.land("things/b.json", '{"id": 1}', age=80)
    for _ in range(2):  # the chunk that it is in, and one that it is in alone
        assert len(workspace.run(spark, "bronze")["things"].failed) == 1
        assert ids(workspace) == [1]
    of_a = {("a.json.gz", "failed"): 2, ("a.json.gz", "waiting"): 1}
    assert Counter(states(workspace)) == {**of_a, ("b.json", "ingested"): 1}


@pytest.mark.release
def test_as_many_WITNESSES_are_asked_whether_trouble_is_of_the_machines(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four files, each a chunk of its own, only the last one can be read: for the first it is the third witness."""
    define(workspace, "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1")
    for number, name in enumerate(("a.json.gz", "b.json.gz", "c.json.gz")):
        workspace.land(f"things/{name}", b"?", age=90 - number)
    workspace.land("things/d.json", '{"id": 1}', age=80)
    monkeypatch.setattr(unreadable_files, "is_transient", lambda _error: True)
    monkeypatch.setattr(ingest, "WITNESSES", 2)
    with pytest.raises(SourceError, match="cannot be read"):
        workspace.run(spark, "bronze")
    assert ids(workspace) == []
    monkeypatch.setattr(ingest, "WITNESSES", 3)
    assert len(workspace.run(spark, "bronze")["things"].failed) == 3
    assert ids(workspace) == [1]


def test_a_trouble_that_is_not_the_file_s_fails_none(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or another writer: the one file of the chunk is whole, and must not be taken for bad."""
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json", '{"id": 1}')
    troubles = iter([OSError("no space left on device")])

    def point(name: str) -> None:
        if name == "bronze.before_commit":
            for trouble in troubles:
                raise trouble

    monkeypatch.setattr(_faults, "point", point)
    with pytest.raises(OSError, match="no space left"):
        workspace.run(spark, "bronze")
    assert workspace.run(spark, "bronze")["things"].failed == {}
    assert ids(workspace) == [1]
    assert verified(workspace)


def test_nothing_but_bad_files(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: parquet, schemaHints: id BIGINT")
    workspace.land("things/a.parquet", b"", age=90)
    workspace.land("things/b.parquet", PARQUET_MAGIC + b"?" * 40 + PARQUET_MAGIC, age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert len(report.failed) == 2
    assert workspace.rows("things", "id") == []
    assert states(workspace) == [("a.parquet", "failed"), ("b.parquet", "failed")]
    assert "but 2 files could not be read" in plan.pending(workspace.definition, workspace.settings).sentence()
    assert verified(workspace)
    shutil.rmtree(workspace.uri("things"))
    assert "the table no longer exists" in status.verify(workspace.definition, workspace.settings)[0]


@pytest.mark.more
def test_a_changed_file_replaces_its_rows_and_silver_follows(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.edit("pipeline.yaml", "format: json", "format: json\n    allowOverwrites: true")
    heartbeats.run(spark)
    (heartbeats.folder / "landing/recordings/a.json").rename(heartbeats.folder / "landing/recordings/it's {a} b%.json")
    heartbeats.run(spark)  # another name is another file: its readings came before, and are duplicates
    heartbeats.land("recordings/it's {a} b%.json", [beat(1, 1, 0, 66.0), beat(5, 2, 0, 50.0)], age=40)
    (heartbeats.folder / "landing/recordings/c.json").unlink()  # what has been read may go
    reports = heartbeats.run(spark)
    assert reports["recordings_bronze"].read == 2
    entries = status.files("recordings_bronze", heartbeats.definition, heartbeats.settings).to_pylist()
    assert Counter(entry["state"] for entry in entries) == {"ingested": 4, "replaced": 1}
    assert reports["recordings_enriched"].state == "again"
    rates = Counter(heartbeats.rows("recordings_enriched", "device_id", "heartrate"))
    assert rates == {(1, 60.0): 1, (1, 62.5): 1, (2, 80.0): 1, (1, 90.0): 1, (5, 50.0): 1}
    assert verified(heartbeats)
    # All landed at once into another lake, as the files are now, gives what these files say.
    shutil.rmtree(heartbeats.settings.lake)
    heartbeats.run(spark)
    assert_right(heartbeats)


def test_which_files_are_looked_at(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, 'format: json, pathGlobFilter: "*.json", modifiedAfter: 2001-01-01, includeExistingFiles: false')
    for name, age in (("old.json", 60), ("ancient.json", 1.1e9), ("x.txt", 60)):
        workspace.land(f"things/{name}", '{"id": 1}', age=age)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.state, report.read) == ("idle", 0)
    workspace.land("things/new.json", '{"id": 2}', age=30)
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["2"]
    assert states(workspace) == [("old.json", "skipped"), ("new.json", "ingested")]
    assert verified(workspace)


def test_columns_from_the_path(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, 'format: csv, options: {header: true}, partitionColumns: [day, city], schemaHints: "day DATE"')
    workspace.land("things/day=2024-05-01/city=New%20York+x/a.csv", "id,city\n1,inside\n", age=90)
    workspace.land("things/day=soon/b.csv", "id\n2\n", age=80)
    workspace.run(spark, "bronze")
    columns = ("id", "day", "city", "_rescued_data")
    rows = {id: (str(day), *others) for id, day, *others in workspace.rows("things", *columns)}
    assert rows["1"][:2] == ("2024-05-01", "New York+x")
    assert json.loads(rows["1"][2])["city"] == "inside"
    assert rows["2"][:2] == ("None", None)
    assert json.loads(rows["2"][2])["day"] == "soon"


@pytest.mark.more
def test_formats_with_types_of_their_own(spark: SparkSession, workspace: Workspace) -> None:
    import pyarrow as pa
    from pyarrow import orc, parquet

    for form, write in (("parquet", parquet.write_table), ("orc", orc.write_table)):
        define(workspace, f"format: {form}")
        folder = workspace.folder / "landing" / "things"
        first = {"id": pa.array([1, 2], pa.int64()), "o": [{"a": 1}, {"a": 2}], "Name": ["x", None]}
        write(pa.table(first), folder / f"a.{form}")
        workspace.land(f"things/a.{form}", (folder / f"a.{form}").read_bytes(), age=90)
        workspace.run(spark, "bronze")
        later = {"id": [3.0, 4.5], "o": [{"a": 3, "b": "y"}, None], "name": ["z", "z"], "extra": [True, False]}
        write(pa.table(later), folder / f"b.{form}")
        workspace.land(f"things/b.{form}", (folder / f"b.{form}").read_bytes(), age=80)
        workspace.run(spark, "bronze")
        rows = sorted(workspace.rows("things", "id", "o", "Name", "extra"), key=repr)
        assert rows == sorted([
            (1, {"a": 1, "b": None}, "x", None), (2, {"a": 2, "b": None}, None, None),
            (3, {"a": 3, "b": "y"}, None, True), (None, None, None, False),
        ], key=repr)  # fmt: skip
        rescued = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
        assert all(entry.pop("_file_path") for entry in rescued)
        assert sorted(rescued, key=repr) == [{"id": 4.5, "name": "z"}, {"name": "z"}]
        assert verified(workspace)
        shutil.rmtree(workspace.settings.lake)
        shutil.rmtree(folder)


def test_text_xml_and_binary_files(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: text")
    workspace.land("things/a.txt", "one\n\ntwo ü\n")
    workspace.run(spark, "bronze")
    assert sorted(workspace.rows("things", "value")) == [("",), ("one",), ("two ü",)]
    for folder in (workspace.settings.lake, workspace.folder / "landing" / "things"):
        shutil.rmtree(folder)
    define(workspace, "format: binaryFile")
    workspace.land("things/a.bin", b"\x00\xff")
    workspace.run(spark, "bronze")
    assert workspace.rows("things", "length", "content") == [(2, b"\x00\xff")]
    for folder in (workspace.settings.lake, workspace.folder / "landing" / "things"):
        shutil.rmtree(folder)
    define(workspace, 'format: xml, options: {rowTag: thing}, schemaHints: "id BIGINT, _n INT"')
    workspace.land("things/a.xml", '<all><thing n="7"><id>1</id><o><a>x</a></o></thing><thing><id>?</id></thing></all>')
    workspace.run(spark, "bronze")
    rows = workspace.rows("things", "id", "_n", "o", "_rescued_data")
    assert sorted(rows, key=repr)[0] == (1, 7, {"a": "x"}, None)
    assert json.loads(next(row[3] for row in rows if row[0] is None))["id"] == "?"


@pytest.mark.parametrize("mode", ["rescue", "none", "addNewColumns"])
def test_what_becomes_of_a_new_field(spark: SparkSession, workspace: Workspace, mode: str) -> None:
    define(workspace, f"format: json, inferColumnTypes: true, schemaEvolutionMode: {mode}")
    workspace.land("things/a.json", '{"id": 1, "price": 1.5}', age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/b.json", '{"id": 2, "price": "dear", "colour": "red"}', age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert report.rescued == 1
    assert sorted(workspace.rows("things", "id", "price"), key=repr) == [(1, 1.5), (2, None)]
    [rescued] = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
    rescued.pop("_file_path")
    if mode == "addNewColumns":
        assert rescued == {"price": "dear"}
        assert sorted(workspace.rows("things", "id", "colour"), key=repr) == [(1, None), (2, "red")]
    else:
        assert rescued == {"price": "dear", "colour": "red"}


def test_fail_on_new_columns_and_other_cases(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaEvolutionMode: failOnNewColumns, readerCaseSensitive: false")
    workspace.land("things/a.json", '{"id": 1}', age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/b.json", '{"ID": 2}', age=80)
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["1", "2"]
    workspace.land("things/c.json", '{"id": 3, "new": 1}', age=70)
    with pytest.raises(SchemaMismatch, match="have a new field, new"):
        workspace.run(spark, "bronze")
    workspace.edit("pipeline.yaml", "format: json", 'format: json, schemaHints: "new INT"')
    workspace.run(spark, "bronze")
    assert sorted(workspace.rows("things", "id", "new"), key=repr) == [("1", None), ("2", None), ("3", 1)]


def test_an_entry_of_the_ledger_is_for_ever(workspace: Workspace) -> None:
    """Discovery by itself, without Spark: what is entered once is never new again; a file that changes replaces it."""
    define(workspace, "format: json, maxFilesPerTrigger: 2")
    table = workspace.definition.bronze["things"]
    for number in range(5):
        workspace.land(f"things/{number}.json", "{}", age=90 - number)
    found = intake.enter("things", table, workspace.lake)
    assert (found.new.num_rows, found.bytes) == (5, 10)
    assert intake.enter("things", table, workspace.lake).new.num_rows == 0
    workspace.land("things/3.json", "{} ", age=50)
    for overwrites in (False, True):  # nothing has read it, so nobody has to permit that its rows go
        definition = table.model_copy(update={"allowOverwrites": overwrites})
        again = discovery.discover("things", definition, workspace.lake)
        assert (again.changed.num_rows, again.new["action"].to_pylist()) == (0, ["replace"])


def test_a_kill_before_the_outcome_is_on_record(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would know that the file failed, nor that it is to be read again."""
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json.gz", b"?", age=90)
    workspace.land("things/b.json", '{"id": 1}', age=80)

    def copy(at: layout.Lake, name: str, opened: Any, done: Any = file_status.copy) -> file_status.Taken:
        if tables.delta_table(workspace.uri("things")) is not None:
            raise Killed
        return done(at, name, opened)  # type: ignore[no-any-return]

    monkeypatch.setattr(file_status, "copy", copy)
    with pytest.raises(Killed):
        workspace.run(spark, "bronze")
    monkeypatch.undo()
    workspace.land("things/a.json.gz", gzip.compress(b'{"id": 2}'), age=50)
    assert plan.pending(workspace.definition, workspace.settings).layers == ["bronze"]
    workspace.run(spark, "bronze")
    assert ids(workspace) == [1, 2]
    assert verified(workspace)


class Killed(Exception):
    """Stands for a kill."""


def test_a_corrected_definition_reads_what_failed_by_it(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: parquet")
    workspace.land("things/a", "id,name\n1,x\n", age=90)
    assert len(workspace.run(spark, "bronze")["things"].failed) == 1
    workspace.edit("pipeline.yaml", "format: parquet", "format: csv, options: {header: true}")
    workspace.run(spark, "bronze")
    assert workspace.rows("things", "id", "name") == [("1", "x")]
    assert verified(workspace)


@pytest.mark.more
def test_a_landing_folder_that_was_moved_doubles_nothing(spark: SparkSession, workspace: Workspace) -> None:
    """Nor does a file of it that changes afterwards; and a link in it does not lead out."""
    define(workspace, "format: json, schemaHints: id BIGINT, allowOverwrites: true")
    workspace.land("things/a.json", '{"id": 1}', age=90)
    workspace.land("things/b.json", '{"id": 2}', age=80)
    workspace.run(spark, "bronze")
    (workspace.folder / "landing/moved").mkdir()
    shutil.move(workspace.folder / "landing/things", workspace.folder / "landing/moved/things")
    workspace.edit("pipeline.yaml", "${landing}/things", "${landing}/moved/things")
    workspace.land("moved/things/c.json", '{"id": 3}', age=70)
    workspace.land("secret.json", '{"id": 99}', age=70)
    (workspace.folder / "landing/moved/things/d.json").symlink_to("../../secret.json")
    done = workspace.run(spark, "bronze")["things"]
    assert (done.moved_files, [*done.refused]) == (2, [str(workspace.folder / "landing/moved/things/d.json")])
    assert ids(workspace) == [1, 2, 3]
    workspace.land("moved/things/a.json", '{"id": 9}', age=60)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [2, 3, 9]
    assert verified(workspace)
    assert states(workspace)[-1] == ("d.json", "refused")
    assert "1 in landing was passed over" in plan.pending(workspace.definition, workspace.settings).sentence()


def test_a_file_that_moves_within_landing_doubles_nothing(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaHints: id BIGINT, allowOverwrites: true")
    path = workspace.land("things/inbox/a.json", '{"id": 1}', age=90)
    written = (int(path.stat().st_mtime) * 1_000_000 + 250_001) * 1000
    os.utime(path, ns=(written, written))
    workspace.run(spark, "bronze")
    path.parent.rename(workspace.folder / "landing/things/done")
    assert workspace.run(spark, "bronze")["things"].moved_files == 1
    assert (ids(workspace), verified(workspace)) == ([1], True)
    found = list(landed_files.findings(workspace.definition, workspace.settings))
    assert [(finding.kind, finding.table) for finding in found] == [("proved", "things")]
    workspace.land("things/done/a.json", '{"id": 9}', age=60)
    workspace.run(spark, "bronze")
    assert (ids(workspace), verified(workspace)) == ([9], True)
    assert states(workspace) == [("a.json", "replaced"), ("a.json", "moved"), ("a.json", "ingested")]


def test_a_file_that_was_away_is_read_when_it_is_back(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json")
    path = workspace.land("things/a.json", '{"id": 1}', age=90)
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake)
    away = path.rename(workspace.folder / "away.json")
    assert len(workspace.run(spark, "bronze")["things"].failed) == 1
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    away.rename(path)
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["1"]


@pytest.mark.more
def test_an_older_version_that_comes_back_is_a_change(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, allowOverwrites: true")
    path = workspace.land("things/a.json", '{"id": 1}', age=900)
    older = shutil.copy2(path, workspace.folder / "older.json")
    workspace.run(spark, "bronze")
    workspace.land("things/a.json", '{"id": 22}', age=90)
    workspace.run(spark, "bronze")
    shutil.copy2(older, path)
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["1"]
    assert verified(workspace)


def test_a_bad_file_changes_nothing_for_the_others(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: csv, options: {header: true}, inferColumnTypes: true")
    workspace.land("things/a.csv.gz", gzip.compress(b"ID,n\n" + b"1,2\n" * 999)[:-20], age=95)
    workspace.land("things/b.csv", "id,n\n1,7\n", age=90)
    workspace.land("things/c.csv", "n,id\nabc,2\n", age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert len(report.failed) == 1
    assert sorted(workspace.rows("things", "id", "n"), key=repr) == [(1, 7), (2, None)]
    [rescued] = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
    assert rescued["n"] == "abc"


def test_a_file_of_lines_is_no_multi_line_file(spark: SparkSession, workspace: Workspace) -> None:
    """Spark would read its first line and drop the others."""
    define(workspace, "format: json, options: {multiLine: true}")
    workspace.land("things/a.json", '{"id": 1}\n{"id": 2}\n', age=90)
    workspace.land("things/b.json", '[{"id": 3, "note": "a} b"},\n {"id": 4}]\n', age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert [path.rsplit("/", 1)[-1] for path in report.failed] == ["a.json"]
    assert ids(workspace) == ["3", "4"]
    workspace.edit("pipeline.yaml", "options: {multiLine: true}", "maxFilesPerTrigger: 10")
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["1", "2", "3", "4"]
    assert verified(workspace)


def test_fields_with_names_of_sparks_own(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json")
    about = {"file_path": "file:/etc/passwd", "file_modification_time": "x"}
    workspace.land("things/a.json", json.dumps({"id": 1, "_metadata": about, "_corrupt_record": "secret"}), age=90)
    workspace.land("things/b.json", '{"id": 2}{"id": 3}', age=80)
    workspace.run(spark, "bronze")
    assert all("/things/" in file for (file,) in workspace.rows("things", "source_file"))
    [rescued] = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
    assert (rescued["_metadata"], rescued["_corrupt_record"]) == (about, "secret")
    assert [text for (text,) in workspace.rows("things", "_corrupt_record") if text] == ['{"id": 2}{"id": 3}']
    assert verified(workspace)


def test_a_landing_folder_by_a_roundabout_way(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, allowOverwrites: true")
    workspace.edit("pipeline.yaml", "/things", "//x/../things")
    workspace.land("things/a.json", '{"id": 1}', age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/a.json", '{"id": 2} ', age=80)
    workspace.run(spark, "bronze")
    assert ids(workspace) == ["2"]
    assert verified(workspace)


def test_existing_files_are_those_of_the_first_look(workspace: Workspace) -> None:
    define(workspace, "format: json, includeExistingFiles: false")
    table = workspace.definition.bronze["things"]
    intake.enter("things", table, workspace.lake)  # nothing was there
    workspace.land("things/later.json", "{}", age=60)
    assert discovery.discover("things", table, workspace.lake).new["action"].to_pylist() == ["read"]
