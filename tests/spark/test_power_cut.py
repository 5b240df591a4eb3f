"""What runs make of a lake in which a power cut has emptied or taken back the newest files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sluicegate.cli.app import app
from sluicegate.errors import DamagedTable
from sluicegate.jobs.layer_job import run_layer
from sluicegate.lake import layout
from sluicegate.lake.damage import whole
from sluicegate.lake.damage.set_aside import local_tables
from sluicegate.launch.request import Request
from sluicegate.monitor import backlog, verify, verify_damage
from sluicegate.spark import connect
from sluicegate.spark.session import SharedSpark
from tests.conftest import Workspace
from tests.support.prepared import Prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: power
bronze:
  b: {path: "${landing}/x", format: json, schemaHints: "id INT, v INT", settleSeconds: 0}
silver:
  s:
    sql: SELECT id, v FROM STREAM(b)
    keys: [id]
    expectations:
      positive: {expect_or_quarantine: v > 0}
gold:
  g: {sql: "SELECT count(*) AS c, sum(v) AS v FROM s"}
"""

# Each file has a row that is kept, one that is quarantined, and one that loses against the first.
ROWS = (
    [{"id": 1, "v": 10}, {"id": 2, "v": -1}, {"id": 1, "v": 11}],
    [{"id": 3, "v": 30}, {"id": 4, "v": -1}, {"id": 3, "v": 31}],
)


def run(workspace: Workspace, spark: SparkSession) -> None:
    """Runs all layers, each under the pipeline's lock, as another process would."""
    whole._whole.clear()
    if not connect.is_remote(spark):
        jvm = spark._jvm
        assert jvm is not None
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    shared = SharedSpark("power", workspace.lake, private=False, opened=spark)
    for layer in layout.LAYERS:
        run_layer(workspace.definition, workspace.lake, layer, {"run_id": "test"}, Request(), shared)


def findings(workspace: Workspace) -> list[str]:
    pipeline, settings = workspace.definition, workspace.settings
    damaged = verify_damage.findings(pipeline, settings)
    return [*map(str, damaged or verify.findings(pipeline, settings) + backlog.findings(pipeline, settings))]


def files_of(workspace: Workspace) -> set[Path]:
    """Log entries and data files of all tables, without checksums."""
    found = {file for table in local_tables(workspace.lake) for file in table.rglob("*") if file.is_file()}
    return {file for file in found if file.suffix in (".json", ".parquet")}


def entries_of(files: Iterable[Path], *tables: str) -> list[Path]:
    return [file for file in files if file.parent.name == "_delta_log" and file.parent.parent.name in tables]


@pytest.fixture
def second_run(prepared: Prepared, spark: SparkSession) -> tuple[Workspace, set[Path]]:
    """A pipeline after two runs, and the files that the second wrote."""
    notes = "files of the second run"

    def fill(made: Workspace) -> None:
        made.pipeline = "power"
        made.define(DEFINITION)
        made.land("x/1.json", ROWS[0])
        run(made, spark)
        before = files_of(made)
        made.land("x/2.json", ROWS[1])
        run(made, spark)
        names = [str(file.relative_to(made.folder)) for file in sorted(files_of(made) - before)]
        (made.folder / notes).write_text("\n".join(names))

    made = prepared.workspace("power cut", fill)
    made.pipeline = "power"
    return made, {made.folder / name for name in (made.folder / notes).read_text().splitlines()}


def content(workspace: Workspace) -> dict[str, object]:
    return {
        "b": sorted(workspace.rows("b", "id", "v")), "s": sorted(workspace.rows("s", "id", "v")),
        "q": sorted(workspace.rows("s_quarantine", "id")), "aside": len(workspace.rows("s_set_aside", "_chunk")),
        "g": workspace.rows("g", "c", "v"),
    }  # fmt: skip


WHOLE = {
    "b": sorted((row["id"], row["v"]) for rows in ROWS for row in rows),
    "s": [(1, 10), (3, 30)], "q": [(2,), (4,)], "aside": 2, "g": [(2, 40)],
}  # fmt: skip


def test_all_that_a_run_wrote_is_emptied(second_run: tuple[Workspace, set[Path]], spark: SparkSession) -> None:
    workspace, files = second_run
    assert (content(workspace), findings(workspace)) == (WHOLE, [])
    for file in files:
        os.truncate(file, 0)
    assert len(findings(workspace)) > 5
    run(workspace, spark)
    assert (content(workspace), findings(workspace)) == (WHOLE, [])


@pytest.mark.release
@pytest.mark.parametrize("lost", ["gone", "empty"])
def test_side_tables_have_lost_what_silver_has_not(
    second_run: tuple[Workspace, set[Path]], spark: SparkSession, lost: str
) -> None:
    """The quarantined record was in no place for good."""
    workspace, files = second_run
    for entry in entries_of(files, "s_quarantine", "s_set_aside"):
        if lost == "gone":
            for file in (entry, entry.with_name(f".{entry.name}.crc"), entry.with_suffix(".crc")):
                file.unlink(missing_ok=True)
        else:
            os.truncate(entry, 0)
    run(workspace, spark)
    assert (content(workspace), findings(workspace)) == (WHOLE, [])


def status_verified(workspace: Workspace) -> tuple[int, str]:
    options = ["--lake", workspace.settings.lake, "--landing", workspace.settings.landing]
    options += ["--pipelines", str(workspace.settings.pipelines), "--no-spark"]
    done = CliRunner().invoke(app, ["status", "power", "--verify", *options])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


@pytest.mark.more
def test_bronze_and_ledger_have_lost_what_silver_has_read(second_run: tuple[Workspace, set[Path]]) -> None:
    """A verification ended in a trace."""
    workspace, files = second_run
    for entry in entries_of(files, "b", "b_outcome"):
        entry.unlink()
    code, output = status_verified(workspace)
    assert code == 1
    assert "NOT RIGHT: s:" in output


@pytest.mark.release
def test_a_torn_data_file_of_an_older_commit(second_run: tuple[Workspace, set[Path]], spark: SparkSession) -> None:
    """It is named by a run that reads it, and by a verification, and no command ends in a trace."""
    workspace, files = second_run
    [older] = [file for file in Path(workspace.uri("b")).glob("*.parquet") if file not in files]
    os.truncate(older, older.stat().st_size // 2)
    assert [str(older) in finding for finding in findings(workspace)] == [True, False]
    code, output = status_verified(workspace)
    assert (code, str(older) in output) == (1, True)
    refresh = Request.from_arguments(workspace.definition, "full-refresh", None, None, ["s"])
    shared = SharedSpark("power", workspace.lake, private=False, opened=spark)
    with pytest.raises(DamagedTable) as error:
        run_layer(workspace.definition, workspace.lake, "silver", {"run_id": "test"}, refresh, shared)
    assert error.value.where.file == str(older)
