"""Each view of the Lakehouse page in a Chromium: a pipeline in each state, at the width of a desk and of a phone.

Airflow's server is in this process, and the browser's requests are led to it. With the file axe.min.js of axe-core in
``SLUICEGATE_AXE`` each view is checked by it, too; with a folder in ``SLUICEGATE_PAGES`` pictures are left there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route

from sluicegate.airflow.page import html
from sluicegate.airflow.page.addresses import Addresses
from sluicegate.dashboard.batches import Balance
from sluicegate.dashboard.flow_graph import Edge, Graph, Node
from sluicegate.dashboard.overview import Line, PipelineBacklog, PipelineState
from sluicegate.dashboard.quarantined import QuarantineDetails, QuarantinedRecord, Reason
from sluicegate.dashboard.run_details import RunDetails
from sluicegate.dashboard.runs import DagRun, PipelineRun, RunStep
from sluicegate.lake.discards import Discarded
from sluicegate.monitor.plan import TableState
from tests.e2e.test_lakehouse_page import violations
from tests.e2e.test_live_page import browser as browser
from tests.e2e.test_live_page import chromium_path as chromium_path
from tests.support import page_states
from tests.support.page_server import served, token
from tests.support.page_world import STEP

pytestmark = [pytest.mark.e2e, pytest.mark.more]

SITE = "http://airflow.test"
SILVER = "p/heart_rate/t/recordings_enriched"
VIEWS = {
    "home": "",
    **{name: f"p/{name}" for name in page_states.STATES},
    "earlier": "p/heart_rate?run={run}",
    "run": "p/heart_rate/run?key={run}",
    "failed-run": f"p/ward_failed/run?key={quote(page_states.FAILED)}",
    "runs": "p/ward_failed/runs",
    "days": "p/heart_rate/days",
    "rebuild": "p/heart_rate/days/rebuild?first=2026-03-01&last=2026-03-02",
    "silver": SILVER,
    "bronze": "p/heart_rate/t/recordings_bronze",
    "files": "p/ward_half/t/recordings_bronze/files",
    "quarantine": f"{SILVER}/quarantine",
    "discard": f"{SILVER}/quarantine/discard",
    "search": "search?q=heartrate",
}

# What is wrong with the cards of a graph: lines of one that lie over one another or beyond it, and cards that do.
CARDS = """() => {
  const wrong = [], cards = [...document.querySelectorAll("svg.graph .card")].filter((card) => card.offsetParent);
  const box = (one) => one.getBoundingClientRect();
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  for (const card of cards) {
    const lines = [...card.children], frame = box(card.parentElement);
    for (const line of lines) {
      const at = box(line);
      if (at.bottom > frame.bottom + 1 || at.right > frame.right + 1) wrong.push(`beyond: ${line.textContent}`);
      if (lines.some((other) => other !== line && over(at, box(other)))) wrong.push(`over: ${line.textContent}`);
    }
    const whole = box(card.closest("g"));
    if (cards.some((other) => other !== card && over(whole, box(other.closest("g"))))) wrong.push(card.textContent);
  }
  return wrong.concat(cards.length || document.documentElement.clientWidth < 760 ? [] : ["no card"]);
}"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Paths of the views, which the server of ``SITE`` has."""
    world = page_states.write_states(tmp_path_factory.mktemp("states"))
    run = quote(f"scheduled__{(world.began + STEP).isoformat()}")
    dags = ("heart_rate", *page_states.STATES)
    with served(world.workspace.settings, tmp_path_factory.mktemp("airflow"), dags) as client:
        page_states.store_runs(world)
        _SERVER.append((client, {"Cookie": f"_token={token('operator')}"}))
        yield {name: path.format(run=run) for name, path in VIEWS.items()}
        _SERVER.clear()


_SERVER: list[tuple[Any, dict[str, str]]] = []


def answer(route: Route) -> None:
    """Lead a request of the browser to the server in this process."""
    client, login = _SERVER[0]
    given = client.get(route.request.url.removeprefix(SITE), headers=login, follow_redirects=False)
    headers = {name: value for name, value in given.headers.items() if name != "content-length"}
    route.fulfill(status=given.status_code, headers=headers, body=given.content)


def opened(browser: Any, width: int, scheme: str = "light") -> Page:
    page: Page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.route("**/*", answer)
    return page


def fits(page: Page, view: str, width: int) -> None:
    """Check that nothing leads out of the window, and that no text of a graph lies over another one."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    if page.locator("svg.graph .card").count():
        assert page.evaluate(CARDS) == [], view


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_each_view_fits(browser: Any, views: dict[str, str], width: int, scheme: str) -> None:
    page = opened(browser, width, scheme)
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for name, path in views.items():
        page.goto(f"{SITE}/lakehouse/{path}")
        assert page.get_by_role("heading", level=1).is_visible(), path
        fits(page, path, width)
        if axe := os.environ.get("SLUICEGATE_AXE"):
            assert violations(page, Path(axe)) == [], path
        if folder := os.environ.get("SLUICEGATE_PAGES"):
            page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
    assert [text for text in errors if "409 (Conflict)" not in text] == []  # the page of a mistake has that status
    page.close()


def long_graph() -> Graph:
    """A graph whose names and numbers are as long as any are."""
    name, counts = "a_table_whose_name_is_longer_than_any_box_that_a_graph_could_have_for_it", Balance(
        1_234_567_890, None, 0, 1_234_500_000, 60_000, 7_000, 890
    )  # fmt: skip
    table = Node(name, "bronze", name, TableState.UNASKED, rows=9_876_543_210, balance=counts, seconds=86_000.0,
                 changed=datetime.now(UTC) - timedelta(days=400))  # fmt: skip
    nodes = (
        Node(f"s3://bucket/{name}", "landing", name, files=1_000_000, failed=999_999), table,
        replace(table, kind="silver", name=f"{name}_s", table=f"{name}_s"),
        Node("quarantine", "quarantine", f"{name}_s", rows=1_234_567_890, balance=counts),
        replace(table, kind="gold", name=f"{name}_g", table=f"{name}_g", technique="partial"),
    )  # fmt: skip
    edges = (
        Edge(f"landing:{name}", name, "stream"), Edge(name, f"{name}_s", "stream"),
        Edge(f"{name}_s", f"{name}_g", "stream"), Edge(f"{name}_s", f"quarantine:{name}_s", "quarantine"),
    )  # fmt: skip
    return Graph("wide", "", nodes, edges, (), None, PipelineBacklog())


@pytest.mark.parametrize("width", [1600, 1280, 900, 375])
def test_long_names_and_numbers_are_not_printed_over_one_another(
    browser: Any, views: dict[str, str], width: int
) -> None:
    page = opened(browser, width)
    text = html.page("graph", Addresses("../"), view=long_graph(), pipeline="wide", tab="graph", key=None)
    page.route(f"{SITE}/lakehouse/p/wide", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(f"{SITE}/lakehouse/p/wide")
    fits(page, "wide", width)
    page.close()


LONG = "a_word_without_a_space_that_is_longer_than_the_width_of_any_phone_is_and_of_many_a_column_in_a_table"


def long_pages() -> dict[str, dict[str, Any]]:
    """What is shown by templates, with names and texts as long as any are."""
    when = datetime.now(UTC)
    record = QuarantinedRecord(
        (LONG, LONG), f'{{"{LONG}": 1}}', ((LONG, LONG),), f"file:/{LONG}/{LONG}", when, when, LONG, LONG
    )
    discards = (Discarded(LONG, when, LONG, LONG, (LONG,), 12),)
    reasons = (Reason(LONG, LONG, True, 12, when, when),)
    quarantine = QuarantineDetails(LONG, LONG, 12, reasons, "", (record,), True, ((when, 12),), "", 12, discards)
    failed = RunStep("silver", "failed", when, when, 1, LONG)
    dag_run = DagRun(LONG, "failed", "manual", when, when, None, LONG, "", {"tables": [LONG, LONG]}, (failed,))
    run = PipelineRun(LONG, LONG, "failed", "manual", when, when, (), dag_run)
    line = Line(LONG, PipelineState.FAILED, LONG, LONG, LONG, (LONG,), 3, schedule="*/15 * * * *", quarantined=12,
                quarantine=LONG, failed_run=LONG, failed_task="silver")  # fmt: skip
    choice = {"runs": (run,), "kind": "", "outcome": ""}
    return {
        "quarantine": {"view": quarantine, "starts": True, "tab": "quarantine", "table": LONG, "pipeline": LONG},
        "runs": {"view": (run,), "choice": choice, "tab": "runs", "pipeline": LONG},
        "run": {"view": RunDetails(LONG, run, (), LONG, LONG, run, {}), "tab": "runs", "pipeline": LONG},
        "home": {"view": (line, replace(line, state=PipelineState.FINE)), "lake": LONG},
        "error": {"status": 409, "message": LONG, "hint": LONG, "mistakes": (LONG,)},
    }


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("template", ["quarantine", "runs", "run", "home", "error"])
def test_long_words_do_not_widen_a_page(browser: Any, views: dict[str, str], width: int, template: str) -> None:
    page = opened(browser, width)
    text = html.page(template, Addresses("../"), **long_pages()[template])
    page.route(f"{SITE}/lakehouse/p/wide", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(f"{SITE}/lakehouse/p/wide")
    fits(page, template, width)
    page.close()


def test_a_calendar_of_one_day_has_its_whole_month_and_the_names_of_weekdays(
    browser: Any, views: dict[str, str]
) -> None:
    page = opened(browser, 1280)
    page.goto(f"{SITE}/lakehouse/{views['days']}")
    drawn = page.get_by_role("region", name="Calendar").locator("svg")
    outer = drawn.bounding_box()
    assert outer is not None
    for text in drawn.locator("text").all():
        box = text.bounding_box()
        assert box is not None
        assert outer["x"] <= box["x"], text.text_content()
        assert box["x"] + box["width"] <= outer["x"] + outer["width"], text.text_content()
    assert [text for text in drawn.locator("text").all_text_contents() if text in ("Mon", "Wed", "Fri")] == [
        "Mon", "Wed", "Fri",
    ]  # fmt: skip
    page.close()


def test_a_graph_of_four_layers_is_as_wide_as_its_frame(browser: Any, views: dict[str, str]) -> None:
    page = opened(browser, 1040)
    page.goto(f"{SITE}/lakehouse/p/heart_rate")
    frame = page.get_by_role("region", name="Graph")
    assert frame.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.close()


def test_in_airflows_frame_there_is_one_line_above_the_page(browser: Any, views: dict[str, str]) -> None:
    page = opened(browser, 1280)
    outer = '<!doctype html><body><iframe title="Lakehouse" width="1240" height="700" src="/lakehouse/{}"></iframe>'
    path = views["ward_failed"]
    page.route(f"{SITE}/dags/x", lambda route: route.fulfill(body=outer.format(path), content_type="text/html"))
    page.goto(f"{SITE}/dags/x")
    main = page.frame_locator("iframe").locator("main")
    assert main.evaluate("one => one.getBoundingClientRect().top") <= 50
    assert not page.frame_locator("iframe").get_by_label("Breadcrumb").get_by_text("ward_failed").is_visible()
    page.close()
