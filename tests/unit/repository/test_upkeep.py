"""The daily cleaning of the compose stack: what goes, and what has to stay."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docker import upkeep
from tests.conftest import ROOT
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

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


@pytest.mark.more
def test_old_runs_go_and_the_last_of_each_dag_stays(session: Any) -> None:
    from airflow.models.asset import AssetEvent
    from airflow.models.dagrun import DagRun

    for days in (40, 35, 31, 29):
        began = NOW - timedelta(days=days)
        for dag in ("daily", "former") if days > 30 else ("daily",):
            facts: Any = {"run_type": "scheduled", "state": "success", "start_date": began, "run_after": began}
            session.add(DagRun(dag_id=dag, run_id=f"{dag}-{days}", logical_date=began, **facts))
    session.add(AssetEvent(asset_id=1, timestamp=NOW - timedelta(days=400)))
    session.commit()
    assert upkeep.clean_database(BEFORE) == 0
    assert runs(session) == {"daily-29", "former-31"}
    assert session.query(AssetEvent).count() == 1  # by it a task knows what it has reported


def test_its_tables_are_airflows_and_those_of_the_page() -> None:
    from airflow.utils.db_cleanup import config_dict

    assert set(upkeep.TABLES) <= config_dict.keys()
    assert not {"asset_event", "trigger", "dag"} & set(upkeep.TABLES)
    assert f"--tables {','.join(upkeep.TABLES)}\n" in (ROOT / "docs" / "howto" / "existing-airflow.md").read_text()


@pytest.mark.parametrize(("seconds", "stays"), [(-60, False), (60, True)])
def test_files_go_once_they_are_old(tmp_path: Path, seconds: int, stays: bool) -> None:
    new, old = tmp_path / "dag" / "run" / "new.log", tmp_path / "dag" / "other" / "old.log"
    for file in (new, old):
        file.parent.mkdir(parents=True)
        file.write_text("x")
    os.utime(old, times=(BEFORE.timestamp() + seconds,) * 2)
    assert upkeep.delete_files(tmp_path, BEFORE) == (0 if stays else 1)
    assert (old.exists(), old.parent.exists(), new.exists()) == (stays, stays, True)


def test_a_folder_that_is_missing_is_no_trouble(tmp_path: Path) -> None:
    assert upkeep.delete_files(tmp_path / "none", BEFORE) == 0
