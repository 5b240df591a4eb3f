"""A reset reads every file again: each arrival of a name, and copies by their own options."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluicegate.bronze import reread_rows
from sluicegate.errors import LandingMissing, UserError
from sluicegate.landing import arrivals, discovery, file_status, intake
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen import copy_options, reread
from sluicegate.landing.chosen.copy import Copy
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import clean_source
from tests.unit.landing.moves.test_clean_source import Landed
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


def taken(place: Place) -> None:
    place.take()
    file_status.copy(place.at, NAME)


def entered(place: Place, finder: Any) -> list[tuple[str, str]]:
    found = intake.enter(NAME, place.table, place.at, finder)
    rows = [row for files in (found.new, *(those for _, those in found.copied)) for row in files.to_pylist()]
    return sorted((row["path"].rsplit("/", 1)[-1], row["action"]) for row in rows)


def ranges(place: Place, number: int) -> dict[str, list[tuple[int, int]]]:
    """Ledger batches whose rows the entries of a ledger batch replace, by name."""
    entries = [e for e in place.ledger().to_pyarrow_table().to_pylist() if e["chunk"] == number]
    paths = {entry["path"]: entry for entry in entries}
    places = reread_rows.ArchivedLocations(place.at, NAME, str(place.folder))
    former = reread_rows.Former.from_ledger(place.ledger(), {*paths}, number, paths, places.landed_facts(paths))
    return {} if former is None else {p.rsplit("/", 1)[-1]: [*those] for p, those in former.ranges.items()}


@pytest.fixture
def daily(tmp_path: Path) -> Landed:
    """Three days' exports under one name, each moved away once it was read: ledger batches 1 to 3."""
    landed = Landed(tmp_path)
    for day in (1, 2, 3):
        landed.place.land("export.csv", str(day) * day, seconds=day)
        landed.place.enter()
        taken(landed.place)
        assert landed.clean().removed == 1
    return landed


def test_a_reset_reads_every_arrival_of_a_name(daily: Landed) -> None:
    place = daily.place
    before = reread.preview(NAME, daily.table, daily.at)
    assert (before.rows, before.files, before.archived, before.former) == (3, 3, 3, 0)
    assert entered(place, reread.Reset().discover) == [
        ("export.1.csv", "reset"), ("export.csv", "reset"), ("export.csv", "reset"),
    ]  # fmt: skip
    # The last arrival by its name, the others by their addresses in the archive.
    taken(place)
    states = [(s["path"], s["chunk"], s["state"]) for s in file_status.statuses(place.at, NAME).to_pylist()]
    away = f"{place.folder.parent}/out"
    assert states == [
        (f"{place.folder}/export.csv", 1, "replaced"), (f"{place.folder}/export.csv", 2, "replaced"),
        (f"{place.folder}/export.csv", 3, "replaced"), (f"{away}/export.csv", 4, "ingested"),
        (f"{away}/export.1.csv", 4, "ingested"), (f"{place.folder}/export.csv", 4, "archived"),
    ]  # fmt: skip
    assert place.enter().new.num_rows == 0
    again = reread.preview(NAME, daily.table, daily.at)
    assert (again.files, again.archived, again.former) == (3, 1, 0)


def test_rows_of_every_arrival_give_way_to_those_that_are_read_again(daily: Landed) -> None:
    place = daily.place
    entered(place, reread.Reset().discover)
    entries = [e for e in place.ledger().to_pyarrow_table().to_pylist() if e["chunk"] == 4]
    paths = {entry["path"]: entry for entry in entries}
    landed_at = reread_rows.ArchivedLocations(place.at, NAME, str(place.folder)).landed_facts(paths)
    former = reread_rows.Former.from_ledger(place.ledger(), {*paths}, 4, paths, landed_at)
    assert former is not None
    assert sorted(former.ranges[f"{place.folder}/export.csv"]) == [(1, 1), (2, 2), (3, 3)]
    # Without the first of them, its rows stay.
    first = f"{place.folder.parent}/out/export.csv"
    others = {path: entry for path, entry in paths.items() if path != first}
    landed_at = reread_rows.ArchivedLocations(place.at, NAME, str(place.folder)).landed_facts(others)
    former = reread_rows.Former.from_ledger(place.ledger(), {*others}, 4, others, landed_at)
    assert former is not None
    assert sorted(former.ranges[f"{place.folder}/export.csv"]) == [(2, 2), (3, 3)]


def test_an_arrival_that_is_gone_keeps_its_rows_and_is_counted(daily: Landed) -> None:
    place = daily.place
    (place.folder.parent / "out/export.csv").unlink()
    before = reread.preview(NAME, daily.table, daily.at)
    assert (before.rows, before.files, before.former, before.former_rows) == (3, 2, 1, 1)
    said = "\n".join(before.sentences(False))
    assert "2 files are read again, and their rows replace 2 rows" in said
    assert "1 file with the name of a later file cannot be read again, and their 1 rows do not change" in said
    found = reread.Reset().discover(NAME, daily.table, daily.at)
    assert "do not change" in "\n".join(found.remarks)
    (place.folder.parent / "out/export.csv").write_text("another")  # it is not what was moved there
    assert reread.preview(NAME, daily.table, daily.at).former == 1


def test_a_reload_by_a_pattern_leaves_out_what_is_gone_and_one_by_name_does_not(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number, name in enumerate(("a.json", "b.json")):
        place.land(name, seconds=number)
    place.enter()
    taken(place)
    (place.folder / "a.json").unlink()
    reload = reread.Reload(pattern="*.json")
    assert entered(place, reload.discover) == [("b.json", "replace")]
    assert reload.missing(NAME, place.table, place.at) == [f"{place.folder}/a.json"]
    with pytest.raises(LandingMissing, match=r"a\.json"):
        reread.Reload(("a.json",)).discover(NAME, place.table, place.at)


def test_a_file_that_could_be_put_back_in_the_archive_is_known_by_its_size(daily: Landed) -> None:
    """Many programs that copy files give them another time."""
    first = daily.place.folder.parent / "out/export.csv"
    os.utime(first, (1_800_000_000, 1_800_000_000))
    assert reread.preview(NAME, daily.table, daily.at).former == 0
    assert entered(daily.place, reread.Reload(files=(str(first),)).discover) == [("export.csv", "replace")]


@pytest.mark.parametrize(("overwrites", "action"), [(False, "read"), (True, "replace")])
def test_another_file_under_an_archived_name_is_a_new_arrival_or_takes_the_place_of_the_last(
    daily: Landed, overwrites: bool, action: str
) -> None:
    daily.place.land("export.csv", "another day", seconds=9)
    table = daily.table.model_copy(update={"allowOverwrites": overwrites})
    found = reread.Reload(files=("export.csv",)).discover(NAME, table, daily.at)
    assert found.new["action"].to_pylist() == [action]


def test_a_file_that_was_overwritten_and_is_gone_leaves_the_rows_of_its_former_content(tmp_path: Path) -> None:
    """The ledger's newest entry is of the content that no run has read."""
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter()
    taken(place)
    place.land("a.json", "longer", seconds=5)
    place.enter(allowOverwrites=True)
    (place.folder / "a.json").unlink()
    preview = reread.preview(NAME, place.table, place.at)
    assert (preview.missing, preview.missing_rows) == ([f"{place.folder}/a.json"], 1)


def test_a_file_that_was_skipped_and_read_later_has_no_rows_of_before(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter(includeExistingFiles=False)
    assert entered(place, reread.Reload(files=("a.json",)).discover) == [("a.json", "read")]
    taken(place)
    assert reread.preview(NAME, place.table, place.at).former == 0


def test_a_reset_leaves_a_young_file_to_the_next_run_unless_it_was_read_before(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter()
    taken(place)
    place.table = place.table.model_copy(update={"settleSeconds": 60.0})
    (place.folder / "young.json").write_text("{}")
    assert reread.preview(NAME, place.table, place.at).files == 1
    (place.folder / "a.json").write_text("being written")
    with pytest.raises(UserError, match="still be being written"):
        reread.Reset().discover(NAME, place.table, place.at)


def test_a_file_that_a_run_has_read_since_a_copy_is_read_as_the_definition_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    copy = Copy(str(place.folder), how=CopyOptions(options={"multiLine": "true"}))
    assert entered(place, copy.discover) == [("a.json", "read")]
    taken(place)
    assert [options["options"] for options, _ in reread.Reset().discover(NAME, place.table, place.at).copied] == [
        {"multiLine": "true"}
    ]
    place.land("a.json", "longer", seconds=5)
    place.enter(allowOverwrites=True)
    taken(place)
    found = reread.Reset().discover(NAME, place.table, place.at)
    assert (found.new.num_rows, found.copied) == (1, [])


def test_an_overwritten_file_replaces_all_readings_of_its_content_and_none_of_another(tmp_path: Path) -> None:
    """A forced copy has read the second content twice; the first one was another day's, under the same name."""
    place, path = Place(tmp_path), f"{tmp_path}/landing/a.json"

    def landed(content: str, seconds: int) -> pa.Table:
        place.land("a.json", content, seconds=seconds)
        return discovery.admitted_files(NAME, place.table, place.at)

    landed("monday", 1)
    place.enter()
    for _ in range(2):
        files = landing_ledger.add_action(LedgerAction.READ, landed("tuesday!", 2))
        landing_ledger.append(place.ledger(), files, {})
    [now] = landed("wednesday", 3).to_pylist()
    assert place.ledger().version() == 3
    assert arrivals.replaced_batches(place.ledger(), [path], 4, {path: now}) == {path: (2, 3)}


def test_a_reload_reaches_an_earlier_arrival_by_its_address_in_the_archive(daily: Landed) -> None:
    place = daily.place
    second = f"{place.folder.parent}/out/export.1.csv"
    assert entered(place, reread.Reload(files=(second,)).discover) == [("export.1.csv", "replace")]
    assert ranges(place, 4) == {"export.csv": [(2, 2)], "export.1.csv": [(0, 3)]}
    taken(place)
    states = [s["state"] for s in file_status.statuses(place.at, NAME).to_pylist()]
    assert states == ["archived", "replaced", "archived", "ingested"]
    # By its name it is the last one alone, as before.
    assert entered(place, reread.Reload(files=("export.csv",)).discover) == [("export.csv", "replace")]
    assert ranges(place, 5) == {"export.csv": [(3, 4)]}
    taken(place)
    assert reread.preview(NAME, daily.table, daily.at).files == 3
    assert entered(place, reread.Reload(pattern="*.csv").discover) == [
        ("export.1.csv", "replace"), ("export.csv", "replace"), ("export.csv", "replace"),
    ]  # fmt: skip


def test_a_copy_of_an_archived_file_is_a_file_of_its_own(daily: Landed) -> None:
    place = daily.place
    first = f"{place.folder.parent}/out/export.csv"
    assert entered(place, Copy(first).discover) == [("export.csv", "read")]
    taken(place)
    before = reread.preview(NAME, daily.table, daily.at)
    assert (before.files, before.former, before.former_rows) == (3, 1, 1)
    entered(place, reread.Reset().discover)
    assert sorted(ranges(place, 5)["export.csv"]) == [(0, 4)] or (1, 1) not in ranges(place, 5)["export.csv"]


def test_a_file_that_a_forced_copy_read_once_more_is_replaced_whole_when_it_is_overwritten(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "a")
    place.enter()
    taken(place)
    assert entered(place, Copy(str(place.folder), force=True).discover) == [("a.json", "read")]
    taken(place)
    before = reread.preview(NAME, place.table, place.at)
    assert (before.files, before.former, before.former_rows) == (1, 1, 1)  # read twice on purpose
    place.land("a.json", "longer", seconds=5)
    found = place.enter(allowOverwrites=True)
    assert found.new["action"].to_pylist() == ["replace"]
    assert ranges(place, 3) == {"a.json": [(1, 2)]}
    taken(place)
    assert place.states() == [("a.json", "replaced"), ("a.json", "replaced"), ("a.json", "ingested")]


def test_copies_are_read_again_by_their_own_options(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json", "{}")
    place.enter()
    taken(place)
    (tmp_path / "away").mkdir()
    for name in ("x.csv", "y.csv", "z.json"):
        (tmp_path / "away" / name).write_text("a;b")
    semicolons = CopyOptions(format="csv", options={"sep": ";"})
    computed = CopyOptions(select="SELECT a AS b FROM source")
    for name, how in (("x.csv", semicolons), ("y.csv", semicolons), ("z.json", computed)):
        entered(place, Copy(str(tmp_path / "away"), files=(name,), how=how).discover)
        taken(place)
    before = reread.preview(NAME, place.table, place.at)
    assert (before.files, before.copied) == (4, 3)
    assert "3 files of them with the options" in "\n".join(before.sentences(False))
    for round_ in (1, 2):  # also once a reset has read them
        assert entered(place, reread.Reset().discover) == [
            ("a.json", "reset"), ("x.csv", "replace"), ("y.csv", "replace"), ("z.json", "replace"),
        ]  # fmt: skip
        last = place.ledger().version()
        options = copy_options.options_by_batch(place.ledger(), range(last - 2, last + 1))
        assert {chunk: how.facts for chunk, how in options.items()} in (
            {last - 1: semicolons_of(place), last: computed.facts},
            {last - 1: computed.facts, last: semicolons_of(place)},
        ), round_
    assert entered(place, reread.Reload(pattern="*x.csv").discover) == [("x.csv", "replace")]
    last = place.ledger().version()
    assert copy_options.options_by_batch(place.ledger(), [last])[last].facts == semicolons_of(place)


def semicolons_of(place: Place) -> dict[str, Any]:
    how = CopyOptions(format="csv", options={"sep": ";"})
    facts: dict[str, Any] = how.pin_format(how.table(NAME, place.table)).facts
    return facts


def test_an_archived_file_of_a_former_landing_folder_is_read_from_the_archive(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    assert landed.clean(datetime.now(UTC) + timedelta(days=1)).removed == 1
    (tmp_path / "elsewhere").mkdir()
    table = landed.table.model_copy(update={"path": str(tmp_path / "elsewhere")})
    before = reread.preview(NAME, table, landed.at)
    assert (before.files, before.missing) == (1, [])
    assert isinstance(reread.Reset().discover(NAME, table, landed.at).new, pa.Table)
    assert clean_source.files_due(NAME, table, landed.at).num_rows == 0
