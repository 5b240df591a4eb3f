"""Moving a file without losing it: to any store, over nothing, and the definition of it."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sluicegate import clean_source
from sluicegate.definition import load
from sluicegate.errors import DefinitionError
from sluicegate.settings import Settings
from sluicegate.stores import file

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
def test_the_definition(tmp_path: Path, fields: str, code: str | None) -> None:
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


def test_two_tables_of_one_folder(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    tables = "  a: {path: /land/a, format: json, cleanSource: DELETE}\n  b: {path: /land/a/b, format: json}\n"
    (tmp_path / "p/pipeline.yaml").write_text(f"name: p\nbronze:\n{tables}")
    with pytest.raises(DefinitionError, match="b reads files of the same folder"):
        load("p", Settings.of(str(tmp_path / "lake"), "/land", tmp_path))
