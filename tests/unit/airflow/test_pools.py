"""The pool of the jobs, in Airflow's own tables: without it their tasks would wait for ever, and nobody be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Workspace
from tests.support.airflow_runs import LAST
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture
def session() -> Iterator[Any]:
    """A session of a database with Airflow's tables, and no pool."""
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    import_all_models()
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session


def pools(session: Any) -> dict[str, int]:
    from airflow.models.pool import Pool

    return {pool.pool: pool.slots for pool in session.query(Pool)}


@pytest.mark.parametrize(("said", "slots"), [("", 4), ("0", 4), ("1", 1), ("7", 7), ("many", 4), ("-1", 4)])
def test_the_pool_is_made_once_and_is_yours_then(
    session: Any, said: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.pool import Pool

    from sluicegate.airflow.pools import create_pool

    monkeypatch.setenv("SLUICEGATE_SPARK_SLOTS", said)
    create_pool(session)
    assert pools(session) == {"spark": slots}
    session.query(Pool).one().slots = 128
    create_pool(session)
    assert pools(session) == {"spark": 128}


def begun(session: Any, dag: Any, note: str | None = None, number: int = 1) -> Any:
    """A run that the scheduler has just begun."""
    from airflow.models.dagrun import DagRun
    from airflow.serialization.serialized_objects import DagSerialization

    from sluicegate.airflow import pools as of_jobs

    run = DagRun(dag_id=dag.dag_id, run_id=f"manual__{number}", run_type="manual", state="running", run_after=LAST)
    run.dag = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    session.add(run)
    run.note = note
    of_jobs.on_dag_run_running(run, "started")
    return run


@pytest.fixture
def default_pool(session: Any) -> None:
    from airflow.models.pool import Pool

    session.add(Pool(pool="default_pool", slots=128, description="", include_deferred=False))
    session.flush()


@pytest.mark.usefixtures("default_pool")
def test_a_run_whose_pool_somebody_deleted_says_so(session: Any, workspace: Workspace) -> None:
    """It makes none: the transaction is the scheduler's, in its critical section."""
    from airflow.utils.sqlalchemy import prohibit_commit

    with prohibit_commit(session) as guard:
        note = begun(session, dag_of(workspace)).note
        guard.commit()
    assert "the pool spark does not exist (bronze, silver, gold)" in note
    assert pools(session) == {"default_pool": 128}


@pytest.mark.usefixtures("default_pool")
def test_a_run_whose_pool_is_missing_says_so(session: Any, workspace: Workspace) -> None:
    from sluicegate.airflow.reporting.run_note import BEGINS

    workspace.edit("pipeline.yaml", "\ndatabase:", "\nairflow: {pool: heavy}\ndatabase:")
    assert begun(session, dag_of(workspace), "of a person", 2).note == "of a person"
    note = begun(session, dag_of(workspace)).note
    assert note.startswith(BEGINS)  # so that the note of its end takes its place
    assert "the pool heavy does not exist (bronze, silver, gold)" in note
    assert "spark" not in pools(session)


@pytest.mark.usefixtures("default_pool")
@pytest.mark.parametrize(("slots", "told"), [(2, True), (3, False), (-1, False)])
def test_a_run_whose_pool_is_too_small_says_so(session: Any, workspace: Workspace, slots: int, told: bool) -> None:
    """A task that takes more slots than there are waits for ever, and the scheduler's log alone has it."""
    from airflow.models.pool import Pool

    session.add(Pool(pool="heavy", slots=slots, description="", include_deferred=False))
    workspace.edit("pipeline.yaml", "\ndatabase:", "\nairflow: {pool: heavy, pool_slots: 3}\ndatabase:")
    note = begun(session, dag_of(workspace)).note or ""
    assert ("the pool heavy has 2 of 3 slots required (bronze, silver, gold)" in note) is told
    assert bool(note) is told


@pytest.mark.usefixtures("default_pool")
def test_mistakes_whose_pool_is_missing_say_so(session: Any, workspace: Workspace) -> None:
    """Else the run that is to tell of them waits without an end, and nobody is told of either."""
    from sluicegate.airflow.dag import medallion_dags

    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    dag = medallion_dags(workspace.settings, task_args={"pool": "heavy"})["heart_rate"]
    assert "the pool heavy does not exist (check_request," in begun(session, dag).note


@pytest.mark.usefixtures("default_pool")
def test_alerts_whose_pool_is_missing_say_so(session: Any, workspace: Workspace) -> None:
    from sluicegate.airflow.dag import medallion_dags

    alerts = "\nalerts: {schedule: 5 5 * * *, freshness: {daily_patient_avg: {fail: 1 day}}}\ndatabase:"
    workspace.edit("pipeline.yaml", "\ndatabase:", alerts)
    dags = medallion_dags(workspace.settings, task_args={"pool": "heavy"})
    assert "the pool heavy does not exist (alerts)" in begun(session, dags["heart_rate_alerts"]).note


@pytest.mark.parametrize("known", [False, True])
def test_a_start_makes_the_pool_also_beside_another_process(
    session: Any, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import contextmanager

    from airflow.jobs.job import Job
    from airflow.models.pool import Pool
    from airflow.utils import session as of_airflow

    from sluicegate.airflow import pools as of_jobs

    @contextmanager
    def create_session() -> Iterator[Any]:
        with session.begin_nested():
            yield session

    monkeypatch.setattr(of_airflow, "create_session", create_session)
    if known:
        session.add(Pool(pool="spark", slots=9, description="", include_deferred=False))
        session.flush()
        monkeypatch.setattr(of_jobs, "_slots_by_pool", lambda _: {})  # as it was when the other had not made it
    of_jobs.on_starting(Job())
    assert pools(session) == {"spark": 9 if known else 4}


@pytest.mark.usefixtures("default_pool")
def test_other_peoples_runs_are_left_alone(session: Any) -> None:
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    with DAG("theirs", schedule=None) as dag:
        EmptyOperator(task_id="task", pool="theirs")
    assert begun(session, dag).note is None
    assert pools(session) == {"default_pool": 128}


def test_a_task_makes_no_pool() -> None:
    from airflow.sdk.execution_time.task_runner import TaskRunnerMarker

    from sluicegate.airflow import pools as of_jobs

    of_jobs.on_starting(TaskRunnerMarker())  # it has no database


def test_the_plugin_brings_the_listeners() -> None:
    from sluicegate.airflow import pools
    from sluicegate.airflow.plugin import SluicegatePlugin
    from sluicegate.airflow.reporting import run_note

    assert SluicegatePlugin.listeners == [run_note, pools]
