"""Runs begin although a table is damaged, as after a power cut: only a job may set its newest commit aside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluicegate.airflow.sensors import check
from sluicegate.errors import DamagedTable
from sluicegate.lake.damage import damages
from sluicegate.landing import intake
from sluicegate.launch.request import Request
from tests.conftest import Workspace
from tests.unit.airflow.test_run_request import job_of

pytestmark = pytest.mark.unit


def test_a_run_begins_that_may_repair_a_damaged_table(heartbeats: Workspace) -> None:
    pipeline = heartbeats.definition
    intake.enter("recordings_bronze", pipeline.bronze["recordings_bronze"], heartbeats.lake)
    ledger = Path(heartbeats.lake.ledger("recordings_bronze"))
    entry = damages.entry_of(ledger, damages.newest_version(ledger))
    os.truncate(entry, 0)
    found = check.find_landed(pipeline, [])
    assert found.waiting == {"files": 0, "bytes": 0}
    assert "recordings_bronze" in found.sentence
    assert job_of(heartbeats, "bronze")._idle_reason(pipeline, Request.from_arguments(pipeline)) == ""
    with pytest.raises(DamagedTable):
        check.find_arrived(pipeline)
