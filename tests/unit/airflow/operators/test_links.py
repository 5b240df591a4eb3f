"""Where a task links to: what Airflow's own code stores of it, and reads again from a serialized DAG."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import console
from sluicegate.airflow.operators.links import is_address
from sluicegate.console import LOGGED, PAGE
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.support.channel import sent
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of
from tests.unit.airflow.test_dag import stored as stored
from tests.unit.airflow.test_dag import submit as submit

if TYPE_CHECKING:
    from sluicegate.airflow.operators.submit import SluicegateJob

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

KEY = "_link_SparkUI"
AT_4040 = sent(PAGE, "http://driver:4040")
FRONT = "SLUICEGATE_SPARK_UI"


def ran(job: SluicegateJob) -> None:
    """Runs a job, and ends its task as Airflow does."""
    from airflow.sdk.execution_time.task_runner import finalize
    from airflow.utils.state import TaskInstanceState

    context = context_of(job)
    job.execute(context)
    log: Any = logging.getLogger()
    finalize(context["ti"], TaskInstanceState.SUCCESS, context, log)


def links(stored: list[tuple[str, Any]]) -> list[Any]:
    return [value for key, value in stored if key == KEY]


def test_sparks_page_and_then_the_history_servers(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_HISTORY_SERVER", "http://history:18080/")
    ran(submit(f"{AT_4040}\n{sent(LOGGED, 'local-17')}"))
    assert links(stored) == ["http://driver:4040", "http://history:18080/history/local-17/"]


@pytest.mark.parametrize("said", [AT_4040, "echo nothing", sent(LOGGED, "local-17")])
def test_a_page_that_is_gone_is_linked_no_more(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    if LOGGED not in said:
        monkeypatch.setenv("SLUICEGATE_HISTORY_SERVER", "http://history:18080")
    ran(submit(said))
    assert links(stored)[-1] == ""


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        ("http://driver:4040", True),
        ("https://front.example/proxy/app-1/", True),
        ("HTTPS://front.example", True),
        ("javascript:alert(document.domain)", False),
        ("data:text/html,x", False),
        ("//evil.example", False),
        ("https:/evil.example", False),
        ("http://", False),
        ("http://[", False),
        ("http://a\nb", False),
        (" http://a", False),
        ("", False),
    ],
)
def test_only_an_address_of_the_web_is_linked(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]], address: str, linked: bool
) -> None:
    assert is_address(address) is linked
    if linked or ":" in address:
        ran(submit(sent(PAGE, address)))
        assert links(stored)[:-1] == ([address] if linked else [])


def test_an_application_id_is_a_part_of_the_address_of_the_history_server(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_HISTORY_SERVER", "http://history:18080")
    ran(submit(sent(LOGGED, "../../x?y#z")))
    assert links(stored) == ["http://history:18080/history/..%2F..%2Fx%3Fy%23z/"]


def test_airflows_server_knows_the_link_without_our_code(workspace: Workspace) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.from_dict(DagSerialization.to_dict(dag_of(workspace)))
    found = {task.task_id: [(one.name, one.xcom_key) for one in task.operator_extra_links] for task in dag.tasks}
    assert [name for name, those in found.items() if ("Spark UI", KEY) in those] == ["bronze", "silver", "gold"]
    assert all(type(one).__module__.startswith("airflow.") for task in dag.tasks for one in task.operator_extra_links)


@pytest.mark.parametrize(
    ("own", "master", "variables", "expected"),
    [
        ("http://here:4040", "local[*]", {}, "http://here:4040"),
        (None, "spark://master:7077", {FRONT: "http://master:8080"}, ""),
        ("http://here:4040", "spark://master:7077", {FRONT: "http://master:8080/"}, "http://master:8080/proxy/app-1/"),
        ("http://here:4040", "local[*]", {FRONT: "http://master:8080"}, "http://here:4040"),
        ("http://here:4040", "spark://master:7077", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ""),
        ("http://public:4040", "k8s://x", {"KUBERNETES_SERVICE_HOST": "1", "SPARK_PUBLIC_DNS": "public"},
         "http://public:4040"),
    ],
)  # fmt: skip
def test_a_page_is_linked_where_it_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, own: str | None, master: str, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(console, "_OF_CONTAINERS", ())
    for name in (FRONT, "SPARK_PUBLIC_DNS", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert console.ui_address(own, master, "app-1") == expected


def test_a_container_has_a_name_that_means_nothing_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(console, "_OF_CONTAINERS", (tmp_path / ".dockerenv",))
    for name in (FRONT, "SPARK_PUBLIC_DNS", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert console.ui_address("http://1f2e3d:4040", "local[*]", "app-1") == "http://1f2e3d:4040"
    (tmp_path / ".dockerenv").touch()
    assert console.ui_address("http://1f2e3d:4040", "local[*]", "app-1") == ""


def test_a_byte_that_is_no_text_ends_no_task(
    submit: Callable[[str], SluicegateJob], stored: list[tuple[str, Any]]
) -> None:
    ran(submit(rf"printf 'caf\351\n'; {AT_4040}"))
    assert links(stored)[0] == "http://driver:4040"
