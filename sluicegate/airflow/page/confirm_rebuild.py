"""What the page starts: a run that reprocesses days of event time, once a person has confirmed which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from sluicegate.airflow.page import confirm, dag_runs, forms, html, replays, routes
from sluicegate.airflow.page.access import ViewerDep
from sluicegate.launch.request import Request as RunRequest

router = APIRouter()

_ADDRESS = "/p/{pipeline}/days/rebuild"


@dataclass(frozen=True)
class Rebuilding:
    """Days that a person confirms.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        first: the first day.
        last: the last day, which is rebuilt, too.
        run_id: id of the run: a form that is sent twice starts one.
    """

    pipeline: str
    first: date
    last: date
    run_id: str

    event = "lakehouse_rebuild"

    def subject(self) -> tuple[str, ...]:
        """Return the subject for which the form is sealed."""
        return (self.event, self.pipeline, str(self.first), str(self.last), self.run_id)

    def form(self) -> dict[str, Any]:
        """Return the mode and the interval, whose end is exclusive."""
        end = self.last + timedelta(days=1)
        return {"mode": "interval", "from": f"{self.first}T00:00:00+00:00", "to": f"{end}T00:00:00+00:00"}

    def audit_fields(self) -> dict[str, Any]:
        """Return the days for the audit log."""
        return {"first": str(self.first), "last": str(self.last)}


@router.get(_ADDRESS, response_model=None)
def ask(request: Request, viewer: ViewerDep, pipeline: str, first: date, last: date) -> Response:
    """Show the days to rebuild and the effect of the rebuild, and start nothing."""
    definition = confirm.startable_pipeline(request, viewer, pipeline)
    if last < first:
        raise HTTPException(409, f"The last day, {last}, is before the first one, {first}.")
    if last == date.max:
        raise HTTPException(409, f"The last day has to be before {last}.")
    rebuilding = Rebuilding(pipeline, first, last, replays.new_run_id(pipeline, "rebuild"))
    form = rebuilding.form()
    with confirm.refuse_request():
        RunRequest.from_arguments(definition, form["mode"], form["from"], form["to"])
    facts = {"rebuilding": rebuilding, "seal": forms.seal(request, *rebuilding.subject()), "tab": "days"}
    paused = bool(dag_runs.paused([pipeline]))
    return HTMLResponse(html.page("rebuild", routes.addresses(request), pipeline=pipeline, paused=paused, **facts))


@router.post(_ADDRESS, response_model=None)
def start(request: Request, viewer: ViewerDep, fields: forms.Sent, pipeline: str) -> Response:
    """Start the run that was confirmed."""
    confirm.startable_pipeline(request, viewer, pipeline)
    with forms.refuse_incomplete():
        first, last = date.fromisoformat(fields["first"]), date.fromisoformat(fields["last"])
        rebuilding = Rebuilding(pipeline, first, last, fields["run_id"])
    forms.demand_seal(request, fields, *rebuilding.subject())
    return confirm.start_confirmed(request, viewer, rebuilding)
