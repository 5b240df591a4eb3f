"""A Delta table as the source of a bronze table: whatever happens to it, bronze has the rows that it has."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate import _faults
from sluicegate.errors import LandingMissing, NotADeltaTable, SchemaMismatch
from sluicegate.flow import loop, model
from sluicegate.flow.source_changes import only_adds_fields
from sluicegate.lake.table import Tables
from sluicegate.monitor import plan, status
from sluicegate.spark.session import override_settings
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# As tables of other programs are: no change data feed, and deletion vectors.
FOREIGN = "TBLPROPERTIES (delta.enableChangeDataFeed = false, delta.enableDeletionVectors = true)"
RENAMED = (
    "ALTER TABLE SOURCE SET TBLPROPERTIES (delta.columnMapping.mode = 'name'); "
    "ALTER TABLE SOURCE RENAME COLUMN n TO m; INSERT INTO SOURCE (id, m) VALUES (50, 5)"
)
ROWS = "SELECT id, CAST(id % 7 AS INT) AS n FROM range(20)"


class Source:
    """A Delta table of some other program, and a pipeline that reads it."""

    def __init__(self, spark: SparkSession, workspace: Workspace, extra: str = "") -> None:
        self.spark, self.workspace, self.path = spark, workspace, workspace.folder / "theirs"
        workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '{self.path}', format: delta{extra}}}\n")

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    def make(
        self, query: str = "SELECT id, CAST(id % 7 AS INT) AS n FROM range(20)", properties: str = FOREIGN
    ) -> None:
        self.spark.sql(f"CREATE TABLE {self.name} USING delta {properties} AS {query}")

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("SOURCE", self.name))

    def run(self) -> Any:
        return self.workspace.run(self.spark, "bronze")["things"]

    def same(self) -> bool:
        """Whether bronze has just the source's rows, read by Spark alone."""
        theirs = self.spark.read.format("delta").load(str(self.path))
        ours = self.spark.read.format("delta").load(self.workspace.uri("things")).select(*theirs.columns)
        return Counter(map(repr, theirs.collect())) == Counter(map(repr, ours.collect()))

    def verified(self) -> bool:
        return status.verify(self.workspace.definition, self.workspace.settings) == []


@pytest.fixture
def source(spark: SparkSession, workspace: Workspace) -> Source:
    return Source(spark, workspace)


def test_rows_that_come_are_added(source: Source) -> None:
    source.make()
    first = source.run()
    assert (first.state, first.read, first.written) == ("written", 20, 20)
    assert source.same()
    assert source.workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    source.sql("INSERT INTO SOURCE VALUES (1, 1), (1, 1)", "INSERT INTO SOURCE VALUES (NULL, NULL)")
    source.sql("MERGE INTO SOURCE t USING (SELECT 99L id, 9 n) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    source.sql("OPTIMIZE SOURCE", "ALTER TABLE SOURCE SET TBLPROPERTIES (a = 'b')")
    waiting = plan.pending(source.workspace.definition, source.workspace.settings)
    assert waiting.sentence() == "waiting: 5 versions of a Delta table for things"
    again = source.run()
    assert (again.state, again.read) == ("written", 4)
    assert source.same()
    rows = source.workspace.rows("things", "_chunk", "_pos", "source_file", "_file_modification_time")
    assert Counter(row[0] for row in rows) == {0: 20, 5: 4}
    assert len({row[:2] for row in rows}) == 24
    assert {row[2] for row in rows} == {str(source.path)}
    assert len({row[3] for row in rows if row[3]}) == 2
    entries = status.files("things", source.workspace.definition, source.workspace.settings).to_pylist()
    assert [(entry["chunk"], entry["rows"], entry["state"]) for entry in entries] == [
        (0, 20, "ingested"),
        (5, 4, "ingested"),
    ]
    assert source.verified()


DELETED = "DELETE FROM SOURCE WHERE id < 5"
OTHER_CHANGES = [
    "UPDATE SOURCE SET n = -1 WHERE id = 3",
    "INSERT OVERWRITE SOURCE SELECT id, 0 FROM range(3)",
    "RESTORE TABLE SOURCE TO VERSION AS OF 0",
    "MERGE INTO SOURCE t USING (SELECT 3L id, 5 n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    RENAMED,
    "ALTER TABLE SOURCE SET TBLPROPERTIES (delta.enableTypeWidening = true); "
    "ALTER TABLE SOURCE ALTER COLUMN n TYPE BIGINT; INSERT INTO SOURCE VALUES (50, 5000000000)",
    "CREATE OR REPLACE TABLE SOURCE USING delta AS SELECT 'a' AS id, 1 AS other",
]


@pytest.mark.parametrize("change", [DELETED, *(pytest.param(one, marks=pytest.mark.release) for one in OTHER_CHANGES)])
def test_other_changes_make_bronze_again(source: Source, change: str) -> None:
    source.make()
    source.sql("INSERT INTO SOURCE VALUES (100, 1)")
    source.run()
    source.sql(*change.split("; "), "OPTIMIZE SOURCE")
    report = source.run()
    assert report.state == "rebuilt"
    assert "theirs" in report.why
    assert ("another table" if "OR REPLACE" in change else "version") in report.why
    assert source.same()
    assert source.workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
    source.sql("INSERT INTO SOURCE SELECT * FROM SOURCE LIMIT 1")
    assert source.run().state == "written"
    assert source.same()
    problems = status.verify(source.workspace.definition, source.workspace.settings)
    assert all("cannot be counted without Spark" in problem for problem in problems)
    assert len(problems) == ("enableTypeWidening" in change)


def test_a_table_that_is_not_its_source_is_found(source: Source) -> None:
    source.make()
    source.run()
    assert source.verified()
    DeltaTable(source.workspace.uri("things")).delete("id = 3")
    [problem] = status.verify(source.workspace.definition, source.workspace.settings)
    assert "had 20 rows in version 0, but the table has 19" in problem
    shutil.rmtree(source.path)
    source.make()
    [problem] = status.verify(source.workspace.definition, source.workspace.settings)
    assert "no longer at" in problem


@pytest.mark.more
def test_history_that_is_gone(source: Source) -> None:
    source.make()
    source.run()
    source.sql("INSERT INTO SOURCE VALUES (50, 5)", "INSERT INTO SOURCE VALUES (51, 5)", "OPTIMIZE SOURCE")
    at_once = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # not Spark's 10,000 tasks to list a folder
    }
    with override_settings(source.spark, at_once):
        source.sql("VACUUM SOURCE RETAIN 0 HOURS")  # the files of the two inserts
    assert source.run().why == "the source's history is no longer available"
    assert source.same()
    source.sql("INSERT INTO SOURCE VALUES (52, 5)", "INSERT INTO SOURCE VALUES (53, 5)")
    source.spark.sql(f"ALTER TABLE {source.name} SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    source.sql("INSERT INTO SOURCE VALUES (54, 5)")
    logs = sorted((source.path / "_delta_log").glob("*.json"))
    for log in logs[:-2]:
        log.unlink()
    report = source.run()
    assert "is no longer available up to version" in report.why
    assert source.same()
    assert source.verified()


@pytest.mark.more
def test_killed_around_its_commit(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.make()
    for number, place in enumerate(["bronze.before_commit", "bronze.after_commit"] * 2):

        def point(name: str, place: str = place) -> None:
            if name == place:
                raise KeyboardInterrupt

        monkeypatch.setattr(_faults, "point", point)
        with pytest.raises(KeyboardInterrupt):
            source.run()
        monkeypatch.undo()
        source.run()
        assert source.same()
        source.sql(f"INSERT INTO SOURCE VALUES (100, {number})" if number != 2 else "DELETE FROM SOURCE WHERE id = 1")
    source.run()
    assert source.same()
    assert source.verified()


@pytest.mark.release
def test_a_commit_while_it_is_read(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.make()
    source.run()
    widened = "ALTER TABLE SOURCE ADD COLUMNS (more INT)"
    for change in ("INSERT INTO SOURCE VALUES (8, 8)", "DELETE FROM SOURCE WHERE id = 8", widened, RENAMED):
        source.sql("INSERT INTO SOURCE (id, n) VALUES (7, 7)")

        looks: list[model.Progress] = []

        def progress(
            way: model.Flow,
            opened: Tables,
            told: Any = loop.progress,
            change: str = change,
            looks: list[model.Progress] = looks,
        ) -> model.Progress:
            looks.append(told(way, opened))
            if len(looks) == 1:  # the run has looked for what it is to do
                source.sql(*change.split("; "))
            return looks[-1]

        with monkeypatch.context() as patch:
            patch.setattr(loop, "progress", progress)
            reports = [source.run()]
        assert looks
        reports.append(source.run())
        assert source.same(), [report.why for report in reports]
    assert source.verified()


@pytest.mark.more
def test_another_table_in_its_place_and_back(source: Source) -> None:
    source.make()
    source.run()
    away = source.path.rename(source.path.with_name("away"))
    source.make("SELECT 'x' AS id, date'2024-01-01' AS day")
    report = source.run()
    assert (report.state, report.read) == ("rebuilt", 1)
    assert "another table" in report.why
    assert source.same()
    shutil.rmtree(source.path)
    away.rename(source.path)  # at the very version that was taken from it before
    assert source.run().state == "rebuilt"
    assert source.same()
    assert source.verified()


@pytest.mark.parametrize(
    "mode",
    [
        "addNewColumns",
        "failOnNewColumns",
        *(pytest.param(one, marks=pytest.mark.release) for one in ("rescue", "none")),
    ],
)
def test_a_source_that_grows(spark: SparkSession, workspace: Workspace, mode: str) -> None:
    source = Source(spark, workspace, f", schemaEvolutionMode: {mode}")
    source.make("SELECT 1L AS id, named_struct('a', 1) AS o")
    source.run()
    source.sql("ALTER TABLE SOURCE ADD COLUMNS (colour STRING, o.b INT)")
    source.sql("INSERT INTO SOURCE SELECT 2L, named_struct('a', 2, 'b', 3), 'red'")
    if mode == "failOnNewColumns":
        with pytest.raises(SchemaMismatch, match="new field, colour"):
            source.run()
        return
    report = source.run()
    assert (report.state, report.read) == ("written", 1)
    if mode == "addNewColumns":
        assert source.same()
        assert report.rescued == 0
        return
    assert report.rescued == 1
    [rescued] = [json.loads(text) for (text,) in workspace.rows("things", "_rescued_data") if text]
    assert (rescued["colour"], rescued["o"]["b"]) == ("red", 3)
    source.sql("DELETE FROM SOURCE WHERE id = 1")
    assert source.run().state == "rebuilt"
    assert [row[0] for row in workspace.rows("things", "id")] == [2]
    assert source.verified()


def test_columns_with_names_of_ours(source: Source) -> None:
    """Another pipeline's bronze table, for one."""
    source.make("SELECT 1L AS id, 7L AS _chunk, 'theirs' AS source_file, '{}' AS _rescued_data")
    source.run()
    [(id, chunk, file, text)] = source.workspace.rows("things", "id", "_chunk", "source_file", "_rescued_data")
    assert (id, chunk, file) == (1, 0, str(source.path))
    rescued = json.loads(text)
    assert (rescued["_chunk"], rescued["source_file"], rescued["_rescued_data"]) == (7, "theirs", "{}")
    assert rescued["_file_path"] == str(source.path)


@pytest.mark.more
def test_types_and_rules_of_their_own(source: Source) -> None:
    columns = "id BIGINT GENERATED ALWAYS AS IDENTITY, code CHAR(3), day DATE NOT NULL, v VARIANT, m MAP<STRING, INT>"
    columns += ", twice INT GENERATED ALWAYS AS (n * 2), n INT"
    source.sql(
        f"CREATE TABLE SOURCE ({columns}) USING delta PARTITIONED BY (day)",
        "ALTER TABLE SOURCE ADD CONSTRAINT positive CHECK (n > 0)",
    )
    for _ in range(2):
        source.sql(
            "INSERT INTO SOURCE (code, day, v, m, n) "
            "SELECT 'ab', date'2024-05-01', parse_json('{\"a\": 1}'), map('k', 1), 4"
        )
        source.run()
    assert source.same()
    assert source.run().state == "idle"
    assert source.verified()


@pytest.mark.release
def test_silver_follows(source: Source) -> None:
    source.workspace.define(
        f"name: heart_rate\nbronze:\n  things: {{path: '{source.path}', format: delta}}\n"
        "silver:\n  good: {sql: good.sql, keys: [id], expectations: {p: {expect_or_quarantine: n > 0}}}\n",
        good__sql="SELECT id, n FROM STREAM(things)",
    )
    source.make("SELECT id, CAST(id AS INT) AS n FROM range(10)")
    assert source.workspace.run(source.spark)["good"].written == 9
    source.sql("INSERT INTO SOURCE VALUES (10, 10), (11, 0)")
    report = source.workspace.run(source.spark)["good"]
    assert (report.state, report.read, report.written, report.quarantined) == ("written", 2, 1, 1)
    source.sql("DELETE FROM SOURCE WHERE id < 8")
    assert source.workspace.run(source.spark)["good"].state == "rebuilt"
    assert sorted(source.workspace.rows("good", "id")) == [(8,), (9,), (10,)]
    source.sql("INSERT INTO SOURCE VALUES (12, 12)")
    assert source.workspace.run(source.spark)["good"].state == "written"
    assert sorted(source.workspace.rows("good", "id")) == [(8,), (9,), (10,), (12,)]
    assert source.verified()


def test_nothing_or_something_else_there(source: Source) -> None:
    with pytest.raises(LandingMissing, match="no Delta table at"):
        plan.pending(source.workspace.definition, source.workspace.settings)
    source.path.mkdir()
    (source.path / "notes.txt").write_text("mine")
    with pytest.raises(NotADeltaTable):
        source.run()


def test_a_table_that_was_filled_from_files_is_not_replaced(source: Source) -> None:
    source.make()
    path = source.workspace.folder / "landing" / "things"
    path.mkdir()
    source.workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '{path}', format: json}}\n")
    source.workspace.land("things/a.json", '{"id": 1}')
    source.workspace.run(source.spark, "bronze")
    Source(source.spark, source.workspace)
    with pytest.raises(SchemaMismatch, match="did not come from a Delta table"):
        source.run()
    assert source.workspace.rows("things", "id") == [("1",)]


@pytest.mark.release
def test_a_table_with_a_feed_is_read_alike(source: Source) -> None:
    source.make(properties="TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    source.run()
    source.sql("INSERT INTO SOURCE VALUES (50, 5)")
    assert source.run().read == 1
    source.sql("DELETE FROM SOURCE WHERE id > 10")
    assert source.run().state == "rebuilt"
    assert source.same()


def test_what_only_grew() -> None:
    """By itself, without Spark."""
    text = {"name": "a", "type": "string", "nullable": True, "metadata": {}}
    number = {"name": "b", "type": {"type": "array", "elementType": "integer", "containsNull": True}}
    assert only_adds_fields({"type": "struct", "fields": [text]}, {"type": "struct", "fields": [number, text]})
    assert not only_adds_fields({"type": "struct", "fields": [text, number]}, {"type": "struct", "fields": [text]})
    renamed = {**text, "metadata": {"delta.columnMapping.physicalName": "col-1"}}
    assert not only_adds_fields({"type": "struct", "fields": [text]}, {"type": "struct", "fields": [renamed]})
    wider = {"name": "b", "type": {"type": "array", "elementType": "long", "containsNull": True}}
    assert not only_adds_fields({"type": "struct", "fields": [number]}, {"type": "struct", "fields": [wider]})


def test_a_source_that_was_put_back_and_written_on(source: Source) -> None:
    """From a copy of its folder: it has the version that was read once more, with as many other rows."""
    source.make("SELECT id FROM range(2)")
    source.run()
    copy = source.workspace.folder / "copy"
    shutil.copytree(source.path, copy)
    source.sql("INSERT INTO SOURCE VALUES (3), (4)")
    source.run()
    shutil.rmtree(source.path)
    copy.rename(source.path)
    source.sql("INSERT INTO SOURCE VALUES (30), (40)")
    report = source.run()
    assert (report.state, report.why) == (
        "rebuilt", "theirs was put back and then written: its version 1 is not the commit that was read"
    )  # fmt: skip
    assert source.same()
    assert source.verified()
    assert source.run().state == "idle"
