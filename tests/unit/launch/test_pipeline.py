"""``sluicegate run``: what it waits for before it starts a job, and which layers that job is for."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sluicegate.launch import pipeline as run_pipeline
from sluicegate.launch import submit
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINITION = """
name: heart_rate
bronze:
  raw: {{path: "${{landing}}/raw", format: json, schemaHints: "id BIGINT", settleSeconds: {settle}}}
"""


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments of the jobs that are started: none of them runs."""
    started: list[str] = []

    def submit_all(script: str, *rest: Any, warm_minutes: float) -> list[Any]:
        assert warm_minutes == 0.0
        started.append(" ".join([script, *rest[-1]]))
        return []

    monkeypatch.setattr(submit, "submit_all", submit_all)
    return started


def run(workspace: Workspace, layer: str | None = None) -> list[str]:
    lines: list[str] = []
    run_pipeline.run(workspace.definition, workspace.settings, layer, lines.append)
    return lines


def test_a_file_that_landed_a_moment_ago_is_waited_for_and_taken_in(
    workspace: Workspace, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.define(DEFINITION.format(settle=30))
    workspace.land("raw/a.json", '{"id": 1}', age=0)
    waits: list[float] = []

    def grow_older(seconds: float) -> None:
        waits.append(seconds)
        workspace.land("raw/a.json", '{"id": 1}', age=seconds)

    monkeypatch.setattr(time, "sleep", grow_older)
    run(workspace, "bronze")
    assert (waits, jobs) == ([30], ["run --layers=bronze"])


def test_a_file_that_takes_long_to_settle_is_left_to_a_later_run(workspace: Workspace, jobs: list[str]) -> None:
    workspace.define(DEFINITION.format(settle=run_pipeline.LONGEST_WAIT + 1))
    workspace.land("raw/a.json", '{"id": 1}', age=0)
    assert run(workspace)[-1].endswith("Spark was not started")
    assert jobs == []


def test_a_layer_without_work_starts_no_job(workspace: Workspace, jobs: list[str]) -> None:
    workspace.define(DEFINITION.format(settle=0))
    workspace.land("raw/a.json", '{"id": 1}')
    assert run(workspace, "gold")[-1].endswith("Spark was not started")
    assert jobs == []
