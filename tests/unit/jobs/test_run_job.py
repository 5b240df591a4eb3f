"""The job of a run, without Spark: which layers it runs with what, in which order, and what it prints for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicegate.definition import LAYERS
from sluicegate.errors import ExpectationFailed
from sluicegate.flow.report import ERROR, REPORT, ReportLines, RunReport
from sluicegate.jobs import run_job
from sluicegate.jobs.run_job import Run
from sluicegate.lake.exclusion import lock
from sluicegate.launch.request import Request
from tests.conftest import Workspace
from tests.support.by_hand import records, taken_in

pytestmark = pytest.mark.unit

DAY = {"mode": "interval", "since": "2024-03-01", "until": "2024-03-02"}
Ran = list[tuple[str, Request]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The layers that a run has run, each with its part of the request; none of them does anything."""
    seen: Ran = []

    def run_layer(pipeline: Any, _at: Any, layer: str, _facts: Any, request: Request, _spark: Any) -> RunReport:
        seen.append((layer, request))
        return RunReport(pipeline.name, layer)

    monkeypatch.setattr(run_job, "run_layer", run_layer)
    return seen


def reports(workspace: Workspace, *, follow: bool = False, layers: Any = LAYERS, **wish: Any) -> Iterator[RunReport]:
    request = Request.from_arguments(workspace.definition, **wish)
    return Run(workspace.definition, workspace.lake, {}).reports(request, layers, follow=follow)


def main(workspace: Workspace, *arguments: str) -> int:
    settings = workspace.settings
    places = [f"--lake={settings.lake}", f"--landing={settings.landing}", f"--pipelines={settings.pipelines}"]
    return run_job.main(["--pipeline", workspace.pipeline, *places, *arguments])


def test_each_layer_gets_its_part_of_the_request(workspace: Workspace, ran: Ran) -> None:
    assert [done.layer for done in reports(workspace, max_files=3)] == list(LAYERS)
    assert ran == [("bronze", Request(max_files=3)), ("silver", Request()), ("gold", Request())]
    ran.clear()
    list(reports(workspace, mode="full-refresh", tables=["patients_bronze", "patients"]))
    assert [layer for layer, _ in ran] == ["bronze", "silver"]
    assert {request.mode for _, request in ran} == {"full-refresh"}
    ran.clear()
    list(reports(workspace, layers=["silver"]))
    assert ran == [("silver", Request())]


def test_the_next_layer_begins_when_the_report_of_the_one_before_is_taken(workspace: Workspace, ran: Ran) -> None:
    """So a layer's report is printed before anything of the next can go wrong."""
    done = reports(workspace)
    next(done)
    assert [layer for layer, _ in ran] == ["bronze"]


def test_after_an_interval_gold_is_run_if_silver_changed(
    workspace: Workspace, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    list(reports(workspace, **DAY))
    assert [(layer, request.mode) for layer, request in ran] == [("bronze", "incremental"), ("silver", "interval")]
    assert capsys.readouterr().out == "gold is up to date: no row of silver changed\n"
    records(workspace, "recordings_enriched", [1])
    ran.clear()
    list(reports(workspace, **DAY))
    assert ran[2] == ("gold", Request())
    ran.clear()
    list(reports(workspace, layers=["gold"], **DAY))
    assert ran == [("gold", Request())]


def test_tables_that_follow_those_of_a_full_refresh_are_run_where_they_wait(workspace: Workspace, ran: Ran) -> None:
    records(workspace, "patients_bronze", [1])
    taken_in(workspace, "patients", [1])
    records(workspace, "recordings_bronze", [1])
    taken_in(workspace, "recordings_enriched", [1])
    taken_in(workspace, "daily_patient_avg", [1])

    def refreshed(table: str) -> list[tuple[str, str]]:
        ran.clear()
        list(reports(workspace, mode="full-refresh", tables=[table], follow=True))
        return [(layer, request.mode) for layer, request in ran]

    assert refreshed("patients") == [("silver", "full-refresh")]
    records(workspace, "patients", [2])  # as the job would have changed it
    assert refreshed("patients") == [("silver", "full-refresh"), ("silver", "incremental")]
    records(workspace, "recordings_enriched", [2])
    assert refreshed("recordings_enriched")[-1] == ("gold", "incremental")
    # What waits in a layer before the first that is made again is left to another run.
    assert refreshed("daily_patient_avg") == [("gold", "full-refresh"), ("gold", "incremental")]
    list(reports(workspace, mode="full-refresh", tables=["patients"]))
    assert ran[2:] == [("silver", Request("full-refresh", None, ("patients",)))]


def test_the_lock_is_taken_for_each_layer_by_itself(workspace: Workspace) -> None:
    done = reports(workspace)
    for layer in LAYERS:
        assert next(done).layer == layer
        with lock.pipeline_lock(workspace.lake, "another", wait=0.0):
            pass


def test_a_failure_stops_the_next_layer_and_stands_behind_the_reports(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    run_layer: Callable[..., RunReport] = run_job.run_layer

    def fails_in_silver(pipeline: Any, at: Any, layer: str, *others: Any) -> RunReport:
        done = run_layer(pipeline, at, layer, *others)
        if layer == "silver":
            raise ExpectationFailed("a rule is broken")
        return done

    monkeypatch.setattr(run_job, "run_layer", fails_in_silver)
    assert main(workspace) == ExpectationFailed.exit_code
    assert [layer for layer, _ in ran] == ["bronze", "silver"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [REPORT, ERROR]
    said = ReportLines()
    assert all(said.take(line) for line in lines)
    assert [report["layer"] for report in said.reports()] == ["bronze"]
    assert isinstance(said.error, ExpectationFailed)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--layers=silver,glod"], "unknown layer glod"),
        (["--layers=gold", "--tables=patients"], "none of these tables"),
        (["--tables=patience"], "table patience"),
    ],
)
def test_what_cannot_be_run_is_the_users_mistake(
    workspace: Workspace, ran: Ran, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(workspace, *arguments) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert "help:" in shown.err
    [line] = shown.out.splitlines()
    assert told in json.loads(line.removeprefix(ERROR))["message"]
    assert ran == []


def test_a_run_with_nothing_to_do_opens_no_spark(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a session was opened for nothing")

    monkeypatch.setattr("sluicegate.spark.session.open_session", refuse)
    assert main(workspace) == 0
    lines = capsys.readouterr().out.splitlines()
    said = ReportLines()
    assert [said.take(line) for line in lines].count(True) == 3
    assert {table["state"] for report in said.reports() for table in report["tables"]} <= {"idle", "blocked"}
