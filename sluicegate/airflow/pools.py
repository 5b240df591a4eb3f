"""Pools of the jobs: one is made where there is none, and a run whose pool is missing says so.

A task whose pool does not exist is never started, and Airflow says so in the scheduler's log alone. Tasks cannot make a
pool, but the processes that have Airflow's database can, and load this as a listener.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from sluicegate.airflow.arguments import POOL
from sluicegate.airflow.run_note import BEGINS

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

# Each job that runs at the same time has a driver of a gigabyte or so beside its task.
DEFAULT_SLOTS = 4

# Operators by which a DAG of a pipeline is known.
_OURS = ("CheckRequest", "Maintenance", "Verification")

ABOUT = "Jobs of pipelines that start Spark; made by sluicegate, and yours to change."


@hookimpl
def on_starting(component: Any) -> None:
    """Makes the pool when the scheduler, the triggerer or the DAG processor starts."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    if not isinstance(component, Job):  # a task, which has no database
        return
    try:
        with create_session() as session:
            make(session)
    except IntegrityError:  # another process has just made it
        return


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Makes the pool anew if it was deleted; a run whose tasks wait for another that is missing gets a note."""
    from sqlalchemy.orm import object_session

    tasks = dag_run.get_dag().tasks
    session = object_session(dag_run)
    if session is None or not any(task.task_type in _OURS for task in tasks):
        return
    wanted = {task.pool for task in tasks}
    if POOL in wanted:
        make(session)
    absent = sorted(wanted - _known(session))
    if absent and (not dag_run.note or dag_run.note.startswith(BEGINS)):  # a person's note stays
        waiting = [task.task_id for task in tasks if task.pool in absent]
        dag_run.note = (
            f"{BEGINS}waits** for what Airflow does not have: the pool {', '.join(absent)}, in which"
            f" {', '.join(waiting)} would start. Make it (Admin, Pools), or name another in the definition."
        )


def make(session: Session) -> None:
    """Makes the pool where there is none; one that is there stays as it is."""
    from airflow.models.pool import Pool

    if POOL not in _known(session):
        session.add(Pool(pool=POOL, slots=slots(), description=ABOUT, include_deferred=False))
        session.flush()


def _known(session: Session) -> set[str | None]:
    from airflow.models.pool import Pool
    from sqlalchemy import select

    return set(session.scalars(select(Pool.pool)))


def slots() -> int:
    """Slots that the pool is made with; what is no number from 1 is as if it were not set."""
    said = os.environ.get("SLUICEGATE_SPARK_SLOTS", "")
    return int(said) if said.isdecimal() and int(said) else DEFAULT_SLOTS
