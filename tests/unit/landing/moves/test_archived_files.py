"""Files in the archive that no ledger knows are told, and one command enters them."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.definition import load
from sluicegate.errors import LandingMissing, UserError
from sluicegate.lake import layout
from sluicegate.landing import file_status, intake
from sluicegate.landing.chosen import reread
from sluicegate.landing.moves import archived_files, clean_source
from sluicegate.monitor import verify_archive
from sluicegate.settings import Settings
from tests.unit.landing.moves.test_clean_source import Landed, Stopped, stop_at
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


def names(files: Any) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in files["path"].to_pylist()]


def unknown(landed: Landed) -> list[str]:
    return names(archived_files.unknown_files(NAME, landed.table, landed.at))


def read_and_moved(landed: Landed, name: str, text: str, seconds: int) -> None:
    landed.place.land(name, text, seconds=seconds)
    landed.place.enter()
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert landed.clean().removed == 1


def test_files_moved_after_a_backup_are_entered_once_it_was_put_back(tmp_path: Path) -> None:
    """The lake is copied, two files are read and moved, one of them under the name of a file of before."""
    landed = Landed(tmp_path)
    read_and_moved(landed, "export.json", "monday", 1)
    assert unknown(landed) == []
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    read_and_moved(landed, "export.json", "tuesday, longer", 2)
    read_and_moved(landed, "b.json", "b", 3)
    assert unknown(landed) == []
    shutil.rmtree(tmp_path / "lake")
    shutil.copytree(tmp_path / "backup", tmp_path / "lake")
    assert landed.place.enter().new.num_rows == 0
    assert unknown(landed) == ["b.json", "export.1.json"]
    finder = reread.FromArchive()
    found = intake.enter(NAME, landed.table, landed.at, finder.discover)
    assert (names(found.new), {*found.new["action"].to_pylist()}) == (["export.1.json", "b.json"], {"read"})
    assert unknown(landed) == []
    assert intake.enter(NAME, landed.table, landed.at, finder.discover).new.num_rows == 0
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert [state for _, state in landed.place.states()] == ["archived", "ingested", "ingested"]
    assert landed.due() == []
    assert reread.preview(NAME, landed.table, landed.at).files == 3


def test_a_file_is_known_by_its_whole_name(tmp_path: Path) -> None:
    """Of two files with the same content and time one may have the end of the other's name."""
    landed = Landed(tmp_path)
    read_and_moved(landed, "ab.json", "same", 1)
    for name in ("b.json", "ab.1.json"):
        shutil.copy2(tmp_path / "out/ab.json", tmp_path / "out" / name)
    assert unknown(landed) == ["b.json"]


def test_one_of_them_is_entered_by_its_address(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    read_and_moved(landed, "a.json", "a", 1)
    for name in ("b.json", "c.json"):
        (tmp_path / "out" / name).write_text("{}")
    wanted = reread.FromArchive((f"{tmp_path}/out/c.json",))
    assert names(wanted.discover(NAME, landed.table, landed.at).new) == ["c.json"]
    with pytest.raises(LandingMissing, match=r"a\.json"):
        reread.FromArchive((f"{tmp_path}/out/a.json",)).discover(NAME, landed.table, landed.at)


def test_what_is_no_file_of_the_table_is_not_told(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    landed.table = landed.table.model_copy(update={"pathGlobFilter": "*.json"})
    assert unknown(landed) == []  # there is no archive yet
    read_and_moved(landed, "a.json", "a", 1)
    for name in ("README.txt", ".hidden.json", "_x.json", "half.json.tmp"):
        (tmp_path / "out" / name).write_text("{}")
    assert unknown(landed) == []


def test_a_copy_of_a_killed_cleaning_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in both places, and nobody has recorded it: the next cleaning will."""
    landed = Landed(tmp_path)
    read_and_moved(landed, "a.json", "a", 1)
    landed.place.land("a.json", "again", seconds=2)
    landed.place.enter()
    landed.place.take()
    file_status.copy(landed.at, NAME)
    stop_at(monkeypatch, "clean.between_copy_and_removal")
    with pytest.raises(Stopped):
        landed.clean()
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.1.json", "a.json"]
    assert unknown(landed) == []


def pipeline(tmp_path: Path, name: str) -> None:
    (tmp_path / "pipelines" / name).mkdir(parents=True)
    fields = f"cleanSource: MOVE, cleanSourceMoveDestination: {tmp_path}/out"
    (tmp_path / "pipelines" / name / "pipeline.yaml").write_text(
        f"name: {name}\nbronze: {{things: {{path: {tmp_path}/landing, format: json, {fields}}}}}\n"
    )


def test_they_are_told_and_an_archive_of_several_tables_is_not_guessed_about(tmp_path: Path) -> None:
    pipeline(tmp_path, "outcomes")
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines")
    landed = Landed(tmp_path)
    read_and_moved(landed, "a.json", "a", 1)
    definition = load("outcomes", settings)
    assert list(verify_archive.findings(definition, NAME, landed.at)) == []
    (tmp_path / "out/b.json").write_text("{}")
    (found,) = verify_archive.findings(definition, NAME, landed.at)
    assert (found.kind, found.mend) == ("wrong", "sluicegate reload outcomes things --archived")
    assert "1 file of its archive, such as" in found.what
    assert isinstance(reread.choose_reload((), None, definition, NAME, archived=True), reread.FromArchive)
    pipeline(tmp_path, "second")
    (found,) = verify_archive.findings(definition, NAME, landed.at)
    assert (found.kind, found.mend) == ("unproved", "")
    with pytest.raises(UserError, match=r"second\.things"):
        reread.choose_reload((), None, definition, NAME, archived=True)
    assert reread.choose_reload(("x",), None, definition, NAME, archived=True) == reread.FromArchive(("x",))
    with pytest.raises(UserError, match="--pattern"):
        reread.choose_reload((), "*", definition, NAME, archived=True)


def test_a_file_that_another_table_moved_to_the_same_archive_is_known(tmp_path: Path) -> None:
    for name in ("outcomes", "second"):
        pipeline(tmp_path, name)
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines")
    landed = Landed(tmp_path)
    read_and_moved(landed, "a.json", "a", 1)
    other = Place.__new__(Place)
    other.folder, other.at = landed.place.folder, layout.Lake(landed.at.root, "second")
    other.table = landed.place.table
    (landed.place.folder / "b.json").write_text("{}")
    os.utime(landed.place.folder / "b.json", (1_700_000_009,) * 2)
    other.enter()
    other.take()
    file_status.copy(other.at, NAME)
    assert clean_source.clean(NAME, landed.table, other.at).removed == 1
    assert unknown(landed) == ["b.json"]
    assert list(verify_archive.findings(load("outcomes", settings), NAME, landed.at)) == []


@pytest.mark.parametrize("column", ["path", "size", "modification_time"])
def test_a_ledger_that_has_lost_what_a_file_was_that_was_moved_is_wrong(tmp_path: Path, column: str) -> None:
    landed = Landed(tmp_path)
    read_and_moved(landed, "a.json", "a", 1)
    pipeline(tmp_path, "outcomes")
    definition = load("outcomes", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))
    assert list(verify_archive.findings(definition, NAME, landed.at)) == []
    ledger = landed.at.ledger(NAME)
    rows = DeltaTable(ledger).to_pyarrow_table()
    [value] = rows[column].to_pylist()
    other = f"{value}!" if column == "path" else value + (1 if column == "size" else timedelta(microseconds=1))
    kind = rows.schema.field(column)
    changed = rows.set_column(rows.schema.get_field_index(column), kind, pa.array([other], kind.type))
    write_deltalake(ledger, changed, mode="overwrite")
    [*wrong] = verify_archive.findings(definition, NAME, landed.at)
    assert ("wrong", NAME) in {(one.kind, one.table) for one in wrong}
    assert any("on record as moved" in one.what for one in wrong)
