"""What the page starts: a replay of what waits in quarantine, once a person has confirmed what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from sluicegate.airflow.page import dag_runs, forms, html, replays, routes
from sluicegate.airflow.page.access import Viewer, ViewerDep
from sluicegate.airflow.page.replays import Confirmed, Replayed
from sluicegate.dashboard import quarantined
from sluicegate.definition import Pipeline
from sluicegate.errors import PipelineMissing, UserError
from sluicegate.flow.selection import Replay
from sluicegate.launch.request import Request as RunRequest

router = APIRouter()

_ADDRESS = "/p/{pipeline}/t/{table}/quarantine/replay"


@router.get(_ADDRESS, response_model=None)
def ask(request: Request, viewer: ViewerDep, pipeline: str, table: str, rule: routes.Word = "") -> Response:
    """Show the confirmation of a replay: record counts by rule, and the effect. Nothing is started."""
    definition = startable_pipeline(request, viewer, pipeline)
    return _confirmation(request, _replayable_quarantine(request, definition, table, rule))


@router.post(_ADDRESS, response_model=None)
def start(request: Request, viewer: ViewerDep, fields: forms.Sent, pipeline: str, table: str) -> Response:
    """Start the replay that was confirmed; ask again where the quarantine has changed since."""
    definition = startable_pipeline(request, viewer, pipeline)
    with forms.refuse_incomplete():
        replay = Replayed(pipeline, table, fields["rule"], int(fields["records"]), fields["version"], fields["run_id"])
    forms.demand_seal(request, fields, *replay.subject())
    view = _replayable_quarantine(request, definition, table, replay.rule)
    if view.version != replay.version:
        return _confirmation(request, view, 409)
    return start_confirmed(request, viewer, replay)


def startable_pipeline(request: Request, viewer: Viewer, name: str) -> Pipeline:
    """Return the pipeline to a user who may start its runs."""
    definition = routes.pipeline_of_viewer(request, viewer, name)
    viewer.demand_start(name)
    return definition


@contextmanager
def refuse_request() -> Iterator[None]:
    """Context in which a request of a run is made: one that the run would refuse is refused here.

    Raises:
        HTTPException: 409.
    """
    try:
        yield
    except UserError as error:
        raise HTTPException(409, f"{error.message}: {error.hint}") from None


def _replayable_quarantine(
    request: Request, pipeline: Pipeline, table: str, rule: str
) -> quarantined.QuarantineDetails:
    """Return the quarantine to replay.

    Raises:
        PipelineMissing: there is no such table, or no record that broke the rule.
        HTTPException: 409, the definition does not have the rule any more.
    """
    if table not in pipeline.silver:
        raise PipelineMissing("unknown silver table")
    with refuse_request():
        RunRequest.from_replay(pipeline, Replay(table, (rule,) if rule else ()))
    return quarantine_summary(request, pipeline, table, rule)


def quarantine_summary(
    request: Request, pipeline: Pipeline, table: str, rule: str = ""
) -> quarantined.QuarantineDetails:
    """Return the quarantine of a table without its rows.

    Raises:
        PipelineMissing: unknown silver table, or no record that broke the rule.
    """
    return quarantined.quarantine_details(routes.source_of(request), pipeline, table, rule, rows=False)


def waiting_records(view: quarantined.QuarantineDetails) -> int:
    """Count the records that wait, for the rule of a page or for all."""
    counts = {reason.rule: reason.records for reason in view.reasons or ()}
    if view.rule:
        return counts.get(view.rule, 0)
    return view.records


def rules_of(view: quarantined.QuarantineDetails) -> list[quarantined.Reason]:
    """Return the rules that these records broke."""
    return [reason for reason in view.reasons or () if view.rule in ("", reason.rule)]


def _confirmation(request: Request, view: quarantined.QuarantineDetails, status: int = 200) -> Response:
    run_id = replays.new_run_id(view.table)
    replay = Replayed(view.pipeline, view.table, view.rule, waiting_records(view), view.version, run_id)
    return page(request, "replay", view, replay, status, changed=status == 409, rules=rules_of(view))


def page(
    request: Request, template: str, view: quarantined.QuarantineDetails, confirmed: Confirmed, status: int, **more: Any
) -> Response:
    """Render the page that asks a person to confirm something, with its sealed form."""
    facts: dict[str, Any] = {
        "view": view, "said": confirmed, "seal": forms.seal(request, *confirmed.subject()), "pipeline": view.pipeline,
        "paused": bool(dag_runs.paused([view.pipeline])), "table": view.table, "tab": "quarantine", **more,
    }  # fmt: skip
    return HTMLResponse(html.page(template, routes.addresses(request), **facts), status)


def start_confirmed(request: Request, viewer: Viewer, confirmed: Confirmed) -> Response:
    """Start the confirmed run, and redirect to its page."""
    replays.start(confirmed, *viewer.user_identity)
    return RedirectResponse(routes.addresses(request).run(confirmed.pipeline, confirmed.run_id), 303)
