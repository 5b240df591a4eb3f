"""Where files lie that were taken away, for when they are read again, and which a reset finds; no Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sluicegate.bronze import reread_rows
from sluicegate.lake import tables
from sluicegate.landing import intake
from sluicegate.landing.chosen import reread
from sluicegate.landing.moves import archive
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


def test_of_files_taken_away_those_are_found_that_are_there(workspace: Workspace) -> None:
    """Back in landing as it was, where it was moved to, changed in landing, and nowhere any more."""
    workspace.define("name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: json}\n")
    files = {
        name: workspace.land(f"things/{name}.json", "{}") for name in ("back", "moved", "lost", "deleted", "never")
    }
    table, at = workspace.definition.bronze["things"], workspace.lake
    intake.enter("things", table, at)
    ledger = tables.delta_table(at.ledger("things"))
    assert ledger is not None
    entries = {Path(row["path"]).stem: row for row in tables.dataset(ledger).to_table().to_pylist()}
    away = workspace.folder / "away"
    away.mkdir()
    told = []
    for name in ("back", "moved", "lost", "deleted"):
        mode, place = ("DELETE", None) if name == "deleted" else ("MOVE", str(away / f"{name}.json"))
        told.append({**{key: entries[name][key] for key in ("path", "size", "modification_time")}, "mode": mode,
                     "place": place})  # fmt: skip
        if name != "back":
            shutil.copy2(files[name], away)
            files[name].unlink()
    (away / "lost.json").unlink()
    archive.note(at, "things", told)
    places = reread_rows.ArchivedLocations(at, "things")
    lost = places.find(entries.values())
    assert {Path(path).stem: retry for path, (_, retry) in lost.items()} == {"lost": True, "deleted": True}
    assert "it was deleted by cleanSource" in lost[str(files["deleted"])][0]
    assert {name for name, path in files.items() if places.location(str(path)) != str(path)} == {"moved"}
    assert places.location(str(files["moved"])) == str(away / "moved.json")
    before = reread.preview("things", table, at)
    assert (before.files, before.archived) == (3, 1)
    assert before.missing == sorted(str(files[name]) for name in ("lost", "deleted"))
