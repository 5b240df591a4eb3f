"""Run note: what a run did, shown beside it in Airflow.

Tasks cannot write notes. The scheduler can, so this is a listener in it, which puts the tasks' results together.
https://airflow.apache.org/docs/apache-airflow/stable/administration-and-deployment/listeners.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from sluicegate.airflow.markdown import escape_markdown
from sluicegate.airflow.reporting.failure_reason import REASON
from sluicegate.console import files
from sluicegate.escapes import escape_text
from sluicegate.flow.report import RunReport, closing_sentence, unread_files
from sluicegate.flow.table_report import TableReport

UNREPORTED = "unreported"
"""Key of the result of ``wait_for_files``: the number of files that waited, and that the triggerer did not report."""

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

# Airflow's limit in characters; PostgreSQL would refuse one more, in the middle of the scheduler's work.
LONGEST = 1000

# What a table has of it at most: of the names of files that could not be read a few may be as long as a note.
LONGEST_LINE = 400

# Beginning of our notes. One that begins otherwise was written by a person, and stays.
BEGINS = "**This run "

BEFORE = "Before it was cleared:"

_KINDS = {"check_request": "CheckRequest", "wait_for_files": "LandedFilesSensor", "account": "Account"}


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that went well."""
    _write(dag_run, lambda _: {})


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Write the note of a run that failed: where and why, and what it did until then."""
    _write(dag_run, _failures)


def _write(run: DagRun, failures_of: Callable[[DagRun], Mapping[str, str]]) -> None:
    dag = run.get_dag()
    kinds = {task.task_id: task.task_type for task in dag.tasks}
    mistaken = "DefinitionMistakes" in kinds.values()
    if (not mistaken and "CheckRequest" not in kinds.values()) or (run.note and not run.note.startswith(BEGINS)):
        return
    from airflow.models.xcom import XCOM_RETURN_KEY

    results = {task: result for task, result in _task_values(run, XCOM_RETURN_KEY) if task in kinds}
    if mistaken:
        text = note_of_mistakes(results, kinds, dag.description or "")
    else:
        text = note(results, kinds, failures_of(run))
    if text and run.clear_number:
        text = continue_note(text, run.note or "")
    if text:
        run.note = text


def note_of_mistakes(results: Mapping[str, Any], tasks: Iterable[str], mistakes: str) -> str:
    """Note of a run whose definition has got mistakes meanwhile: what it did until then, and that it has them.

    Args:
        results: results of the tasks that have ended.
        tasks: tasks of the DAG, in their order.
        mistakes: what is wrong, in a sentence.
    """
    # The operators of the DAG as it was before, by the tasks that it keeps.
    kinds = {task: _KINDS.get(task, "SluicegateJob") for task in tasks}
    until_then = note(results, kinds, {}) or f"{BEGINS}did nothing**"
    return _shorten_note([*until_then.splitlines(), "", f"The definition is invalid. {escape_markdown(mistakes)}"])


def continue_note(text: str, before: str) -> str:
    """Note after a clear: this attempt first, then the lines of the previous note that no longer hold.

    A cleared task finds its work done, and its result, of which the note was made, is gone.

    Args:
        text: note of what the run did now.
        before: its note until now.
    """
    current = text.splitlines()
    former = [line for line in before.splitlines() if line not in current and line != BEFORE]
    while former and not former[0]:
        former.pop(0)
    if former:
        return _shorten_note([*current, "", BEFORE, *former])
    return text


def _task_values(run: DagRun, key: str) -> Iterator[tuple[str, Any]]:
    """Values (XCom) of a run's tasks, read by the session that has the run."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(run)
    if session is None:
        return
    of_run = (XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == key)
    for result in session.scalars(select(XComModel).where(*of_run)):
        yield result.task_id, XComModel.deserialize_value(result)


def _failures(run: DagRun) -> Mapping[str, str]:
    """Reason of each failed task of a run; empty if it left none, as where its process was killed."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(run)
    if session is None:
        return {}
    of_run = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    failed = select(TaskInstance.task_id).where(*of_run, TaskInstance.state == TaskInstanceState.FAILED)
    reasons = dict(_task_values(run, REASON))
    return {task: str(reasons.get(task, "")) for task in session.scalars(failed)}


def note(results: Mapping[str, Any], kinds: Mapping[str, str], failures: Mapping[str, str]) -> str:
    """Note of a run in Markdown, its outcome first; empty if there is nothing to report.

    Args:
        results: results of the tasks that have ended.
        kinds: operator of each task, in the order of the DAG.
        failures: reason of each failed task.
    """
    request = ""
    lines: list[str] = []
    for task, kind in kinds.items():
        if task not in results:
            continue
        if kind == "CheckRequest" and results[task]:
            request = escape_markdown(_answer_text(results[task]))
        elif kind == "Account" and failures:
            lines += _open_lines(results[task])
        elif kind in _LINES:
            lines += _LINES[kind](results[task])
    first_failed = next((task for task in kinds if task in failures), None)
    if first_failed is not None:
        return _shorten_note([*_failure_lines(first_failed, failures[first_failed], request), *lines])
    if not request:
        return ""
    return _shorten_note([f"{BEGINS}{request}{_unread_text(results, kinds)}**\n", *lines])


def _failure_lines(task: str, reason: str, request: str) -> list[str]:
    """Lines on the first task that failed, and on what was requested of the run."""
    sentence = f"failed in {task}"
    if reason:
        sentence = f"{sentence}: {escape_markdown(_shorten(reason, LONGEST_LINE))}"
    lines = [f"{BEGINS}{sentence}**\n"]
    if request:
        lines.append(f"Requested: it {request}\n")
    return lines


def _unread_text(results: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Words on the files that could not be read, which Airflow shows with the request; empty if all were.

    They are those of this run out of the files that it opened, or else those that earlier runs left.
    """
    jobs, reconciliations = (
        [results.get(task) for task in kinds if kinds[task] == kind] for kind in ("SluicegateJob", "Account")
    )
    unread = _unread_files_of_run(table for result in jobs for table in _job_tables(result))
    unread = unread or unread_files(table for tables in reconciliations for table in tables or ())
    if unread:
        return f"; {escape_markdown(_shorten(unread, LONGEST_LINE // 2))}"  # the name of a file may be long
    return ""


def _unread_files_of_run(tables: Iterable[TableReport]) -> str:
    opened = [table for table in tables if table.files]
    failed = [path for table in opened for path in table.failed]
    if not failed:
        return ""
    count = sum(table.files for table in opened)
    name = failed[0].rsplit("/", 1)[-1]
    return f"{count - len(failed):,} of {files(count)} read, {len(failed):,} unreadable, the first: {name}"


def _sensor_lines(result: Any) -> list[str]:
    if not result or not result.get(UNREPORTED):
        return []
    return ["- files were waiting, but Airflow's **triggerer** did not report them: check that it is running"]


def _job_tables(result: Any) -> list[TableReport]:
    """Tables of a job, or of the job of each layer."""
    reports = result or []
    if not isinstance(reports, list):
        reports = [reports]
    return [table for report in reports for table in RunReport.from_dict(report).tables]


def _reconciliation_lines(tables: Any) -> list[str]:
    sentence = escape_markdown(closing_sentence(tables))
    return [*_open_lines(tables), "", f"{sentence[0].upper()}{sentence[1:]}."]


def _answer_text(result: Any) -> str:
    """Request of a run; for a full refresh the task returns what a person answered."""
    if isinstance(result, str):
        return result
    approved = "Approve" in result.get("chosen_options", ())
    return f"requested a full refresh, which was {'approved' if approved else 'rejected'}"


def _job_lines(result: Any) -> Iterator[str]:
    """Lines on the tables of a job. Without its sample of quarantined rows: a note outlives rows that are deleted."""
    for table in _job_tables(result):
        if table.state != "idle":
            lines = [table.line(), *replace(table, samples=[]).remarks()]
            summary = "; ".join(" ".join(line.split()) for line in lines)
            yield f"- {escape_markdown(_shorten(summary, LONGEST_LINE))}"


def _open_lines(tables: list[dict[str, Any]]) -> Iterator[str]:
    """Lines on quarantined rows, files without rows in a table, and tables that are behind."""
    for table in tables:
        if table.get("quarantined"):
            yield f"- {table['table']}: {table['quarantined']:,} rows in quarantine"
        if table.get("failed files"):
            yield f"- {table['table']}: {files(table['failed files'])} could not be read"
        if table.get("skipped files"):
            skipped = files(table["skipped files"])
            yield f"- {table['table']}: {skipped} skipped; `sluicegate reload` reads them"
        if table.get("waits"):
            yield f"- {table['table']} is behind: {escape_markdown(table['waits'])}"


# Lines of the note on a task's result, by its operator.
_LINES: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "LandedFilesSensor": _sensor_lines,
    "SluicegateJob": _job_lines,
    "Account": _reconciliation_lines,
}


def _shorten(text: str, length: int) -> str:
    if len(text) > length:
        return f"{text[: length - 1]}…"
    return text


def _shorten_note(parts: list[str]) -> str:
    """As many whole lines as a note can hold, without characters that a database may refuse."""
    lines = [escape_text(part, keep="\n") for part in parts]
    whole = "\n".join(lines).rstrip()
    if len(whole) <= LONGEST:
        return whole
    text = ""
    for line in lines:
        if len(text) + len(line) > LONGEST - 2:
            break
        text += f"{line}\n"
    return f"{text or lines[0][: LONGEST - 1]}…"
