"""The pod of a job on Kubernetes, as Airflow's provider makes it of the template and the definition of the how-to.

``SLUICEGATE_GOLDEN=1`` writes it again. Without the provider (``pip install apache-airflow-providers-cncf-kubernetes``)
what the definition says is compared with what the pod has of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

GOLDEN = Path(__file__).with_name("kubernetes_pod.yaml")
PAGE = (ROOT / "docs" / "howto" / "existing-airflow.md").read_text()
TEMPLATE, DEFINITION = re.findall(r"```yaml\n(.*?)```", PAGE[PAGE.index("**Kubernetes.**") :], re.DOTALL)[:2]


@pytest.fixture
def on_kubernetes(workspace: Workspace) -> Workspace:
    """The sample pipeline with what the page says of its jobs."""
    workspace.edit("pipeline.yaml", "\ndatabase:", f"\n{DEFINITION}\ndatabase:")
    return workspace


def pod_of(task: Any) -> Any:
    """The pod that Airflow's executor makes of a task, as it is sent to Kubernetes."""
    from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
    from kubernetes.client import ApiClient

    pod = PodGenerator.construct_pod(
        dag_id=task.dag_id, task_id=task.task_id, pod_id="heart-rate-silver", try_number=1, kube_image="image",
        date=None, args=["airflow", "execute"], pod_override_object=task.executor_config.get("pod_override"),
        base_worker_pod=PodGenerator.deserialize_model_dict(yaml.safe_load(TEMPLATE)), namespace="airflow",
        scheduler_job_id="1", run_id="manual",
    )  # fmt: skip
    return ApiClient().sanitize_for_serialization(pod)


def test_the_pod_of_a_job_has_what_template_and_definition_say(on_kubernetes: Workspace) -> None:
    pytest.importorskip("airflow.providers.cncf.kubernetes.pod_generator")
    dag = dag_of(on_kubernetes)
    jobs = {name: pod_of(dag.get_task(name)) for name in ("bronze", "silver", "gold")}
    for name, pod in jobs.items():
        if name != "silver":
            pod["metadata"] |= {"annotations": None, "labels": None}
    made = jobs["silver"]
    made["metadata"]["labels"].pop("airflow_version", None)
    if os.environ.get("SLUICEGATE_GOLDEN"):
        GOLDEN.write_text(yaml.safe_dump(made, sort_keys=True))
    assert made == yaml.safe_load(GOLDEN.read_text())
    assert jobs["bronze"]["spec"] == made["spec"]
    # A task that starts no Spark has the template's.
    [reader] = pod_of(dag.get_task("wait_for_files"))["spec"]["containers"]
    assert reader["resources"]["limits"] == {"memory": "1Gi"}

    from airflow.serialization.serialized_objects import DagSerialization

    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    kept: Any = again.get_task("silver").executor_config["pod_override"]
    assert kept.spec.service_account_name == "sluicegate-jobs"


def test_the_pod_has_all_that_the_definition_says() -> None:
    """Which needs no provider."""
    wanted = yaml.safe_load(DEFINITION)["airflow"]["executor_config"]["pod_override"]
    assert missing(wanted, yaml.safe_load(GOLDEN.read_text())) == []
    assert missing(yaml.safe_load(TEMPLATE)["spec"]["securityContext"], yaml.safe_load(GOLDEN.read_text())["spec"][
        "securityContext"]) == []  # fmt: skip
    assert missing({"a": [{"name": "x", "b": 1}]}, {"a": [{"name": "x", "b": 2}]}) == ["a.x.b"]


def missing(wanted: Any, there: Any, place: str = "") -> list[str]:
    """Places of what is wanted and not there; items of lists are known by their names."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return [one for key, value in wanted.items() for one in missing(value, there.get(key), f"{place}.{key}")]
    if isinstance(wanted, list) and isinstance(there, list) and all(isinstance(one, dict) for one in wanted):
        named = {one["name"]: one for one in there}
        return [p for one in wanted for p in missing(one, named.get(one["name"]), f"{place}.{one['name']}")]
    return [] if wanted == there else [place.lstrip(".")]
