"""What a job finds in its environment, and what Airflow keeps there that it must not find."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.settings import Settings
from sluicegate.spark import metastore, spark_submit
from tests.conftest import Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import run
from tests.unit.airflow.test_dag import submit as submit

if TYPE_CHECKING:
    from sluicegate.airflow.operators.submit import SluicegateJob

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

SECRETS = {
    "AIRFLOW__API_AUTH__JWT_SECRET": "signs the tokens of tasks",
    "AIRFLOW__CORE__FERNET_KEY": "opens the connections",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_SECRET": "opens the database",
    "AIRFLOW_CONN_MAIL": "smtp://ada:secret@mail.example",
    "AIRFLOW_VAR_KEY": "a variable",
    "AIRFLOW_PASSWORD": "of a person",
    "_AIRFLOW_WWW_USER_PASSWORD": "of a person",
    metastore.PASSWORD: "of the catalog",
}
KEPT = {"AIRFLOW_CTX_DAG_ID": "heart_rate", "SLUICEGATE_PII_KEY_FILE": "/run/key", "OF_THE_USER": "1"}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (SECRETS | KEPT).items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("variables")
def test_a_job_has_none_of_airflows_secrets(submit: Callable[..., SluicegateJob], heartbeats: Workspace) -> None:
    seen = heartbeats.folder / "seen"
    job = submit(f"env > {seen}")
    job.env_vars = {"OF_THE_TASK": 7}
    run(job)
    found = dict(line.split("=", 1) for line in seen.read_text().splitlines() if "=" in line)
    assert not found.keys() & (SECRETS.keys() | {"AIRFLOW_CONN_SPARK_DEFAULT"})
    assert {name: found.get(name) for name in KEPT} == KEPT
    assert found["OF_THE_TASK"] == "7"
    assert {name: os.environ.get(name) for name in SECRETS} == SECRETS  # the task itself has them again


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(("job", "has"), [("catalog", True), ("bronze", False), ("run", False)])
def test_the_job_that_opens_the_metastore_has_its_password(job: str, has: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(spark_submit.java, "spark_home", lambda: "/spark")
    found = spark_submit.job_env(job, "heart_rate", Settings.of(master="local[2]"))
    assert (metastore.PASSWORD in found) is has
    assert not found.keys() & (SECRETS.keys() - {metastore.PASSWORD})


@pytest.mark.usefixtures("variables")
def test_a_client_of_a_server_has_none_either(workspace: Workspace) -> None:
    found = spark_submit.job_env("bronze", workspace.pipeline, Settings.of(master="sc://server.example:15002"))
    assert not found.keys() & SECRETS.keys()
    assert found["OF_THE_USER"] == "1"


@pytest.mark.parametrize(
    ("configured", "argument", "told"),
    [("False", None, False), ("False", True, True), ("True", None, True), ("True", False, False)],
)
def test_an_argument_or_the_configuration_tells_sparks_listener_of_the_task(
    submit: Callable[..., SluicegateJob], heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch,
    configured: str, argument: bool | None, told: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", configured)
    seen = heartbeats.folder / "seen"
    job = submit(f'echo "$@" > {seen}')
    job.openlineage_inject_parent_job_info = argument
    run(job)
    assert ("spark.openlineage.parent" in seen.read_text()) is told
