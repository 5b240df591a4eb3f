"""Circles of imports and large folders that ``make check`` refuses, in packages whose imports are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import import_graph, readability

pytestmark = pytest.mark.unit

FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.roof import Roof"
IN_A_FUNCTION = "def roof():\n    from house.roof import Roof\n    return Roof"


def package(folder: Path, modules: dict[str, str]) -> Path:
    root = folder / "house"
    for name, text in {"__init__": "", **modules}.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def circles(folder: Path, modules: dict[str, str]) -> list[list[str]]:
    return import_graph.circles(import_graph.imports(package(folder, modules)))


@pytest.mark.parametrize(
    "back",
    [
        "from house.roof import Roof", "import house.roof", "import house.roof as top", "from house import roof",
        "from . import roof", "from .roof import Roof", FOR_TYPES, IN_A_FUNCTION,
    ],
)  # fmt: skip
def test_a_circle_is_seen_however_a_module_is_imported(back: str, tmp_path: Path) -> None:
    assert circles(tmp_path, {"wall": back, "roof": "from house.wall import Wall"}) == [["house.roof", "house.wall"]]


def test_a_circle_may_go_through_packages_and_has_all_of_its_modules(tmp_path: Path) -> None:
    modules = {
        "wall": "from house.cellar import floor",
        "roof": "import house.wall",
        "cellar/__init__": "",
        "cellar/floor": "from ..roof import Roof\nfrom . import stairs",
        "cellar/stairs": "import os",
        "door": "from house import wall",
    }
    assert circles(tmp_path, modules) == [["house.cellar.floor", "house.roof", "house.wall"]]


def test_what_a_package_takes_from_its_own_modules_is_a_circle_only_if_they_import_it(tmp_path: Path) -> None:
    modules = {"__init__": "from house.wall import Wall", "wall": "from houses import Wall"}
    assert circles(tmp_path / "one_way", modules) == []
    modules["wall"] = "from house import Wall"
    assert circles(tmp_path / "both_ways", modules) == [["house", "house.wall"]]


def test_the_check_fails_at_a_circle_and_names_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = {"wall": "import house.roof\ndef size(doors):\n    return doors + doors", "roof": "import house.wall"}
    monkeypatch.setattr(readability, "PACKAGE", package(tmp_path, sides))
    assert readability.main([]) == 1
    printed = capsys.readouterr()
    assert "house.roof, house.wall" in printed.out
    assert f"above its limit: {readability.CIRCLES}\n" in printed.err


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_check_fails_at_a_folder_of_too_many_modules_and_names_it(
    beyond: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = int(readability.LIMITS[readability.FOLDER])
    rooms = {f"cellar/room_{number}": "def size(doors):\n    return doors" for number in range(limit + beyond)}
    modules = {"cellar/__init__": "", "cellar/__main__": "", "wall": "", **rooms}
    monkeypatch.setattr(readability, "PACKAGE", package(tmp_path, modules))
    readability.main([])
    printed = capsys.readouterr()
    assert (f"{limit + 1} modules: house/cellar\n" in printed.out) == bool(beyond)
    assert (f"above its limit: {readability.FOLDER}\n" in printed.err) == bool(beyond)
