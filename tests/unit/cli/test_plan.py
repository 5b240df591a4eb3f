"""``sluicegate plan`` of tables that have been filled, by a former version's lake, which has every kind of them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from tests.conftest import ROOT, Workspace

pytestmark = pytest.mark.unit

ARCHIVE = ROOT / "tests" / "spark" / "data" / "former_lake.tar.gz"


def test_a_streaming_aggregation_that_has_run_is_told_as_one(tmp_path: Path) -> None:
    """Its commits name the mode where those of other tables name the strategy: the command ended with a trace."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "former", *places])
    assert done.exit_code == 0, done.output
    (told,) = [line for line in done.output.splitlines() if line.startswith("gold") and " hours " in line]
    assert "a streaming aggregation with a checkpoint: mode complete writes" in told


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ("", "a row for each record"),
        ("rows: many, ", "many rows of a record"),
        ("rows: many, keys: [id, x], ", "one row for each id, x; many rows of a record; each batch"),
    ],
)
def test_how_many_rows_a_record_gives(tmp_path: Path, fields: str, how: str) -> None:
    workspace = Workspace(tmp_path)
    made = "explode(xs) AS x" if fields else "x"
    query = f"SELECT id, {made} FROM STREAM(raw) AS r"
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/raw', format: json}\n"
        f"silver:\n  t: {{{fields}sql: '{query}'}}\n"
    )
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "heart_rate", *places])
    assert done.exit_code == 0, done.output
    assert how in done.output
