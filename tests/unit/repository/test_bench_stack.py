"""The table of the compose stack after many runs; the series itself needs the stack."""

from __future__ import annotations

import pytest
import yaml

from bench import stack
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("shown", "size"),
    [("512B / 1GiB", 512), ("1.5KiB / 1GiB", 1536), ("640MiB / 2GiB", 640 << 20), ("1.25GiB / 2.25GiB", 5 << 28)],
)
def test_memory_is_read_as_docker_shows_it(shown: str, size: int) -> None:
    assert stack.memory_of(shown) == size


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="is no size"):
        stack.memory_of("--")


def test_each_sample_is_a_column_and_the_table_takes_the_place_of_the_one_before() -> None:
    first = stack.Sample(0, 0, None, {"logs": 1000}, {"connect": 1 << 20})
    last = stack.Sample(200, 203, 25.4, {"logs": 2_500_000}, {"connect": 1 << 30}, {"connect": 1})
    made = stack.table([first, last])
    assert made.splitlines() == [
        "| after runs | 0 | 200 |",
        "| --- | --- | --- |",
        "| files landed | 0 | 203 |",
        "| seconds of a run |  | 25 |",
        "| disk: logs | 1.0 kB | 2.5 MB |",
        "| memory: connect | 1.0 MB | 1.1 GB |",
        "| restarts | 0 | connect 1 |",
    ]
    page = stack.BLOCK.insert_into("# Sizing\n", stack.table([first]))
    assert "## The compose stack after many runs" in page
    again = stack.BLOCK.insert_into(page + "\nmore\n", made)
    assert again.count(stack.BLOCK.begin) == again.count("| after runs") == 1
    assert again.endswith("\nmore\n")
    assert "connect 1" in again


@pytest.mark.parametrize(
    ("state", "taken"), [("deferred", True), ("running", False), ("success", False), ("skipped", False)]
)
def test_a_run_that_waits_on_has_lost_its_file_to_another(state: str, taken: bool) -> None:
    tasks = [{"task_id": "check_request", "state": "success"}, {"task_id": "wait_for_files", "state": state}]
    assert stack.is_taken(tasks) is taken
    assert not stack.is_taken([{"task_id": "bronze", "state": "deferred"}])


def test_the_task_that_waits_is_named_as_in_the_dag() -> None:
    assert 'task_id="wait_for_files"' in (ROOT / "sluicegate" / "airflow" / "dags" / "pipeline_dags.py").read_text()


def test_scratch_is_looked_at_where_jobs_are_at_work() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    service, folder = stack.FOLDERS["scratch"]
    assert services[service]["environment"]["SLUICEGATE_MASTER"].endswith(":-local[*]}")
    assert "scheduler" in services[service]["command"][-1]
    assert folder in services[service]["volumes"]
    assert services[service]["environment"]["SPARK_LOCAL_DIRS"] == folder
