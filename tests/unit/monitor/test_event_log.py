"""Copies of commits in the event log: of the layer of a job alone, and of all layers."""

from __future__ import annotations

import pytest

from sluicegate.lake import tables
from sluicegate.monitor import event_log
from tests.conftest import Workspace
from tests.support.by_hand import records, taken_in

pytestmark = pytest.mark.unit


def copied_tables(workspace: Workspace) -> list[str]:
    log = tables.table_at(workspace.lake.events)
    return sorted(row["table"] for row in tables.dataset(log).to_table(["table"]).to_pylist())


def test_a_job_copies_the_commits_of_its_layer_and_each_commit_is_copied_once(workspace: Workspace) -> None:
    records(workspace, "patients_bronze", [1], layer="bronze", table="patients_bronze")
    taken_in(workspace, "patients", [1])
    event_log.copy_events(workspace.definition, workspace.lake, ["silver"])
    assert copied_tables(workspace) == ["patients"]
    event_log.copy_events(workspace.definition, workspace.lake)
    assert copied_tables(workspace) == ["patients", "patients_bronze"]
