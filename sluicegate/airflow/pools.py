"""Pools of the jobs: Airflow's start makes that of the package, and a run whose pool is missing or too small says so.

A task whose pool does not exist, or has fewer slots than the task takes, is never started, and Airflow says so in the
scheduler's log alone. Tasks cannot make a pool, but the processes that have Airflow's database can, and load this as a
listener.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from sluicegate.airflow.dags.arguments import POOL
from sluicegate.airflow.reporting.run_note import BEGINS
from sluicegate.console import inflect

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

# Each job that runs at the same time has a driver of a gigabyte or so beside its task.
DEFAULT_SLOTS = 4

# Operators by which a DAG of a pipeline is known.
_OURS = ("CheckRequest", "Maintenance", "Verification", "CheckAlerts", "DefinitionMistakes")

ABOUT = "Jobs of pipelines that start Spark; created by sluicegate; edit it as needed."


@hookimpl
def on_starting(component: Any) -> None:
    """Make the pool when the scheduler, the triggerer or the DAG processor starts."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    if isinstance(component, Job):  # and no task, which has no database
        with suppress(IntegrityError), create_session() as session:  # of another process that makes it meanwhile
            create_pool(session)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Add a note to a run whose tasks wait for a missing pool or for slots.

    The pool is not made here: a conflict with another process that makes it would end the scheduler's transaction.
    """
    from sqlalchemy.orm import object_session

    tasks = dag_run.get_dag().tasks
    session = object_session(dag_run)
    if session is None or not any(task.task_type in _OURS for task in tasks):
        return
    sentence = _waiting_reason(tasks, _slots_by_pool(session))
    if sentence and (not dag_run.note or dag_run.note.startswith(BEGINS)):  # a person's note stays
        dag_run.note = f"{BEGINS}waits for a pool**: {sentence}"


def _waiting_reason(tasks: Sequence[Any], slots_of_pools: Mapping[str | None, int]) -> str:
    """What tasks would wait for without an end, and what to do about it; empty if for nothing."""
    absent = sorted({task.pool for task in tasks} - set(slots_of_pools))
    if absent:
        waiting = [task.task_id for task in tasks if task.pool in absent]
        return (
            f"the pool {', '.join(absent)} does not exist ({', '.join(waiting)}). Create it (Admin, Pools; a"
            f" restart of the scheduler creates {POOL}), or set another pool in the definition."
        )
    small = [task for task in tasks if 0 <= slots_of_pools[task.pool] < task.pool_slots]
    if not small:
        return ""
    pool, slots = small[0].pool, small[0].pool_slots
    many = inflect(slots, "slot", "slots")
    waiting = [task.task_id for task in small if task.pool == pool]
    return (
        f"the pool {pool} has {slots_of_pools[pool]} of {slots} {many} required ({', '.join(waiting)})."
        " Increase its slots (Admin, Pools), or set fewer pool_slots in the definition."
    )


def create_pool(session: Session) -> None:
    """Create the pool if it is missing; an existing one stays unchanged."""
    from airflow.models.pool import Pool

    if POOL not in _slots_by_pool(session):
        session.add(Pool(pool=POOL, slots=slots(), description=ABOUT, include_deferred=False))


def _slots_by_pool(session: Session) -> dict[str | None, int]:
    """Slots of each pool; -1 is as many as there may be."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    return {name: slots for name, slots in session.execute(select(Pool.pool, Pool.slots))}


def slots() -> int:
    """Slots that the pool is made with; what is no number from 1 is as if it were not set."""
    value = os.environ.get("SLUICEGATE_SPARK_SLOTS", "")
    if value.isdecimal() and int(value):
        return int(value)
    return DEFAULT_SLOTS
