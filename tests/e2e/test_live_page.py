"""The script of a page that is kept up to date, in a Chromium whose clock the test moves, with a server of its own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect, sync_playwright

from sluicegate.airflow.page import html
from sluicegate.airflow.page.app import POLICY

pytestmark = [pytest.mark.e2e, pytest.mark.more]

BEGAN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
AT = "http://airflow.test/lakehouse/p/heart_rate"


@dataclass
class Pages:
    """What the server has: a page and its facts.

    Attributes:
        facts: text that stands on the page, and its tag.
        live: whether the page names its JSON.
        status: answer of the JSON in place of 200 or 304.
        asked: paths that were requested, with the tag that came with them.
    """

    facts: str = "one"
    live: bool = True
    status: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, route: Route) -> None:
        """Answers a request as the app does."""
        name = route.request.url.removeprefix("http://airflow.test/lakehouse/")
        headers = {"Content-Security-Policy": POLICY}
        if name in ("static/page.js", "static/page.css"):
            route.fulfill(body=html.static(name[7:]), headers=headers, content_type=html.STATIC[name[7:]])
            return
        tag = route.request.headers.get("if-none-match")
        self.asked.append((name, tag))
        if name == "p/heart_rate":
            route.fulfill(body=self._page(), headers=headers, content_type="text/html")
        elif self.status is not None:
            route.fulfill(status=self.status)
        elif tag == self.facts:
            route.fulfill(status=304)
        else:
            route.fulfill(json={}, headers={"ETag": self.facts})

    def _page(self) -> str:
        live = f' data-live="./heart_rate.json" data-tag="{self.facts}"' if self.live else ""
        since = f'<span data-since="{BEGAN.isoformat()}">?</span>'
        return (
            '<!doctype html><script src="../static/page.js" defer></script>'
            f'<main{live}><p id="facts">{self.facts}</p>{since}<input aria-label="Filter"></main>'
        )

    def taken(self) -> list[tuple[str, str | None]]:
        """Requests since the last time."""
        found, self.asked = self.asked, []
        return found


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def chromium_path() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("there is no Chromium on this machine; on Debian's kin `apt-get install chromium` brings it")


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def page(browser: Any, pages: Pages) -> Iterator[Page]:
    opened = browser.new_page()
    opened.clock.install(time=BEGAN + timedelta(seconds=10))
    opened.route("**/*", pages.answer)
    opened.goto(AT)
    pages.taken()
    yield opened
    opened.close()


def passes(page: Page, seconds: int, *, ends: bool = False) -> None:
    """Lets time pass, and waits until the script has done what was due, and waits again itself unless it ``ends``."""
    page.clock.run_for(seconds * 1000)
    for _ in range(1000):  # each round trip lets the server answer
        if page.evaluate("() => waiting !== null") is not ends:
            return
    pytest.fail("the script never comes to rest")


ASKS = ("p/heart_rate.json", "one")


def test_the_page_is_fetched_again_only_when_its_facts_have_changed(page: Page, pages: Pages) -> None:
    passes(page, 5)
    assert pages.taken() == [ASKS]
    expect(page.locator("[data-since]")).to_have_text(re.compile(r"^1[56]\.\d s$"))  # it counts on
    pages.facts = "two"
    passes(page, 5)
    expect(page.locator("#facts")).to_have_text("two")
    assert pages.taken() == [ASKS, ("p/heart_rate", None)]
    passes(page, 5)
    assert pages.taken() == [("p/heart_rate.json", "two")]


def test_nothing_is_requested_once_the_run_has_ended(page: Page, pages: Pages) -> None:
    pages.facts, pages.live = "the end", False
    passes(page, 5)
    expect(page.locator("#facts")).to_have_text("the end")
    pages.taken()
    passes(page, 600, ends=True)
    assert pages.taken() == []


def test_nothing_is_requested_while_the_tab_is_hidden(page: Page, pages: Pages) -> None:
    def hidden(now: bool) -> None:
        page.evaluate(
            "now => { Object.defineProperty(document, 'hidden', {value: now, configurable: true});"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            now,
        )

    hidden(True)
    passes(page, 600, ends=True)
    assert pages.taken() == []
    hidden(False)  # at once, and from then on as before
    passes(page, 0)
    assert pages.taken() == [ASKS]
    passes(page, 5)
    assert pages.taken() == [ASKS]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_who_may_no_longer_see_it_asks_no_more(page: Page, pages: Pages, status: int) -> None:
    pages.status = status
    with page.expect_response("**/heart_rate.json"):
        passes(page, 5, ends=True)
    assert pages.taken() == [ASKS]
    passes(page, 600, ends=True)
    assert pages.taken() == []


def test_a_server_that_fails_is_asked_less_and_less_often(page: Page, pages: Pages) -> None:
    pages.status = 503
    waits = [5, 10, 20, 40, 60, 60]
    for wait in waits:
        passes(page, wait - 1)
        assert pages.taken() == []
        passes(page, 1)
        assert pages.taken() == [ASKS]
    pages.status = None
    passes(page, 60)
    assert pages.taken() == [ASKS]
    passes(page, 5)
    assert pages.taken() == [ASKS]


def test_what_a_person_types_into_is_not_replaced(page: Page, pages: Pages) -> None:
    page.get_by_label("Filter").fill("pat")
    pages.facts = "two"
    passes(page, 5)
    expect(page.get_by_label("Filter")).to_have_value("pat")
    page.get_by_label("Filter").blur()
    passes(page, 5)
    expect(page.locator("#facts")).to_have_text("two")


@pytest.mark.parametrize("seconds", [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 200_000])
def test_times_are_written_as_the_server_writes_them(page: Page, seconds: int) -> None:
    assert page.evaluate("one => inWords(one)", seconds) == html.seconds(seconds)
