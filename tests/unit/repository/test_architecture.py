"""docs/architecture.md names modules, functions and tests that are there, and its pictures are those of the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import diagrams

pytestmark = pytest.mark.unit

ROOT = diagrams.ROOT
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TIERS = ("unit", "spark", "e2e", "scale")
NAMES = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[a-z_0-9/]+(?:\.py|/)")
DOTTED = re.compile(r"[a-z_0-9]+(?:\.[A-Za-z_0-9]+)+")


def named(page: str) -> list[str]:
    return list(dict.fromkeys(NAMES.findall(page)))


def missing(page: str) -> Iterator[str]:
    """What a page names in backticks as a module, a test, or something in a module, and is not there."""
    for name in named(page):
        tier, _, file = name.partition("/")
        if tier in TIERS and Path(file).name.startswith("test_"):
            if not (ROOT / "tests" / tier / file).is_file():
                yield name
        elif PATH.fullmatch(name):
            if not any((folder / name).exists() for folder in (ROOT, ROOT / "sluicegate")):
                yield name
        elif DOTTED.fullmatch(name) and not (ROOT / name).is_file() and not is_defined(name.split(".")):
            yield name


def is_defined(parts: list[str]) -> bool:
    """Whether ``package.module.name``, or ``package.module.Class.name``, is defined in that module."""
    for cut in range(len(parts) - 1, 0, -1):
        folder = ROOT.joinpath("sluicegate", *parts[:cut])
        file = next((one for one in (folder.with_suffix(".py"), folder / "__init__.py") if one.is_file()), None)
        if file is not None:
            body: list[ast.stmt] = ast.parse(file.read_text()).body
            for name in parts[cut:]:
                found = [node for node in body if getattr(node, "name", "") == name]
                if not found:
                    break
                body = getattr(found[0], "body", [])
            else:
                return True
    return False


def test_the_pictures_are_what_the_source_gives() -> None:
    assert [str(file.relative_to(ROOT)) for file in diagrams.outdated_pictures()] == [], "run `make docs`"


def test_a_picture_that_is_out_of_date_is_told_and_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "layers.svg").write_text(diagrams.layers())
    (tmp_path / "way.svg").write_text(diagrams.steps_picture().replace("lands", "falls"))
    monkeypatch.setattr(diagrams, "LAYERS", tmp_path / "layers.svg")
    monkeypatch.setattr(diagrams, "STEPS_OF_A_FILE", tmp_path / "way.svg")
    assert diagrams.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "way.svg" in told
    assert "layers.svg" not in told
    assert diagrams.main([]) == 0
    assert diagrams.main(["--check"]) == 0


def test_the_first_picture_has_the_packages_that_there_are() -> None:
    there = {init.parent.name for init in (ROOT / "sluicegate").glob("*/__init__.py")}
    modules = {file.stem for file in (ROOT / "sluicegate").glob("*.py")} - {"__init__"} - diagrams.DOORS
    shown = re.findall(r'<text class="(?:name|code)" [^>]*>([^<]+)</text>', diagrams.layers())
    drawn = [name for text in shown for name in text.rstrip(",").split(", ")]
    assert sorted(drawn) == sorted(there | modules)


def test_the_second_picture_goes_by_functions_that_there_are() -> None:
    steps = [step.code for step in diagrams.STEPS if step.code]
    besides = [name for step in diagrams.STEPS for name in re.findall(r"(?:[a-z_]+\.){2,}[A-Za-z_]+", step.does)]
    assert len(steps) > 10
    assert [name for name in steps + besides if not is_defined(name.split("."))] == []
    assert [name for name in steps if f"`{name}`" not in PAGE] == []


def test_the_map_has_a_line_for_each_package() -> None:
    packages = {f"{init.parent.name}/" for init in (ROOT / "sluicegate").glob("*/__init__.py")}
    rows = re.findall(r"^\| ((?:`\w+/`(?:, )?)+) \|", PAGE, re.MULTILINE)
    listed = [package for row in rows for package in named(row)]
    assert sorted(listed) == sorted(packages)


def test_the_page_names_what_is_there() -> None:
    assert len(named(PAGE)) > 100
    assert list(missing(PAGE)) == []


def test_a_name_of_nothing_would_be_seen() -> None:
    wrong = [
        "flow/loops.py",
        "flow.loop.ran",
        "flow.batch.Batch.commits",
        "spark/test_nothing.py",
        "gold/",
        "flow.loop.run",
    ]
    page = " ".join(f"`{name}`" for name in wrong)
    assert list(missing(page)) == [
        "flow/loops.py",
        "flow.loop.ran",
        "flow.batch.Batch.commits",
        "spark/test_nothing.py",
    ]
