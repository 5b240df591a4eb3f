"""``sluicegate plan`` of tables that have been filled, by a former version's lake, which has every kind of them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from tests.conftest import ROOT

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
