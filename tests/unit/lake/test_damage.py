"""Log entries and data files that a power cut has emptied or cut off: they are named, and newest commits set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from sluicegate.errors import DamagedTable
from sluicegate.flow.streaming import delivery
from sluicegate.lake import layout, log, tables
from sluicegate.lake.damage import damages, files, whole
from sluicegate.lake.damage.set_aside import ASIDE, set_aside_damaged
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit

Spoil = Callable[[Path], Any]

SPOILED: dict[str, Spoil] = {
    "0 bytes": lambda file: file.write_bytes(b""),
    "a line break": lambda file: file.write_bytes(b"\n"),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "a few zeros": lambda file: file.write_bytes(bytes(7)),
    "a half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "an object without an action": lambda file: file.write_text("{}\n"),
    "a text": lambda file: file.write_text('"add"\n'),
}


@pytest.fixture
def lake(tmp_path: Path) -> layout.Lake:
    return layout.Lake(str(tmp_path / "a lake"), "p")


def filled(uri: str, commits: int = 3) -> Path:
    """A table of one row for each commit, which has its number."""
    Path(uri).parent.mkdir(parents=True, exist_ok=True)
    for number in range(commits):
        said = {"userMetadata": json.dumps({log.METADATA: {"number": number}})}
        rows = pa.table({"n": pa.array([number], pa.int64())})
        write_deltalake(uri, rows, mode="append", commit_properties=CommitProperties(custom_metadata=said))
    return Path(uri)


def data_of(table: Path, version: int) -> Path:
    """The only data file of a commit."""
    [path] = [one["add"]["path"] for one in log.actions(str(table), version) if "add" in one]
    return table / path


def numbers(table: Path) -> list[int]:
    """Its rows, as delta-rs alone reads them."""
    return sorted(DeltaTable(str(table)).to_pyarrow_table()["n"].to_pylist())


def refused(call: Callable[[], Any], file: Path) -> None:
    with pytest.raises(DamagedTable) as error:
        call()
    assert error.value.where.file == str(file)


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_entry_that_is_none_is_never_taken_for_a_commit(lake: layout.Lake, spoil: Spoil, version: int) -> None:
    table = filled(lake.table("bronze", "b"))
    entry = damages.entry_of(table, version)
    spoil(entry)
    uri = str(table)
    refused(lambda: tables.delta_table(uri), entry)
    refused(lambda: [*log.actions(uri, version)], entry)
    refused(lambda: [*log.actions(uri, version, added=False)], entry)
    refused(lambda: delivery.expected_rows(uri, -1, 2, feed=True), entry)
    if version:  # versions before it can be read
        assert tables.table_at(uri, version - 1).version() == version - 1


@pytest.mark.parametrize(
    "spoil", [SPOILED["0 bytes"], SPOILED["zeros"], SPOILED["a half"]], ids=["0 bytes", "zeros", "a half"]
)
def test_a_data_file_of_the_newest_commit_that_is_none(lake: layout.Lake, spoil: Spoil) -> None:
    table = filled(lake.table("silver", "s"))
    file = data_of(table, 2)
    spoil(file)
    refused(lambda: tables.delta_table(str(table)), file)
    assert tables.rows(tables.table_at(str(table), 1)) == 2


@pytest.mark.parametrize("beyond", [-1, 0])
def test_data_files_of_a_long_entry_are_not_looked_at(lake: layout.Lake, beyond: int) -> None:
    """To parse it takes longer than to open the table."""
    table = filled(lake.table("silver", "s"))
    entry, file = damages.entry_of(table, 2), data_of(table, 2)
    missing = damages.LONGEST + 1 + beyond - entry.stat().st_size
    with entry.open("a") as lines:
        lines.write("\n" + " " * (missing - 2) + "\n")
    SPOILED["0 bytes"](file)
    if beyond < 0:
        refused(lambda: tables.delta_table(str(table)), file)
    else:
        assert tables.table_at(str(table)).version() == 2
    assert [damage.file for damage in files.damaged_files(table)] == [str(file)]


@pytest.mark.parametrize("damaged", ["entry", "data file"])
def test_a_damaged_newest_commit_with_a_long_entry_is_set_aside(lake: layout.Lake, damaged: str) -> None:
    """A run is what its error advises."""
    table = filled(lake.table("silver", "s"))
    entry, file = damages.entry_of(table, 2), data_of(table, 2)
    with entry.open("a") as lines:
        lines.write(json.dumps({"commitInfo": {"note": "x" * 2 * damages.LONGEST}}) + "\n")
    if damaged == "entry":
        os.truncate(entry, damages.LONGEST + 1)
    else:
        SPOILED["0 bytes"](file)
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert len(told) == 2
    assert numbers(table) == [0, 1]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("action", ['{"txn":{"appId":"x","version":1}}', "{}"])
def test_short_entries_are_read(lake: layout.Lake, action: str, beyond: int) -> None:
    """Longer ones cannot be what a power cut leaves of an entry, but for zeros, which no reader takes for lines."""
    table = filled(lake.table("silver", "s"))
    entry = damages.entry_of(table, 1)
    entry.write_text(action + " " * (damages.SHORTEST + beyond - len(action)))
    damage = damages.log_damage(table, 2)
    assert (damage is not None) == (action == "{}" and beyond < 0)


def test_a_whole_commit_is_looked_at_once(lake: layout.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table, looks = filled(lake.table("silver", "s")), []
    of_commit = damages.commit_damage

    def counted(*given: Any) -> Any:
        looks.append(given)
        return of_commit(*given)

    monkeypatch.setattr(damages, "commit_damage", counted)
    for _ in range(3):
        tables.table_at(str(table))
    assert len(looks) == 1


def test_a_process_remembers_up_to_REMEMBERED_commits(lake: layout.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "REMEMBERED", 2)
    monkeypatch.setattr(whole, "_whole", set())
    table, remembered = filled(lake.table("silver", "s"), 4), []
    for version in range(4):
        tables.table_at(str(table), version)
        remembered.append(len(whole._whole))
    assert remembered == [1, 2, 1, 2]


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_damaged_newest_entries_are_set_aside(lake: layout.Lake, spoil: Spoil, lost: int) -> None:
    """All three: then there is no table, and the next write makes one."""
    table, told = filled(lake.table("gold", "g")), list[str]()
    entries = [damages.entry_of(table, version) for version in range(3 - lost, 3)]
    for entry in entries:
        spoil(entry)
    set_aside_damaged(lake, told.append)
    assert [str(entry) in "\n".join(told) for entry in entries] == [True] * lost
    assert len([*(table / ASIDE).iterdir()]) == lost
    opened = tables.delta_table(str(table))
    assert (None if opened is None else opened.version()) == (2 - lost if lost < 3 else None)
    write_deltalake(str(table), pa.table({"n": pa.array([7], pa.int64())}), mode="append")
    assert numbers(table) == [*range(3 - lost), 7]
    again = list[str]()
    set_aside_damaged(lake, again.append)
    assert again == []


@pytest.mark.parametrize(
    "spoil", [SPOILED["0 bytes"], SPOILED["zeros"], SPOILED["a half"]], ids=["0 bytes", "zeros", "a half"]
)
def test_a_newest_commit_with_a_damaged_data_file_is_set_aside(lake: layout.Lake, spoil: Spoil) -> None:
    table = filled(lake.quarantine("s"))
    file = data_of(table, 2)
    spoil(file)
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert str(file) in told[0]
    assert numbers(table) == [0, 1]
    assert file.exists()


def test_a_damaged_commit_behind_a_whole_one_stays_and_is_named(lake: layout.Lake) -> None:
    table = filled(lake.table("bronze", "b"))
    entry = damages.entry_of(table, 1)
    SPOILED["0 bytes"](entry)
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert (told, entry.exists(), (table / ASIDE).exists()) == ([], True, False)
    refused(lambda: tables.delta_table(str(table)), entry)


def test_with_an_entry_goes_what_was_made_of_it(lake: layout.Lake) -> None:
    """Checksums beside another commit of that version would be false, and a checkpoint would bring it back."""
    table = filled(lake.table("silver", "s"), 4)
    folder = damages.log_of(table)
    DeltaTable(str(table), version=1).create_checkpoint()
    DeltaTable(str(table)).create_checkpoint()
    others = [f".{3:020d}.json.crc", f"{3:020d}.crc", f".{3:020d}.crc.crc"]
    for name in (*others, f"{2:020d}.crc"):
        (folder / name).write_bytes(b"x")
    SPOILED["0 bytes"](damages.entry_of(table, 3))
    set_aside_damaged(lake, lambda _: None)
    left = {file.name for file in folder.iterdir()}
    assert not {name for name in left if name.lstrip(".").startswith(f"{3:020d}")}
    assert f"{2:020d}.crc" in left
    assert "_last_checkpoint" not in left
    assert numbers(table) == [0, 1, 2]


@pytest.mark.parametrize("spoil", [*[SPOILED[name] for name in ("0 bytes", "zeros", "a half")], Path.unlink])
@pytest.mark.parametrize("later", [0, 2])
def test_a_damaged_checkpoint_is_set_aside(lake: layout.Lake, spoil: Spoil, later: int) -> None:
    """The log has all of it. Delta's own readers do not look there for what a checkpoint has lost."""
    table = filled(lake.ledger("b"), 4)
    DeltaTable(str(table)).create_checkpoint()
    filled(str(table), later)
    checkpoint = damages.log_of(table) / f"{3:020d}.checkpoint.parquet"
    spoil(checkpoint)
    refused(lambda: tables.delta_table(str(table)), checkpoint)
    assert [damage.file for damage in files.damaged_files(table)] == [str(checkpoint)]
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert len(told) == 1
    assert numbers(table) == sorted([*range(4), *range(later)])
    set_aside_damaged(lake, told.append)
    assert len(told) == 1


def test_a_damaged_checkpoint_stays_without_the_entries_that_it_was_made_of(lake: layout.Lake) -> None:
    table = filled(lake.table("gold", "g"), 4)
    DeltaTable(str(table)).create_checkpoint()
    damages.entry_of(table, 0).unlink()
    checkpoint = damages.log_of(table) / f"{3:020d}.checkpoint.parquet"
    SPOILED["0 bytes"](checkpoint)
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert (told, checkpoint.exists()) == ([], True)
    refused(lambda: tables.delta_table(str(table)), checkpoint)
    with pytest.raises(DamagedTable) as error:
        tables.delta_table(str(table))
    assert error.value.hint == whole.BACKUP


def test_an_entry_stays_without_the_history_before_it(lake: layout.Lake) -> None:
    """The log was cleaned up to a checkpoint: without that there is no table."""
    table = filled(lake.table("silver", "s"), 4)
    DeltaTable(str(table)).create_checkpoint()
    for version in range(3):
        damages.entry_of(table, version).unlink()
    SPOILED["0 bytes"](damages.entry_of(table, 3))
    told = list[str]()
    set_aside_damaged(lake, told.append)
    assert told == []
    refused(lambda: tables.delta_table(str(table)), damages.entry_of(table, 3))
    with pytest.raises(DamagedTable) as error:
        tables.delta_table(str(table))
    assert error.value.hint == whole.BACKUP


def test_a_long_log_is_read_from_its_checkpoint_on(lake: layout.Lake) -> None:
    table = filled(lake.ledger("b"), 3)
    DeltaTable(str(table)).create_checkpoint()
    assert damages.newest_version(table) == 2
    filled(str(table), 2)
    assert (damages.newest_version(table), damages.checkpoint_version(table)) == (4, 2)
    for pointer in (b"", b"{", b'{"version": 99}'):
        (damages.log_of(table) / "_last_checkpoint").write_bytes(pointer)
        assert damages.newest_version(table) == 4


def test_files_of_a_ledger_entry_that_is_lost_are_entered_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("a.json")
    place.enter()
    place.take(marked=True)
    place.land("b.json", seconds=1)
    place.enter()
    ledger = Path(place.at.ledger(NAME))
    SPOILED["0 bytes"](damages.entry_of(ledger, place.ledger().version()))
    told = list[str]()
    set_aside_damaged(place.at, told.append)
    assert len(told) == 2
    assert place.enter().new["path"].to_pylist() == [str(place.folder / "b.json")]
    place.take(marked=True)
    bronze = tables.table_at(place.at.table("bronze", NAME)).to_pyarrow_table()
    assert sorted(bronze["source_file"].to_pylist()) == [f"file://{place.folder}/{name}.json" for name in "ab"]


def test_a_ledger_entry_that_bronze_has_read_is_not_set_aside(tmp_path: Path) -> None:
    """Its files would be read a second time."""
    place = Place(tmp_path)
    for second, name in enumerate(("a.json", "b.json")):
        place.land(name, seconds=second)
        place.enter()
        place.take(marked=True)
    ledger = Path(place.at.ledger(NAME))
    entry = damages.entry_of(ledger, place.ledger().version())
    SPOILED["0 bytes"](entry)
    refused(lambda: set_aside_damaged(place.at, lambda _: None), entry)
    assert entry.exists()
    DeltaTable(place.at.table("bronze", NAME)).restore(0)
    set_aside_damaged(place.at, lambda _: None)
    assert place.enter().new["path"].to_pylist() == [str(place.folder / "b.json")]


def test_all_damaged_files_of_a_table_are_named(lake: layout.Lake) -> None:
    table = filled(lake.table("gold", "g"), 5)
    first, second, third = (data_of(table, version) for version in range(3))
    SPOILED["0 bytes"](first)
    SPOILED["a half"](second)
    third.unlink()
    assert {one.file for one in files.damaged_files(table)} == {*map(str, (first, second, third))}
    assert files.damaged_files(filled(lake.table("gold", "h"))) == []
    for version in (1, 3):
        SPOILED["zeros"](damages.entry_of(table, version))
    named = [one.file for one in files.damaged_files(table)]
    assert named == [str(damages.entry_of(table, version)) for version in (3, 1)]


def test_a_table_whose_first_write_failed_is_not_damaged(lake: layout.Lake) -> None:
    """Its error is what the write failed by, and not what it left behind."""
    table = Path(lake.table("silver", "begun"))
    (table / "_delta_log").mkdir(parents=True)
    (table / "part-0.parquet").write_bytes(b"PAR1")
    assert files.damaged_files(table) == []
    assert files.cause_of(ValueError("a mistake of the query"), [str(table)]) is None
    entry = table / "_delta_log" / f"{0:020}.json"
    entry.touch()
    assert [damage.file for damage in files.damaged_files(table)] == [str(entry)]


@pytest.mark.parametrize("spoil", [SPOILED["0 bytes"], SPOILED["a half"]], ids=["0 bytes", "a half"])
def test_an_error_of_a_reader_names_the_damaged_file(lake: layout.Lake, spoil: Spoil) -> None:
    """One of an older commit, which is not looked at when the table is opened."""
    table = filled(lake.table("bronze", "b"))
    file = data_of(table, 0)
    spoil(file)

    def reading() -> None:
        with files.name_damaged_file(lake):
            tables.dataset(tables.table_at(str(table))).to_table()

    refused(reading, file)
    filled(lake.table("bronze", "c"))
    with pytest.raises(ZeroDivisionError), files.name_damaged_file(layout.Lake(lake.root, "another")):
        raise ZeroDivisionError
    damage = files.cause_of(ValueError("x"), [str(table), "s3://bucket/t"])
    assert damage is not None
    assert damage.where.file == str(file)
    assert files.cause_of(ValueError("x"), [lake.table("bronze", "c")]) is None
