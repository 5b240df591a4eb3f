"""What Airflow's database has of the runs of pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun as Stored
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, func, select, tuple_
from sqlalchemy.orm import Session

from sluicegate.airflow.reporting.failure_reason import REASON
from sluicegate.dashboard.runs import SENSOR, TASKS, DagRun, RunStep

NEWEST = 50
"""Runs that the pages of one pipeline have."""

UNKNOWN = "it was ended before it could say why; its log may say more"
"""Reason of a failed task that left none: one that was killed, or that Airflow failed."""

# The wait for files within a run. When tasks of a run are cleared, Airflow starts the run anew, after its old wait.
_WAIT = and_(
    TaskInstance.dag_id == Stored.dag_id, TaskInstance.run_id == Stored.run_id, TaskInstance.task_id == SENSOR,
    TaskInstance.start_date >= Stored.start_date,
)  # fmt: skip


def last_runs(dags: Sequence[str], count: int) -> dict[str, list[DagRun]]:
    """Return the last runs of DAGs, newest first, without their tasks."""
    place = func.row_number().over(partition_by=Stored.dag_id, order_by=Stored.run_after.desc()).label("place")
    numbered = select(Stored.id, place).where(Stored.dag_id.in_(dags)).subquery()
    query = (
        select(Stored, func.coalesce(TaskInstance.duration, 0.0))
        .join(numbered, Stored.id == numbered.c.id)
        .outerjoin(TaskInstance, _WAIT)
        .where(numbered.c.place <= count)
    )
    runs: dict[str, list[DagRun]] = {}
    with create_session(scoped=False) as session:
        for run, waited in session.execute(query.order_by(Stored.run_after.desc())):
            runs.setdefault(run.dag_id, []).append(replace(_dag_run(run), waited=waited))
    return runs


def last_runs_with_steps(dags: Sequence[str], count: int) -> dict[str, list[DagRun]]:
    """Return the last runs of DAGs, newest first; those that failed, are open or rebuild days with their tasks."""
    runs = last_runs(dags, count)
    chosen = [
        (dag, run.run_id) for dag, of_dag in runs.items() for run in of_dag
        if run.state != "success" or run.kind == "backfill" or run.requested.get("from")
    ]  # fmt: skip
    with create_session(scoped=False) as session:
        steps = _steps(session, chosen)
    return {
        dag: [replace(run, steps=steps.get((dag, run.run_id), ())) for run in of_dag] for dag, of_dag in runs.items()
    }


def paused(dags: Sequence[str]) -> set[str]:
    """Return the DAGs that are paused."""
    with create_session(scoped=False) as session:
        return set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(dags), DagModel.is_paused)))


def find_run(dag: str, run_id: str) -> DagRun | None:
    """Return a run with its note, tasks and reported seconds, None if Airflow does not have it."""
    with create_session(scoped=False) as session:
        run = session.scalar(select(Stored).where(Stored.dag_id == dag, Stored.run_id == run_id))
        if run is None:
            return None
        steps = _steps(session, [(dag, run_id)]).get((dag, run_id), ())
        waited = session.scalar(select(func.sum(TaskInstance.duration)).where(_WAIT, Stored.id == run.id)) or 0.0
        return replace(_dag_run(run, str(run.note or ""), steps, dict(_seconds(session, run))), waited=waited)


def _dag_run(
    run: Stored, note: str = "", steps: tuple[RunStep, ...] = (), seconds: Mapping[str, float] | None = None
) -> DagRun:
    interval = None
    if run.data_interval_start is not None and run.data_interval_end is not None:
        interval = (run.data_interval_start, run.data_interval_end)
    return DagRun(
        run.run_id, str(run.state), getattr(run.run_type, "value", str(run.run_type)), run.start_date, run.end_date,
        interval, str(run.triggering_user_name or ""), note, dict(run.conf or {}), steps, seconds or {},
    )  # fmt: skip


def _steps(session: Session, runs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[RunStep, ...]]:
    """Return the tasks of each run, by its DAG and id, in the order of the DAG."""
    of_runs = tuple_(TaskInstance.dag_id, TaskInstance.run_id).in_(runs)
    instances = session.scalars(select(TaskInstance).where(of_runs)).all()
    left = XComModel.key == REASON, tuple_(XComModel.dag_id, XComModel.run_id).in_(runs)
    reasons = {
        (stored.dag_id, stored.run_id, stored.task_id): str(XComModel.deserialize_value(stored))
        for stored in session.scalars(select(XComModel).where(*left))
    }
    place = {name: number for number, name in enumerate(TASKS)}
    steps: dict[tuple[str, str], tuple[RunStep, ...]] = {}
    for task in sorted(instances, key=lambda instance: (place.get(instance.task_id, len(place)), instance.task_id)):
        key, reason = (task.dag_id, task.run_id), ""
        if task.state == "failed":
            reason = reasons.get((*key, task.task_id), UNKNOWN)
        state = str(task.state or "not started")
        step = RunStep(task.task_id, state, task.start_date, task.end_date, task.try_number, reason)
        steps[key] = (*steps.get(key, ()), step)
    return steps


def _seconds(session: Session, run: Stored) -> Iterable[tuple[str, float]]:
    """Yield the seconds of each table from the reports that the jobs returned."""
    of_run = (XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == XCOM_RETURN_KEY)
    for stored in session.scalars(select(XComModel).where(*of_run)):
        for report in _reports(XComModel.deserialize_value(stored)):
            yield from ((str(table["table"]), float(table["seconds"])) for table in report["tables"])


def _reports(result: Any) -> Iterator[Mapping[str, Any]]:
    """Return the report among a task's results; other tasks return other types."""
    for report in result if isinstance(result, list) else [result]:
        listed = report.get("tables") if isinstance(report, dict) else None
        if isinstance(listed, list) and all(isinstance(t, dict) and {"table", "seconds"} <= t.keys() for t in listed):
            yield report
