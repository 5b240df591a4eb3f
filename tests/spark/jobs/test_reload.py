"""Files that are read again: chosen ones, or all of them in a table that is made anew."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row

from sluicegate.bronze import landed_paths, reread_rows
from sluicegate.errors import LandingMissing, SchemaMismatch, UserError
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import copy_into
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables
from sluicegate.landing import intake
from sluicegate.landing.chosen import reread
from sluicegate.landing.chosen.copy import Copy
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.monitor import plan, status
from sluicegate.schema.columns import RESCUED
from sluicegate.schema.landed import record_landed_names
from sluicegate.storage import listings
from sluicegate.witness import landed_files
from tests.conftest import ROOT, Workspace, beat
from tests.spark.landing.test_file_status import define, ids, states, verified
from tests.spark.test_medallion import assert_right
from tests.spark.test_recovery import Stopped, stop_at
from tests.support.prepared import Prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def again(
    spark: SparkSession, workspace: Workspace, what: reread.Reload | reread.Reset, name: str = "things"
) -> TableReport:
    """What ``spark_jobs/tools/reload.py`` and ``jobs/reload.py`` do."""
    job = Job(
        workspace.definition, workspace.lake, "bronze", {"run_id": "test"}, spark, only=name, finder=what.discover
    )
    return job.run().tables[0]


def assert_idle(workspace: Workspace) -> None:
    assert plan.pending(workspace.definition, workspace.settings).nothing
    assert {report.state for report in workspace.run(None).values()} == {"idle"}  # type: ignore[arg-type]
    assert verified(workspace)


def kinds(workspace: Workspace) -> dict[str, str]:
    table = tables.delta_table(workspace.uri("things"))
    assert table is not None
    return {field.name: str(field.type.type) for field in table.schema().fields if not field.name.startswith("_")}


@pytest.fixture
def three(spark: SparkSession, prepared: Prepared) -> Workspace:
    def fill(workspace: Workspace) -> None:
        define(workspace, "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 2")
        for number in (1, 2, 3):
            workspace.land(f"things/d/{number}.json", json.dumps({"id": number, "n": str(number)}), age=100 - number)
        workspace.run(spark, "bronze")

    return prepared.workspace("three files", fill)


def test_a_reload_replaces_what_the_files_gave(spark: SparkSession, three: Workspace) -> None:
    three.land("things/d/2.json", '{"id": 20}\n{"id": 21}', age=50)
    assert plan.pending(three.definition, three.settings).changed == 1
    assert again(spark, three, reread.Reload(files=("d/2.json",))).read == 2
    assert ids(three) == [1, 20, 21, 3]
    assert sorted(states(three)) == sorted(
        [("1.json", "ingested"), ("2.json", "replaced"), ("3.json", "ingested"), ("2.json", "ingested")]
    )
    assert_idle(three)
    assert again(spark, three, reread.Reload(pattern="d/*.json")).read == 4  # twice is the same as once
    assert ids(three) == [1, 20, 21, 3]
    assert_idle(three)


@pytest.mark.more
def test_a_reload_that_cannot_be_read_keeps_the_rows(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json.gz", gzip.compress(b'{"id": 1}'), age=90)
    workspace.run(spark, "bronze")
    workspace.land("things/a.json.gz", gzip.compress(b'{"id": 2}' * 99)[:-20], age=80)
    assert len(again(spark, workspace, reread.Reload(pattern="*")).failed) == 1
    assert (ids(workspace), states(workspace)) == ([1], [("a.json.gz", "ingested"), ("a.json.gz", "failed")])
    assert verified(workspace)
    workspace.land("things/a.json.gz", gzip.compress(b'{"id": 3}'), age=70)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [3]
    assert_idle(workspace)


def test_which_files_are_reloaded(three: Workspace) -> None:
    table = three.definition.bronze["things"]
    (three.folder / "landing/things/d/3.json").unlink()
    for named in ("d/3.json", "nothing.json"):
        with pytest.raises(LandingMissing, match=named):
            reread.Reload(files=(named,)).discover("things", table, three.lake)
    by_pattern = reread.Reload(pattern="*3.json")
    assert by_pattern.discover("things", table, three.lake).new.num_rows == 0
    assert [path.rsplit("/", 1)[-1] for path in by_pattern.missing("things", table, three.lake)] == ["3.json"]
    three.land("things/d/1.json", "{}", age=0)
    with pytest.raises(UserError, match="still be being written"):
        reread.Reload(files=("d/1.json",)).discover("things", table, three.lake)


def test_a_reset_starts_the_columns_anew(spark: SparkSession, three: Workspace) -> None:
    """The usual reason for one: the definition's types changed, and the files that came since cannot be read."""
    three.edit("pipeline.yaml", "schemaHints: id BIGINT", "schemaHints: 'id STRING, n INT'")
    three.land("things/e.json", '{"id": "x", "n": 4}', age=50)
    with pytest.raises(SchemaMismatch) as refused:
        three.run(spark, "bronze")
    assert "sluicegate reset" in refused.value.hint
    before = reread.preview("things", three.definition.bronze["things"], three.lake)
    assert (before.rows, before.files, before.missing) == (3, 4, [])
    assert again(spark, three, reread.Reset()).read == 4
    assert {column: kinds(three)[column] for column in ("id", "n")} == {"id": "string", "n": "integer"}
    assert sorted(three.rows("things", "id", "n")) == [("1", 1), ("2", 2), ("3", 3), ("x", 4)]
    assert {state for _, state in states(three)} == {"replaced", "ingested"}
    assert_idle(three)


@pytest.mark.more
def test_a_reset_keeps_the_rows_of_files_that_are_gone(spark: SparkSession, three: Workspace) -> None:
    """Fitted into the new columns; what does not fit is rescued."""
    three.land("things/d/4.json", '{"id": 4, "n": "four", "o": {"a": 1}, "p": 1}', age=50)
    three.land("things/d/5.json", '{"id": 5, "n": "5", "o": {"a": 2}}', age=49)
    three.run(spark, "bronze")
    for gone in (2, 4):
        (three.folder / f"landing/things/d/{gone}.json").unlink()
    three.edit("pipeline.yaml", "schemaHints: id BIGINT", "schemaHints: 'n INT, o STRING'")
    before = reread.preview("things", three.definition.bronze["things"], three.lake)
    assert (len(before.missing), before.missing_rows) == (2, 2)
    again(spark, three, reread.Reset())
    rows = {id: (n, o, p, json.loads(r) if r else None) for id, n, o, p, r in
            three.rows("things", "id", "n", "o", "p", "_rescued_data")}  # fmt: skip
    assert {id: row[:3] for id, row in rows.items()} == {
        "1": (1, None, None), "2": (2, None, None), "3": (3, None, None), "4": (None, None, "1"),
        "5": (5, '{"a": 2}', None),
    }  # fmt: skip
    rescued = rows["4"][3]
    assert rescued.pop("_file_path").endswith("4.json")
    assert rescued == {"n": "four", "o": {"a": "1"}}
    assert_idle(three)
    assert again(spark, three, reread.Reset(drop_missing=True)).read == 3
    assert ids(three) == ["1", "3", "5"]
    assert {s for n, s in states(three) if n == "4.json"} == {"replaced", "dropped"}
    assert "p" not in kinds(three)
    assert_idle(three)
    three.land("things/d/4.json", '{"id": 4}', age=49)  # what was dropped is not known any more
    three.run(spark, "bronze")
    assert ids(three) == ["1", "3", "4", "5"]
    assert_idle(three)


@pytest.mark.more
def test_a_reset_keeps_the_rows_of_a_file_that_went_bad(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, "format: json, schemaHints: id BIGINT")
    workspace.land("things/a.json.gz", gzip.compress(b'{"id": 1}'), age=90)
    workspace.land("things/b.json", '{"id": 2}', age=80)
    workspace.run(spark, "bronze")
    workspace.land("things/a.json.gz", b"?", age=70)
    assert len(again(spark, workspace, reread.Reset()).failed) == 1
    assert ids(workspace) == [1, 2]
    assert verified(workspace)


@pytest.mark.more
@pytest.mark.ran
def test_silver_and_gold_follow_a_reset_with_other_types(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.edit("pipeline.yaml", "mrn BIGINT, time DOUBLE, heartrate DOUBLE", "mrn INT, time STRING")
    before = tables.delta_table(heartbeats.uri("recordings_bronze"))
    assert before is not None
    again(spark, heartbeats, reread.Reset(), "recordings_bronze")
    after = tables.delta_table(heartbeats.uri("recordings_bronze"))
    assert after is not None
    assert after.version() == before.version() + 1  # readers see the one or the other
    heartbeats.edit("recordings_enriched.sql", "r.heartrate", "CAST(r.heartrate AS DOUBLE) AS heartrate")
    heartbeats.edit("recordings_enriched.sql", "CAST(r.time AS", "CAST(CAST(r.time AS DOUBLE) AS")
    assert heartbeats.run(spark)["recordings_enriched"].state == "rebuilt"
    assert_right(heartbeats)
    assert_idle(heartbeats)


@pytest.mark.ran
@pytest.mark.parametrize(
    "name",
    [
        "bronze.before_commit",
        *(pytest.param(f"{one}.after_commit", marks=pytest.mark.more) for one in ("ledger", "bronze")),
    ],
)
def test_a_kill_during_a_reset(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heartbeats.land("recordings/a.json", [beat(1, 1, 0, 66.0), beat(5, 2, 0, 50.0)], age=40)
    stop_at(monkeypatch, name)
    with pytest.raises(Stopped):
        again(spark, heartbeats, reread.Reset(), "recordings_bronze")
    monkeypatch.undo()
    heartbeats.run(spark)
    assert_right(heartbeats)
    assert_idle(heartbeats)


def test_a_reset_and_a_run_at_once(spark: SparkSession, three: Workspace) -> None:
    """Without the lock, too: the ledger gives them an order, and the marks keep it."""
    for number in (6, 7):
        three.land(f"things/{number}.json", json.dumps({"id": number}), age=60 - number)
    refused: list[str] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except Exception as error:
            refused.append(str(error))

    works = [lambda: three.run(spark, "bronze"), lambda: again(spark, three, reread.Reset())]
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("CONCURRENT" in reason.upper() for reason in refused), refused
    three.run(spark, "bronze")
    assert ids(three) == [1, 2, 3, 6, 7]
    assert_idle(three)


@pytest.mark.more
def test_a_reset_of_copied_files(spark: SparkSession, three: Workspace) -> None:
    """They lie outside of landing, and are read from there; a hidden file of landing that was copied as well."""
    away = three.folder / "away"
    shutil.copytree(three.folder / "landing/things/d", away)
    Job(three.definition, three.lake, "bronze", {}, spark, only="things", finder=Copy(str(away)).discover).run()
    assert ids(three) == [1, 1, 2, 2, 3, 3]
    again(spark, three, reread.Reset())
    assert ids(three) == [1, 1, 2, 2, 3, 3]
    assert_idle(three)


def test_files_that_are_overwritten_after_their_folder_was_copied(spark: SparkSession, workspace: Workspace) -> None:
    """One before the first run in the new place, one after it; then all files are read again. The former files stay."""
    define(workspace, "format: json, schemaHints: id BIGINT, allowOverwrites: true")
    for number in (1, 2, 3, 4):
        workspace.land(f"things/{number}.json", json.dumps({"id": number}), age=100 - number)
    workspace.run(spark, "bronze")
    shutil.copytree(workspace.folder / "landing/things", workspace.folder / "landing/copied")
    workspace.edit("pipeline.yaml", "${landing}/things", "${landing}/copied")
    workspace.land("copied/2.json", '{"id": 22}', age=50)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [1, 22, 3, 4]
    workspace.land("copied/3.json", '{"id": 33}', age=40)
    workspace.run(spark, "bronze")
    assert ids(workspace) == [1, 22, 33, 4]
    assert_idle(workspace)
    again(spark, workspace, reread.Reset())
    assert ids(workspace) == [1, 22, 33, 4]
    assert_idle(workspace)


def test_a_reset_reads_each_arrival_and_each_copy_as_it_was_read_before(
    spark: SparkSession, workspace: Workspace
) -> None:
    """Files of one name that were moved away, read with a wrong separator; and one that a copy brought as JSON."""
    away = workspace.folder / "away"
    cleaning = f"cleanSource: MOVE, cleanSourceRetentionDuration: 0 seconds, cleanSourceMoveDestination: '{away}'"
    define(workspace, f"format: csv, options: {{header: true}}, schemaHints: 'id BIGINT, v BIGINT', {cleaning}")
    for day in (1, 2, 3):
        workspace.land("things/export.csv", f"id;v\n{day};{day * 10}\n", age=100 - day)
        workspace.run(spark, "bronze")
    (workspace.folder / "others").mkdir()
    more = workspace.folder / "others/more.json"
    more.write_text('{"x": "7", "y": 10}\n')
    os.utime(more, (time.time() - 60,) * 2)
    how = CopyOptions("SELECT CAST(x AS BIGINT) AS id, CAST(y AS BIGINT) * 2 AS v FROM source", format="json")
    copy = Copy(str(workspace.folder / "others"), how=how)
    copy_into.run(copy, workspace.definition, "things", workspace.lake, {}, spark)
    assert sorted(workspace.rows("things", "id", "v"), key=repr) == [(7, 20), *[(None, None)] * 3]
    workspace.edit("pipeline.yaml", "header: true", "header: true, sep: ;")
    before = reread.preview("things", workspace.definition.bronze["things"], workspace.lake)
    assert (before.rows, before.files, before.copied, before.former) == (4, 4, 1, 0)
    assert again(spark, workspace, reread.Reset()).read == 4
    assert sorted(workspace.rows("things", "id", "v", "_rescued_data")) == [
        (1, 10, None), (2, 20, None), (3, 30, None), (7, 20, None),
    ]  # fmt: skip
    assert set(kinds(workspace)) == {"id", "v", "receipt_time", "source_file"}
    assert_idle(workspace)
    (away / "export.csv").unlink()  # of an arrival that cannot be read again, the row stays
    again(spark, workspace, reread.Reload(files=("export.csv",)))
    report = again(spark, workspace, reread.Reset())
    assert "1 file cannot be read again, and their 1 rows" in "\n".join(report.warnings)
    assert sorted(workspace.rows("things", "id", "v")) == [(1, 10), (2, 20), (3, 30), (7, 20)]
    assert_idle(workspace)


def test_rescued_data_of_a_file_in_the_archive_names_the_file_as_it_landed(
    spark: SparkSession, workspace: Workspace
) -> None:
    cleaning = "cleanSource: MOVE, cleanSourceRetentionDuration: 0 seconds, cleanSourceMoveDestination: '{away}'"
    away = workspace.folder / "away"
    define(workspace, f"format: json, schemaHints: 'id BIGINT', {cleaning.format(away=away)}")
    workspace.land("things/a b.json", '{"id": "one"}\n{"id": 2, "_file_path": "x"}\n', age=90)
    workspace.run(spark, "bronze")
    before = sorted(workspace.rows("things", "source_file", "_rescued_data"), key=str)
    assert (away / "a b.json").exists()
    again(spark, workspace, reread.Reload(files=("a b.json",)))
    assert sorted(workspace.rows("things", "source_file", "_rescued_data"), key=str) == before
    found = landed_files.findings(workspace.definition, workspace.settings)
    assert [str(one) for one in found if one.kind == "wrong"] == []


def test_a_retained_value_that_does_not_fit_is_rescued_under_the_name_of_its_field(spark: SparkSession) -> None:
    """By that name silver knows that a value of the column was rescued, and not a new field."""
    fields = "amount DOUBLE, n INT, day STRING, _rescued_data STRING, source_file STRING"
    rows = [
        (2.5, 1, "2024-02-01", None, "file:/a"),
        (3.0, 2, "2024-31-01", None, "file:/a"),
        (4.5, 3, None, '{"new":1,"_file_path":"file:/a"}', "file:/a"),
    ]
    retained = record_landed_names(spark.createDataFrame(rows, fields), {"amount": "Amount (EUR)"})
    new = spark.createDataFrame([], fields.replace("amount DOUBLE", "amount INT").replace("day STRING", "day DATE"))
    both = reread_rows.union(new, retained, {"dateformat": "yyyy-dd-MM"}).orderBy("n")
    values = [(*row[:2], json.loads(row[2] or "{}")) for row in both.select("amount", "day", RESCUED).collect()]
    assert values == [
        (None, date(2024, 1, 2), {"Amount (EUR)": 2.5, "_file_path": "file:/a"}),
        (3, date(2024, 1, 31), {}),
        (None, None, {"new": 1, "_file_path": "file:/a", "Amount (EUR)": 4.5}),
    ]


@pytest.mark.release
def test_the_commands(spark: SparkSession, three: Workspace) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        settings = three.settings
        places = ["--lake", settings.lake, "--landing", settings.landing, "--pipelines", str(settings.pipelines)]
        full = [sys.executable, "-m", "sluicegate.cli", *arguments, *places]
        return subprocess.run(full, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    refused = command("reset", "heart_rate", "things")
    assert refused.returncode == 2
    assert "3 files are read again, and their rows replace 3 rows" in refused.stdout
    assert "--yes" in refused.stderr
    assert command("reload", "heart_rate", "things").returncode == 2
    assert "Spark was not started" in command("reload", "heart_rate", "things", "--pattern", "zzz").stdout
    local = ("--master", "local[2]")
    done = command("reset", "heart_rate", "things", "--yes", "--json", *local)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["read"] == 3
    done = command("reload", "heart_rate", "things", "--files", "d/1.json", "--json", *local)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["read"] == 1
    assert_idle(three)


@pytest.mark.in_the_jvm
def test_rows_that_give_way_are_found_by_their_files_whatever_these_are_called(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also by a table of the names, of which a reset may have very many, and not by a text that Spark must parse."""
    names = ["it's \\ odd.json", "a+b%20c.json", "50%.json", "new\nline.json", "stays.json"]
    paths = [f"/in/{name}" for name in names]
    entries = [(path, chunk) for path in paths for chunk in (1, 2)]
    rows = [Row(source_file=landed_paths.spark_uri(path), _chunk=chunk) for path, chunk in entries]
    rows += [Row(source_file=None, _chunk=1), Row(source_file="file:///in/50%.json", _chunk=1)]
    uri = str(tmp_path / "table")
    spark.createDataFrame(rows).write.format("delta").save(uri)  # type: ignore[type-var]
    ledger = pa.table({"path": [p for p, _ in entries], "chunk": [c for _, c in entries], "action": ["read"] * 10})
    for fact in ("size", "modification_time"):  # which tell a file that was moved
        ledger = ledger.append_column(fact, pa.nulls(10, listings.FILES.field(fact).type))
    tables.write(str(tmp_path / "ledger"), ledger.filter(pc.field("path") != paths[0]))
    tables.write(str(tmp_path / "ledger"), ledger.filter(pc.field("path") == paths[0]).slice(0, 1), mode="append")
    former = reread_rows.Former.from_ledger(tables.delta_table(str(tmp_path / "ledger")), set(paths[:4]), 3)
    assert former is not None
    assert former.ranges == {path: [(2 if path in paths[1:4] else 0, 2)] for path in paths[:4]}  # the last arrival
    there = spark.read.format("delta").load(uri)
    stays = sorted(former.retained_rows(there).collect(), key=repr)
    text = former.condition(tables.table_at(uri))
    assert stays == sorted(there.where(f"NOT coalesce({text}, false)").collect(), key=repr)
    assert len(stays) == len(rows) - 5
    many = replace(former, ranges={f"/in/{number}.json": [(0, 2)] for number in range(20_000)})
    assert len(many.retained_rows(there)._jdf.queryExecution().toString()) < 20_000
    assert many.retained_rows(there).count() == len(rows)


def test_nothing_to_reset(workspace: Workspace) -> None:
    define(workspace, "format: json")
    with pytest.raises(UserError, match="has not read any file yet"):
        reread.preview("things", workspace.definition.bronze["things"], workspace.lake)
    workspace.land("things/a.json", "{}")
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake)
    assert status.verify(workspace.definition, workspace.settings) == []
