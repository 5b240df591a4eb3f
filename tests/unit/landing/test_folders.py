"""A landed file is the same file however its folder is reached, and wherever the folder has gone since."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluicegate.bronze import reread_rows
from sluicegate.errors import LandingMissing
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import tables
from sluicegate.landing import discovery, file_status, folders, intake
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen.reread import Reset
from sluicegate.landing.file_states import FileStatus
from sluicegate.landing.moves import clean_source, moved_files
from sluicegate.storage import filesystems, local_files
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


def here(place: Place, folder: Path) -> None:
    """The definition names another landing folder from now on."""
    place.folder = folder
    place.table = place.table.model_copy(update={"path": str(folder)})


def told(files: pa.Table) -> list[tuple[str, str]]:
    return [(row["path"].rsplit("/", 1)[-1], row["action"]) for row in files.to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two files that are in the table, in a folder and in one below it."""
    place = Place(tmp_path)
    (place.folder / "sub").mkdir()
    place.land("a.json", "a")
    place.land("sub/b.json", "b", seconds=1)
    place.enter()
    place.take()
    file_status.copy(place.at, NAME)
    return place


def test_a_folder_that_is_reached_by_a_link_is_the_same(place: Place, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(place.folder)
    known = str(place.folder)
    here(place, tmp_path / "mounted")
    assert place.enter().new.num_rows == 0
    place.land("c.json", seconds=2)
    place.land("a.json", "longer", seconds=3)
    found = place.enter(allowOverwrites=True)
    assert found.new["path"].to_pylist() == [f"{known}/c.json", f"{known}/a.json"]
    assert told(found.new) == [("c.json", "read"), ("a.json", "replace")]
    cleaning = {"cleanSource": "MOVE", "cleanSourceMoveDestination": str(tmp_path / "away")}
    table = place.table.model_copy(update=cleaning)
    later = datetime.now(UTC) + timedelta(days=31)
    assert clean_source.clean(NAME, table, place.at, later).removed == 1  # the others wait to be read
    assert (tmp_path / "away/sub/b.json").read_text() == "b"
    again = Reset().discover(NAME, place.table, place.at).new  # of b.json, what was moved away
    assert sorted(again["path"].to_pylist()) == [f"{known}/{name}" for name in ("a.json", "c.json", "sub/b.json")]


def test_files_that_were_entered_without_a_look_at_the_folder_leave_it_on_record(place: Place) -> None:
    place.land("c.json", seconds=2)
    found = replace(discovery.discover(NAME, place.table, place.at), folders=(), copy_options={"fileFormat": "JSON"})
    intake.enter(NAME, place.table, place.at, lambda *_: found)
    assert folders.recorded_folders(place.ledger()) == (str(place.folder),)


def test_a_ledger_of_before_knows_its_folder_by_the_paths(tmp_path: Path) -> None:
    """Ledgers did not always tell which folder was looked at."""
    place = Place(tmp_path)
    place.land("a.json")
    found = discovery.discover(NAME, place.table, place.at)
    ledger = landing_ledger._create(place.at.ledger(NAME), landing_ledger.stamp_rows(found.new.slice(0, 0), 0))
    landing_ledger._append(ledger, found.new, {})
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/mounted").symlink_to(place.folder)
    assert folders.recorded_folders(ledger) == ()
    copied = pa.table({**found.new.to_pydict(), "path": ["/data/elsewhere/x.json"]}, schema=found.new.schema)
    for others in ([], [copied]):  # the newest entry may be of a copy from somewhere else
        for files in others:
            landing_ledger._append(place.ledger(), files, {})
        for way in (place.folder, tmp_path / "sub/mounted"):
            table = place.table.model_copy(update={"path": str(way)})
            assert discovery.discover(NAME, table, place.at).new.num_rows == 0
            assert folders.home(place.at, NAME, str(way)).folder == str(place.folder)
        assert folders.home(place.at, NAME, str(tmp_path)).folder == str(tmp_path)
    here(place, tmp_path / "sub/mounted")
    place.land("b.json", seconds=1)
    place.enter()
    assert folders.recorded_folders(place.ledger()) == (str(tmp_path / "landing"),)


def move(place: Place, tmp_path: Path, name: str = "moved") -> None:
    shutil.move(place.folder, tmp_path / name)
    here(place, tmp_path / name)


def test_a_landing_folder_that_was_moved_is_not_read_again(place: Place, tmp_path: Path) -> None:
    move(place, tmp_path)
    place.land("c.json", "c", seconds=2)
    seen = discovery.discover(NAME, place.table, place.at)
    assert (told(seen.new), sorted(told(seen.moved))) == (
        [("c.json", "read")], [("a.json", "moved"), ("b.json", "moved")],
    )  # fmt: skip
    found = place.enter()
    assert told(found.new) == [("c.json", "read")]
    done = TableReport(NAME, "bronze", moved_files=found.moved.num_rows)
    assert "2 files" in "\n".join(done.remarks())
    place.take()
    file_status.copy(place.at, NAME)
    assert place.states() == [
        ("a.json", "ingested"), ("b.json", "ingested"), ("a.json", "moved"), ("b.json", "moved"),
        ("c.json", "ingested"),
    ]  # fmt: skip
    assert "moved" in {*FileStatus}
    again = place.enter()
    assert (again.new.num_rows, again.moved.num_rows, again.changed.num_rows) == (0, 0, 0)
    move(place, tmp_path, "moved again")
    assert sorted(told(place.enter().moved)) == [("a.json", "moved"), ("b.json", "moved"), ("c.json", "moved")]
    assert place.enter().new.num_rows == 0


def test_files_that_follow_a_moved_folder_later_are_known(place: Place, tmp_path: Path) -> None:
    """It is copied for hours, and runs go on."""
    former = place.folder
    here(place, tmp_path / "moved")
    (place.folder / "sub").mkdir(parents=True)
    for name in ("a.json", "sub/b.json"):
        shutil.move(former / name, place.folder / name)
        assert told(place.enter().moved) == [(name.rsplit("/", 1)[-1], "moved")]
        place.land(f"of-{name[0]}.json", seconds=5)
        assert told(place.enter().new) == [(f"of-{name[0]}.json", "read")]
    assert folders.recorded_folders(place.ledger()) == (str(place.folder), str(former))


def test_what_waited_in_a_folder_that_was_moved_is_read(place: Place, tmp_path: Path) -> None:
    place.land("c.json", seconds=2)
    place.land("d.json", seconds=3)
    place.enter()
    waiting = place.take({"d.json": ("out of reach", True)})
    file_status.copy(place.at, NAME)
    place.land("e.json", seconds=4)
    place.enter()
    assert place.ledger().version() == waiting + 1
    move(place, tmp_path)
    found = place.enter()
    assert told(found.new) == [("d.json", "read"), ("e.json", "read")]
    assert sorted(told(found.moved)) == [("a.json", "moved"), ("b.json", "moved"), ("c.json", "moved")]


@pytest.mark.parametrize("there", [True, False], ids=["still there", "gone"])
def test_a_file_of_another_time_in_a_new_folder_is_another_file(place: Place, tmp_path: Path, there: bool) -> None:
    """It may be the next year's of the same name and size: read twice can be seen, never read cannot."""
    former = place.folder
    here(place, tmp_path / "next")
    shutil.copytree(former, place.folder)
    place.land("a.json", "z", seconds=9)
    if not there:
        shutil.rmtree(former)
    found = place.enter()
    assert (told(found.new), told(found.moved)) == ([("a.json", "read")], [("b.json", "moved")])
    assert found.changed.num_rows == 0


def test_what_could_not_be_read_is_read_where_its_folder_is_now(place: Place, tmp_path: Path) -> None:
    place.land("bad.json", seconds=2)
    place.land("late.json", seconds=3)
    place.enter()
    place.take({"bad.json": ("it is damaged", False), "late.json": ("out of reach", True)})
    file_status.copy(place.at, NAME)
    move(place, tmp_path)
    assert told(place.enter().new) == [("bad.json", "read"), ("late.json", "read")]
    place.take({"bad.json": ("it is damaged", False)})
    file_status.copy(place.at, NAME)
    place.land("bad.json", "repaired", seconds=9)
    assert told(place.enter().new) == [("bad.json", "replace")]


@pytest.mark.parametrize("there", [True, False], ids=["copied", "moved"])
def test_what_waits_is_read_in_one_of_two_folders(place: Place, tmp_path: Path, there: bool) -> None:
    place.land("c.json", seconds=2)
    place.enter()
    former = place.folder
    if there:
        shutil.copytree(former, tmp_path / "moved")
        here(place, tmp_path / "moved")
    else:
        move(place, tmp_path)
    found = place.enter()
    assert told(found.new) == ([] if there else [("c.json", "read")])
    assert place.enter().new.num_rows == 0


def test_commits_of_others_do_not_make_a_ledger_forget_its_folders(place: Place, tmp_path: Path) -> None:
    place.ledger().optimize.compact()
    assert folders.recorded_folders(place.ledger()) == (str(place.folder),)
    move(place, tmp_path)
    assert place.enter().new.num_rows == 0


def test_files_that_were_there_first_stay_out_when_their_folder_is_moved_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter(includeExistingFiles=False)
    move(place, tmp_path)
    assert place.enter(includeExistingFiles=False).new.num_rows == 0


def test_a_file_that_changes_after_its_folder_was_moved_is_one_file(place: Place, tmp_path: Path) -> None:
    former = place.folder
    move(place, tmp_path)
    place.enter()
    place.take()
    place.land("a.json", "longer", seconds=9)
    found = place.enter(allowOverwrites=True)
    assert told(found.new) == [("a.json", "replace")]
    path = found.new["path"][0].as_py()
    assert moved_files.aliases(place.ledger(), {path}) == {path: f"{former}/a.json"}
    place.take()
    file_status.copy(place.at, NAME)
    assert place.states()[0] == ("a.json", "replaced")
    assert place.states()[-1] == ("a.json", "ingested")


def region(place: Place, tmp_path: Path, text: str) -> Path:
    """Another region's folder, whose files agree with those of the first in name, size and time; the former folder."""
    former = place.folder
    shutil.copytree(former, tmp_path / "us")
    here(place, tmp_path / "us")
    place.land("a.json", text)
    return former


@pytest.mark.parametrize("moved", [False, True], ids=["where it was", "in the archive"])
def test_a_file_of_another_folder_with_equal_facts_is_read(place: Place, tmp_path: Path, moved: bool) -> None:
    """Times set to midnight, lines of one width: only the content tells them apart."""
    former = region(place, tmp_path, "z")
    if moved:
        cleaning = {"cleanSource": "MOVE", "cleanSourceMoveDestination": str(tmp_path / "away")}
        cleaning["path"] = str(former)
        later = datetime.now(UTC) + timedelta(days=31)
        assert clean_source.clean(NAME, place.table.model_copy(update=cleaning), place.at, later).removed == 2
    found = place.enter()
    assert (told(found.new), told(found.moved)) == ([("a.json", "read")], [("b.json", "moved")])


def test_a_file_with_the_facts_of_a_deleted_one_is_read(place: Place, tmp_path: Path) -> None:
    """cleanSource has deleted the former one, so nothing tells that this is a copy of it."""
    former = region(place, tmp_path, "z")
    cleaning = {"cleanSource": "DELETE", "cleanSourceRetentionDuration": timedelta(days=7), "path": str(former)}
    later = datetime.now(UTC) + timedelta(days=8)
    clean_source.clean(NAME, place.table.model_copy(update=cleaning), place.at, later)
    assert told(place.enter().new) == [("a.json", "read"), ("b.json", "read")]


def test_a_former_file_that_was_written_again_since_proves_nothing(place: Place, tmp_path: Path) -> None:
    former = region(place, tmp_path, "z")
    (former / "a.json").write_text("longer")
    assert told(place.enter().new) == [("a.json", "read")]


def test_a_former_folder_that_nobody_may_open_is_an_error(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = region(place, tmp_path, "a")
    file = filesystems.file_facts

    def refused(address: str) -> Any:
        if address.startswith(f"{former}/"):
            raise PermissionError(13, "Permission denied", address)
        return file(address)

    monkeypatch.setattr(filesystems, "file_facts", refused)
    with pytest.raises(LandingMissing, match="former landing folder"):
        place.enter()


def test_a_former_file_that_nobody_may_read_is_an_error(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    region(place, tmp_path, "a")

    def refused(address: str) -> Any:
        raise PermissionError(13, "Permission denied", address)

    monkeypatch.setattr(filesystems, "digest", refused)
    with pytest.raises(LandingMissing, match="former landing folder"):
        place.enter()


@pytest.mark.parametrize("there", [True, False], ids=["copied", "moved"])
@pytest.mark.parametrize("known", [True, False], ids=["after a run", "before the first run"])
def test_a_file_that_is_overwritten_after_a_move_replaces_its_former_rows(
    place: Place, tmp_path: Path, there: bool, known: bool
) -> None:
    former = place.folder
    place.land("c.json", "c", seconds=2)
    place.enter()
    place.take()
    file_status.copy(place.at, NAME)
    if there:
        shutil.copytree(former, tmp_path / "moved")
        here(place, tmp_path / "moved")
    else:
        move(place, tmp_path)
    if known:
        place.enter(allowOverwrites=True)
    place.land("a.json", "longer", seconds=9)
    found = place.enter(allowOverwrites=True)
    assert told(found.new) == [("a.json", "replace")]
    path = found.new["path"][0].as_py()
    former_rows = reread_rows.Former.from_ledger(place.ledger(), {path}, place.ledger().version())
    assert former_rows is not None
    assert former_rows.paths == {path, f"{former}/a.json"}
    place.take()
    file_status.copy(place.at, NAME)
    states = file_status.statuses(place.at, NAME).to_pylist()
    rows = {state["path"] for state in states if state["state"] == "ingested"}
    assert rows == {path, f"{former}/sub/b.json", f"{former}/c.json"}
    assert place.enter(allowOverwrites=True).new.num_rows == 0
    again: Any = Reset().discover(NAME, place.table, place.at).new
    assert again["path"].to_pylist() == [f"{place.folder}/{name}" for name in ("sub/b.json", "c.json", "a.json")]


def test_a_file_that_is_overwritten_on_its_way_back_replaces_its_former_rows(place: Place, tmp_path: Path) -> None:
    first = place.folder
    move(place, tmp_path)
    place.enter(allowOverwrites=True)
    place.land("a.json", "longer", seconds=9)
    place.enter(allowOverwrites=True)
    place.take()
    file_status.copy(place.at, NAME)
    move(place, tmp_path, "landing")
    assert place.folder == first
    found = place.enter(allowOverwrites=True)
    assert (told(found.new), told(found.moved)) == ([], [("a.json", "moved")])
    place.land("a.json", "the longest", seconds=10)
    assert told(place.enter(allowOverwrites=True).new) == [("a.json", "replace")]
    former = reread_rows.Former.from_ledger(place.ledger(), {f"{first}/a.json"}, place.ledger().version())
    assert former is not None
    assert former.paths == {f"{first}/a.json", f"{tmp_path}/moved/a.json"}


@pytest.mark.parametrize("alike", [0, 1, 2])
def test_files_of_another_folder_replace_nothing(place: Place, tmp_path: Path, alike: int) -> None:
    """Without most files in common it is another folder, and rows of the former one must stay."""
    names = ["c.json", "d.json", "e.json"]
    for second, name in enumerate(names, 2):
        place.land(name, name, seconds=second)
    place.enter()
    place.take()
    file_status.copy(place.at, NAME)
    former = place.folder
    here(place, tmp_path / "us")
    place.folder.mkdir()
    for second, name in enumerate(names[:alike], 2):
        place.land(name, name, seconds=second)
    for name in ["a.json", *names[alike:]]:
        place.land(name, "of another region", seconds=50)
    found = place.enter(allowOverwrites=True)
    assert sorted(told(found.new)) == [(name, "read") for name in ["a.json", *names[alike:]]]
    assert found.moved.num_rows == alike
    assert all((former / name).exists() for name in names)


def test_files_of_a_folder_around_or_within_are_others(place: Place, tmp_path: Path) -> None:
    """Their paths can be compared as they are: two files of one name and size in two folders are two files."""
    place.land("sub/a.json", "a")
    place.land("other.json", "b", seconds=1)
    here(place, place.folder / "sub")
    assert told(place.enter().new) == [("a.json", "read")]
    place.land("c.json", "c", seconds=2)
    assert told(place.enter().new) == [("c.json", "read")]
    place.take()
    file_status.copy(place.at, NAME)
    here(place, tmp_path / "landing")
    place.land("c.json", "c", seconds=2)
    found = place.enter()
    assert (told(found.new), found.moved.num_rows) == ([("other.json", "read"), ("c.json", "read")], 0)


def test_files_that_were_left_out_stay_out_when_their_folder_is_moved(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter(includeExistingFiles=False)
    place.land("b.json", "b", seconds=1)
    place.enter(includeExistingFiles=False)
    place.take()
    file_status.copy(place.at, NAME)
    move(place, tmp_path)
    assert told(place.enter(includeExistingFiles=False).moved) == [("a.json", "skip"), ("b.json", "moved")]
    assert place.enter().new.num_rows == 0


def test_a_file_that_was_left_out_and_is_overwritten_after_a_move_replaces_no_rows(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter(includeExistingFiles=False)
    for seconds, name in enumerate(("b.json", "c.json"), start=1):
        place.land(name, name, seconds=seconds)
    taken_in(place)
    move(place, tmp_path)
    place.land("a.json", "longer", seconds=9)
    found = place.enter(allowOverwrites=True)
    assert (told(found.new), told(found.moved)) == ([("a.json", "read")], [("b.json", "moved"), ("c.json", "moved")])


def test_a_file_whose_rows_were_given_up_is_read_when_it_comes_back(place: Place, tmp_path: Path) -> None:
    """It has the name, size and time of a file that was read, in another folder; but the table has its rows no more."""
    shutil.move(place.folder / "a.json", tmp_path / "a.json")
    intake.enter(NAME, place.table, place.at, Reset(drop_missing=True).discover)
    place.take()
    file_status.copy(place.at, NAME)
    move(place, tmp_path)
    shutil.move(tmp_path / "a.json", place.folder / "a.json")
    found = place.enter()
    assert (told(found.new), told(found.moved)) == ([("a.json", "read")], [("b.json", "moved")])


def test_a_reset_after_a_move_reads_each_file_once(place: Place, tmp_path: Path) -> None:
    move(place, tmp_path)
    place.enter()
    place.take()
    (place.folder / "sub/b.json").unlink()
    found: Any = Reset(drop_missing=True).discover(NAME, place.table, place.at).new
    assert told(found) == [("a.json", "reset"), ("b.json", "drop")]
    # By the names that they have now; with those of before, their rows would be told to stay.
    assert found["path"].to_pylist() == [f"{place.folder}/a.json", f"{place.folder}/sub/b.json"]


def test_a_file_that_became_a_link_out_of_landing_is_not_opened(place: Place, tmp_path: Path) -> None:
    """Between the look at landing and the reading."""
    entries = tables.dataset(place.ledger()).to_table().to_pylist()
    places = reread_rows.ArchivedLocations(place.at, NAME, str(place.folder))
    assert places.find(entries) == {}
    (tmp_path / "secret").write_text("{}")
    (place.folder / "a.json").unlink()
    (place.folder / "a.json").symlink_to(tmp_path / "secret")
    shutil.move(place.folder / "sub", tmp_path / "sub")
    (place.folder / "sub").symlink_to(tmp_path / "sub")
    assert places.find(entries) == {entry["path"]: (local_files.OUTSIDE, False) for entry in entries}
    (tmp_path / "mounted").symlink_to(place.folder)  # the folder itself may be reached by one
    (place.folder / "sub").unlink()
    shutil.move(tmp_path / "sub", place.folder / "sub")
    by_it = [{**entry, "path": f"{tmp_path}/mounted/sub/b.json"} for entry in entries[:1]]
    assert reread_rows.ArchivedLocations(place.at, NAME, str(tmp_path / "mounted")).find(by_it) == {}


def land_at(place: Place, name: str, data: str, microseconds: int = 250_001) -> None:
    """Lands a file whose time has a fraction of a second, as those of files have that were written."""
    path = place.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    os.utime(path, ns=(0, (1_700_000_100 * 1_000_000 + microseconds) * 1000))


def relocated(place: Place, name: str, now: str) -> None:
    (place.folder / now).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(place.folder / name, place.folder / now)


def taken_in(place: Place) -> None:
    place.enter()
    place.take()
    file_status.copy(place.at, NAME)


def test_a_file_that_moves_within_its_landing_folder_is_known(place: Place) -> None:
    land_at(place, "inbox/c.json", "c")
    taken_in(place)
    for now in ("2024/c.json", "2024/05/c.json", "c.json"):
        [former] = place.folder.rglob("c.json")
        relocated(place, str(former.relative_to(place.folder)), now)
        found = place.enter()
        assert (told(found.new), told(found.moved)) == ([], [("c.json", "moved")])
        again = place.enter()
        assert (again.new.num_rows, again.moved.num_rows) == (0, 0)
        known = moved_files.aliases(place.ledger(), [str(place.folder / now)])
        assert known == {str(place.folder / now): str(place.folder / "inbox" / "c.json")}
    found = Reset().discover(NAME, place.table, place.at)
    assert told(found.new) == [("a.json", "reset"), ("b.json", "reset"), ("c.json", "reset")]
    relocated(place, "c.json", "inbox/c.json")
    back = Reset(drop_missing=True).discover(NAME, place.table, place.at)
    assert told(back.new) == [("a.json", "reset"), ("b.json", "reset"), ("c.json", "reset")]
    (place.folder / "inbox/c.json").unlink()
    gone = Reset(drop_missing=True).discover(NAME, place.table, place.at)
    assert told(gone.new) == [("a.json", "reset"), ("b.json", "reset"), ("c.json", "drop")]
    land_at(place, "c.json", "changed", 9)
    assert told(place.enter(allowOverwrites=True).new) == [("c.json", "replace")]


@pytest.mark.parametrize(
    ("microseconds", "change"),
    [
        (0, None), (250_001, "content"), (250_001, "time"), (250_001, "copied"), (250_001, "two arrive"),
        (250_001, "name"), (250_001, "partition"),
    ],
)  # fmt: skip
def test_a_file_that_may_be_another_is_read(place: Place, microseconds: int, change: str | None) -> None:
    """Whole seconds are set by programs; and no file that is still there has moved."""
    land_at(place, "region=eu/c.json", "c", microseconds)
    taken_in(place)
    other = "region=us/d.json" if change == "name" else "region=us/c.json"
    if change != "copied":
        (place.folder / "region=eu/c.json").unlink()
    data = "longer" if change == "content" else "c"
    land_at(place, other, data, microseconds + (change == "time"))
    if change == "two arrive":
        land_at(place, "region=fr/c.json", data, microseconds)
    found = place.enter(partitionColumns=["region"] if change == "partition" else [])
    assert {action for _, action in told(found.new)} == {"read"}
    assert (found.new.num_rows, found.moved.num_rows) == (2 if change == "two arrive" else 1, 0)


def test_a_file_that_still_lies_where_it_was_moved_to_was_copied(place: Place) -> None:
    """Its first place is empty, but a later one has it: the other is a second file with the same content."""
    land_at(place, "inbox/c.json", "c")
    taken_in(place)
    relocated(place, "inbox/c.json", "2024/c.json")
    assert told(place.enter().moved) == [("c.json", "moved")]
    (place.folder / "2025").mkdir()
    shutil.copy2(place.folder / "2024/c.json", place.folder / "2025/c.json")
    found = place.enter()
    assert (told(found.new), found.moved.num_rows) == ([("c.json", "read")], 0)


def test_a_file_whose_rows_were_given_up_is_read_when_it_comes_back_in_another_place(
    place: Place, tmp_path: Path
) -> None:
    land_at(place, "inbox/c.json", "c")
    taken_in(place)
    shutil.move(place.folder / "inbox/c.json", tmp_path / "c.json")
    intake.enter(NAME, place.table, place.at, Reset(drop_missing=True).discover)
    place.take()
    file_status.copy(place.at, NAME)
    (place.folder / "2025").mkdir()
    shutil.move(tmp_path / "c.json", place.folder / "2025/c.json")
    found = place.enter()
    assert (told(found.new), found.moved.num_rows) == ([("c.json", "read")], 0)


def test_what_was_not_read_before_it_moved_is_read(place: Place, tmp_path: Path) -> None:
    land_at(place, "waits.json", "a")
    place.enter()
    relocated(place, "waits.json", "moved/waits.json")
    assert told(place.enter().new) == [("waits.json", "read")]
    place.take()
    land_at(place, "fails.json", "b", 3)
    place.enter()
    place.take({"fails.json": ("no JSON", False)})
    file_status.copy(place.at, NAME)
    relocated(place, "fails.json", "moved/fails.json")
    assert told(place.enter().new) == [("fails.json", "read")]
    place.take()
    file_status.copy(place.at, NAME)
    land_at(place, "archived.json", "c", 4)
    taken_in(place)
    cleaning = {"cleanSource": "MOVE", "cleanSourceMoveDestination": str(tmp_path / "away")}
    later = datetime.now(UTC) + timedelta(days=31)
    clean_source.clean(NAME, place.table.model_copy(update=cleaning), place.at, later)
    assert not (place.folder / "archived.json").exists()
    land_at(place, "again/archived.json", "c", 4)
    assert told(place.enter().new) == [("archived.json", "read")]
