"""The tutorial, each page from an empty folder: what it shows is what comes out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.pages import Person

pytestmark = [pytest.mark.e2e, pytest.mark.more]

FIRST, *OTHERS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))


@pytest.mark.parametrize(
    "page", [FIRST, *(pytest.param(page, marks=pytest.mark.chaos) for page in OTHERS)], ids=lambda page: page.stem
)
def test_a_page_shows_what_comes_out(tmp_path_factory: pytest.TempPathFactory, page: Path) -> None:
    folder = tmp_path_factory.mktemp("page")  # a short name: tables with paths in them are not folded then
    shutil.copytree(ROOT / "pipelines", folder / "pipelines")
    Person(folder).follow(page.read_text())
