"""A glance at landing never says that nothing is new where discovery would find something, and says so where it can."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.landing import discovery, file_status, glance
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


def nothing(place: Place) -> bool:
    """Whether discovery finds nothing to tell of."""
    found = discovery.discover(NAME, place.table, place.at)
    failed = file_status.failed_files(place.at, NAME, place.table.fingerprint)
    tables = (found.new, found.settling, found.changed, found.moved)
    return not (any(table.num_rows for table in tables) or found.refused or failed)


def glanced(place: Place, **options: object) -> bool:
    return glance.has_nothing_new(NAME, place.table.model_copy(update=options), place.at)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Three files that were read, and of which it is on record."""
    made = Place(tmp_path)
    for number, name in enumerate(("a.json", "b.json", "c.json")):
        made.land(name, "1" * number, number)
    taken(made)
    assert glanced(made)
    assert nothing(made)
    return made


def taken(place: Place, failed: dict[str, tuple[str, bool]] | None = None) -> None:
    before = place.enter()
    if before.new.num_rows:
        place.take(failed)
        file_status.copy(place.at, NAME)


@pytest.mark.parametrize("seed", range(6))
def test_it_says_that_nothing_is_new_only_where_discovery_finds_nothing(tmp_path: Path, seed: int) -> None:
    place, drawn, said = Place(tmp_path), random.Random(seed), []
    place.table = place.table.model_copy(update={"pathGlobFilter": drawn.choice([None, "*.json"])})
    names = ("a.json", "b.json", "deep/c.json", ".hidden.json", "_d.json", "e.json.tmp", "f.csv")
    for step in range(10):
        name = drawn.choice(names)
        path = place.folder / name
        path.parent.mkdir(exist_ok=True)
        match drawn.choice(("land", "land", "touch", "remove", "link", "take", "take", "fail")):
            case "land":
                place.land(name, "1" * drawn.randrange(3), drawn.randrange(3))
            case "touch" if path.exists():
                os.utime(path, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000 + drawn.randrange(3) * 1000))
            case "remove":
                path.unlink(missing_ok=True)
            case "link" if not path.exists():
                path.symlink_to(drawn.choice([place.folder / "a.json", tmp_path / "outside"]))
            case "take":
                taken(place)
            case "fail":
                taken(place, {name.rpartition("/")[2]: ("no JSON", drawn.random() < 0.5)})
        said.append((step, glanced(place), nothing(place)))
    assert [step for step, quick, slow in said if quick and not slow] == []


def test_what_it_cannot_tell_from_the_ledger_is_left_to_discovery(place: Place) -> None:
    place.land("late.json", seconds=9)
    assert not glanced(place)
    assert glanced(place, pathGlobFilter="[abc].json")
    (place.folder / "late.json").rename(place.folder / "late.json.tmp")
    assert glanced(place)
    place.land("b.json", "1", seconds=2)  # as large as it was, and younger
    assert not glanced(place)
    place.land("b.json", "1", seconds=1)
    (place.folder / "a.json").unlink()  # a file that was taken away is nothing new
    assert glanced(place)
    (place.folder / "out").symlink_to(place.folder.parent)
    assert not glanced(place)


def test_a_version_of_a_file_that_came_back_is_a_change(place: Place) -> None:
    place.table = place.table.model_copy(update={"allowOverwrites": True})
    place.land("b.json", "two", seconds=5)
    taken(place)
    assert glanced(place)
    place.land("b.json", "1", seconds=1)  # the ledger knows it, but a newer entry is of another
    assert not glanced(place)
    assert not nothing(place)


def test_a_file_whose_rows_were_dropped_is_new(place: Place) -> None:
    entry = discovery.admitted_files(NAME, place.table, place.at).select(FILES.names).slice(0, 1)
    landing_ledger._append(place.ledger(), landing_ledger.add_action(LedgerAction.DROP, entry), {})
    assert not glanced(place)
    assert not nothing(place)


def test_a_file_is_looked_at_again_until_it_has_settled(place: Place) -> None:
    table = place.table.model_copy(update={"settleSeconds": 5.0})
    looks = {}
    for seconds in (-6, -4, 0, 4, 6):  # around the time of c.json; a.json and b.json are a second or two older
        now = datetime.fromtimestamp(1_700_000_002 + seconds, UTC)
        settling = discovery.discover(NAME, table, place.at, now).settling.num_rows
        looks[seconds] = (glance.has_nothing_new(NAME, table, place.at, current_time=now), settling)
    assert looks == {-6: (False, 2), -4: (False, 3), 0: (False, 3), 4: (False, 1), 6: (True, 0)}


def test_of_a_file_that_failed_discovery_tells(place: Place) -> None:
    place.land("d.json", "{", seconds=7)
    taken(place, {"d.json": ("no JSON", False)})
    assert not glanced(place)
    place.land("d.json", "{}", seconds=8)
    taken(place)
    assert nothing(place)  # it was repaired, and what is on record still names the failure
    assert not glanced(place)


def test_a_folder_that_was_moved_is_left_to_discovery_until_the_ledger_has_its_files(place: Place) -> None:
    moved = place.folder.rename(place.folder.parent / "moved")
    place.table = BronzeTable(path=str(moved), format="json", settleSeconds=0.0)
    assert not glanced(place)
    place.enter()
    assert place.ledger().version() == 2
    assert glanced(place)
    assert nothing(place)


def test_where_there_is_nothing_to_glance_at_discovery_is_asked(place: Place, tmp_path: Path) -> None:
    assert not glanced(place, path=str(place.folder / "a.json"))  # one file
    assert not glanced(place, path=f"file://{tmp_path}/elsewhere")
    assert not glanced(place, path=str(tmp_path / "elsewhere"))
    assert not glance.has_nothing_new("others", place.table, place.at)  # which has no ledger


def test_it_looks_at_MOST_files_of_the_folder_and_of_the_ledger(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance, "MOST", 4)
    place.land(".hidden.json")
    assert glanced(place)
    place.land(".another.json")  # the fifth of the folder
    assert not glanced(place)
    for name in (".hidden.json", ".another.json"):
        (place.folder / name).unlink()
    place.land("d.json", seconds=8)
    taken(place)
    assert glanced(place)
    (place.folder / "d.json").unlink()
    place.land("e.json", seconds=9)
    taken(place)  # the fifth of the ledger
    assert len(pa.table(place.ledger().scan(["path"]).read_all())) == 5
    assert not glanced(place)
