"""COPY INTO: chosen files, each once, read as the copy says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.bronze import preview
from sluicegate.errors import LandingMissing, QueryError, SchemaMismatch, UserError
from sluicegate.jobs import copy_into
from sluicegate.landing import intake
from sluicegate.landing.chosen import copy as landing_copy
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Killed(Exception):
    """Stands for a kill."""


class Copies:
    """A bronze table and an archive to copy into it from."""

    def __init__(self, spark: SparkSession, workspace: Workspace) -> None:
        self.spark, self.workspace, self.archive = spark, workspace, workspace.folder / "landing" / "archive"
        self.define("format: json, schemaHints: id BIGINT")
        (workspace.folder / "landing" / "things").mkdir()

    def define(self, table: str) -> None:
        text = f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', {table}}}\n"
        self.workspace.define(text)

    def land(self, name: str, content: str | bytes, age: float = 60) -> None:
        self.workspace.land(f"archive/{name}", content, age)

    def copy(self, how: CopyOptions | None = None, **which: Any) -> dict[str, int]:
        """What `sluicegate copy-into` and its job do, in this process."""
        copy = landing_copy.Copy(str(self.archive), **which, how=how or CopyOptions())
        at, definition = self.workspace.lake, self.workspace.definition
        done = copy_into.run(copy, definition, "things", at, {}, self.spark)
        return copy_into.result(done.tables[0])

    def select(self, text: str, **others: Any) -> dict[str, int]:
        return self.copy(CopyOptions(select=text, **others))

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(self.workspace.rows("things", *columns), key=repr)

    def rescued(self) -> list[dict[str, Any]]:
        """What was rescued, by record, without the files' names (which must be there)."""
        found = [json.loads(text) for (text,) in self.workspace.rows("things", "_rescued_data") if text]
        assert all("/archive/" in entry.pop("_file_path") for entry in found)
        return found

    def verified(self) -> bool:
        return status.verify(self.workspace.definition, self.workspace.settings) == []


@pytest.fixture
def copies(spark: SparkSession, workspace: Workspace) -> Copies:
    return Copies(spark, workspace)


def numbers(read: int, failed: int = 0) -> dict[str, int]:
    return {"num_affected_rows": read, "num_inserted_rows": read, "num_skipped_corrupt_files": failed}


def test_each_file_once_by_the_ledger(copies: Copies) -> None:
    for name in ("a.json", "b.json", "2024/c.json"):
        copies.land(name, json.dumps({"id": len(name)}))
    assert copies.copy(files=("a.json",)) == numbers(1)
    assert copies.copy(pattern="2024/*") == numbers(1)
    assert copies.copy() == numbers(1)
    assert copies.copy() == numbers(0)
    assert copies.copy(files=("a.json",), force=True) == numbers(1)
    assert copies.rows("id") == [(11,), (6,), (6,), (6,)]
    with pytest.raises(LandingMissing, match=r"x\.json"):
        copies.copy(files=("x.json",))
    assert copies.verified()


def test_a_forced_copy_of_files_of_a_time(copies: Copies) -> None:
    copies.land("old.json", '{"id": 1}', age=86400 * 10)
    copies.land("new.json", '{"id": 2}', age=60)
    copies.copy()
    import datetime as dt

    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=5)
    assert copies.copy(force=True, modified_after=then) == numbers(1)
    assert copies.copy(force=True, modified_before=then) == numbers(1)
    assert copies.rows("id") == [(1,), (1,), (2,), (2,)]


@pytest.mark.more
def test_a_bad_file_is_tried_again(copies: Copies) -> None:
    whole = gzip.compress(b'{"id": 2}\n' * 100)
    copies.land("a.json", '{"id": 1}')
    copies.land("b.json.gz", whole[:20])
    assert copies.copy() == numbers(1, 1)
    copies.land("b.json.gz", whole)
    assert copies.copy() == numbers(100)
    assert copies.verified()


def test_expressions_over_the_fields(copies: Copies) -> None:
    copies.land("a.json", '{"a": "1", "b": "x", "when": "2024-05-01", "o": {"deep": "d"}, "left": 1}\n{"a": "2"}')
    text = (
        "SELECT CAST(a AS BIGINT) AS id, upper(b) AS b2, CAST(s.when AS DATE) AS day, o.deep AS deep, "
        "_metadata.file_name AS file, 7 AS seven FROM source AS s"
    )
    assert copies.select(text) == numbers(2)
    found = copies.rows("id", "b2", "deep", "file", "seven")
    assert found == [(1, "X", "d", "a.json", 7), (2, None, None, "a.json", 7)]
    assert sorted(str(day) for (day,) in copies.rows("day")) == ["2024-05-01", "None"]
    columns = set(copies.workspace.rows("things")[0])
    assert "left" not in columns
    assert copies.rescued() == []
    # What lands afterwards is read as the definition says.
    copies.workspace.land("things/b.json", '{"id": 3, "b2": "y", "seven": 8}')
    copies.workspace.run(copies.spark, "bronze")
    assert copies.rows("id", "b2", "seven")[-1] == (3, "y", 8)
    assert copies.verified()


def test_what_does_not_cast_or_fit_is_rescued(copies: Copies) -> None:
    lines = [
        '{"a": "1", "b": "2", "source_file": "s"}',
        '{"a": "one", "b": "2"}',
        '{"a": "3", "b": "2.5"}',
        '{"a": "x", "b',
    ]
    copies.land("a.json", "\n".join(lines))
    # id BIGINT is hinted; a DOUBLE of 2.5 does not fit there.
    assert copies.select("SELECT CAST(a AS INT) + 1 AS n, CAST(b AS DOUBLE) AS id FROM source") == numbers(4)
    assert copies.rows("n", "id", "_corrupt_record") == sorted(
        [(2, 2, None), (None, 2, None), (4, None, None), (None, None, lines[3])], key=repr
    )
    assert sorted(copies.rescued(), key=repr) == [{"a": "one"}, {"id": 2.5}, {"source_file": "s"}]
    assert copies.verified()


@pytest.mark.more
def test_an_error_in_an_expression_fails_its_file_alone(copies: Copies) -> None:
    copies.land("a.json", '{"a": "2024-05-01"}', age=90)
    copies.land("b.json", '{"a": "never"}', age=80)
    assert copies.select("SELECT to_date(a) AS day FROM source") == numbers(1, 1)
    [failed] = [
        e
        for e in status.files("things", copies.workspace.definition, copies.workspace.settings).to_pylist()
        if e["error"]
    ]
    assert failed["path"].endswith("b.json")
    assert "CANNOT_PARSE" in failed["error"] or "CAST_INVALID_INPUT" in failed["error"]
    assert copies.select("SELECT try_to_date(a) AS day FROM source") == numbers(1)
    assert copies.verified()


def test_fields_that_are_not_there(copies: Copies) -> None:
    copies.land("a.json", '{"name": 1}')
    with pytest.raises(SchemaMismatch, match="reads nam, a field") as caught:
        copies.select("SELECT nam AS x FROM source")
    assert caught.value.hint == "did you mean name?"
    with pytest.raises(QueryError, match="rejects the SELECT"):
        copies.select("SELECT no_such_function(name) AS x FROM source")
    assert copies.select("SELECT name AS x FROM source") == numbers(1)  # the mistakes left nothing behind
    assert copies.rows("x") == [("1",)]


@pytest.mark.more
def test_what_can_no_longer_be_done_does_not_stop_others(copies: Copies) -> None:
    """The file changed between the look and the reading: nobody can correct what the ledger says of it."""
    copies.land("a.json", '{"id": 1, "new": 1}')
    copies.copy()
    copies.land("b.json", '{"id": 2, "newer": 1}')
    how = CopyOptions(merge_schema=False)
    look = landing_copy.Copy(str(copies.archive), how=how).discover
    intake.enter("things", copies.workspace.definition.bronze["things"], copies.workspace.lake, look)
    copies.workspace.land("things/c.json", '{"id": 3}')
    report = copies.workspace.run(copies.spark, "bronze")["things"]
    assert (report.read, list(report.failed.values())) == (1, ["the files of things have a new field, newer"])
    assert copies.copy() == numbers(1)
    assert copies.rows("id") == [(1,), (2,), (3,)]
    assert copies.verified()


@pytest.mark.more
def test_a_field_that_only_some_files_have(copies: Copies) -> None:
    copies.land("a.json", '{"a": 1, "b": 2}', age=90)
    copies.land("b.json", '{"a": 3}', age=85)
    copies.land("c.json.gz", b"?", age=80)  # and one that makes the others be looked at one by one
    assert copies.select("SELECT a, b FROM source") == numbers(2, 1)
    assert copies.rows("a", "b") == [("1", "2"), ("3", None)]


def test_files_of_several_chunks_are_read_alike(copies: Copies) -> None:
    copies.define("format: json, maxFilesPerTrigger: 1")
    copies.land("a.json", '{"a": 1, "o": {"x": 1}}', age=90)
    copies.land("b.json", '{"o": {"y": 2}}', age=85)
    copies.land("c.json", '{"a": 3, "z": 3}', age=80)
    assert copies.select("SELECT *, o.x AS x, o.y AS y FROM source") == numbers(3)
    assert copies.rows("a", "x", "y", "z") == [("1", "1", None, None), ("3", None, None, "3"), (None, None, "2", None)]
    assert copies.verified()


def test_csv_by_position_and_another_format(copies: Copies) -> None:
    copies.land("a.csv", "1;x\n2;y\n")
    csv = {"format": "csv", "options": {"sep": ";"}}
    assert copies.copy(CopyOptions(columns=("id", "name"), **csv)) == numbers(2)  # type: ignore[arg-type]
    assert copies.rows("id", "name") == [(1, "x"), (2, "y")]
    copies.land("b.csv", "3;z;more\n")
    with pytest.raises(SchemaMismatch, match="returns 3 columns"):
        copies.copy(CopyOptions(columns=("id", "name"), **csv))  # type: ignore[arg-type]


def test_columns_named_by_position_of_a_select(copies: Copies) -> None:
    copies.land("b.csv", "3;z;more\n")
    how = {"format": "csv", "options": {"sep": ";"}, "columns": ("id", "text")}
    assert copies.select("SELECT _c0, concat(_c1, _c2) FROM source", **how) == numbers(1)
    assert copies.rows("id", "text") == [(3, "zmore")]


def test_new_columns_come_or_are_an_error(copies: Copies) -> None:
    copies.define('format: json, schema: "id BIGINT"')
    copies.land("a.json", '{"id": 1}')
    copies.copy()
    copies.land("b.json", '{"id": 2, "new": "n"}')
    with pytest.raises(SchemaMismatch, match="new field, new"):
        copies.copy(CopyOptions(merge_schema=False))
    assert copies.rows("id") == [(1,)]
    assert copies.copy() == numbers(1)  # as the definition says: rescued
    assert copies.rescued() == [{"new": "n"}]


def test_merge_schema(copies: Copies) -> None:
    copies.define('format: json, schema: "id BIGINT"')
    copies.land("a.json", '{"id": 1, "new": "n"}')
    assert copies.copy(CopyOptions(merge_schema=True)) == numbers(1)
    assert copies.rows("id", "new") == [(1, "n")]
    copies.land("b.json", '{"id": 2, "new": "m", "newer": 1}')
    assert copies.copy() == numbers(1)
    assert copies.rows("id", "new") == [(1, "n"), (2, "m")]
    assert copies.rescued() == [{"newer": "1"}]


def test_killed_before_its_commit_it_goes_on_as_it_said(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    copies.land("a.csv", "a,b\n1,2\n")
    copies.workspace.land("things/c.json", '{"id": 9}')

    def point(name: str) -> None:
        if name == "bronze.before_commit":
            raise Killed

    monkeypatch.setattr(_faults, "point", point)
    how = {"format": "csv", "options": {"header": "true"}}
    with pytest.raises(Killed):
        copies.select("SELECT CAST(b AS BIGINT) AS id FROM source", **how)
    monkeypatch.undo()
    copies.workspace.run(copies.spark, "bronze")  # a usual run
    assert copies.rows("id") == [(2,), (9,)]
    assert copies.verified()


def test_nothing_is_written_to_validate(copies: Copies) -> None:
    copies.land("a.json", '{"a": "1"}\n{"a": "x"}\n{')
    how = CopyOptions(select="SELECT CAST(a AS INT) AS id FROM source")
    table = how.table("things", copies.workspace.definition.bronze["things"])
    paths = [str(copies.archive / "a.json")]
    seen = preview.preview(copies.spark, "things", table, copies.workspace.uri("things"), paths, 5, how)
    assert (seen["rows"], seen["corrupt"], seen["rescued"], seen["failed"]) == (3, 1, 1, {})
    assert sorted((row["id"] for row in seen["sample"]), key=repr) == [1, None, None]
    assert not Path(copies.workspace.uri("things")).exists()


def test_validation_tells_of_a_damaged_array(copies: Copies) -> None:
    copies.land("a.json", '[{"id": 1}, {"id": 2}, {"i')
    how = CopyOptions(options={"multiLine": "true"})
    table = how.table("things", copies.workspace.definition.bronze["things"])
    path = str(copies.archive / "a.json")
    seen = preview.preview(copies.spark, "things", table, copies.workspace.uri("things"), [path], 5, how)
    assert (seen["rows"], seen["corrupt"]) == (3, 1)
    assert list(seen["failed"]) == [path]
    assert "its first 2 elements were read" in seen["failed"][path]


def test_not_into_a_table_that_reads_a_delta_table(copies: Copies) -> None:
    copies.define("format: delta")
    with pytest.raises(UserError, match="reads a Delta table"):
        copies.copy()


def test_a_copy_reads_csv_by_rfc_4180_or_by_sparks_dialect(copies: Copies) -> None:
    copies.land("a.csv", 'id,t\n1,"say ""x"""\n2,"C:\\"\n')
    copies.land("b.csv", 'id,t\n3,"say \\"y\\""\n')
    copies.copy(CopyOptions(format="csv", options={"header": "true"}), files=("a.csv",))
    copies.copy(CopyOptions(format="csv", options={"header": "true"}, dialect="spark"), files=("b.csv",))
    assert copies.rows("id", "t") == [(1, 'say "x"'), (2, "C:\\"), (3, 'say "y"')]
    with pytest.raises(UserError, match="dialect is only for csv"):
        copies.copy(CopyOptions(dialect="spark"))
