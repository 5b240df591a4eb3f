"""Airflow's own server in this process, with the Lakehouse page in it, and logins as Airflow gives them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sluicegate.dashboard.source import Source
from sluicegate.settings import Settings


@contextmanager
def served(settings: Settings, home: Path, dags: Sequence[str]) -> Iterator[Any]:
    """A client of the server, which has some DAGs in its database; runs of heart_rate can be triggered."""
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith("AIRFLOW")]:
            patch.delenv(key)
        environment = {
            "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__AUTH_MANAGER": "tests.support.dag_rights.DagRights",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of these tests that is long enough to sign with it, surely",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
            "SLUICEGATE_LAKE": settings.lake, "SLUICEGATE_LANDING": settings.landing,
            "SLUICEGATE_PIPELINES": str(settings.pipelines),
        }  # fmt: skip
        for key, value in environment.items():
            patch.setenv(key, value)
        yield from _started(patch, dags)


def _started(patch: pytest.MonkeyPatch, dags: Sequence[str]) -> Iterator[Any]:
    from airflow import settings as airflow_settings
    from airflow.api_fastapi import app as airflow_app
    from airflow.configuration import conf
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    from sluicegate.airflow.page import app as page_app

    # On a busy machine a page would say that it is being read: here it waits until it is.
    patch.setattr(page_app, "Source", partial(Source, patience=None))
    old, address = airflow_settings.SQL_ALCHEMY_CONN, conf.get("database", "sql_alchemy_conn")
    airflow_settings.SQL_ALCHEMY_CONN = address
    airflow_settings.SQL_ALCHEMY_CONN_ASYNC = address.replace("sqlite:", "sqlite+aiosqlite:")
    airflow_settings.reconfigure_orm()  # type: ignore[no-untyped-call]
    import_all_models()  # type: ignore[no-untyped-call]
    Base.metadata.create_all(airflow_settings.engine)
    _store_dags(dags)
    airflow_app.purge_cached_app()
    with TestClient(airflow_app.create_app("core"), base_url="http://testserver") as client:
        yield client
    airflow_app.purge_cached_app()
    airflow_settings.SQL_ALCHEMY_CONN = old
    airflow_settings.dispose_orm()


def _store_dags(dags: Sequence[str]) -> None:
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(DagBundleModel(name="dags-folder"))
        session.flush()
        for name in dags:
            dag = DagModel(dag_id=name, bundle_name="dags-folder", fileloc="x", relative_fileloc="x", is_paused=False)  # type: ignore[no-untyped-call]
            session.add(dag)
    _store_form()


def _store_form() -> None:
    """Stores the DAG of heart_rate as the DAG processor does, so that runs can be triggered."""
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import synchronize_log_template
    from airflow.utils.session import create_session

    from sluicegate.airflow.dag import medallion_dag, settings_below

    dag = medallion_dag("heart_rate", settings_below(Path()))
    with create_session() as session:
        synchronize_log_template(session=session)  # which each run refers to
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), "dags-folder", session=session)
        session.get_one(DagModel, "heart_rate").is_stale = False


def token(user: str) -> str:
    """A token as Airflow gives it to a user who has logged in."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    made: str = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role="viewer"))
    return made


def get(server: Any, path: str, user: str | None = "reader", **headers: str) -> Any:
    """Requests a page as a browser does: with the cookie of Airflow's login."""
    cookie = {"Cookie": f"_token={token(user)}"} if user else {}
    return server.get(f"/lakehouse/{path}", headers=cookie | headers, follow_redirects=False)


def add_run(dag: str, run_id: str, state: str, **run: Any) -> None:
    """Adds a run to Airflow's database; ``tasks`` are their states, ``reasons`` what failed ones left."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    from sluicegate.airflow.reporting.failure_reason import REASON

    tasks, reasons = run.pop("tasks", {}), run.pop("reasons", {})
    of_run = {"dag_id": dag, "run_id": run_id}
    began, ended = run["start_date"], run.get("end_date")
    with create_session() as session:
        stored = {"run_type": "manual", "state": state, "run_after": began, **of_run, **run}
        session.execute(insert(DagRun).values(**stored))
        for name, task_state in tasks.items():
            times = {}
            if task_state not in (None, "upstream_failed"):
                times = {
                    "start_date": began,
                    "end_date": None if task_state in ("running", "deferred") else ended or began,
                }
            task = {"task_id": name, "state": task_state, "id": uuid4(), "try_number": int(bool(times)), "max_tries": 0,
                    "pool": "default", "pool_slots": 1, "map_index": -1, **times}  # fmt: skip
            session.execute(insert(TaskInstance).values(**task, **of_run))
        for name, reason in reasons.items():
            XComModel.set(key=REASON, value=reason, task_id=name, session=session, dag_id=dag, run_id=run_id)
