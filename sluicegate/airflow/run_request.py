"""Request of a DAG run: from its kind, and from what a person filled into the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluicegate.airflow.dags.params import AUTO, DISCARD, FIELDS, REPLAY, UNDO_DISCARD
from sluicegate.airflow.reporting.task_alerts import FACTS
from sluicegate.airflow.timetable import interval_begin
from sluicegate.definition.fields import suggest_name
from sluicegate.errors import AccountingError, DefinitionError, SluicegateError, UserError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Pipeline
    from sluicegate.flow.selection import Replay
    from sluicegate.launch.discard import Discard
    from sluicegate.launch.request import Request

# Fields of the form that only a discard has.
_OF_DISCARDS = ("note", "discard", "quarantine")
_MODES_OF_FIELDS = {**dict.fromkeys(_OF_DISCARDS, (DISCARD,)), "rules": (REPLAY, DISCARD)}

# Fields that providers of Airflow put into the configuration of runs that a task triggers.
_OF_AIRFLOW = ("openlineage",)

# Exit codes that no retry changes: the user's mistake, and data that broke an `expect_or_fail`.
FINAL = (2, 3)


def read_request(pipeline: Pipeline, context: Context) -> Request:
    """Request of the run that a task belongs to.

    A backfill run reprocesses its data interval, also where it reruns a scheduled run (whose id still begins with
    ``scheduled__``). Every other run takes in what is new, unless the form says otherwise: scheduled, by hand with a
    logical date or without one, and for an asset.

    Args:
        pipeline: the definition.
        context: what Airflow gives to the task.

    Raises:
        UserError: the request makes no sense, or would change nothing.
    """
    from sluicegate.launch.request import Request  # not above: parsing a DAG file needs neither pyarrow nor deltalake

    run, form = context["dag_run"], dict(context["params"])
    mode, since, until = form.get("mode") or AUTO, form.get("from"), form.get("to")
    _check_names(context)
    _check_mode(run, mode)
    if run.run_type == "backfill":
        mode, since, until = _backfill(run, mode, since or until)
    elif mode == AUTO:
        mode = "incremental"
        if since or until:
            mode = "interval"
    if mode in (DISCARD, UNDO_DISCARD):
        return Request.from_discard(pipeline, _discard(form, mode, since or until))
    for name, modes in _MODES_OF_FIELDS.items():
        if form.get(name) and mode not in modes:
            required = " or ".join(modes)
            raise UserError(f"{name} requires the mode {required}", hint=f"choose the mode, or leave {name} empty")
    if mode == REPLAY:
        return Request.from_replay(pipeline, _replay(form, since or until))
    return Request.from_arguments(pipeline, mode, since, until, form.get("tables") or (), form.get("max_files"))


def _check_names(context: Context) -> None:
    """Refuse a field that neither a form of ours nor the DAG has: a misspelt ``tables`` would be all tables."""
    names = {*FIELDS, *context["dag"].params}
    for name in context["dag_run"].conf or {}:
        if name not in {*names, *_OF_AIRFLOW}:
            hint = suggest_name(name, names) or f"its fields: {', '.join(FIELDS)}"
            raise UserError(f"unknown field {name} in the configuration of this run", hint=hint)


def _check_mode(run: Any, mode: str) -> None:
    """Refuse another mode than the run was triggered with, which nobody would notice."""
    triggered = (getattr(run, "conf", None) or {}).get("mode")
    if triggered not in (None, mode):
        hint = "[core] dag_run_conf_overrides_params is off: turn it on, or trigger the run without a mode"
        raise UserError(f"this run was started in the mode {triggered}, but Airflow passes the mode {mode}", hint=hint)


def _replay(form: Mapping[str, Any], end: str | None) -> Replay:
    """Records that a form asks to replay.

    Raises:
        UserError: it does not name one table, or has what a replay does not take.
    """
    from sluicegate.flow.selection import Replay  # not above: as Request

    return Replay(_one_table("replay", form, end), tuple(form.get("rules") or ()))


def _discard(form: Mapping[str, Any], mode: str, end: str | None) -> Discard:
    """Records that a form asks to discard, or discards that are to be taken back.

    Raises:
        UserError: it does not name one table, or has what a discard does not take.
    """
    from sluicegate.launch.discard import Discard, to_one_line  # not above: as Request

    undo = mode == UNDO_DISCARD
    fields = {name: str(form.get(name) or "") for name in _OF_DISCARDS}
    if undo and (fields["note"] or fields["quarantine"]):
        raise UserError("undo-discard does not accept a note or a quarantine", hint="leave note and quarantine empty")
    return Discard(
        _one_table("discard", form, end), tuple(form.get("rules") or ()), to_one_line(fields["note"]), undo,
        fields["discard"], fields["quarantine"],
    )  # fmt: skip


def _one_table(action: str, form: Mapping[str, Any], end: str | None) -> str:
    tables: list[str] = list(form.get("tables") or ())
    if len(tables) != 1:
        raise UserError(f"a {action} requires exactly one table, not {len(tables)}", hint="choose one silver table")
    if end or form.get("max_files") is not None:
        raise UserError(
            f"a {action} does not accept an interval or a number of files", hint="leave from, to and max_files empty"
        )
    return tables[0]


def _backfill(run: Any, mode: str, end: str | None) -> tuple[str, str, str]:
    """Mode and interval of a backfill run; half of an interval, or another mode, is a misunderstanding."""
    if mode not in (AUTO, "interval") or end:
        sentence = "another interval"
        if mode not in (AUTO, "interval"):
            sentence = f"the mode {mode}"
        raise UserError(
            f"a backfill run reprocesses its data interval, but the form sets {sentence}",
            hint="leave mode, from and to at their defaults, or trigger a single run with them",
        )
    if run.data_interval_start is None or run.data_interval_end is None:
        raise UserError("this backfill run has no data interval", hint="trigger a run by hand, with from and to")
    return "interval", interval_begin(run.data_interval_start).isoformat(), run.data_interval_end.isoformat()


def failure(error: SluicegateError) -> AirflowException:
    """Return the exception for Airflow; without retries where a retry would end the same way.

    Mistakes of a definition are retried: its DAG was made of one without, so somebody is editing it.
    """
    final = error.exit_code in FINAL or error.code == AccountingError.code
    if error.code == DefinitionError.code:
        final = False
    return create_exception(error.for_people(), error.as_dict(), final=final)


def create_exception(text: str, facts: Mapping[str, Any], *, final: bool) -> AirflowException:
    """Exception for Airflow that has the facts of an error for notifiers.

    Args:
        text: the error for people.
        facts: its facts.
        final: whether the task fails at once, without its retries.
    """
    exception = (AirflowFailException if final else AirflowException)(text)
    setattr(exception, FACTS, facts)
    return exception


def run_name(context: Mapping[str, Any]) -> str:
    """Name of a run for those who wait for its lock."""
    return f"{context['dag_run'].dag_id} {context['dag_run'].run_id}"
