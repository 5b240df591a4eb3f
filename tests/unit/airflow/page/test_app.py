"""The page in Airflow's own server, with Airflow's own tokens: who sees what, and what is shown."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

import sluicegate as sg
from sluicegate.cli import app as cli
from sluicegate.errors import PipelineMissing
from sluicegate.launch.discard import Discard, find_records
from sluicegate.storage import aws
from tests.conftest import Workspace
from tests.support.page_server import get, served, token
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit

# Paths of all pages of a pipeline, each with what stands on it.
PAGES = {
    "": "Heart-rate recordings",
    "p/heart_rate": "recordings_enriched",
    "p/heart_rate/runs": "scheduled__2026-03-02T06:15:00+00:00",
    "p/heart_rate/run?key=scheduled__2026-03-02T06:15:00%2B00:00": "Where the records went",
    "p/heart_rate/days": "Rows by event time",
    "p/heart_rate/t/recordings_enriched": "valid_heartrate",
    "p/heart_rate/t/recordings_bronze/files": "0001.json",
    "p/heart_rate/t/recordings_enriched/quarantine": "valid_heartrate",
    "search?q=heartrate": "DOUBLE",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PageWorld:
    """A pipeline with two runs, another one that reads a table of it, and one whose definition has mistakes."""
    made = PageWorld.at(tmp_path_factory.mktemp("page"), runs=2)
    pipelines = made.workspace.folder / "pipelines"
    shutil.copytree(pipelines / "heart_rate", pipelines / "secret")
    text = (pipelines / "secret" / "pipeline.yaml").read_text().replace("name: heart_rate\ndesc", "name: secret\ndesc")
    copied = f"bronze:\n  copied: {{path: '{made.workspace.uri('recordings_enriched')}', format: delta}}\n"
    text = text.replace("bronze:\n", copied, 1)
    (pipelines / "secret" / "pipeline.yaml").write_text(text)
    row = {"device_id": [1], "heartrate": [70.0]}
    write_deltalake(Workspace(made.workspace.folder, "secret").uri("copied"), pa.table(row))
    (pipelines / "mistaken").mkdir()
    (pipelines / "mistaken" / "pipeline.yaml").write_text(
        'name: mistaken\nbronze: {x: {pth: "<script>alert(1)</script>"}}\n'
    )
    return made


@pytest.fixture(scope="module")
def server(world: PageWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's server in this process, with the DAGs of the pipelines in its database."""
    home = tmp_path_factory.mktemp("airflow")
    with served(world.workspace.settings, home, ("heart_rate", "secret", "mistaken")) as client:
        yield client


def twin(path: str) -> str:
    """Address of the JSON of a page."""
    address, _, query = path.partition("?")
    return (f"{address}.json" if address else "home.json") + (f"?{query}" if query else "")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_shown_to_who_may_read_the_dag(server: Any, path: str) -> None:
    answer = get(server, path)
    assert answer.status_code == 200, answer.text
    assert PAGES[path] in answer.text
    assert "Traceback" not in answer.text
    facts = get(server, twin(path))
    assert facts.status_code == 200
    assert facts.headers["content-type"] == "application/json"
    assert facts.json() is not None


@pytest.mark.parametrize("path", [*PAGES, "dag/heart_rate", "dag/heart_rate/run/x"])
def test_without_a_login_there_is_no_data(server: Any, path: str) -> None:
    for address in (path, twin(path)):
        answer = get(server, address, user=None)
        assert answer.status_code in (401, 404), address
        assert "heart" not in answer.text.lower()
        assert "recordings" not in answer.text


@pytest.mark.parametrize("forged", ["x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyZWFkZXIiLCJyb2xlIjoiYWRtaW4ifQ."])
def test_a_forged_token_is_refused(server: Any, forged: str) -> None:
    for headers in ({"Cookie": f"_token={forged}"}, {"Authorization": f"Bearer {forged}"}):
        answer = server.get("/lakehouse/", headers=headers)
        assert answer.status_code in (401, 403)
        assert "heart" not in answer.text.lower()


def test_a_token_in_the_header_is_one_as_for_airflows_api(server: Any) -> None:
    answer = get(server, "home.json", user=None, Authorization=f"Bearer {token('reader')}")
    assert [line["name"] for line in answer.json()] == ["mistaken", "heart_rate"]


def test_who_may_not_read_a_dag_learns_nothing_of_its_pipeline(server: Any) -> None:
    home = get(server, "").text
    assert "secret" not in home
    assert "secret" not in get(server, "search?q=heartrate").text
    missing = get(server, "p/nowhere")
    for path in PAGES:
        if path.startswith("p/"):
            answer = get(server, path.replace("p/heart_rate", "p/secret"))
            assert answer.status_code == 404
            assert get(server, twin(path).replace("p/heart_rate", "p/secret")).status_code == 404
    assert get(server, "dag/secret").text == missing.text
    assert get(server, "p/secret").text == missing.text  # as for one that does not exist


def test_columns_of_other_pipelines_are_linked_for_who_may_read_their_dags(server: Any) -> None:
    page = "p/heart_rate/t/recordings_enriched"
    for path in (page, twin(page)):
        assert "secret" not in get(server, path).text
        assert "secret" in get(server, path, user="both").text
    shown = get(server, page, user="both").text
    link = '<a href="../../../p/secret/t/copied#column-copied-heartrate">secret · copied.heartrate</a>'
    assert link in shown
    back = get(server, "p/secret/t/copied", user="both").text
    to = "../../../p/heart_rate/t/recordings_enriched#column-recordings_enriched-heartrate"
    assert f'<a href="{to}">heart_rate · recordings_enriched.heartrate</a>' in back
    assert 'id="column-recordings_enriched-heartrate"' in shown


def test_a_column_is_linked_to_what_it_is_computed_from_and_what_uses_it(server: Any) -> None:
    shown = get(server, "p/heart_rate/t/recordings_enriched").text
    for table, column, how in (
        ("recordings_bronze", "heartrate", None),
        ("recordings_bronze", "time", "transformation"),
        ("daily_patient_avg", "avg_heartrate", "aggregation"),
    ):
        link = f'<a href="../../../p/heart_rate/t/{table}#column-{table}-{column}">{table}.{column}</a>'
        assert link + (f' <span class="soft small">{how}</span>' if how else "") in shown.replace("\n", ""), column


def test_who_may_not_read_logs_sees_no_rows(server: Any) -> None:
    table = get(server, "p/heart_rate/t/recordings_enriched", user="counter").text
    assert "to read the logs" in table
    assert "2026-03-02 06:15" in table  # numbers of runs are there
    beside = get(server, "p/heart_rate/t/recordings_enriched/quarantine.json", user="counter").json()
    assert beside["examples"] is None
    assert beside["records"] == 6


def test_personal_data_is_hidden_wherever_it_lies(server: Any) -> None:
    pages = ["p/heart_rate/t/patients", "p/heart_rate/t/patients_bronze", "p/heart_rate/t/recordings_enriched",
             "p/heart_rate/t/recordings_enriched/quarantine"]  # fmt: skip
    for page in pages:
        text = get(server, page).text + get(server, twin(page)).text
        assert "Ada" not in text, page
        assert "Bo Li" not in text, page
    assert "-1.0" in get(server, pages[-1]).text  # other values are there


def test_a_page_loads_nothing_from_elsewhere_and_has_no_script_or_style_in_it(server: Any) -> None:
    for path in PAGES:
        answer = get(server, path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert re.search(r"<script(?! src)|<style|\sstyle=|\son\w+=|javascript:", answer.text) is None
        assert re.search(r'(?:src|href|action)="(?:https?:)?/', answer.text) is None  # all addresses are relative


@pytest.mark.parametrize(
    "path",
    ["static/../app.py", "static/%2e%2e/app.py", "static/..%2fapp.py", "p/..%2f..%2fetc", "p/heart_rate/t/..%2f_events",
     "p/heart_rate/t/%00", "p/./t/x", "p/heart_rate/t/recordings_bronze/files?state=..%2f",
     "p/heart_rate/run?key=..%2f"],
)  # fmt: skip
def test_a_path_leads_nowhere_else(server: Any, path: str) -> None:
    answer = get(server, path)
    assert answer.status_code == 404, answer.text


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_is_written(server: Any, method: str) -> None:
    for path in ("", "p/heart_rate", "p/heart_rate/t/recordings_enriched/quarantine"):
        answer = getattr(server, method)(f"/lakehouse/{path}", headers={"Cookie": f"_token={token('reader')}"})
        assert answer.status_code == 405


def test_mistakes_of_a_definition_are_shown_as_text(server: Any) -> None:
    home = get(server, "").text
    assert "unknown-field" in home
    answer = get(server, "p/mistaken")
    assert answer.status_code == 409
    assert "<script>alert" not in home + answer.text
    assert get(server, "p/mistaken.json").json()["mistakes"]


def test_html_in_values_and_names_is_text(server: Any, world: PageWorld) -> None:
    evil = '<img src=x onerror="alert(1)">=HYPERLINK("http://x")'
    world.workspace.land(f"recordings/{'<b>bold'}.json", json.dumps([{"device_id": evil}]), age=100)
    text = get(server, "p/heart_rate/t/recordings_bronze/files").text
    assert "<b>bold" not in text
    assert get(server, f"search?q={evil}").text.count("&lt;img") >= 1


def test_a_folder_whose_name_no_pipeline_can_have_is_listed_with_its_mistake(server: Any, world: PageWorld) -> None:
    """Its DAG has another id than its name."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    folder = world.workspace.settings.pipelines / "we ird"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text("name: we ird\n")
    with create_session() as session:
        session.add(DagModel(dag_id="we-ird", bundle_name="dags-folder", fileloc="x", relative_fileloc="x"))  # type: ignore[no-untyped-call]
    try:
        page = get(server, "").text
        assert ">we ird</a>" in page
        assert page.index(">we ird</a>") < page.index(">heart_rate</a>"), "what needs a person comes first"
    finally:
        shutil.rmtree(folder)
        with create_session() as session:
            session.execute(delete(DagModel).where(DagModel.dag_id == "we-ird"))


def test_tabs_of_a_dag_and_a_dag_run_lead_to_the_pipeline(server: Any) -> None:
    assert get(server, "dag/heart_rate").headers["location"] == "../p/heart_rate"
    for other in ("maintenance", "verify", "alerts"):
        assert get(server, f"dag/heart_rate_{other}").headers["location"] == "../p/heart_rate"
    to = get(server, "dag/heart_rate/run/scheduled__2026-03-02T06:15:00+00:00").headers["location"]
    assert to == "../../../p/heart_rate/run?key=scheduled__2026-03-02T06%3A15%3A00%2B00%3A00"
    other = get(server, "dag/example")
    assert other.status_code == 404
    assert "no pipeline.yaml" in other.text


def test_airflow_has_the_page_in_its_navigation_and_tabs(server: Any) -> None:
    found = server.get("/api/v2/plugins", headers={"Authorization": f"Bearer {token('reader')}"}).json()["plugins"]
    ours = next(plugin for plugin in found if plugin["name"] == "sluicegate")
    assert [view["destination"] for view in ours["external_views"]] == ["nav", "dag", "dag_run"]
    assert all(not view["href"].startswith("/") for view in ours["external_views"])


@pytest.fixture
def under_way(server: Any) -> Iterator[str]:
    """Id of a run that Airflow has under way, its silver task running."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    run_id = "manual__now"
    began = datetime.now(UTC) - timedelta(seconds=90)
    of_run = {"dag_id": "heart_rate", "run_id": run_id}
    # In another order than that of the DAG, as a database may give them.
    tasks = {"silver": "running", "gold": None, "check_request": "success", "bronze": "success"}
    with create_session() as session:
        run = {"run_type": "manual", "state": "running", "start_date": began, "run_after": began, **of_run}
        session.execute(insert(DagRun).values(**run))
        for name, state in tasks.items():
            begun = {"start_date": began, "end_date": began} if state else {}
            task = {"task_id": name, "state": state, "id": uuid4(), "try_number": 1, "max_tries": 0, "pool": "default",
                    "pool_slots": 1, "map_index": -1}  # fmt: skip
            session.execute(insert(TaskInstance).values(**task, **of_run, **begun))
    yield run_id
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == run_id))


@pytest.fixture
def failed_run(server: Any) -> Iterator[str]:
    """Id of a run that failed in silver, after which a run by hand with an earlier schedule has succeeded."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    from sluicegate.airflow.reporting.failure_reason import REASON

    run_id, other, now = "manual__failed", "scheduled__idle", datetime.now(UTC)
    tasks = {
        "bronze": ("success", 1),
        "silver": ("failed", 1),
        "gold": ("upstream_failed", 0),
        "account": ("failed", 1),
    }
    with create_session() as session:
        conf = {"tables": ["patients", "recordings_enriched"]}
        for name, state, began, more in ((run_id, "failed", now - timedelta(minutes=2), {"conf": conf}),
                                         (other, "success", now - timedelta(minutes=20), {})):  # fmt: skip
            run = {"run_type": "manual", "state": state, "start_date": began, "end_date": now, "dag_id": "heart_rate",
                   "run_id": name, "run_after": now + timedelta(minutes=name == other), **more}  # fmt: skip
            session.execute(insert(DagRun).values(**run))
        of_run = {"dag_id": "heart_rate", "run_id": run_id}
        common: dict[str, Any] = {"max_tries": 0, "pool": "default", "pool_slots": 1, "map_index": -1, "end_date": now}
        for name, (state, tries) in tasks.items():
            task = {"task_id": name, "state": state, "id": uuid4(), "try_number": tries, "start_date": now}
            session.execute(insert(TaskInstance).values(**common, **task, **of_run))
        wait = {"task_id": "wait_for_files", "state": "skipped", "duration": 19 * 60, "dag_id": "heart_rate",
                "start_date": now - timedelta(minutes=19)}  # fmt: skip
        session.execute(insert(TaskInstance).values(**common, **wait, id=uuid4(), run_id=other, try_number=1))
        XComModel.set(key=REASON, value="recordings_enriched: 12 of 1,500 rows broke <known_patient>", task_id="silver",
                      session=session, **of_run)  # fmt: skip
    yield run_id
    with create_session() as session:
        session.execute(delete(XComModel).where(XComModel.run_id == run_id))
        session.execute(delete(DagRun).where(DagRun.run_id.in_([run_id, other])))


@pytest.mark.parametrize("path", ["p/heart_rate", "p/heart_rate/run?key=manual__failed"])
def test_the_page_of_a_failed_run_begins_with_where_and_why(server: Any, failed_run: str, path: str) -> None:
    page = get(server, path).text
    alert = re.search(r'role="alert">(.*?)</p>', page, re.DOTALL)
    assert alert is not None
    assert page.index('role="alert"') < page.index('<dl class="facts">')
    text = unescape(re.sub("<[^>]*>", "", alert[1]))
    assert text == "Failed in silver: recordings_enriched: 12 of 1,500 rows broke <known_patient>"
    assert "tasks/silver" in alert[1]


def test_a_task_that_never_began_has_no_times_and_is_not_called_failed(server: Any, failed_run: str) -> None:
    page = get(server, "p/heart_rate/run?key=manual__failed").text
    row = re.search(r">gold</a></th>(.*?)</tr>", page, re.DOTALL)
    assert row is not None
    cells = [re.sub("<[^>]*>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row[1], re.DOTALL)]
    assert cells == ["○not run", "–", "–", "0"]
    assert "patients, recordings_enriched" in page
    graph = get(server, f"p/heart_rate?run={failed_run}").text
    assert "a task before it failed" in graph


def test_a_run_took_what_it_took_after_its_wait_for_files(server: Any, failed_run: str) -> None:
    row = re.search(r"scheduled__idle</a></th>(.*?)</tr>", get(server, "p/heart_rate/runs").text, re.DOTALL)
    assert row is not None
    assert re.search(r'data-label="Took"[^>]*>1 min 0 s<', row[1])
    assert "<dt>Took</dt><dd>1 min 0 s<" in get(server, "p/heart_rate/run?key=scheduled__idle").text


def test_a_run_with_cleared_tasks_took_what_it_took_since_then(server: Any, failed_run: str) -> None:
    """Airflow starts such a run anew; the task that waited for files, before that, keeps its duration."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalars(select(DagRun).where(DagRun.run_id == "scheduled__idle")).one()
        run.start_date = run.end_date - timedelta(seconds=20)
    row = re.search(r"scheduled__idle</a></th>(.*?)</tr>", get(server, "p/heart_rate/runs").text, re.DOTALL)
    assert row is not None
    assert re.search(r'data-label="Took"[^>]*>20', row[1])
    path = "p/heart_rate/run?key=scheduled__idle"
    assert "<dt>Took</dt><dd>20" in get(server, path).text
    with create_session() as session:
        session.scalars(select(DagRun).where(DagRun.run_id == "scheduled__idle")).one().start_date = None
    assert get(server, path).status_code == 200


def test_the_home_page_says_why_the_last_run_failed(server: Any, failed_run: str) -> None:
    page = get(server, "").text
    first = re.search(r'aria-label="What to act on first">(.*?)</section>', page, re.DOTALL)
    assert first is not None
    assert page.index("What to act on first") < page.index("<table")
    assert "its last run failed in silver: recordings_enriched: 12 of" in first[1]
    for link in (f"../dags/heart_rate/runs/{failed_run}/tasks/silver", f"p/heart_rate/run?key={failed_run}",
                 "p/heart_rate/t/recordings_enriched/quarantine"):  # fmt: skip
        assert f'href="{link}"' in first[1]
    assert "unknown-field" in first[1]  # of the pipeline with mistakes


def test_the_home_page_says_which_pipelines_are_paused(server: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    for paused in (True, False):
        with create_session() as session:
            session.get_one(DagModel, "heart_rate").is_paused = paused
        lines = {line["name"]: line for line in get(server, "home.json").json()}
        assert (lines["heart_rate"]["state"] == "paused", lines["heart_rate"]["paused"]) == (paused, paused)
        assert (">paused</span>" in get(server, "").text) is paused


def test_runs_are_chosen_by_kind_and_outcome(server: Any, failed_run: str, under_way: str) -> None:
    path = "p/heart_rate/runs"

    def ids(query: str) -> list[str]:
        return [run["run_id"] for run in get(server, f"{path}.json{query}").json()]

    every = ids("")
    assert {failed_run, under_way, "scheduled__idle"} < set(every)
    assert ids("?outcome=failed") == [failed_run]
    assert ids("?kind=manual&outcome=running") == [under_way]
    assert ids("?kind=nothing") == []
    page = get(server, f"{path}?outcome=failed").text
    assert "tables: patients, recordings_enriched" in page  # what was requested
    assert "silver: recordings_enriched: 12 of 1,500 rows broke" in page
    assert '<a href="../../p/heart_rate/runs?kind=manual&amp;outcome=failed">' in page
    assert '<a href="../../p/heart_rate/runs?outcome=failed" aria-current="page">failed' in page
    assert "No run is of this kind" in get(server, f"{path}?kind=nothing").text


def test_a_run_is_shown_beside_the_last_one_that_changed_a_table(server: Any, failed_run: str) -> None:
    page = get(server, f"p/heart_rate/run?key={failed_run}").text
    assert "<small>before: 40</small>" in page
    assert "scheduled__2026-03-02T06:15:00+00:00</a>, the last run before this one" in page
    first = get(server, "p/heart_rate/run?key=scheduled__2026-03-02T06:15:00%2B00:00").text
    assert '<td data-label="Run before" class="full">' in first


def test_the_graph_has_the_tasks_of_the_run_that_it_shows(server: Any, under_way: str, failed_run: str) -> None:
    """Also where another run is due later and began earlier: it is not the newest."""
    page = get(server, "p/heart_rate").text
    assert "its task is running" in page
    assert "its task has not begun" in page


def _ended(run_id: str) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.run_id == run_id).values(state="success"))


@pytest.mark.parametrize("path", ["p/heart_rate", "p/heart_rate?run=manual__now", "p/heart_rate/run?key=manual__now"])
def test_the_page_of_a_run_under_way_names_what_to_ask_until_it_has_ended(
    server: Any, under_way: str, path: str
) -> None:
    page = get(server, path).text
    found = re.search(r'<main id="main" data-live="\./([^"]+)" data-tag="([^"]+)"', page)
    assert found is not None
    assert '<noscript><meta http-equiv="refresh" content="15"></noscript>' in page
    address, tag = html.unescape(found[1]), html.unescape(found[2])
    twin_path = path.rpartition("/")[0] + "/" + address
    assert twin_path == twin(path)
    same = get(server, twin_path, **{"If-None-Match": f'"other", {tag}'})
    assert (same.status_code, same.headers["etag"], same.content) == (304, tag, b"")
    assert same.headers["cache-control"] == "no-store"
    other = get(server, twin_path, **{"If-None-Match": '"other"'})
    assert (other.status_code, other.headers["etag"]) == (200, tag)
    steps = re.findall(r"tasks/(\w+)\"[^>]*>[^<]*</a>", page)
    assert steps[:4] == ["check_request", "bronze", "silver", "gold"]
    assert "1 min 3" in page  # how long it has been under way
    _ended(under_way)
    changed = get(server, twin_path, **{"If-None-Match": tag})
    assert (changed.status_code, changed.headers.get("etag")) == (200, None)
    assert "data-live" not in get(server, path).text


def test_the_home_page_names_its_own_twin(server: Any, under_way: str) -> None:
    assert 'data-live="./home.json"' in get(server, "").text
    assert get(server, "home.json").headers["etag"]


def test_addresses_hold_below_a_path_prefix(server: Any) -> None:
    page = get(server, "p/heart_rate/t/recordings_enriched").text
    assert 'href="../../../static/page.css"' in page
    assert 'href="../../../p/heart_rate/t/patients"' in page


def test_of_an_error_that_nobody_foresaw_no_text_is_shown(
    server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OverflowError("Ada Byron")

    monkeypatch.setattr("sluicegate.dashboard.one_table.table_details", fails)
    for path in ("p/heart_rate/t/patients", "p/heart_rate/t/patients.json"):
        answer = get(server, path)
        assert answer.status_code == 500
        assert "could not be rendered" in answer.text
        assert "Ada" not in answer.text + caplog.text
        assert answer.headers["cache-control"] == "no-store"
        assert "content-security-policy" in answer.headers


def test_the_page_has_the_stores_keys_by_the_connection_of_tasks(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def view(source: Any, *_: Any, **__: Any) -> None:
        seen.extend([aws.overrides(), source.compute_soon("keys", aws.overrides, until=time.monotonic() + 5).value])
        raise PipelineMissing("there is none")

    monkeypatch.setattr("sluicegate.dashboard.one_table.table_details", view)
    monkeypatch.setenv("AIRFLOW_CONN_STORE", "aws://reader:s3cret@")
    monkeypatch.setenv("SLUICEGATE_STORE_CONN_ID", "store")
    assert get(server, "p/heart_rate/t/patients").status_code == 404
    assert [one["AWS_ACCESS_KEY_ID"] for one in seen] == ["reader", "reader"]
    monkeypatch.setenv("SLUICEGATE_STORE_CONN_ID", "lost")
    assert get(server, "static/page.css").status_code == 200  # which needs no store
    lost = get(server, "p/heart_rate/t/patients")
    assert lost.status_code == 503
    assert "content-security-policy" in lost.headers


# --- replay ----------------------------------------------------------------------------------------------------------

REPLAY = "p/heart_rate/t/recordings_enriched/quarantine/replay"


def asked(server: Any, login: str, path: str = f"{REPLAY}?rule=valid_heartrate") -> dict[str, str]:
    """Fields of the form that a login is shown."""
    answer = server.get(f"/lakehouse/{path}", headers={"Cookie": f"_token={login}"})
    assert answer.status_code == 200, answer.text
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text)
    return {name: unescape(value) for name, value in found}


def send(server: Any, login: str | None, fields: Any, path: str = REPLAY, **headers: str) -> Any:
    """Sends a form as a browser does."""
    cookie = {"Cookie": f"_token={login}"} if login else {}
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.post(f"/lakehouse/{path}", data=fields, headers=cookie | said, follow_redirects=False)


def started() -> list[Any]:
    """Runs that were started, each with its entries in the audit log."""
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        runs = session.scalars(select(DagRun).where(DagRun.dag_id == "heart_rate")).all()
        logs = session.scalars(select(Log).where(Log.event.startswith("lakehouse_"))).all()
        return [
            (run.run_id, run.conf, run.triggering_user_name, [(log.owner, json.loads(log.extra or "")) for log in logs
                                                             if log.run_id == run.run_id])
            for run in runs
        ]  # fmt: skip


def test_a_replay_is_asked_for_and_then_started_once(server: Any) -> None:
    login, before = token("starter"), started()
    shown = get(server, "p/heart_rate/t/recordings_enriched/quarantine?rule=valid_heartrate", user="starter").text
    assert 'href="../../../../p/heart_rate/t/recordings_enriched/quarantine/replay?rule=valid_heartrate"' in shown
    fields = asked(server, login)
    assert fields["records"] == "6"
    assert started() == before  # asking starts nothing
    answer = send(server, login, fields, Origin="http://testserver", Sec_Fetch_Site="same-origin")
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == f"../../../../../p/heart_rate/run?key={fields['run_id']}"
    (run,) = [one for one in started() if one not in before]
    extra = {"table": "recordings_enriched", "rules": ["valid_heartrate"], "records": 6,
             "quarantine": fields["version"]}  # fmt: skip
    conf = {"mode": "replay", "tables": ["recordings_enriched"], "rules": ["valid_heartrate"]}
    assert run == (fields["run_id"], conf, "starter", [("starter", extra)])
    assert send(server, login, fields).status_code == 303  # sent twice
    assert len(started()) == len(before) + 1
    page = get(server, f"p/heart_rate/run?key={fields['run_id']}", user="starter")
    assert page.status_code == 200
    assert f"../../../dags/heart_rate/runs/{fields['run_id']}" in page.text


def test_a_form_that_is_sent_many_times_at_once_starts_one_run(server: Any) -> None:
    login, before = token("starter"), started()
    fields = asked(server, login)
    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(lambda _: send(server, login, fields), range(4))]
    assert [answer.status_code for answer in answers] == [303] * 4
    assert len(started()) == len(before) + 1


def test_a_replay_that_would_be_another_run_is_not_started(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    login, before = token("starter"), started()
    fields = asked(server, login)
    with monkeypatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", "False")
        assert "ignores" in send(server, login, fields).text
    for field in ("is_stale", "has_import_errors"):
        for value in (True, False):
            with create_session() as session:
                setattr(session.get(DagModel, "heart_rate"), field, value)
            if value:
                assert "or has import errors" in send(server, login, fields).text
    assert started() == before
    assert send(server, login, fields).status_code == 303


def test_who_may_only_read_can_neither_ask_nor_start(server: Any) -> None:
    fields, before = asked(server, token("starter")), started()
    assert "quarantine/replay" not in get(server, "p/heart_rate/t/recordings_enriched/quarantine").text
    assert get(server, REPLAY).status_code == 403
    refused = send(server, token("reader"), fields)
    assert refused.status_code == 403
    assert "may not trigger" in refused.text
    assert send(server, token("starter"), fields, REPLAY.replace("heart_rate", "secret")).status_code == 404
    assert get(server, REPLAY, user=None).status_code in (401, 403)
    assert send(server, None, fields).status_code in (401, 403)
    assert started() == before


@pytest.mark.parametrize(
    "change",
    [{"seal": ""}, {"seal": "ä"}, {"seal": "0" * 64}, {"rule": ""}, {"rule": "known_patient"}, {"records": "7"},
     {"version": "x@0"}, {"run_id": "mine"}],
)  # fmt: skip
def test_a_form_that_was_not_shown_is_refused(server: Any, change: dict[str, str]) -> None:
    login, before = token("starter"), started()
    answer = send(server, login, asked(server, login) | change)
    assert answer.status_code == 403
    assert "another login" in answer.text
    assert started() == before


def test_the_form_of_another_login_is_refused(server: Any) -> None:
    fields, before = asked(server, token("editor")), started()
    assert send(server, token("starter"), fields).status_code == 403
    assert started() == before


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
     {"Sec_Fetch_Site": "same-site", "Origin": "http://testserver"}, {"Sec_Fetch_Site": "none"}],
)  # fmt: skip
def test_a_form_from_another_site_is_refused(server: Any, headers: dict[str, str]) -> None:
    login, before = token("starter"), started()
    answer = send(server, login, asked(server, login), **headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert started() == before


def test_what_is_no_form_of_the_page_is_refused(server: Any) -> None:
    from sluicegate.airflow.page.forms import LONGEST

    login, before = token("starter"), started()
    fields = asked(server, login)
    assert send(server, login, {**fields, "note": "x" * LONGEST}).status_code == 413
    assert send(server, login, {**fields, "rule": ["valid_heartrate", "known_patient"]}).status_code == 400
    assert send(server, login, {"rule": ""}).status_code == 400
    cookie = {"Cookie": f"_token={login}"}
    assert server.post(f"/lakehouse/{REPLAY}", json=fields, headers=cookie).status_code == 415
    assert server.put(f"/lakehouse/{REPLAY}", headers=cookie).status_code == 405
    assert started() == before


@pytest.mark.parametrize(
    ("path", "status"),
    [(REPLAY.replace("recordings_enriched", "..%2f_events"), 404),
     (REPLAY.replace("recordings_enriched", "recordings_bronze"), 404),
     (f"{REPLAY}?rule=<script>alert(1)</script>", 409), (f"{REPLAY}?rule={'x' * 300}", 422)],
)  # fmt: skip
def test_what_cannot_be_replayed_is_not_asked_for(server: Any, path: str, status: int) -> None:
    answer = get(server, path, user="starter")
    assert answer.status_code == status, answer.text
    assert "<script>alert" not in answer.text


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [("nowhere/at/all", 404, "does not exist"), (f"search?q={'x' * 300}", 422, " q."),
     ("p/heart_rate/t/recordings_bronze/files?before=-1", 422, "before")],
)  # fmt: skip
def test_an_address_that_no_page_has_is_answered_by_a_page(server: Any, path: str, status: int, told: str) -> None:
    answer = get(server, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert told in answer.text
    facts = get(server, twin(path))
    assert (facts.status_code, list(facts.json())) == (status, ["error", "hint", "mistakes"])


def test_a_quarantine_that_has_changed_is_shown_again(server: Any, world: PageWorld) -> None:
    login, before = token("starter"), started()
    fields = asked(server, login)
    world.run()
    answer = send(server, login, fields)
    assert answer.status_code == 409
    assert "has changed since" in answer.text
    assert "Replay 9 records" in answer.text
    assert started() == before
    assert send(server, login, asked(server, login)).status_code == 303


# --- rebuild ---------------------------------------------------------------------------------------------------------

REBUILD = "p/heart_rate/days/rebuild"


def test_days_are_asked_for_and_then_rebuilt_once(server: Any) -> None:
    login, before = token("starter"), started()
    page = get(server, "p/heart_rate/days", user="starter").text
    assert '<form class="row" action="../../p/heart_rate/days/rebuild">' in page
    fields = asked(server, login, f"{REBUILD}?first=2026-03-01&last=2026-03-02")
    assert started() == before  # asking starts nothing
    answer = send(server, login, fields, REBUILD, Sec_Fetch_Site="same-origin")
    assert answer.status_code == 303, answer.text
    (run,) = [one for one in started() if one not in before]
    conf = {"mode": "interval", "from": "2026-03-01T00:00:00+00:00", "to": "2026-03-03T00:00:00+00:00"}
    extra = {"first": "2026-03-01", "last": "2026-03-02"}
    assert run == (fields["run_id"], conf, "starter", [("starter", extra)])
    assert send(server, login, fields, REBUILD).status_code == 303  # sent twice
    assert len(started()) == len(before) + 1


def test_days_that_no_run_could_rebuild_are_not_asked_for(server: Any, world: PageWorld) -> None:
    path = f"{REBUILD}?first=2026-03-01&last="
    assert "before 9999-12-31." in get(server, f"{path}9999-12-31", user="starter").text
    file = world.workspace.settings.pipelines / "heart_rate" / "pipeline.yaml"
    text = file.read_text()
    file.write_text(text.replace("    event_time: time\n", ""))
    try:
        answer = get(server, f"{path}2026-03-02", user="starter")
    finally:
        file.write_text(text)
    assert (answer.status_code, "event_time" in answer.text) == (409, True)


def test_days_of_a_run_that_a_person_called_a_success_are_not_rebuilt(server: Any, failed_run: str) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    conf = {"from": "2026-03-02", "to": "2026-03-03"}
    for run_id, rebuilt in ((failed_run, False), ("scheduled__idle", False), ("scheduled__idle", True)):
        with create_session() as session:
            run = session.scalars(select(DagRun).where(DagRun.run_id == run_id)).one()
            run.conf, run.state = conf, "success"
            if rebuilt:  # its wait for files was skipped until here
                run.get_task_instance("wait_for_files", session=session).state = "success"
        days = get(server, "p/heart_rate/days.json").json()["days"]
        assert [day["run"] for day in days if day["day"] == "2026-03-02"] == [run_id if rebuilt else ""]


def test_days_that_make_no_sense_or_were_not_shown_are_not_rebuilt(server: Any) -> None:
    login, before, path = token("starter"), started(), f"{REBUILD}?first=2026-03-02&last=2026-03-02"
    assert get(server, f"{REBUILD}?first=2026-03-02&last=2026-03-01", user="starter").status_code == 409
    assert get(server, f"{REBUILD}?first=2026-03-02&last=9999-12-31", user="starter").status_code == 409
    assert get(server, f"{REBUILD}?first=<b>&last=x", user="starter").status_code == 422
    fields = asked(server, login, path)
    for change, status in (({"last": "2026-04-02"}, 403), ({"run_id": "mine"}, 403), ({"seal": ""}, 403),
                           ({"first": "soon"}, 400)):  # fmt: skip
        assert send(server, login, fields | change, REBUILD).status_code == status
    assert send(server, login, fields, REBUILD, Origin="https://evil.example").status_code == 403
    assert send(server, token("editor"), fields, REBUILD).status_code == 403  # the form of another login
    assert send(server, login, fields, REBUILD.replace("heart_rate", "secret")).status_code == 404
    assert get(server, path).status_code == 403  # who may only read
    assert send(server, token("reader"), fields, REBUILD).status_code == 403
    assert "days/rebuild" not in get(server, "p/heart_rate/days").text
    assert started() == before


# --- discard ---------------------------------------------------------------------------------------------------------

DISCARD = "p/heart_rate/t/recordings_enriched/quarantine/discard"
UNDO = "p/heart_rate/t/recordings_enriched/quarantine/undo-discard"
EVIL = '<img src=x onerror="alert(1)">=HYPERLINK("http://x")'


@pytest.fixture
def discarded(world: PageWorld) -> Iterator[str]:
    """Id of a discard of all that waits, with a note that would be a script."""
    definition = world.workspace.definition
    assert sg.discard(definition, "recordings_enriched", note=EVIL)
    [made] = find_records(definition, Discard("recordings_enriched", undo=True)).discards
    yield made.id
    sg.discard(definition, "recordings_enriched", undo=True)


def test_a_discard_is_asked_for_with_a_note_and_then_started_once(server: Any) -> None:
    login, before = token("starter"), started()
    page = get(server, "p/heart_rate/t/recordings_enriched/quarantine?rule=valid_heartrate", user="starter").text
    assert f'href="../../../../{DISCARD}?rule=valid_heartrate"' in page
    question = get(server, f"{DISCARD}?rule=valid_heartrate", user="starter").text
    assert '<label for="note">' in question
    assert re.search(r'<textarea id="note" name="note"[^>]* required maxlength="500"', question)
    fields = asked(server, login, f"{DISCARD}?rule=valid_heartrate")
    assert started() == before  # asking starts nothing
    answer = send(server, login, fields | {"note": f" {EVIL}\r\n\u202e"}, DISCARD, Sec_Fetch_Site="same-origin")
    assert answer.status_code == 303, answer.text
    (run,) = [one for one in started() if one not in before]
    extra = {"table": "recordings_enriched", "rules": ["valid_heartrate"], "records": int(fields["records"]),
             "quarantine": fields["version"], "note": EVIL}  # fmt: skip
    conf = {"mode": "discard", "tables": ["recordings_enriched"], "rules": ["valid_heartrate"], "note": EVIL,
            "quarantine": fields["version"]}  # fmt: skip
    assert run == (fields["run_id"], conf, "starter", [("starter", extra)])
    assert send(server, login, fields | {"note": "another"}, DISCARD).status_code == 303  # sent twice
    with ThreadPoolExecutor(4) as threads:
        answers = [*threads.map(lambda _: send(server, login, fields | {"note": "again"}, DISCARD), range(4))]
    assert [one.status_code for one in answers] == [303] * 4
    assert len(started()) == len(before) + 1


@pytest.mark.parametrize("note", ["", " \t\n ", "\u200b", "x" * 501])
def test_a_note_that_will_not_do_is_asked_for_again(server: Any, note: str) -> None:
    login, before = token("starter"), started()
    answer = send(server, login, asked(server, login, DISCARD) | {"note": note}, DISCARD)
    assert answer.status_code == 400
    assert 'aria-invalid="true"' in answer.text
    assert ("has 501 characters" if len(note) > 500 else "requires a note") in answer.text
    assert started() == before


def test_the_longest_note_fits_into_a_form(server: Any) -> None:
    login = token("starter")
    assert send(server, login, asked(server, login, DISCARD) | {"note": "\U0001f600" * 500}, DISCARD).status_code == 303


@pytest.mark.parametrize("path", [DISCARD, UNDO])
def test_who_may_only_read_can_not_discard(server: Any, request: pytest.FixtureRequest, path: str) -> None:
    ask = path if path == DISCARD else f"{UNDO}?discard={request.getfixturevalue('discarded')}"
    fields, before = asked(server, token("starter"), ask) | {"note": "x"}, started()
    beside = get(server, "p/heart_rate/t/recordings_enriched/quarantine").text
    assert "quarantine/discard" not in beside
    assert "undo-discard" not in beside
    assert get(server, ask).status_code == 403
    assert send(server, token("reader"), fields, path).status_code == 403
    assert get(server, ask, user=None).status_code in (401, 403)
    assert send(server, None, fields, path).status_code in (401, 403)
    assert send(server, token("editor"), fields, path).status_code == 403  # the form of another login
    assert send(server, token("starter"), fields, path, Origin="https://evil.example").status_code == 403
    assert send(server, token("starter"), fields, path.replace("heart_rate", "secret")).status_code == 404
    assert started() == before


@pytest.mark.parametrize(
    "change",
    [{"seal": ""}, {"rule": "valid_heartrate"}, {"records": "1"}, {"version": "x@0"}, {"run_id": "mine"}],
)  # fmt: skip
def test_a_form_of_a_discard_that_was_not_shown_is_refused(server: Any, change: dict[str, str]) -> None:
    login, before = token("starter"), started()
    fields = asked(server, login, DISCARD) | {"note": "x"}
    assert send(server, login, fields | change, DISCARD).status_code == 403
    assert send(server, login, fields, REPLAY).status_code == 403  # nor is it one of a replay
    assert send(server, login, {"seal": fields["seal"], "note": "x"}, DISCARD).status_code == 400
    assert started() == before


def test_a_quarantine_that_has_changed_is_shown_again_with_the_note(server: Any, world: PageWorld) -> None:
    login, before = token("starter"), started()
    fields = asked(server, login, DISCARD)
    world.run()
    answer = send(server, login, fields | {"note": EVIL}, DISCARD)
    assert answer.status_code == 409
    assert "has changed since" in answer.text
    assert ">&lt;img src=x" in answer.text
    assert f"Discard {int(fields['records']) + 3} records" in answer.text
    assert started() == before


def test_discarded_records_are_shown_with_their_note_and_can_be_taken_back(server: Any, discarded: str) -> None:
    login, before = token("starter"), started()
    path = "p/heart_rate/t/recordings_enriched/quarantine"
    page, facts = get(server, path, user="starter").text, get(server, twin(path), user="starter").json()
    assert (facts["records"], facts["reasons"]) == (0, [])
    assert [(one["id"], one["note"]) for one in facts["discards"]] == [(discarded, EVIL)]
    assert {one["note"] for one in facts["examples"]} == {EVIL}
    assert "Nothing waits in quarantine" in page
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") >= 2  # of the discard, and of each record
    assert f'href="../../../../{UNDO}?discard={discarded}"' in page
    ask = f"{UNDO}?discard={discarded}"
    question = get(server, ask, user="starter").text
    assert "<img src=x" not in question
    fields = asked(server, login, ask)
    assert send(server, login, fields | {"discard": "another"}, UNDO).status_code == 403
    answer = send(server, login, fields, UNDO)
    assert answer.status_code == 303, answer.text
    (run,) = [one for one in started() if one not in before]
    conf = {"mode": "undo-discard", "tables": ["recordings_enriched"], "discard": discarded}
    extra = {"table": "recordings_enriched", "discard": discarded, "records": int(fields["records"])}
    assert run == (fields["run_id"], conf, "starter", [("starter", extra)])
    assert get(server, f"{UNDO}?discard=<script>", user="starter").status_code == 404
    assert get(server, UNDO, user="starter").status_code == 422


def test_a_discard_can_be_taken_back_while_its_records_are_counted(
    server: Any, discarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login, before, ask = token("starter"), started(), f"{UNDO}?discard={discarded}"
    fields = asked(server, login, ask)
    monkeypatch.setattr("sluicegate.dashboard.discarded.read_standing", lambda *_: None)
    question = get(server, ask, user="starter")
    assert (question.status_code, "being counted" in question.text) == (200, True)
    assert 'name="seal"' not in question.text
    assert send(server, login, fields, UNDO).status_code == 303
    assert [one[0] for one in started() if one not in before] == [fields["run_id"]]


COMMANDS = {
    "home.json": [],
    "p/heart_rate.json": ["heart_rate"],
    "p/heart_rate/runs.json": ["heart_rate", "--runs"],
    "p/heart_rate/run.json?key=scheduled__2026-03-02T06:15:00%2B00:00": [
        "heart_rate", "--run", "scheduled__2026-03-02T06:15:00+00:00"],
    "p/heart_rate/days.json": ["heart_rate", "--days"],
    "p/heart_rate/t/recordings_enriched.json": ["heart_rate", "recordings_enriched", "--rows"],
    "p/heart_rate/t/recordings_enriched/quarantine.json": [
        "heart_rate", "recordings_enriched", "--quarantine", "--rows"],
    "search.json?q=heartrate": ["--search", "heartrate"],
}  # fmt: skip


def test_the_command_show_gives_the_documents_of_the_page(world: PageWorld, server: Any, tmp_path: Path) -> None:
    """For who may read the rows of two pipelines, but no runs of Airflow, of which a command knows nothing."""
    own = world.workspace.settings
    for name in ("heart_rate", "secret"):
        shutil.copytree(own.pipelines / name, tmp_path / name)
    places = ["--lake", own.lake, "--landing", own.landing, "--pipelines", str(tmp_path), "--json"]
    for path, words in COMMANDS.items():
        shown = CliRunner().invoke(cli.app, ["show", *words, *places])
        assert shown.exit_code == 0, shown.output
        assert _lasting(shown.stdout) == _lasting(get(server, path, "auditor").text), path
        assert "Ada Byron" not in shown.stdout


def _lasting(text: str) -> Any:
    """A document, but of the time at which the backlog was found only that there is one."""

    def lasting(found: dict[str, Any]) -> dict[str, Any]:
        return found | {"since": bool(found["since"])} if "settling" in found else found

    return json.loads(text, object_hook=lasting)
