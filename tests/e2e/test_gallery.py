"""The gallery: each page from an empty folder and the sample data, and the chart that it ends with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.pages import Person

pytestmark = [pytest.mark.e2e, pytest.mark.more]

GALLERY = Path("docs") / "gallery"
FIRST = "heart_rate"
OTHERS = sorted(page.stem for page in (ROOT / GALLERY).glob("[a-z]*.md") if page.stem != FIRST)


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.release) for name in OTHERS)])
def test_a_page_shows_what_comes_out(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("page")  # a short name: tables with paths in them are not folded then
    shutil.copytree(ROOT / "pipelines", folder / "pipelines")
    shutil.copytree(ROOT / "data", folder / "data")
    Person(folder).follow((ROOT / GALLERY / f"{name}.md").read_text())
    drawn, shown = (place / GALLERY / f"{name}.svg" for place in (folder, ROOT))
    assert drawn.read_text() == shown.read_text()
