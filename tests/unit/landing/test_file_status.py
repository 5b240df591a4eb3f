"""The ledger and the outcome over many runs without Spark: what is copied or put together says what it said before."""

from __future__ import annotations

import json
import os
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from sluicegate.cli import app
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.lake import layout, offsets, tables
from sluicegate.lake import log as lake_log
from sluicegate.landing import discovery, file_status, intake, ledger_index, status_log
from sluicegate.landing import ledger as landing_ledger

pytestmark = pytest.mark.unit

NAME = "things"


class Place:
    """A landing folder and a lake; bronze is committed as the job does it, one row a file, but by delta-rs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "landing"
        self.folder.mkdir()
        self.table = BronzeTable(path=str(self.folder), format="json", settleSeconds=0.0)
        self.at = layout.Lake(str(folder / "lake"), "outcomes")

    def land(self, name: str, data: str = "", seconds: int = 0) -> None:
        (self.folder / name).write_text(data)
        os.utime(self.folder / name, (1_700_000_000 + seconds,) * 2)

    def enter(self, **options: Any) -> discovery.Discovery:
        return intake.enter(NAME, self.table.model_copy(update=options), self.at)

    def ledger(self) -> DeltaTable:
        ledger = tables.delta_table(self.at.ledger(NAME))
        assert ledger is not None
        return ledger

    def take(
        self, failed: dict[str, tuple[str, bool]] | None = None, files: int | None = None, marked: bool = False
    ) -> int:
        """Commits the last chunk of the ledger to bronze; returns its number.

        Args:
            failed: files that cannot be read, and why.
            files: how many files the chunk has, where the commit tells.
            marked: whether the commit carries the mark, as the job's does.
        """
        number = self.ledger().version()
        paths = [
            row["path"]
            for row in tables.dataset(self.ledger()).to_table().to_pylist()
            if row["chunk"] == number and row["path"].rsplit("/", 1)[-1] not in (failed or {})
        ]
        trouble = {f"{self.folder}/{name}": why for name, why in (failed or {}).items()}
        facts: dict[str, Any] = {"chunk": number, "failed": trouble, "definition": self.table.fingerprint}
        facts |= {} if files is None else {"files": files}
        rows = pa.table(
            {
                "source_file": pa.array([f"file://{path}" for path in paths], pa.string()),
                "_chunk": pa.array([number] * len(paths), pa.int64()),
                "_corrupt_record": pa.nulls(len(paths), pa.string()),
                "_rescued_data": pa.array(["{}"] * len(paths), pa.string()),
            }
        )
        marks_ = [Transaction(offsets.app_id("bronze", NAME, self.ledger()), number)] if marked else None
        said = {"userMetadata": json.dumps({lake_log.METADATA: facts})}
        about = CommitProperties(custom_metadata=said, app_transactions=marks_)
        write_deltalake(self.at.table("bronze", NAME), rows, mode="append", commit_properties=about)
        return number

    def states(self) -> list[tuple[str, str]]:
        fates = file_status.statuses(self.at, NAME).to_pylist()
        return [(fate["path"].rsplit("/", 1)[-1], fate["state"]) for fate in fates]


@pytest.fixture(params=[2, 1000], ids=["put together", "in many files"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(tables, "MANY_FILES", request.param)
    return Place(tmp_path)


def test_what_became_of_files_over_many_runs(place: Place) -> None:
    for number, name in enumerate(["a", "b", "c"]):
        place.land(f"{name}.json", seconds=number)
    place.enter()
    place.take({"b.json": ("no JSON", False), "c.json": ("out of reach", True)})
    assert file_status.has_unrecorded_batches(place.at, NAME)
    taken = file_status.copy(place.at, NAME)
    assert (taken.rows, taken.rescued, taken.corrupt) == (1, 1, 0)
    assert taken.failed == {f"{place.folder}/b.json": "no JSON", f"{place.folder}/c.json": "out of reach"}
    assert not file_status.has_unrecorded_batches(place.at, NAME)
    assert file_status.copy(place.at, NAME) == file_status.Taken(0, 0, 0, {})
    assert file_status.failed_files(place.at, NAME, place.table.fingerprint) == {
        f"{place.folder}/b.json": False,
        f"{place.folder}/c.json": True,
    }
    assert file_status.failed_files(place.at, NAME, "corrected") == dict.fromkeys(taken.failed, True)
    place.land("b.json", "repaired", seconds=9)
    again = place.enter()
    assert [path.rsplit("/", 1)[-1] for path in again.new["path"].to_pylist()] == ["c.json", "b.json"]
    place.take()
    assert file_status.copy(place.at, NAME).rows == 2
    place.land("a.json", "other", seconds=10)
    assert place.enter().changed.num_rows == 1
    place.enter(allowOverwrites=True)
    assert file_status.failed_files(place.at, NAME, place.table.fingerprint) == {}
    assert place.states() == [
        ("a.json", "ingested"), ("b.json", "failed"), ("c.json", "failed"),
        ("c.json", "ingested"), ("b.json", "ingested"), ("a.json", "waiting"),
    ]  # fmt: skip
    place.take()
    assert file_status.copy(place.at, NAME).rows == 1
    assert place.states()[0] == ("a.json", "replaced")
    assert place.states()[-1] == ("a.json", "ingested")
    place.land("a.json", "", seconds=0)  # the first of all comes back: the last entry counts
    assert place.enter().changed.num_rows == 1


def test_a_file_that_changes_before_it_is_read_is_read_again_and_not_reported(place: Place) -> None:
    """As one that is corrected once a rule has refused its ledger batch: which of the two was read is not known."""
    place.land("a.json")
    place.enter()
    place.take()
    place.land("b.json")
    place.enter()
    place.land("a.json", "changed", seconds=5)
    place.land("b.json", "corrected", seconds=5)
    found = place.enter()
    assert (found.new["path"].to_pylist(), found.new["action"].to_pylist()) == ([f"{place.folder}/b.json"], ["replace"])
    assert found.changed["path"].to_pylist() == [f"{place.folder}/a.json"]


def test_a_table_that_was_made_anew_has_another_story(place: Place) -> None:
    place.land("a.json")
    place.enter()
    place.take({"a.json": ("no JSON", False)})
    file_status.copy(place.at, NAME)
    shutil.rmtree(place.at.table("bronze", NAME))
    assert file_status.failed_files(place.at, NAME, place.table.fingerprint) == {}
    place.take()
    assert file_status.has_unrecorded_batches(place.at, NAME)
    assert file_status.copy(place.at, NAME).rows == 1
    assert not file_status.has_unrecorded_batches(place.at, NAME)
    assert place.states() == [("a.json", "ingested")]


def test_the_first_chunk_of_a_table_that_was_made_anew_again_and_again_is_told(place: Place) -> None:
    """Also where the rows of several former tables lie in one file of the log."""
    place.land("a.json")
    place.enter()
    for _ in range(3):
        place.take()
        assert file_status.has_unrecorded_batches(place.at, NAME)
        assert file_status.copy(place.at, NAME).rows == 1
        assert place.states() == [("a.json", "ingested")]
        shutil.rmtree(place.at.table("bronze", NAME))


def test_the_ledger_is_followed_whatever_becomes_of_it(place: Place) -> None:
    for number in range(5):
        place.land(f"{number}.json", seconds=number)
        assert place.enter().new.num_rows == 1
    together = tables.MANY_FILES == 2
    assert (len(place.ledger().file_uris()) < 5) == together
    assert place.enter().new.num_rows == 0
    # Rows that somebody deletes from the ledger are not known any more.
    place.ledger().delete(f"path = '{place.folder}/1.json'")
    assert [path[-6:] for path in place.enter().new["path"].to_pylist()] == ["1.json"]
    place.ledger().restore(1)
    assert [path[-6:] for path in place.enter().new["path"].to_pylist()] == [f"{n}.json" for n in range(1, 5)]
    shutil.rmtree(place.at.ledger(NAME))
    assert place.enter().new.num_rows == 5
    everything = ledger_index.entries(place.ledger(), "", "\U0010ffff")
    assert sorted(path[-6:] for path in everything["path"].to_pylist()) == [f"{n}.json" for n in range(5)]


def test_many_files_are_compared_in_parts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_index, "AT_ONCE", 200)
    chance = random.Random(1)
    names = [f"{chance.choice('aé語zA')}{chance.randrange(10**6)}-{number}" for number in range(900)]
    for number, name in enumerate(names[:800]):
        place.land(name, seconds=number)
    assert place.enter(maxFilesPerTrigger=100).new.num_rows == 800
    assert place.enter().new.num_rows == 0
    place.take()
    for name in (*names[:5], *names[800:]):
        place.land(name, "now it is longer")
    found = place.enter()
    assert sorted(path.rsplit("/", 1)[-1] for path in found.new["path"].to_pylist()) == sorted(names[800:])
    assert sorted(path.rsplit("/", 1)[-1] for path in found.changed["path"].to_pylist()) == sorted(names[:5])


def test_rows_above_a_value_are_all_found_by_whatever_statistics_there_are(tmp_path: Path) -> None:
    uri = str(tmp_path / "log")
    for number in range(4):
        write_deltalake(uri, pa.table({"n": [number, number + 10]}), mode="append")
    table = DeltaTable(uri)
    assert [sorted(tables.rows_above(table, "n", limit).to_table()["n"].to_pylist()) for limit in (-1, 9, 11, 13)] == [
        [0, 1, 2, 3, 10, 11, 12, 13], [10, 11, 12, 13], [12, 13], [],
    ]  # fmt: skip
    uncounted = str(tmp_path / "uncounted")
    settings = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(uncounted, pa.table({"n": [1, 2]}), configuration=settings)
    assert tables.rows_above(DeltaTable(uncounted), "n", 1).to_table()["n"].to_pylist() == [2]
    parted = str(tmp_path / "parted")
    write_deltalake(parted, pa.table({"n": [1, 2], "p": ["x", "y"]}), partition_by=["p"])
    assert tables.rows_above(DeltaTable(parted), "n", 1).to_table()["p"].to_pylist() == ["y"]


def test_files_are_read_in_the_order_of_their_times_and_of_one_time_by_their_names(place: Place) -> None:
    names = [f"{number:02}.json" for number in range(12)]
    for name in reversed(names):
        place.land(name, seconds=1)
    place.land("last.json", seconds=2)
    place.land("zero.json", seconds=0)
    entered = [path.rsplit("/", 1)[-1] for path in place.enter().new["path"].to_pylist()]
    assert entered == ["zero.json", *names, "last.json"]


def test_a_file_that_was_out_of_reach_and_has_changed_is_entered_once(place: Place) -> None:
    place.land("a.json")
    place.enter()
    place.take({"a.json": ("out of reach", True)})
    file_status.copy(place.at, NAME)
    place.land("a.json", "longer", seconds=1)
    entered = place.enter().new.to_pylist()
    assert [(row["action"], row["size"]) for row in entered] == [("replace", 6)]


def test_files_can_be_chosen_by_their_state_and_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    (tmp_path / "pipelines/outcomes").mkdir(parents=True)
    (tmp_path / "pipelines/outcomes/pipeline.yaml").write_text(
        "name: outcomes\nbronze:\n  things: {path: '${landing}', format: json, settleSeconds: 0}\n"
    )
    for number in range(4):
        place.land(f"{number}.json", seconds=number)
    place.enter()
    place.take({"1.json": ("no JSON", False)})
    file_status.copy(place.at, NAME)
    place.land("4.json", seconds=9)

    def shown(*options: str) -> list[tuple[str, str]]:
        monkeypatch.setattr("sys.argv", ["sluicegate", "files", "outcomes", NAME, "--json", *options])
        for what in ("lake", "landing", "pipelines"):
            monkeypatch.setenv(f"SLUICEGATE_{what.upper()}", str(tmp_path / what))
        with pytest.raises(SystemExit):
            app.main()
        entries = json.loads(capsys.readouterr().out)
        return [(entry["path"][-6:], entry["state"]) for entry in entries] if isinstance(entries, list) else entries

    assert len(shown()) == 5
    assert shown("--state", "failed") == [("1.json", "failed")]
    assert shown("--state", "failed", "--state", "waiting") == [("1.json", "failed"), ("4.json", "waiting")]
    assert shown("--newest", "2") == [("3.json", "ingested"), ("4.json", "waiting")]
    assert shown("--state", "ingested", "--newest", "1") == [("3.json", "ingested")]
    assert "unknown file state" in str(shown("--state", "lost"))


@pytest.mark.parametrize("beyond", [-1, 0, 1, 4])
def test_outcomes_of_many_files_are_made_out_in_parts(
    place: Place, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """No part is dropped, whichever side of AT_ONCE the files of its chunks end on."""
    monkeypatch.setattr(file_status, "AT_ONCE", 4)
    numbers = range(file_status.AT_ONCE + beyond)
    for number in numbers:
        place.land(f"{number}.json", seconds=number)
        place.enter(maxFilesPerTrigger=2)
        place.take(files=1)
    parts: list[int] = []
    write = tables.write

    def counted(target: Any, rows: pa.Table, **how: Any) -> None:
        parts.append(rows.num_rows)
        write(target, rows, **how)

    monkeypatch.setattr(tables, "write", counted)
    assert file_status.copy(place.at, NAME).rows == len(numbers)
    assert parts == [4] * (len(numbers) // 4) + [len(numbers) % 4] * bool(len(numbers) % 4)
    assert place.states() == [(f"{number}.json", "ingested") for number in numbers]
    assert not file_status.has_unrecorded_batches(place.at, NAME)


@pytest.mark.parametrize("restored_to", [0, 1])
def test_of_chunks_that_a_restore_has_undone_nothing_is_told(place: Place, restored_to: int) -> None:
    """Until they are read again; before or after it was on record what became of them."""
    for number in range(3):
        place.land(f"{number}.json", seconds=number)
        place.enter()
        place.take(marked=True)
    bronze = tables.delta_table(place.at.table("bronze", NAME))
    assert bronze is not None
    bronze.restore(restored_to)
    assert file_status.has_unrecorded_batches(place.at, NAME)
    assert file_status.copy(place.at, NAME).rows == restored_to + 1
    log = tables.delta_table(place.at.file_status(NAME))
    assert log is not None
    assert sorted(tables.dataset(log).to_table()["chunk"].to_pylist()) == [*range(1, restored_to + 2)]
    assert not file_status.has_unrecorded_batches(place.at, NAME)
    known = status_log.read(place.at, NAME, ["path"])["path"].to_pylist()
    assert sorted(path[-6:] for path in known) == [f"{number}.json" for number in range(restored_to + 1)]
    assert [state for _, state in place.states()] == ["ingested"] * (restored_to + 1) + ["waiting"] * (2 - restored_to)


@pytest.mark.parametrize(
    ("sizes", "most_files", "most_bytes", "chunks"),
    [
        ([5, 5, 5, 5], 9, 10, [[5, 5], [5, 5]]),  # weighed anew in each chunk
        ([5, 5, 5, 5], 9, 9, [[5, 5], [5, 5]]),
        ([5, 5, 5, 5], 9, 11, [[5, 5, 5], [5]]),  # the file that passes the limit still belongs
        ([1, 9, 1, 1, 9, 1], 9, 10, [[1, 9], [1, 1, 9], [1]]),
        ([100, 1, 1], 9, 10, [[100], [1, 1]]),
        ([1] * 5, 2, None, [[1, 1], [1, 1], [1]]),
        ([1] * 4, 2, 3, [[1, 1], [1, 1]]),
        ([2] * 4, 3, 4, [[2, 2], [2, 2]]),
        ([4, 3, 1], 3, 4, [[4], [3, 1]]),
        ([], 2, 3, []),
    ],
)
def test_chunks_hold_no_more_files_and_bytes_than_they_may(
    place: Place, sizes: list[int], most_files: int, most_bytes: int | None, chunks: list[list[int]]
) -> None:
    for number, size in enumerate(sizes):
        place.land(f"{number}.json", "x" * size, seconds=number)
    place.enter(maxFilesPerTrigger=most_files, maxBytesPerTrigger=most_bytes)
    found: dict[int, list[int]] = {}
    rows = tables.dataset(place.ledger()).to_table().to_pylist() if sizes else []
    for row in sorted(rows, key=lambda row: (row["chunk"], row["modification_time"])):
        found.setdefault(row["chunk"], []).append(row["size"])
    assert list(found.values()) == chunks


@pytest.mark.parametrize("before", [0, 1, 2])
def test_files_that_land_after_the_first_look_are_read_where_those_of_before_are_not(place: Place, before: int) -> None:
    """Also where the first look found none: whether there was one is what counts."""
    how = {"includeExistingFiles": False}
    for number in range(before):
        place.land(f"{number}.json", seconds=number)
    assert place.enter(**how).new.num_rows == 0
    assert place.enter(**how).new.num_rows == 0
    place.land("late.json", seconds=9)
    assert [path[-9:] for path in place.enter(**how).new["path"].to_pylist()] == ["late.json"]
    place.take()
    file_status.copy(place.at, NAME)
    chunk = {row["path"][-9:]: row["chunk"] for row in tables.dataset(place.ledger()).to_table().to_pylist()}
    assert chunk.pop("late.json") == 1
    assert [*chunk.values()] == [0] * before
    assert place.states() == [*((f"{n}.json", "skipped") for n in range(before)), ("late.json", "ingested")]


@pytest.mark.parametrize("beyond", [-5, 0, 5])
def test_files_settle_each_by_its_own_time(place: Place, beyond: int) -> None:
    """One that is young waits, and keeps no other waiting; one of a clock far ahead does not wait for ever."""
    now = datetime.fromtimestamp(1_700_000_000, UTC)
    table = place.table.model_copy(update={"settleSeconds": 10.0})
    for name, seconds in (("old", -10), ("young", beyond), ("edge", 10), ("ahead", 11)):
        place.land(f"{name}.json", seconds=seconds)
    found = discovery.discover(NAME, table, place.at, now)
    assert [path.rpartition("/")[2] for path in found.new["path"].to_pylist()] == ["old.json", "ahead.json"]
    assert sorted(path.rpartition("/")[2] for path in found.settling["path"].to_pylist()) == ["edge.json", "young.json"]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_discoveries_give_up_after_ATTEMPTS(place: Place, monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    monkeypatch.setattr(intake, "ATTEMPTS", 3)
    place.land("a.json")
    lost = [*range(intake.ATTEMPTS + beyond)]
    append = landing_ledger._append

    def slower(*given: Any) -> None:
        if lost:
            lost.pop()
            raise CommitFailedError("another run was faster")
        append(*given)

    monkeypatch.setattr(landing_ledger, "_append", slower)
    if beyond >= 0:
        with pytest.raises(CommitFailedError):
            place.enter()
        return
    assert place.enter().new.num_rows == 1


@pytest.mark.parametrize("count", [199, 200, 201, 401])
def test_files_are_looked_up_in_parts_of_AT_ONCE(place: Place, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(ledger_index, "AT_ONCE", 200)
    for number in range(count):
        place.land(f"{number:03}.json", seconds=number)
    parts = [part.num_rows for part in ledger_index._parts(discovery.admitted_files(NAME, place.table, place.at))]
    assert (sum(parts), len(parts) > 1) == (count, count > 200)
    assert place.enter(maxFilesPerTrigger=1000).new.num_rows == count
    assert place.enter().new.num_rows == 0
