"""A pipeline that is renamed beside a running Airflow, with real Spark, against plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import DAG, DAGS, asked, run
from tests.spark.test_medallion import assert_right
from tests.support.disturbed_airflow import command, ended, land, quick_airflow, until, versions

pytestmark = [pytest.mark.e2e, pytest.mark.release]

NEW = "heartbeats"


@pytest.fixture
def airflow(workspace: Workspace) -> Iterator[LocalAirflow]:
    with quick_airflow(workspace) as started:
        yield started


def test_a_renamed_pipeline_goes_on_with_what_has_landed_since(airflow: LocalAirflow, workspace: Workspace) -> None:
    land(workspace, 1)
    assert ended(airflow, run(airflow)) == "success"
    history = json.loads(command(workspace, "history", DAG, "--newest", "1000", "--json"))
    token = airflow.call("GET", DAGS)["file_token"]

    command(workspace, "rename", DAG, NEW)
    renamed = Workspace(workspace.folder, NEW)
    assert json.loads(command(renamed, "history", NEW, "--newest", "1000", "--json")) == history
    asked(airflow, "PUT", f"/api/v2/parseDagFile/{token}", None)
    airflow.wait(NEW)
    # The former DAG is no longer among those that run.
    until(airflow, lambda: DAG not in {dag["dag_id"] for dag in airflow.call("GET", "/api/v2/dags")["dags"]})

    # The first run of the new DAG reads what has landed since, and nothing again.
    before = versions(renamed)
    land(renamed, 2)
    run_id = airflow.trigger(NEW)
    done = ("success", "failed")
    assert until(airflow, lambda: s if (s := airflow.run_state(NEW, run_id)) in done else None) == "success"
    assert airflow.result(NEW, run_id, "wait_for_files")["files"] == 1
    assert versions(renamed)["patients_bronze"] == before["patients_bronze"]
    assert_right(renamed)
    assert f"{NEW}.recordings_bronze" in {
        one["name"] for one in airflow.call("GET", "/api/v2/assets?limit=100")["assets"]
    }
