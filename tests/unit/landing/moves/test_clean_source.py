"""Moving a file without losing it: to any store, over nothing, and the definition of it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Container, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from deltalake.exceptions import CommitFailedError

from sluicegate import _faults
from sluicegate.definition import load
from sluicegate.definition.tables.bronze import DELETE_AT_LEAST
from sluicegate.errors import DefinitionError
from sluicegate.lake import tables as lake_tables
from sluicegate.landing import file_status, intake, status_log
from sluicegate.landing.chosen.reread import Reset
from sluicegate.landing.moves import archive as archives
from sluicegate.landing.moves import clean_source, file_moves
from sluicegate.settings import Settings
from sluicegate.storage import durable
from sluicegate.storage.filesystems import file_facts
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


@pytest.fixture(params=["local", "memory", "local to memory", "other disk"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Roots of a landing and an archive."""
    memory = f"memory://{uuid.uuid4().hex}"
    if request.param == "other disk":

        def link(*_: Any) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", link)
    roots = {"memory": (f"{memory}/in", f"{memory}/out"), "local to memory": (str(tmp_path / "in"), f"{memory}/out")}
    return roots.get(request.param, (str(tmp_path / "in"), str(tmp_path / "out")))


def write(path: str, text: str) -> dict[str, Any]:
    fs, root = fsspec.core.url_to_fs(path)
    fs.makedirs(fs._parent(root), exist_ok=True)
    fs.pipe_file(root, text.encode())
    if "://" not in path:
        os.utime(path, (time.time() - 60, time.time() - 60))
    found = file_facts(path)
    assert found is not None
    return {"path": path, "size": found[0], "modification_time": found[1]}


def text_at(path: str) -> str | None:
    fs, root = fsspec.core.url_to_fs(path)
    return fs.cat_file(root).decode() if fs.exists(root) else None


def moved(file: dict[str, Any], wanted: str, taken: Container[str]) -> str | None:
    """Move a file as a cleaning does; its new address, None if it is gone."""
    place = file_moves.destination(file, wanted, taken)
    return None if place is None else file_moves.move({**file, "mode": "MOVE", "place": place})["place"]


def test_a_file_moves_and_none_is_written_over(stores: tuple[str, str]) -> None:
    landing, archive = stores
    for text in ("one", "two", "six"):
        file = write(f"{landing}/d/x.json.gz", text)
        place = moved(file, f"{archive}/d/x.json.gz", ())
        assert place is not None
        assert (text_at(file["path"]), text_at(place)) == (None, text)
    assert [text_at(f"{archive}/d/{name}") for name in ("x.json.gz", "x.1.json.gz", "x.2.json.gz")] == [
        "one", "two", "six",
    ]  # fmt: skip


def test_a_name_with_two_colons_is_no_chain_of_stores(tmp_path: Path) -> None:
    """To fsspec it is: the file seemed to be gone, and ``a``, another one, was looked at in its stead."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("other")
    (tmp_path / "in/a::b.json").write_text("one")
    found = file_facts(str(tmp_path / "in/a::b.json"))
    assert found is not None
    entry = {"path": str(tmp_path / "in/a::b.json"), "size": found[0], "modification_time": found[1]}
    assert moved(entry, str(tmp_path / "out/a::b.json"), ()) == str(tmp_path / "out/a::b.json")
    assert (tmp_path / "out/a::b.json").read_text() == "one"
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a"]


@pytest.fixture
def other_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive on a disk of its own, which has links."""
    link = os.link

    def linked(source: Any, target: Any) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    return tmp_path / "archive"


def test_a_name_as_long_as_names_can_be_goes_to_another_disk(tmp_path: Path, other_disk: Path) -> None:
    name = f"{'x' * 250}.json"
    entry = write(str(tmp_path / "in" / name), "one")
    assert moved(entry, str(other_disk / name), ()) == str(other_disk / name)
    assert [path.name for path in other_disk.iterdir()] == [name]


def test_a_file_that_another_pipeline_archives_meanwhile_is_not_written_over(
    tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = write(str(tmp_path / "in/a.json"), "one")
    settle = durable.sync

    def settled(path: Path) -> None:
        settle(path)
        if path.suffix == ".part":
            (other_disk / "a.json").write_text("of another")

    monkeypatch.setattr(durable, "sync", settled)
    with pytest.raises(FileExistsError):
        moved(entry, str(other_disk / "a.json"), ())
    assert (other_disk / "a.json").read_text() == "of another"
    monkeypatch.undo()
    assert moved(entry, str(other_disk / "a.json"), ()) == str(other_disk / "a.1.json")
    assert {path.name for path in other_disk.iterdir()} == {"a.json", "a.1.json"}


def test_what_a_killed_run_left_half_does_not_reach_the_archived_file(tmp_path: Path, other_disk: Path) -> None:
    entry = write(str(tmp_path / "in/a.json"), "one")
    half = other_disk / f".{hashlib.sha256(entry['path'].encode()).hexdigest()[:16]}.part"
    other_disk.mkdir()
    half.write_text("former")
    os.link(half, other_disk / "former.json")  # a kill between the two names of a copy
    assert moved(entry, str(other_disk / "a.json"), ()) == str(other_disk / "a.json")
    assert (other_disk / "former.json").read_text() == "former"
    assert not half.exists()


def test_a_copy_of_a_killed_run_is_known(stores: tuple[str, str]) -> None:
    landing, archive = stores
    file = write(f"{landing}/x.json", "one")
    write(f"{archive}/x.json", "one")
    if "://" not in archive:
        shutil.copystat(f"{landing}/x.json", f"{archive}/x.json")
    assert moved(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
    assert text_at(f"{landing}/x.json") is None
    assert moved(file, f"{archive}/x.json", ()) == f"{archive}/x.json"  # killed before it was noted
    assert moved(file, f"{archive}/x.json", {f"{archive}/x.json"}) is None  # that one is another's


def test_an_equal_file_of_another_day_has_its_own_place(stores: tuple[str, str]) -> None:
    landing, archive = stores
    first = moved(write(f"{landing}/x.json", "same"), f"{archive}/x.json", ())
    second = moved(write(f"{landing}/x.json", "same"), f"{archive}/x.json", {first})
    assert (first, second) == (f"{archive}/x.json", f"{archive}/x.1.json")


def test_a_file_that_changes_meanwhile_stays(stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    landing, archive = stores
    file = write(f"{landing}/x.json", "one")
    copy = file_moves._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        fs, root = fsspec.core.url_to_fs(path)
        fs.rm_file(root)
        write(path, "three")

    monkeypatch.setattr(file_moves, "_copy", slow)
    if "://" in archive:  # nobody can tell which of the two the copy is of
        with pytest.raises(file_moves.Changed):
            moved(file, f"{archive}/x.json", ())
        assert text_at(f"{archive}/x.json") is None
    else:
        assert moved(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
        assert text_at(f"{archive}/x.json") == "one"
    assert text_at(f"{landing}/x.json") == "three"


def test_a_file_that_is_written_on_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place: a link to it would change as well."""
    file, copy = write(str(tmp_path / "x.json"), "one"), file_moves._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        with open(path, "a") as more:
            more.write("two")

    monkeypatch.setattr(file_moves, "_copy", slow)
    with pytest.raises(file_moves.Changed):
        moved(file, str(tmp_path / "out/x.json"), ())
    assert (text_at(file["path"]), text_at(str(tmp_path / "out/x.json"))) == ("onetwo", None)


def test_another_that_takes_it_away_meanwhile(stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is all that is left of the file then."""
    landing, archive = stores
    file, copy = write(f"{landing}/x.json", "one"), file_moves._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        file_moves._remove(file)

    monkeypatch.setattr(file_moves, "_copy", slow)
    assert moved(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
    assert text_at(f"{archive}/x.json") == "one"


def test_of_a_link_the_content_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative one would lead to nothing from where it is moved to."""
    write(str(tmp_path / "in/.staged/x.json"), "one")
    (tmp_path / "in/x.json").symlink_to(".staged/x.json")
    found = file_facts(str(tmp_path / "in/x.json"))
    assert found is not None
    entry = {"path": str(tmp_path / "in/x.json"), "size": found[0], "modification_time": found[1]}
    assert moved(entry, str(tmp_path / "out/x.json"), ()) == str(tmp_path / "out/x.json")
    assert (tmp_path / "out/x.json").read_text() == "one"
    assert not (tmp_path / "out/x.json").is_symlink()
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == [".staged"]


def test_a_copy_is_on_the_disk_before_the_file_is_removed(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a loss of power would leave neither."""
    landing, archive = stores
    events: list[str] = []
    sync, remove = os.fsync, file_moves._remove

    def synced(opened: int) -> None:
        events.append(os.readlink(f"/proc/self/fd/{opened}"))
        sync(opened)

    def removed(entry: Any) -> None:
        events.append("removed")
        remove(entry)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(file_moves, "_remove", removed)
    entry = write(f"{landing}/x.json", "one")
    place = moved(entry, f"{archive}/new/folder/x.json", ())
    assert place is not None
    if "://" in place:
        return
    before = events[: events.index("removed")]
    assert {str(Path(place).parent), str(Path(place).parent.parent)} <= set(before)
    linked = os.link.__module__ == "posix"
    halves = [one for one in before if one.startswith(f"{Path(place).parent}/.") and one.endswith(".part")]
    assert len(halves) == (0 if linked else 1)


class Landed:
    """A landing folder whose files are moved to another one as soon as their rows are committed."""

    def __init__(self, folder: Path, retention: timedelta = timedelta(0)) -> None:
        self.place = Place(folder)
        moving = {"cleanSource": "MOVE", "cleanSourceMoveDestination": str(folder / "out")}
        moving |= {"cleanSourceRetentionDuration": retention}  # type: ignore[dict-item]
        self.table = self.place.table.model_copy(update=moving)
        self.at = self.place.at

    def take(self, *names: str) -> None:
        for name in names:
            self.place.land(name, name)
        self.place.enter()
        self.place.take()
        file_status.copy(self.at, NAME)

    def due(self, now: datetime | None = None) -> list[str]:
        return [
            path.rsplit("/", 1)[-1]
            for path in clean_source.files_due(NAME, self.table, self.at, now)["path"].to_pylist()
        ]

    def clean(self, now: datetime | None = None) -> clean_source.Cleaned:
        return clean_source.clean(NAME, self.table, self.at, now)

    def mark(self) -> int:
        ledger = lake_tables.delta_table(self.at.ledger(NAME))
        assert ledger is not None
        return archives.cleaned_batch(self.at, NAME, ledger, str(self.place.folder))


@pytest.mark.parametrize("beyond", [-1, 0, 1, 4])
def test_files_are_taken_away_in_parts_of_BATCH(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    monkeypatch.setattr(clean_source, "BATCH", 4)
    landed, count = Landed(tmp_path), clean_source.BATCH + beyond
    landed.take(*(f"{number}.json" for number in range(count)))
    assert landed.clean().removed == count
    log = lake_tables.delta_table(landed.at.archive(NAME))
    assert log is not None
    commits_without_rows = 1 + -(-count // 4)  # the first makes the log; each part is announced
    assert (lake_tables.rows(log), log.version() + 1 - commits_without_rows) == (count, -(-count // 4))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{number}.json" for number in range(count)]
    assert landed.mark() == 1
    assert landed.due() == []


class Syncs:
    """Calls of ``syncfs``, each with the file systems and the landed files that are there at that moment."""

    def __init__(self, landed: Landed, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.calls: list[tuple[int, list[str]]] = []

        def sync(path: str) -> None:
            self.calls.append((os.stat(path).st_dev, sorted(one.name for one in landed.place.folder.iterdir())))
            if error is not None:
                raise error

        monkeypatch.setattr(durable, "_sync_file_system", sync)


def test_the_lake_is_on_the_disk_before_a_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each file system, and only where there is a file to be removed."""
    landed = Landed(tmp_path)
    landed.take("a.json", "b.json", "c.json")
    syncs = Syncs(landed, monkeypatch)
    assert landed.clean(datetime(2020, 1, 1, tzinfo=UTC)).removed == 0
    assert syncs.calls == []
    assert landed.clean().removed == 3
    assert syncs.calls == [(tmp_path.stat().st_dev, ["a.json", "b.json", "c.json"])]
    assert landed.clean().removed == 0
    assert len(syncs.calls) == 1


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no second file system")
def test_a_table_on_another_disk_is_on_that_before_a_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        bronze = Path(landed.at.table("bronze", NAME))
        shutil.copytree(bronze, Path(other) / "bronze")
        shutil.rmtree(bronze)
        bronze.symlink_to(Path(other) / "bronze")
        syncs = Syncs(landed, monkeypatch)
        assert landed.clean().removed == 1
        assert {device for device, _ in syncs.calls} == {tmp_path.stat().st_dev, Path(other).stat().st_dev}


def test_no_file_is_removed_where_the_lake_cannot_be_brought_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    with monkeypatch.context() as broken:
        Syncs(landed, broken, OSError(errno.EIO, "Input/output error"))
        cleaned = landed.clean()
        assert (cleaned.removed, [path.name for path in landed.place.folder.iterdir()]) == (0, ["a.json"])
        [remark] = cleaned.remarks(NAME, landed.table)
        assert "Input/output error" in remark
    assert landed.clean().removed == 1


def test_the_kernel_is_asked_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable.sync_file_systems([str(tmp_path), str(tmp_path / "missing"), "s3://bucket/lake"])
    monkeypatch.setattr(os, "open", lambda *_: 999_999)  # no such descriptor
    monkeypatch.setattr(os, "close", lambda _: None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        durable.sync_file_systems([str(tmp_path)])


def test_what_was_taken_away_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    landed.clean()
    read: list[Any] = []
    monkeypatch.setattr(archives, "table", lambda *_: read.append("all of the archive"))
    monkeypatch.setattr(archives, "archived_by_facts", lambda *_: read.append("all of the archive"))
    monkeypatch.setattr(clean_source.ledger_index, "entries", lambda *given, **_: read.append(given))
    assert landed.due() == []
    assert read == []
    monkeypatch.undo()
    landed.take("b.json")
    since: list[int] = []
    entries = clean_source.ledger_index.entries

    def seen(ledger: Any, *span: str, after: int = -1) -> Any:
        since.append(after)
        return entries(ledger, *span, after=after)

    monkeypatch.setattr(clean_source.ledger_index, "entries", seen)
    assert landed.due() == ["b.json"]
    assert since == [1]
    landed.place.land("a.json", "again", seconds=5)  # another file under a name that was taken away
    landed.place.enter()
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert landed.due() == ["b.json", "a.json"]
    assert landed.clean().removed == 2
    assert landed.mark() == 3


def test_files_that_cannot_go_yet_are_looked_at_until_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landed = Landed(tmp_path)
    for name in ("a.json", "b.json", "c.json"):
        landed.take(name)
    copy = file_moves._copy

    def refuses(path: str, place: str) -> None:
        if path.endswith("/b.json"):
            raise PermissionError("not this one")
        copy(path, place)

    monkeypatch.setattr(file_moves, "_copy", refuses)
    done = landed.clean()
    assert (done.removed, [*done.failed_removals.values()]) == (2, ["not this one"])
    assert (landed.mark(), landed.due()) == (1, ["b.json"])
    monkeypatch.undo()
    assert (landed.clean().removed, landed.mark(), landed.due()) == (1, 2, [])
    # And those whose time has not come are not passed over by those whose time has.
    later = Landed(tmp_path / "later", timedelta(hours=1)) if (tmp_path / "later").mkdir() is None else landed
    later.take("a.json")
    now = datetime.now(UTC) + timedelta(minutes=59)
    assert later.due(now) == []
    later.take("b.json")
    ingested = sorted(status_log.read(later.at, NAME, ["ingested"])["ingested"].to_pylist())
    between = ingested[0] + timedelta(hours=1)
    assert later.due(between) == (["a.json"] if ingested[0] < ingested[1] else ["a.json", "b.json"])
    later.clean(between)
    assert later.mark() == (1 if ingested[0] < ingested[1] else 2)
    later.clean(ingested[1] + timedelta(hours=1))
    assert (later.mark(), sorted(path.name for path in (tmp_path / "later/out").iterdir())) == (2, ["a.json", "b.json"])


def test_a_file_that_was_overwritten_stays_until_its_new_content_is_read(tmp_path: Path) -> None:
    """Its former content was committed long ago, but the ledger's newest entry is of another one."""
    landed = Landed(tmp_path)
    landed.take("a.json")
    landed.place.land("a.json", "longer than before", seconds=5)
    landed.place.enter(allowOverwrites=True)
    assert (landed.due(), landed.clean().removed) == ([], 0)
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert (landed.due(), landed.clean().removed) == (["a.json"], 1)


def test_a_file_that_a_reset_has_read_again_is_taken_away(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    intake.enter(NAME, landed.table, landed.at, Reset().discover)
    assert landed.due() == []
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert (landed.due(), landed.clean().removed) == (["a.json"], 1)


class Stopped(BaseException):
    """Stands for a kill: nothing of ours catches it."""


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def point(here: str) -> None:
        if here == name:
            raise Stopped(here)

    monkeypatch.setattr(_faults, "point", point)


KILLS = [point for point in _faults.POINTS if point.startswith("clean.")]
LATER = timedelta(days=8)


def deleted(landed: Landed) -> Landed:
    kept = {"cleanSource": "DELETE", "cleanSourceRetentionDuration": timedelta(days=7)}
    landed.table = landed.table.model_copy(update={**kept, "cleanSourceMoveDestination": None})
    return landed


@pytest.mark.parametrize(
    ("mode", "kill"),
    [(mode, kill) for mode in ("MOVE", "DELETE") for kill in KILLS if mode == "MOVE" or "copy" not in kill],
)
def test_after_a_kill_a_new_file_of_that_name_is_read_and_the_former_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, kill: str
) -> None:
    """Of three files that land under one name each day; the second cleaning is killed, then the third file lands."""
    landed = Landed(tmp_path) if mode == "MOVE" else deleted(Landed(tmp_path))
    for day, text in enumerate(("monday", "wednesday, the 2nd"), 1):
        landed.place.land("export.json", text, seconds=day)
        landed.place.enter()
        landed.place.take()
        file_status.copy(landed.at, NAME)
        if day == 1:
            assert landed.clean(datetime.now(UTC) + LATER).removed == 1
    stop_at(monkeypatch, kill)
    with pytest.raises(Stopped):
        landed.clean(datetime.now(UTC) + LATER)
    monkeypatch.undo()
    taken = not (tmp_path / "landing/export.json").exists()
    (tmp_path / "landing/export.json").unlink(missing_ok=True)  # a sender that replaces a file by renaming
    landed.place.land("export.json", "friday", seconds=3)
    found = landed.place.enter()
    copied = mode == "MOVE" and kill == "clean.between_copy_and_removal"
    if not taken and not copied and mode == "MOVE":
        # It was never taken away, but written over: as without cleanSource, that is said.
        assert (found.new.num_rows, found.changed.num_rows) == (0, 1)
        return
    assert (found.new["action"].to_pylist(), found.changed.num_rows) == (["read"], 0)
    landed.place.take()
    file_status.copy(landed.at, NAME)
    landed.clean(datetime.now(UTC) + LATER)
    assert [state for _, state in landed.place.states()] == ["archived"] * 3
    if mode == "MOVE":
        places = file_status.statuses(landed.at, NAME)["place"].to_pylist()
        texts = [Path(place).read_text() for place in places]
        assert texts == ["monday", "wednesday, the 2nd", "friday"]
    assert list((tmp_path / "landing").iterdir()) == []
    assert landed.due() == []


@pytest.mark.parametrize("point", ["", "clean.after_announcement"], ids=["before", "while it is cleaned"])
@pytest.mark.parametrize("mode", ["MOVE", "DELETE"])
def test_a_file_that_was_written_again_with_as_many_bytes_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, point: str
) -> None:
    """Nobody has read what it says now, and only its time tells."""
    landed = Landed(tmp_path) if mode == "MOVE" else deleted(Landed(tmp_path))
    landed.take("a.json", "b.json")

    def write_again(here: str = "") -> None:
        if here == point:
            landed.place.land("a.json", "A.JSON", seconds=9)

    write_again()
    monkeypatch.setattr(_faults, "point", write_again)
    assert landed.clean(datetime.now(UTC) + LATER).removed == 1
    monkeypatch.undo()
    assert [(path.name, path.read_text()) for path in landed.place.folder.iterdir()] == [("a.json", "A.JSON")]
    assert landed.place.states() == [("a.json", "ingested"), ("b.json", "archived")]
    assert landed.place.enter().changed.num_rows == 1


@pytest.mark.parametrize("mode", ["MOVE", "DELETE"])
def test_what_a_killed_cleaning_took_away_is_told_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    landed = Landed(tmp_path) if mode == "MOVE" else deleted(Landed(tmp_path))
    landed.take("a.json", "b.json")
    stop_at(monkeypatch, "clean.after_removal")
    with pytest.raises(Stopped):
        landed.clean(datetime.now(UTC) + LATER)
    monkeypatch.undo()
    assert landed.place.states() == [("a.json", "archived"), ("b.json", "ingested")]
    assert landed.due(datetime.now(UTC) + LATER) == ["b.json"]
    assert landed.clean(datetime.now(UTC) + LATER).removed == 1
    assert landed.place.states() == [("a.json", "archived"), ("b.json", "archived")]
    log = lake_tables.delta_table(landed.at.archive(NAME))
    assert log is not None
    assert archives.announced_removals(log, landed.place.ledger()) == []
    assert lake_tables.rows(log) == 2


def test_a_run_with_nothing_else_to_do_records_what_a_killed_one_took_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    stop_at(monkeypatch, "clean.after_removal")
    with pytest.raises(Stopped):
        landed.clean()
    monkeypatch.undo()
    locks: list[str] = []

    @contextmanager
    def holding() -> Iterator[None]:
        locks.append("taken")
        yield

    for _ in range(2):
        clean_source.sweep({NAME: landed.table}, landed.at, holding, lambda _: None)
    assert locks == ["taken"]
    log = lake_tables.delta_table(landed.at.archive(NAME))
    assert lake_tables.rows(log) == 1


def test_what_could_not_be_recorded_is_before_more_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run commits to the archive's log in between; of two announcements only the newer one is known."""
    monkeypatch.setattr(clean_source, "BATCH", 2)
    landed = Landed(tmp_path)
    landed.take(*(f"{number}.json" for number in range(5)))

    def refused(*_: Any) -> None:
        raise CommitFailedError("a concurrent transaction")

    with monkeypatch.context() as conflict:
        conflict.setattr(archives, "_record", refused)
        assert landed.clean().removed == 2
        assert landed.clean().removed == 0
    assert landed.clean().removed == 3
    assert [state for _, state in landed.place.states()] == ["archived"] * 5
    assert lake_tables.rows(lake_tables.delta_table(landed.at.archive(NAME))) == 5


def test_a_destination_that_others_took_since_it_was_announced_is_not_written_over(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, archive = stores
    file = write(f"{landing}/x.json", "one")
    place = file_moves.destination(file, f"{archive}/x.json", ())
    write(f"{archive}/x.json", "two")
    with pytest.raises(FileExistsError):
        file_moves.move({**file, "mode": "MOVE", "place": place})
    assert (text_at(f"{landing}/x.json"), text_at(f"{archive}/x.json")) == ("one", "two")
    assert moved(file, f"{archive}/x.json", ()) == f"{archive}/x.1.json"


def test_a_file_written_again_with_the_same_size_is_not_deleted(tmp_path: Path) -> None:
    """It is another one, which nobody has read."""
    landed = deleted(Landed(tmp_path))
    landed.place.land("a.json", "one")
    landed.take()
    landed.place.land("a.json", "two", seconds=1)
    assert landed.clean(datetime.now(UTC) + timedelta(days=6.9)).removed == 0
    assert landed.clean(datetime.now(UTC) + LATER).removed == 0
    assert (tmp_path / "landing/a.json").read_text() == "two"
    assert landed.place.enter().changed.num_rows == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("cleanSource: OFF", None),
        ("cleanSource: MOVE, cleanSourceMoveDestination: /away", None),
        ("cleanSource: MOVE, cleanSourceMoveDestination: /away, cleanSourceRetentionDuration: 0 seconds", None),
        ("cleanSource: DELETE", None),
        ("cleanSource: DELETE, cleanSourceRetentionDuration: 6 days", "out-of-range"),
        ("cleanSource: MOVE", "clean-source"),
        ("cleanSourceMoveDestination: /away", "clean-source"),
        ("cleanSource: MOVE, cleanSourceMoveDestination: /land/a/read", "clean-source"),
        ("cleanSource: MOVE, cleanSourceMoveDestination: /land/b", "clean-source"),
        ("cleanSource: MOVE, cleanSourceMoveDestination: /land", "clean-source"),
        ("cleanSource: DELETE, cleanSourceRetentionDuration: soon", "wrong-type"),
        ("cleanSource: KEEP", "not-allowed"),
    ],
)
def test_cleaning_needs_a_known_time_and_a_place_outside_of_every_landing_folder(
    tmp_path: Path, fields: str, code: str | None
) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    tables = f"  a: {{path: '/land/a', format: json, {fields}}}\n  b: {{path: '/land/b', format: json}}\n"
    (folder / "pipeline.yaml").write_text(f"name: p\nbronze:\n{tables}")
    settings = Settings.of(str(tmp_path / "lake"), "/land", tmp_path)
    if code is None:
        assert load("p", settings).bronze["a"].cleanSource in fields
        return
    with pytest.raises(DefinitionError) as refused:
        load("p", settings)
    assert refused.value.mistakes[0].code == code


@pytest.mark.parametrize(
    ("retention", "refused"),
    [
        ("6 days 23 hours 59 minutes 59.999999 seconds", True),
        ("7 days", False),
        ("7 days 0.000001 seconds", False),
    ],
)
def test_files_are_deleted_no_sooner_than_DELETE_AT_LEAST_and_moved_at_any_time(
    tmp_path: Path, retention: str, refused: bool
) -> None:
    assert timedelta(days=7) == DELETE_AT_LEAST
    settings = Settings.of(str(tmp_path / "lake"), "/land", tmp_path)
    (tmp_path / "p").mkdir()
    for fields in ("cleanSource: DELETE", "cleanSource: MOVE, cleanSourceMoveDestination: /away"):
        table = f"path: /land/a, format: json, {fields}, cleanSourceRetentionDuration: {retention}"
        (tmp_path / "p/pipeline.yaml").write_text(f"name: p\nbronze:\n  a: {{{table}}}\n")
        if refused and "DELETE" in fields:
            with pytest.raises(DefinitionError) as error:
                load("p", settings)
            assert [mistake.code for mistake in error.value.mistakes] == ["out-of-range"]
        else:
            kept = load("p", settings).bronze["a"].cleanSourceRetentionDuration
            assert (kept < DELETE_AT_LEAST) == refused


def test_two_tables_of_one_folder(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    tables = "  a: {path: /land/a, format: json, cleanSource: DELETE}\n  b: {path: /land/a/b, format: json}\n"
    (tmp_path / "p/pipeline.yaml").write_text(f"name: p\nbronze:\n{tables}")
    with pytest.raises(DefinitionError, match="folder"):
        load("p", Settings.of(str(tmp_path / "lake"), "/land", tmp_path))
