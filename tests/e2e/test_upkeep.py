"""The daily cleaning of the compose stack, by Airflow's own command, in a database with Airflow's tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docker import upkeep
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.e2e, pytest.mark.more, pytest.mark.usefixtures("airflow_home")]

NOW = datetime.now(UTC)
BEFORE = NOW - timedelta(days=30)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session of a database with Airflow's tables, which is that of Airflow's commands as well."""
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    import_all_models()
    address = f"sqlite:///{tmp_path / 'airflow.db'}"
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", address)
    engine = create_engine(address)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def runs(session: Any) -> set[str]:
    from airflow.models.dagrun import DagRun

    session.expire_all()
    return {run.run_id for run in session.query(DagRun)}


def test_old_runs_go_and_the_last_of_each_dag_stays(session: Any) -> None:
    from airflow.models.asset import AssetEvent
    from airflow.models.dagrun import DagRun

    for days in (40, 35, 31, 29):
        began = NOW - timedelta(days=days)
        for dag in ("daily", "former") if days > 30 else ("daily",):
            facts: Any = {"run_type": "scheduled", "state": "success", "start_date": began, "run_after": began}
            session.add(DagRun(dag_id=dag, run_id=f"{dag}-{days}", logical_date=began, **facts))
    for asset, days in ((1, 400), (1, 399), (2, 60), (2, 40), (2, 29), (2, 1)):
        session.add(AssetEvent(asset_id=asset, timestamp=NOW - timedelta(days=days)))
    session.commit()
    assert upkeep.clean_database(BEFORE) == 0
    assert runs(session) == {"daily-29", "former-31"}
    left = {(event.asset_id, (NOW - event.timestamp).days) for event in session.query(AssetEvent)}
    assert left == {(1, 399), (2, 29), (2, 1)}  # by the last of an asset a task knows what it has reported


def test_a_database_that_does_not_answer_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path / 'empty.db'}")
    assert upkeep.clean_events(BEFORE) == 1
    assert "could not delete old events of assets" in capsys.readouterr().err
