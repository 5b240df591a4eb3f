"""The documentation site in a Chromium without a window: every page on a desktop and on a phone, and its search.

With ``SLUICEGATE_PICTURES=docs/pictures`` in the environment the pictures of the documents are taken on the way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.conftest import ROOT
from tests.e2e.test_browser import chromium as chromium

pytestmark = [pytest.mark.e2e, pytest.mark.release]

# Width and height in pixels, and the colours that the reader's system asks for.
SCREENS = {"desktop": (1280, 800, "light"), "phone": (375, 800, "dark")}
PICTURED = "index.html"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth && i.checkVisibility()).map(i => i.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make site`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.fixture(params=list(SCREENS))
def screen(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(chromium: str, screen: str) -> Iterator[Page]:
    width, height, colours = SCREENS[screen]
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--no-proxy-server", "--allow-file-access-from-files"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)  # type: ignore[arg-type]
        browser.close()


def test_every_page_fits_the_screen_and_needs_no_network(site: Path, page: Page, screen: str) -> None:
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    wrong = {}
    pages = sorted(site.rglob("*.html"))
    for file in pages:
        page.goto(file.as_uri())
        page.wait_for_load_state("load")
        if page.evaluate(OVERFLOW) > 0 or page.evaluate(BROKEN):
            wrong[file.name] = page.evaluate(BROKEN) or "wider than the screen"
        if file == site / PICTURED and (folder := os.environ.get("SLUICEGATE_PICTURES")):
            page.screenshot(path=Path(folder) / f"site-{screen}.png", animations="disabled")
    assert wrong == {}
    assert failed == []
    assert len(pages) > 60
    assert {url.split(":")[0] for url in asked} <= {"file", "data", "blob"}


def test_search_finds_a_page_by_a_word_that_it_does_not_use(site: Path, page: Page, screen: str) -> None:
    page.goto((site / "index.html").as_uri())
    if screen == "phone":
        page.locator("label.md-header__button[for=__search]").click()
    page.get_by_role("textbox", name="Search").press_sequentially("dead-letter queue")
    expect(page.locator(".md-search-result__list")).to_contain_text("Quarantine", timeout=60_000)
