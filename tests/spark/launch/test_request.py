"""Runs that are asked for some tables, some files, or all anew: what is in the tables afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.definition import LAYERS
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables as lakes
from sluicegate.launch.request import Request
from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(spark: SparkSession, workspace: Workspace, **wish: Any) -> dict[str, Any]:
    asked = Request.from_arguments(workspace.definition, **wish)
    done = {}
    for layer in LAYERS:
        ran = Job.from_request(workspace.definition, workspace.lake, layer, {"run_id": "test"}, asked, spark).run()
        done |= {table.table: table for table in ran.tables}
    return done


@pytest.mark.ran
def test_a_full_refresh_mends_what_somebody_spoilt(spark: SparkSession, heartbeats: Workspace) -> None:
    wanted = heartbeats.content()
    assert all(wanted[name] for name in ("recordings_bronze", "recordings_enriched", "daily_patient_avg"))
    for name in ("patients_bronze", "recordings_enriched", "recordings_enriched_quarantine"):
        table = lakes.delta_table(heartbeats.uri(name))
        assert table is not None
        table.delete()
    gold = lakes.delta_table(heartbeats.uri("daily_patient_avg"))
    assert gold is not None
    gold.update({"avg_heartrate": "0.0"})
    done = run(spark, heartbeats, mode="full-refresh")
    assert heartbeats.content() == wanted
    assert {name for name, table in done.items() if table.state == "rebuilt"} >= {
        "patients", "recordings_enriched", "daily_patient_avg"
    }  # fmt: skip
    assert {table.state for table in run(spark, heartbeats).values()} == {"idle"}
    # Looked at record by record, and by the sums of the logs.
    for limit in (None, 0):
        assert status.verify(heartbeats.definition, heartbeats.settings, limit) == []


def test_only_some_tables(spark: SparkSession, heartbeats: Workspace) -> None:
    done = run(spark, heartbeats, tables=["patients_bronze", "patients"])
    assert list(done) == ["patients_bronze", "patients"]
    assert len(heartbeats.rows("patients")) == 2
    assert heartbeats.rows("recordings_bronze") == []


def test_at_most_so_many_files_a_run(spark: SparkSession, heartbeats: Workspace) -> None:
    read = [run(spark, heartbeats, max_files=1)["recordings_bronze"].read for _ in range(4)]
    assert read == [3, 2, 2, 0]
    spent = heartbeats.content()
    assert sum(spent["recordings_bronze"].values()) == 7
