"""A file stays in landing until every table that reads its folder has its rows."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sluicegate.definition import load
from sluicegate.errors import DefinitionError
from sluicegate.lake import layout
from sluicegate.landing import file_status, intake, readers
from sluicegate.landing.moves import clean_source
from sluicegate.monitor import estimate
from sluicegate.settings import Settings
from tests.unit.landing.moves.test_clean_source import Landed, Syncs
from tests.unit.landing.test_file_status import NAME, Place

pytestmark = pytest.mark.unit


class Second(Place):
    """Another pipeline's table that reads a folder of the first one's landing."""

    def __init__(self, first: Landed, path: Path, **fields: Any) -> None:
        self.folder = path
        self.table = first.place.table.model_copy(update={"path": str(path), **fields})
        self.at = layout.Lake(first.at.root, "second")

    @property
    def reader(self) -> readers.LandingReader:
        return readers.LandingReader("second", NAME, self.table, self.at)

    def read(self, failed: dict[str, tuple[str, bool]] | None = None) -> None:
        intake.enter(NAME, self.table, self.at)
        self.take(failed)
        file_status.copy(self.at, NAME)


def clean(landed: Landed, *others: Second) -> clean_source.Cleaned:
    return clean_source.clean(NAME, landed.table, landed.at, readers_of=lambda _: [one.reader for one in others])


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    landed = Landed(tmp_path)
    (tmp_path / "landing/sub").mkdir()
    landed.take("a.json", "sub/b.json")
    return landed


@pytest.mark.parametrize("spelled", ["as it is", "by a link"])
def test_a_file_stays_until_another_table_has_its_rows(landed: Landed, tmp_path: Path, spelled: str) -> None:
    folder = landed.place.folder
    if spelled == "by a link":
        folder = tmp_path / "link"
        folder.symlink_to(landed.place.folder)
    second = Second(landed, folder)
    done = clean(landed, second)
    assert (done.removed, done.unread) == (0, {"second.things has also read them": 2})
    assert "until second.things has also read them" in "\n".join(done.remarks(NAME, landed.table))
    second.enter()
    assert clean(landed, second).removed == 0  # they are in its ledger, and no rows of them are in its table
    second.read({"a.json": ("out of reach", True)})
    assert clean(landed, second).removed == 1
    second.read()
    assert clean(landed, second).removed == 1
    assert (landed.mark(), landed.due()) == (1, [])


def test_a_file_stays_only_for_tables_that_read_it(landed: Landed, tmp_path: Path) -> None:
    below = Second(landed, landed.place.folder / "sub")
    assert (clean(landed, below).removed, [*clean(landed, below).unread.values()]) == (1, [1])
    others = Second(landed, landed.place.folder, pathGlobFilter="*.csv")
    assert clean(landed, others).removed == 1


def test_a_table_of_one_file_leaves_those_beside_it_to_others(landed: Landed) -> None:
    single = Second(landed, landed.place.folder / "a.json")
    assert (clean(landed, single).removed, [*clean(landed, single).unread.values()]) == (1, [1])
    assert (landed.place.folder / "a.json").exists()


def test_files_of_a_folder_that_was_renamed_do_not_stay_for_a_table_that_had_read_them(tmp_path: Path) -> None:
    """Its ledger has them below the former folder, and knows them again."""
    landed = Landed(tmp_path)
    landed.place.land("a.json", "a.json")
    second = Second(landed, landed.place.folder)
    second.read()
    landed.place.folder = landed.place.folder.rename(tmp_path / "renamed")
    for owner in (landed, landed.place, second):
        owner.table = owner.table.model_copy(update={"path": str(landed.place.folder)})
    landed.take()  # which reads them for the first time
    assert clean(landed, second).unread == {"second.things has also read them": 1}  # it has not looked since
    assert intake.enter(NAME, second.table, second.at).moved.num_rows == 1
    assert (clean(landed, second).removed, clean(landed, second).unread) == (1, {})


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no second file system")
def test_rows_of_another_table_are_on_its_disk_before_a_file_is_removed(
    landed: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        second = Second(landed, landed.place.folder)
        second.at = layout.Lake(other, "second")
        second.read()
        syncs = Syncs(landed, monkeypatch)
        assert clean(landed, second).removed == 2
        assert {device for device, _ in syncs.calls} == {tmp_path.stat().st_dev, Path(other).stat().st_dev}


def test_a_file_that_another_table_leaves_out_does_not_stay_for_it(landed: Landed) -> None:
    second = Second(landed, landed.place.folder, includeExistingFiles=False)
    assert clean(landed, second).removed == 0  # which files were there first is decided by its first run
    intake.enter(NAME, second.table, second.at)
    assert clean(landed, second).removed == 2


def test_a_file_that_was_written_again_for_another_table_stays(landed: Landed) -> None:
    """What the other one has read is not what lies there."""
    second = Second(landed, landed.place.folder)
    second.read()
    for name in ("a.json", "sub/b.json"):
        landed.place.land(name, "longer", seconds=9)
    intake.enter(NAME, landed.table.model_copy(update={"allowOverwrites": True}), landed.at)
    landed.place.take()
    file_status.copy(landed.at, NAME)
    assert clean(landed, second).removed == 0


def written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "pipelines" / name).mkdir(parents=True)
    (tmp_path / "pipelines" / name / "pipeline.yaml").write_text(f"name: {name}\n{text}")


def test_readers_are_sought_in_all_definitions(tmp_path: Path) -> None:
    for folder in ("x/sub", "y"):
        (tmp_path / "landing" / folder).mkdir(parents=True)
    (tmp_path / "landing/link").symlink_to(tmp_path / "landing/x")
    cleaning = "cleanSource: MOVE, cleanSourceMoveDestination: /away"
    written(tmp_path, "a", f"bronze: {{b: {{path: '${{landing}}/x', format: json, {cleaning}}}}}\n")
    written(tmp_path, "c", "bronze: {b: {path: '${landing}/link', format: json}}\n")
    written(tmp_path, "d", "bronze: {b: {path: '${landing}/x/sub', format: json}, e: {path: /other, format: json}}\n")
    written(tmp_path, "f", "bronze: {b: {path: '${landing}/y', format: json}}\n")
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    assert [str(one) for one in readers.other_readers(load("a", settings), "b")] == ["c.b", "d.b"]
    said = estimate.plan(load("a", settings), settings).landing
    assert said == [f"files of b are removed once {one} has also read them" for one in ("c.b", "d.b")]
    written(tmp_path, "g", "bronze: {b: {path: '${landing}/y'}}\n")
    found = readers.other_readers(load("a", settings), "b")
    assert [str(one) for one in found] == ["c.b", "d.b", "g"]
    assert "the definition of g" in found[-1].condition


@pytest.mark.parametrize(
    "fields",
    ["cleanSource: DELETE", "cleanSource: MOVE, cleanSourceMoveDestination: '{other}/link/away'"],
    ids=["folders", "destination"],
)
def test_folders_of_one_pipeline_are_compared_through_links(tmp_path: Path, fields: str) -> None:
    (tmp_path / "landing/x").mkdir(parents=True)
    (tmp_path / "landing/link").symlink_to(tmp_path / "landing/x")
    fields = fields.format(other=tmp_path / "landing")
    others = "b: {path: '${landing}/link', format: json}" if "DELETE" in fields else ""
    tables = f"bronze:\n  a: {{path: '${{landing}}/x', format: json, {fields}}}\n  {others}\n"
    written(tmp_path, "p", tables)
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    with pytest.raises(DefinitionError) as refused:
        load("p", settings)
    assert [mistake.code for mistake in refused.value.mistakes] == ["clean-source"]


def test_with_a_retention_files_stay_as_long_as_before(tmp_path: Path) -> None:
    landed = Landed(tmp_path, timedelta(hours=1))
    landed.take("a.json")
    asked: list[str] = []
    others = lambda name: asked.append(name) or ()  # noqa: E731
    assert clean_source.clean(NAME, landed.table, landed.at, readers_of=others).removed == 0
    assert asked == []  # without files that are due, no other definition is read
