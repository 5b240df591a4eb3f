"""What a run did, as the note that Airflow shows beside it.

Tasks cannot write notes. The scheduler can, so this is a listener in it, which puts together what the tasks returned.
https://airflow.apache.org/docs/apache-airflow/stable/administration-and-deployment/listeners.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from sluicegate.flow.report import RunReport

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

# So many characters Airflow keeps; one more, and PostgreSQL would refuse it, in the middle of the scheduler's work.
LONGEST = 1000

# How our notes begin. One that does not was written by a person, and stays.
BEGINS = "**This run "


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Writes the note of a run that went well."""
    _write(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Writes the note of a run that failed: what it did until then."""
    _write(dag_run)


def _write(run: DagRun) -> None:
    kinds = {task.task_id: task.task_type for task in run.get_dag().tasks}
    if "CheckRequest" not in kinds.values() or (run.note and not run.note.startswith(BEGINS)):
        return
    results = {task: result for task, result in _results(run) if task in kinds}
    text = note(results, kinds)
    if text:
        run.note = text


def _results(run: DagRun) -> Iterator[tuple[str, Any]]:
    """What each task of a run returned, by the session that has the run."""
    from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(run)
    if session is None:
        return
    ours = (XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == XCOM_RETURN_KEY)
    for found in session.scalars(select(XComModel).where(*ours)):
        yield found.task_id, XComModel.deserialize_value(found)


def note(results: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """The note of a run, in Markdown; empty if it has nothing to tell.

    Args:
        results: what each task returned that has ended.
        kinds: each task's operator, in the order of the DAG.
    """
    parts: list[str] = []
    for task, kind in kinds.items():
        if kind == "CheckRequest" and results.get(task):
            parts.append(f"{BEGINS}{_answered(results[task])}**\n")
        elif kind == "SluicegateJob" and results.get(task):
            parts += _did(RunReport.from_dict(results[task]))
        elif kind == "Account" and task in results:
            parts += [*_stands(results[task]), "", "Every file and every record that was taken in is accounted for."]
    return _short(parts) if parts and parts[0].startswith(BEGINS) else ""


def _answered(result: Any) -> str:
    """What a run was asked for; of a full refresh the task returns what a person answered."""
    if isinstance(result, str):
        return result
    approved = "Approve" in result.get("chosen_options", ())
    return f"was to make tables anew, which was {'approved' if approved else 'rejected'}"


def _did(report: RunReport) -> Iterator[str]:
    """What a job did to its tables. Without its sample of quarantined rows: notes outlive what is forgotten."""
    for table in report.tables:
        if table.state != "idle":
            lines = [table.line(), *replace(table, samples=[]).remarks()]
            yield "- " + "; ".join(" ".join(line.split()) for line in lines)


def _stands(tables: list[dict[str, Any]]) -> Iterator[str]:
    """What stands beside tables of good rows, and what has yet to come into them."""
    for table in tables:
        if table.get("quarantined"):
            yield f"- {table['table']}: {table['quarantined']:,} rows stand in quarantine"
        if table.get("waits"):
            yield f"- {table['table']} is behind: {table['waits']}"


def _short(parts: list[str]) -> str:
    """As many whole lines as a note can hold, without characters that a database may refuse."""
    lines = ["".join(c for c in part if c.isprintable() or c == "\n") for part in parts]
    whole = "\n".join(lines).rstrip()
    if len(whole) <= LONGEST:
        return whole
    text = ""
    for line in lines:
        if len(text) + len(line) > LONGEST - 2:
            break
        text += f"{line}\n"
    return f"{text or lines[0][: LONGEST - 1]}…"
