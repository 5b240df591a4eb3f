"""Airflow's own pages in a Chromium without a window, as a person sees and uses them, with real Spark behind.

With ``SLUICEGATE_PICTURES=docs/pictures`` in the environment the pictures of the documents are taken on the way.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Response, expect, sync_playwright

from sluicegate.tools.demo.local_airflow import USER, LocalAirflow
from tests.conftest import Workspace, beat
from tests.e2e.test_airflow import DAG, DAGS, asked, until
from tests.e2e.test_backfill import DAY, gold

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

PATIENCE = 300_000  # milliseconds
PAGE = f"/dags/{DAG}"


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    """An Airflow whose schedule makes no run before 2032, so that the first one is what the test asks for."""
    workspace.edit("pipeline.yaml", "*/15 * * * *", "0 0 29 2 *")
    with LocalAirflow(workspace.folder / ".airflow", workspace.settings, lasting=True) as started:
        started.wait(DAG)
        yield started


@pytest.fixture
def chromium() -> str:
    """The machine's own browser; playwright's would be a download of hundreds of megabytes."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("there is no Chromium on this machine; on Debian's kin `apt-get install chromium` brings it")


@pytest.fixture
def page(chromium: str, airflow: LocalAirflow) -> Iterator[Page]:
    """A page of a browser that knows nothing yet."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-proxy-server"])
        opened = browser.new_page(base_url=airflow.url, viewport={"width": 1280, "height": 800})
        opened.set_default_timeout(PATIENCE)
        yield opened
        browser.close()


def picture(page: Page, name: str) -> None:
    """Takes a picture of what is to be seen, if pictures are wanted."""
    if folder := os.environ.get("SLUICEGATE_PICTURES"):
        page.mouse.move(0, 0)  # nothing is hovered over
        page.screenshot(path=Path(folder) / f"{name}.png", animations="disabled")


def press(page: Page, button: Locator, path: str) -> Response:
    """Presses a button until Airflow takes what it sends.

    503 and 500 say that another of its processes writes to SQLite.
    """

    def answer() -> Response | None:
        with page.expect_response(lambda got: got.request.method != "GET" and got.url.endswith(path)) as got:
            button.click()
        assert got.value.ok or got.value.status in (500, 503), got.value.text()
        return got.value if got.value.ok else None

    pressed: Response = until(answer)
    return pressed


def sign_in(page: Page, airflow: LocalAirflow) -> None:
    page.goto(PAGE)
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(json.loads(airflow.password_file.read_text())[USER])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name=DAG)).to_be_visible()


def dialog(page: Page, title: str) -> Locator:
    """The dialog that *Trigger* opens, once it has this title."""
    opened = page.get_by_role("dialog").filter(has=page.get_by_role("heading", name=title))
    expect(opened).to_be_visible()
    return opened


def pick(page: Page, form: Locator, field: str, day: str) -> None:
    """Chooses midnight of a day; of two fields of one name, in the first."""
    chosen = form.get_by_role("group").filter(has=page.get_by_text(field, exact=True)).first
    chosen.get_by_text("Select date and time").click()
    page.get_by_placeholder("YYYY/MM/DD").fill(day.replace("-", "/"))
    page.get_by_placeholder("HH:mm").fill("00:00")
    page.get_by_placeholder("HH:mm").press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_placeholder("YYYY/MM/DD")).to_have_count(0)
    expect(chosen).not_to_contain_text("Select date and time")


def open_form(page: Page) -> Locator:
    page.goto(PAGE)
    page.get_by_role("button", name="Trigger Dag").click()
    form = dialog(page, "Trigger Dag")
    expect(form.get_by_role("combobox", name="Mode")).to_be_visible()
    return form


def trigger(page: Page, form: Locator) -> dict[str, object]:
    """Sends the form off, upon which Airflow goes to the run's page; gives what was sent."""
    made = press(page, form.get_by_role("button", name="Trigger"), f"{DAG}/dagRuns").json()
    page.wait_for_url(re.compile("/runs/manual__"))
    expect(page.get_by_role("heading", name=made["dag_run_id"])).to_be_visible()
    return dict(made["conf"])


def state(page: Page) -> Locator:
    """The state of the run or the task that a page is about; it changes by itself."""
    return page.get_by_test_id("header-card").get_by_test_id("state-badge")


def task(page: Page, name: str) -> Locator:
    """The row of a task in the page of a run."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def run_of_chosen_days(page: Page) -> None:
    form = open_form(page)
    pick(page, form, "From", "2020-01-01")
    pick(page, form, "To", "2020-01-04")
    form.get_by_role("spinbutton", name="Max files").fill("5")
    form.get_by_role("button", name="Trigger").scroll_into_view_if_needed()
    picture(page, "trigger-form")
    assert trigger(page, form) == {
        "mode": "auto", "from": "2020-01-01T00:00:00.000Z", "to": "2020-01-04T00:00:00.000Z", "tables": None,
        "max_files": 5,
    }  # fmt: skip
    expect(state(page)).to_have_text(re.compile("Success|Failed"))
    expect(page.get_by_test_id("state-badge")).to_have_text(["Success"] * 7)  # the run's and those of its tasks


def backfill_of_two_days(page: Page) -> None:
    page.goto(PAGE)
    page.get_by_role("button", name="Trigger Dag").click()
    dialog(page, "Trigger Dag").get_by_text("Backfill", exact=True).click()
    form = dialog(page, "Run Backfill")
    pick(page, form, "From", "2020-01-01")
    pick(page, form, "To", "2020-01-02")
    expect(form).to_contain_text("2 runs will be triggered")
    picture(page, "backfill-dialog")
    press(page, form.get_by_role("button", name="Run Backfill"), "/backfills")
    under_way = page.get_by_text("Backfill in progress")
    expect(under_way).to_be_visible()
    page.goto(f"{PAGE}/runs?run_type=backfill")
    runs = page.get_by_role("row").filter(has=page.get_by_role("link", name="backfill__"))
    expect(runs.get_by_test_id("state-badge")).to_have_text(["Success", "Success"])
    expect(under_way).to_be_hidden()
    page.goto(f"{PAGE}/backfills")
    row = page.get_by_role("row").filter(has_text="Missing Runs")
    expect(row).to_contain_text("2020-01-01 00:00:00")
    expect(row.get_by_role("time")).to_have_count(4)  # from, to, created at, completed at
    picture(page, "backfills")


def move_edge(page: Page, to: int) -> None:
    """Gives the grid more room, or less."""
    edge = page.get_by_role("separator").first.bounding_box()
    assert edge is not None
    page.mouse.move(edge["x"] + edge["width"] / 2, 600)
    page.mouse.down()
    page.mouse.move(to, 600, steps=5)
    page.mouse.up()


def look_at_all_runs(page: Page) -> None:
    page.goto(PAGE)
    expect(page.get_by_role("heading", name="Last 4 Dag Runs")).to_be_visible()
    move_edge(page, 434)
    picture(page, "dag")


def asset_of_gold(page: Page) -> None:
    """What the first run and the backfill told of the gold table, and which DAG is started by it."""
    page.goto("/assets")
    page.get_by_role("link", name=f"{DAG}.daily_patient_avg").click()
    expect(page.get_by_text("example_downstream")).to_be_visible()
    expect(page.get_by_text(re.compile("^[23] Asset Events$"))).to_be_visible()
    picture(page, "asset")


def failed_task(page: Page) -> None:
    trigger(page, open_form(page))
    expect(state(page)).to_have_text("Failed")
    task(page, "silver").get_by_role("link", name="silver").click()
    told = page.get_by_test_id("summary-AirflowFailException")
    expect(told).to_contain_text("error[SG300]: the data of recordings_enriched broke valid_heartrate (2 rows)")
    expect(told).to_contain_text("help: recordings_enriched is unchanged, and recordings_enriched_rejected has")
    page.get_by_role("combobox").filter(has_text="All Log Levels").click()
    page.get_by_role("option", name="ERROR").click()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Spark-Submit cmd")).to_have_count(0)  # what is no error is gone
    told.click(position={"x": 6, "y": 6})  # folds away which lines of code it came from
    move_edge(page, 170)
    picture(page, "failed-task")


def full_refresh(page: Page) -> None:
    """It waits for a person."""
    form = open_form(page)
    form.get_by_role("combobox", name="Mode").click()
    page.get_by_role("option", name="full refresh").click()
    assert trigger(page, form)["mode"] == "full-refresh"
    expect(task(page, "check_request")).to_contain_text("Awaiting Input")
    task(page, "check_request").get_by_role("link", name="check_request").click()
    page.get_by_role("link", name="Required Action").click()
    expect(page.get_by_text("recordings_bronze: 2 files are read again")).to_be_visible()
    expect(page.get_by_text("patients_bronze: 1 file is read again, and its rows replace 2 rows")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Approve|Reject"))).to_have_count(2)
    picture(page, "full-refresh")


def test_what_a_person_does_and_finds(workspace: Workspace, page: Page, airflow: LocalAirflow) -> None:
    records = [beat(1, 1, 0, 60.0), beat(1, 1, 900, 100.0), beat(1, 1, DAY, 70.0), beat(2, 2, DAY, 50.0),
               beat(2, 2, 2 * DAY, 55.0), beat(1, 1, 2 * DAY, 90.0)]  # fmt: skip
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    workspace.land("recordings/a.json", records)
    sign_in(page, airflow)
    run_of_chosen_days(page)
    days = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)]
    third = {(1, days[2]): 90.0, (2, days[2]): 55.0}
    assert gold(workspace) == {(1, days[0]): 80.0, (1, days[1]): 70.0, (2, days[1]): 50.0, **third}

    # From now on the schedule has days, which can be made again, and a rule is corrected.
    workspace.edit("pipeline.yaml", "0 0 29 2 *", "0 0 * * *")
    workspace.edit("pipeline.yaml", "heartrate > 0", "heartrate > 60")
    until(lambda: "0 0 * * *" in asked(airflow, "GET", DAGS, None)["timetable_summary"])
    backfill_of_two_days(page)
    assert gold(workspace) == {(1, days[0]): 100.0, (1, days[1]): 70.0, **third}
    look_at_all_runs(page)
    asset_of_gold(page)

    workspace.edit("pipeline.yaml", "expect_or_quarantine: heartrate > 60", "expect_or_fail: heartrate > 0")
    workspace.land("recordings/b.json", [beat(1, 1, 3 * DAY, -3.0), beat(2, 2, 3 * DAY, -1.0)])
    failed_task(page)
    full_refresh(page)
