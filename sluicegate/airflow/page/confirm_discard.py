"""What else the page starts: a discard of what waits in quarantine, with a note, and its undo, once confirmed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sluicegate.airflow.page import confirm, forms, replays, routes
from sluicegate.airflow.page.access import ViewerDep
from sluicegate.airflow.page.discards import Discarding, TakingBack
from sluicegate.dashboard import quarantined
from sluicegate.errors import PipelineMissing, UserError
from sluicegate.lake.discards import Discarded
from sluicegate.launch.discard import LONGEST_NOTE, Discard, to_one_line
from sluicegate.launch.request import Request as RunRequest

router = APIRouter()

_DISCARD = "/p/{pipeline}/t/{table}/quarantine/discard"
_UNDO = "/p/{pipeline}/t/{table}/quarantine/undo-discard"

Id = Annotated[str, Query(max_length=300)]


@router.get(_DISCARD, response_model=None)
def ask(request: Request, viewer: ViewerDep, pipeline: str, table: str, rule: routes.Word = "") -> Response:
    """Show the form of a discard: its note, and record counts by rule. Nothing is started."""
    definition = confirm.startable_pipeline(request, viewer, pipeline)
    return _question(request, confirm.quarantine_summary(request, definition, table, rule))


@router.post(_DISCARD, response_model=None)
def start(request: Request, viewer: ViewerDep, fields: forms.Sent, pipeline: str, table: str) -> Response:
    """Start the discard that was confirmed; ask again where the quarantine has changed, or the note will not do."""
    definition = confirm.startable_pipeline(request, viewer, pipeline)
    note = to_one_line(fields.get("note", ""))
    with forms.refuse_incomplete():
        records = int(fields["records"])
        discarding = Discarding(pipeline, table, fields["rule"], records, fields["version"], fields["run_id"], note)
    forms.demand_seal(request, fields, *discarding.subject())
    view = confirm.quarantine_summary(request, definition, table, discarding.rule)
    if view.version != discarding.version:
        return _question(request, view, note, changed=True)
    rules = (discarding.rule,) if discarding.rule else ()
    try:
        RunRequest.from_discard(definition, Discard(table, rules, note, shown=discarding.version))
    except UserError as error:
        return _question(request, view, note, f"{error.message}: {error.hint}")
    return confirm.start_confirmed(request, viewer, discarding)


@router.get(_UNDO, response_model=None)
def ask_undo(request: Request, viewer: ViewerDep, pipeline: str, table: str, discard: Id) -> Response:
    """Show the confirmation of undoing a discard. Nothing is started."""
    definition = confirm.startable_pipeline(request, viewer, pipeline)
    view = confirm.quarantine_summary(request, definition, table)
    discarded, records = None, 0
    if not _is_counting(view):
        discarded = _find_discard(view, discard)
        records = discarded.records
    taking_back = TakingBack(pipeline, table, discard, records, replays.new_run_id(table, "undo-discard"))
    return confirm.page(request, "undo_discard", view, taking_back, 200, made=discarded)


@router.post(_UNDO, response_model=None)
def start_undo(request: Request, viewer: ViewerDep, fields: forms.Sent, pipeline: str, table: str) -> Response:
    """Undo the confirmed discard, unless it is already undone."""
    definition = confirm.startable_pipeline(request, viewer, pipeline)
    with forms.refuse_incomplete():
        taking_back = TakingBack(pipeline, table, fields["discard"], int(fields["records"]), fields["run_id"])
    forms.demand_seal(request, fields, *taking_back.subject())
    view = confirm.quarantine_summary(request, definition, table)
    if not _is_counting(view):  # else the run looks for it, and says so if it is gone
        _find_discard(view, taking_back.discard)
    return confirm.start_confirmed(request, viewer, taking_back)


def _is_counting(view: quarantined.QuarantineDetails) -> bool:
    """Return whether the discards are unknown because records are still being counted in the background."""
    return view.reasons is None


def _find_discard(view: quarantined.QuarantineDetails, discard: str) -> Discarded:
    """Return a recorded discard.

    Raises:
        PipelineMissing: there is no discard of that id.
    """
    for entry in view.discards:
        if entry.id == discard:
            return entry
    raise PipelineMissing("unknown discard")


def _question(
    request: Request, view: quarantined.QuarantineDetails, note: str = "", wrong: str = "", *, changed: bool = False
) -> Response:
    run_id = replays.new_run_id(view.table, "discard")
    discarding = Discarding(
        view.pipeline, view.table, view.rule, confirm.waiting_records(view), view.version, run_id, note
    )
    status = 200
    if changed:
        status = 409
    elif wrong:
        status = 400
    more = {"changed": changed, "wrong": wrong, "longest": LONGEST_NOTE, "rules": confirm.rules_of(view)}
    return confirm.page(request, "discard", view, discarding, status, **more)
