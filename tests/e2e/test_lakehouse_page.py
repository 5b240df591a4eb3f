"""The Lakehouse page within Airflow's own pages, in a Chromium without a window.

With ``SLUICEGATE_PICTURES=docs/pictures`` in the environment the pictures of the documents are taken on the way.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import FrameLocator, Page, expect, sync_playwright

import sluicegate as sg
from sluicegate.definition import load
from sluicegate.launch.discard import Discard, find_records
from sluicegate.tools.demo.local_airflow import USER, LocalAirflow
from tests.conftest import ROOT
from tests.e2e.test_browser import PATIENCE, picture
from tests.e2e.test_browser import chromium as chromium
from tests.support.page_world import STEP, PageWorld

pytestmark = pytest.mark.e2e

SILVER = "recordings_enriched"
MISTAKEN = """name: deliveries
bronze:
  parcels: {path: "${landing}/parcels", fromat: json}
"""
VIEWS = {
    "lakehouse-home": "",
    "lakehouse-graph": "p/heart_rate",
    "lakehouse-table": f"p/heart_rate/t/{SILVER}",
    "lakehouse-files": "p/heart_rate/t/recordings_bronze/files",
    "lakehouse-quarantine": f"p/heart_rate/t/{SILVER}/quarantine",
    "lakehouse-discard": f"p/heart_rate/t/{SILVER}/quarantine/discard",
    "lakehouse-runs": "p/heart_rate/runs",
    "lakehouse-days": "p/heart_rate/days",
    "lakehouse-search": "search?q=heartrate",
    "lakehouse-run": "p/heart_rate/run?key={run}",
    "lakehouse-mistakes": "p/deliveries",
    "lakehouse-empty": "p/retail",
    "lakehouse-wide": "p/wide/t/sheet",
    "lakehouse-torn": "p/wide/t/torn",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PageWorld:
    """A lake with some runs until now, pipelines that have not run yet, a wide table, a broken one, and a mistake."""
    began = datetime.now(UTC).replace(second=0, microsecond=0) - 5 * STEP
    made = PageWorld.at(tmp_path_factory.mktemp("lakehouse"), runs=0, began=began)
    for quarantined in (2, 3, 0, 9, 4):
        made.run(quarantined=quarantined)
    settings = made.workspace.settings
    for name in ("retail", "online_school"):
        shutil.copytree(ROOT / "pipelines" / name, settings.pipelines / name)
        for table in load(name, settings).bronze.values():
            Path(table.path).mkdir(parents=True, exist_ok=True)
    made.wide()
    (settings.pipelines / "deliveries").mkdir()
    (settings.pipelines / "deliveries" / "pipeline.yaml").write_text(MISTAKEN)
    return made


@pytest.fixture(scope="module")
def airflow(world: PageWorld) -> Iterator[LocalAirflow]:
    """An Airflow that has the pipeline's DAG."""
    folder = world.workspace.folder
    with LocalAirflow(folder / ".airflow", world.workspace.settings, lasting=False) as started:
        started.wait("heart_rate")
        yield started


@pytest.fixture
def page(chromium: str, airflow: LocalAirflow) -> Iterator[Page]:
    """A page of somebody who has logged in."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-proxy-server", "--no-sandbox"])
        opened = browser.new_page(base_url=airflow.url, viewport={"width": 1440, "height": 900})
        opened.set_default_timeout(PATIENCE)
        opened.goto("/")
        opened.get_by_label("Username").fill(USER)
        opened.get_by_label("Password").fill(json.loads(airflow.password_file.read_text())[USER])
        opened.get_by_role("button", name="Sign in").click()
        expect(opened.get_by_role("link", name="Lakehouse").first).to_be_visible()
        yield opened
        browser.close()


def views(world: PageWorld) -> list[tuple[str, str]]:
    """Name and path of each view of the world."""
    newest = f"scheduled__{(world.began + (world.runs - 1) * STEP).isoformat()}"
    return [(name, path.format(run=quote(newest))) for name, path in VIEWS.items()]


def inside(page: Page) -> FrameLocator:
    """What Airflow's pages have framed."""
    return page.frame_locator('iframe[title="Lakehouse"]')


@pytest.mark.more
def test_a_person_goes_from_airflow_to_a_pipeline_and_its_table(page: Page) -> None:
    page.get_by_role("link", name="Lakehouse").first.click()
    frame = inside(page)
    expect(frame.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()
    expect(frame.get_by_role("row").filter(has_text="heart_rate")).to_contain_text("18")  # in quarantine
    expect(frame.get_by_role("region", name="What to act on first")).to_contain_text("fromat")
    picture(page, "lakehouse-home")
    frame.get_by_role("link", name="heart_rate", exact=True).last.click()
    expect(frame.get_by_role("heading", name="heart_rate")).to_be_visible()
    page.wait_for_url(re.compile("/plugin/lakehouse/.*p/heart_rate"))  # so it can be bookmarked
    expect(frame.locator("svg.graph").get_by_text("Quarantine", exact=True)).to_be_visible()
    picture(page, "lakehouse-graph")
    frame.locator("svg.graph a").filter(has_text=SILVER).click()
    expect(frame.get_by_role("heading", name=SILVER)).to_be_visible()
    expect(frame.get_by_role("table").filter(has_text="valid_heartrate").first).to_contain_text("goes to quarantine")
    picture(page, "lakehouse-table")
    frame.get_by_role("link", name="Graph of heart_rate").click()
    frame.get_by_role("link", name="DAG in Airflow").click()  # out of the frame, whose sandbox forbids it to a link
    page.wait_for_url(re.compile("/dags/heart_rate"))
    expect(page.get_by_role("heading", name="heart_rate")).to_be_visible()
    page.get_by_role("link", name="Lakehouse").last.click()
    expect(inside(page).get_by_role("heading", name="heart_rate")).to_be_visible()


@pytest.mark.release
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (375, False), (375, True)])
def test_each_view_fits_and_names_what_it_shows(world: PageWorld, page: Page, width: int, dark: bool) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if dark else "light")
    failed: list[str] = []
    page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
    for name, path in views(world):
        page.goto(f"/lakehouse/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (background == "rgb(9, 9, 11)") is dark
        if axe := os.environ.get("SLUICEGATE_AXE"):  # the file axe.min.js of axe-core, which is no dependency
            assert violations(page, Path(axe)) == [], path
        if folder := os.environ.get("SLUICEGATE_PAGES"):
            shown = f"{name}-{width}{'-dark' if dark else ''}.png"
            page.screenshot(path=Path(folder) / shown, full_page=True)
    # The content security policy would be heard here. A page of mistakes has the status of an error.
    assert [text for text in failed if "409 (Conflict)" not in text] == []


@pytest.mark.release
@pytest.mark.parametrize("width", [1280, 375])
def test_discards_fit_and_are_asked_for_by_keyboard(world: PageWorld, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    quarantine = f"/lakehouse/p/heart_rate/t/{SILVER}/quarantine"

    def fits(path: str) -> None:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if axe := os.environ.get("SLUICEGATE_AXE"):
            assert violations(page, Path(axe)) == [], path

    definition = world.workspace.definition
    assert sg.discard(definition, SILVER, note="a_sensor_test_without_a_space_in_it" * 14) == 18
    [made] = find_records(definition, Discard(SILVER, undo=True)).discards
    fits(quarantine)
    page.get_by_role("link", name="Undo the discard of").click()
    fits(f"{quarantine}/undo-discard?discard={made.id}")
    assert sg.discard(definition, SILVER, undo=True) == 18
    fits(f"{quarantine}/discard")
    button, question = page.get_by_role("button", name="Discard 18 records"), page.url
    page.get_by_label("Note").focus()
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")  # which a browser does not send without a note
    expect(page.get_by_label("Note")).to_be_focused()
    assert page.url == question


def violations(page: Page, axe: Path) -> list[str]:
    """What axe-core finds against WCAG 2.2 AA."""
    page.evaluate(axe.read_text())
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", rules)["violations"]
    return [f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]


@pytest.mark.release
def test_all_can_be_read_without_a_script(world: PageWorld, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False, base_url=page.url.split("/plugin")[0])
    context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    for name, path in views(world):
        plain = context.new_page()
        answer = plain.goto(f"/lakehouse/{path}")
        assert answer is not None
        assert answer.status == (409 if name == "lakehouse-mistakes" else 200), path
        assert plain.get_by_role("heading", level=1).is_visible()
        plain.close()
    context.close()
