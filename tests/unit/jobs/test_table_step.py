"""What the step of a table does besides its batch, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from sluicegate.jobs.table_step import BronzeOfFiles
from sluicegate.settings import Settings
from tests.unit.landing.moves.test_clean_source import Landed
from tests.unit.landing.test_file_status import NAME

pytestmark = pytest.mark.unit


def test_a_file_stays_in_landing_if_its_rows_were_restored_away_during_the_step(tmp_path: Path) -> None:
    """The handles of the step are of before the RESTORE; to go by them would take away the only copy of the rows."""
    landed = Landed(tmp_path)
    for name in ("a.json", "b.json"):
        landed.place.land(name, name)
        landed.place.enter()
        landed.place.take(marked=True)
    (tmp_path / "pipelines").mkdir()  # no other pipeline reads these files
    settings = Settings(landed.at.root, str(landed.place.folder), tmp_path / "pipelines", "local[1]")
    pipeline = SimpleNamespace(name="p", bronze={NAME: landed.table}, settings=settings)
    step = BronzeOfFiles(NAME, cast("Any", None), cast("Any", pipeline), landed.at)
    step.prepare(cast("Any", None))
    DeltaTable(landed.at.table("bronze", NAME)).restore(0)
    assert len(step.clean_up()) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.json"]
    assert [path.name for path in landed.place.folder.iterdir()] == ["b.json"]
