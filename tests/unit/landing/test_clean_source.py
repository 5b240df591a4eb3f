"""Moving a file without losing it: to any store, over nothing, and the definition of it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sluicegate.definition import load
from sluicegate.definition.bronze import DELETE_AT_LEAST
from sluicegate.errors import DefinitionError
from sluicegate.lake import tables as lake_tables
from sluicegate.landing import archive as archives
from sluicegate.landing import clean_source, file_status
from sluicegate.settings import Settings
from sluicegate.storage.filesystems import file
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
    found = file(path)
    assert found is not None
    return {"path": path, "size": found[0], "modification_time": found[1]}


def text_at(path: str) -> str | None:
    fs, root = fsspec.core.url_to_fs(path)
    return fs.cat_file(root).decode() if fs.exists(root) else None


def test_a_file_moves_and_none_is_written_over(stores: tuple[str, str]) -> None:
    landing, archive = stores
    for text in ("one", "two", "six"):
        file = write(f"{landing}/d/x.json.gz", text)
        place = clean_source._move(file, f"{archive}/d/x.json.gz", ())
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
    found = file(str(tmp_path / "in/a::b.json"))
    assert found is not None
    entry = {"path": str(tmp_path / "in/a::b.json"), "size": found[0], "modification_time": found[1]}
    assert clean_source._move(entry, str(tmp_path / "out/a::b.json"), ()) == str(tmp_path / "out/a::b.json")
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
    assert clean_source._move(entry, str(other_disk / name), ()) == str(other_disk / name)
    assert [path.name for path in other_disk.iterdir()] == [name]


def test_a_file_that_another_pipeline_archives_meanwhile_is_not_written_over(
    tmp_path: Path, other_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = write(str(tmp_path / "in/a.json"), "one")
    settle = clean_source._settle

    def settled(path: Path) -> None:
        settle(path)
        if path.suffix == ".part":
            (other_disk / "a.json").write_text("of another")

    monkeypatch.setattr(clean_source, "_settle", settled)
    with pytest.raises(FileExistsError):
        clean_source._move(entry, str(other_disk / "a.json"), ())
    assert (other_disk / "a.json").read_text() == "of another"
    monkeypatch.undo()
    assert clean_source._move(entry, str(other_disk / "a.json"), ()) == str(other_disk / "a.1.json")
    assert {path.name for path in other_disk.iterdir()} == {"a.json", "a.1.json"}


def test_what_a_killed_run_left_half_does_not_reach_the_archived_file(tmp_path: Path, other_disk: Path) -> None:
    entry = write(str(tmp_path / "in/a.json"), "one")
    half = other_disk / f".{hashlib.sha256(entry['path'].encode()).hexdigest()[:16]}.part"
    other_disk.mkdir()
    half.write_text("former")
    os.link(half, other_disk / "former.json")  # a kill between the two names of a copy
    assert clean_source._move(entry, str(other_disk / "a.json"), ()) == str(other_disk / "a.json")
    assert (other_disk / "former.json").read_text() == "former"
    assert not half.exists()


def test_a_copy_of_a_killed_run_is_known(stores: tuple[str, str]) -> None:
    landing, archive = stores
    file = write(f"{landing}/x.json", "one")
    write(f"{archive}/x.json", "one")
    if "://" not in archive:
        shutil.copystat(f"{landing}/x.json", f"{archive}/x.json")
    assert clean_source._move(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
    assert text_at(f"{landing}/x.json") is None
    assert clean_source._move(file, f"{archive}/x.json", ()) == f"{archive}/x.json"  # killed before it was noted
    assert clean_source._move(file, f"{archive}/x.json", {f"{archive}/x.json"}) is None  # that one is another's


def test_an_equal_file_of_another_day_has_its_own_place(stores: tuple[str, str]) -> None:
    landing, archive = stores
    first = clean_source._move(write(f"{landing}/x.json", "same"), f"{archive}/x.json", ())
    second = clean_source._move(write(f"{landing}/x.json", "same"), f"{archive}/x.json", {first})
    assert (first, second) == (f"{archive}/x.json", f"{archive}/x.1.json")


def test_a_file_that_changes_meanwhile_stays(stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    landing, archive = stores
    file = write(f"{landing}/x.json", "one")
    copy = clean_source._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        fs, root = fsspec.core.url_to_fs(path)
        fs.rm_file(root)
        write(path, "three")

    monkeypatch.setattr(clean_source, "_copy", slow)
    if "://" in archive:  # nobody can tell which of the two the copy is of
        with pytest.raises(clean_source._Changed):
            clean_source._move(file, f"{archive}/x.json", ())
        assert text_at(f"{archive}/x.json") is None
    else:
        assert clean_source._move(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
        assert text_at(f"{archive}/x.json") == "one"
    assert text_at(f"{landing}/x.json") == "three"


def test_a_file_that_is_written_on_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place: a link to it would change as well."""
    file, copy = write(str(tmp_path / "x.json"), "one"), clean_source._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        with open(path, "a") as more:
            more.write("two")

    monkeypatch.setattr(clean_source, "_copy", slow)
    with pytest.raises(clean_source._Changed):
        clean_source._move(file, str(tmp_path / "out/x.json"), ())
    assert (text_at(file["path"]), text_at(str(tmp_path / "out/x.json"))) == ("onetwo", None)


def test_another_that_takes_it_away_meanwhile(stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is all that is left of the file then."""
    landing, archive = stores
    file, copy = write(f"{landing}/x.json", "one"), clean_source._copy

    def slow(path: str, place: str) -> None:
        copy(path, place)
        clean_source._remove(file)

    monkeypatch.setattr(clean_source, "_copy", slow)
    assert clean_source._move(file, f"{archive}/x.json", ()) == f"{archive}/x.json"
    assert text_at(f"{archive}/x.json") == "one"


def test_of_a_link_the_content_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative one would lead to nothing from where it is moved to."""
    write(str(tmp_path / "in/.staged/x.json"), "one")
    (tmp_path / "in/x.json").symlink_to(".staged/x.json")
    found = file(str(tmp_path / "in/x.json"))
    assert found is not None
    entry = {"path": str(tmp_path / "in/x.json"), "size": found[0], "modification_time": found[1]}
    assert clean_source._move(entry, str(tmp_path / "out/x.json"), ()) == str(tmp_path / "out/x.json")
    assert (tmp_path / "out/x.json").read_text() == "one"
    assert not (tmp_path / "out/x.json").is_symlink()
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == [".staged"]


def test_a_copy_is_on_the_disk_before_the_file_is_removed(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a loss of power would leave neither."""
    landing, archive = stores
    events: list[str] = []
    sync, remove = os.fsync, clean_source._remove

    def synced(opened: int) -> None:
        events.append(os.readlink(f"/proc/self/fd/{opened}"))
        sync(opened)

    def removed(entry: Any) -> None:
        events.append("removed")
        remove(entry)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(clean_source, "_remove", removed)
    entry = write(f"{landing}/x.json", "one")
    place = clean_source._move(entry, f"{archive}/new/folder/x.json", ())
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
            path.rsplit("/", 1)[-1] for path in clean_source.due(NAME, self.table, self.at, now)["path"].to_pylist()
        ]

    def clean(self, now: datetime | None = None) -> clean_source.Cleaned:
        return clean_source.clean(NAME, self.table, self.at, now)

    def mark(self) -> int:
        ledger = lake_tables.delta_table(self.at.ledger(NAME))
        assert ledger is not None
        return archives.done(self.at, NAME, ledger, str(self.place.folder))


@pytest.mark.parametrize("beyond", [-1, 0, 1, 4])
def test_files_are_taken_away_in_parts_of_BATCH(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    monkeypatch.setattr(clean_source, "BATCH", 4)
    landed, count = Landed(tmp_path), clean_source.BATCH + beyond
    landed.take(*(f"{number}.json" for number in range(count)))
    assert landed.clean().removed == count
    log = lake_tables.delta_table(landed.at.archive(NAME))
    assert log is not None
    assert (lake_tables.rows(log), log.version() + 1) == (count, -(-count // 4))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{number}.json" for number in range(count)]
    assert landed.mark() == 1
    assert landed.due() == []


def test_what_was_taken_away_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landed = Landed(tmp_path)
    landed.take("a.json")
    landed.clean()
    read: list[Any] = []
    monkeypatch.setattr(archives, "table", lambda *_: read.append("all of the archive"))
    monkeypatch.setattr(archives, "by_facts", lambda *_: read.append("all of the archive"))
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
    copy = clean_source._copy

    def refuses(path: str, place: str) -> None:
        if path.endswith("/b.json"):
            raise PermissionError("not this one")
        copy(path, place)

    monkeypatch.setattr(clean_source, "_copy", refuses)
    done = landed.clean()
    assert (done.removed, [*done.left.values()]) == (2, ["not this one"])
    assert (landed.mark(), landed.due()) == (1, ["b.json"])
    monkeypatch.undo()
    assert (landed.clean().removed, landed.mark(), landed.due()) == (1, 2, [])
    # And those whose time has not come are not passed over by those whose time has.
    later = Landed(tmp_path / "later", timedelta(hours=1)) if (tmp_path / "later").mkdir() is None else landed
    later.take("a.json")
    now = datetime.now(UTC) + timedelta(minutes=59)
    assert later.due(now) == []
    later.take("b.json")
    ingested = sorted(file_status.read(later.at, NAME, ["ingested"])["ingested"].to_pylist())
    between = ingested[0] + timedelta(hours=1)
    assert later.due(between) == (["a.json"] if ingested[0] < ingested[1] else ["a.json", "b.json"])
    later.clean(between)
    assert later.mark() == (1 if ingested[0] < ingested[1] else 2)
    later.clean(ingested[1] + timedelta(hours=1))
    assert (later.mark(), sorted(path.name for path in (tmp_path / "later/out").iterdir())) == (2, ["a.json", "b.json"])


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
    with pytest.raises(DefinitionError, match="b reads files of the same folder"):
        load("p", Settings.of(str(tmp_path / "lake"), "/land", tmp_path))
