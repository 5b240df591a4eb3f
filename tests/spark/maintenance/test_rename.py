"""A renamed pipeline goes on where it was: its offsets, ledger, verification and entries in a catalog go with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.lake import layout
from sluicegate.maintenance import catalog
from sluicegate.maintenance.rename import rename
from sluicegate.monitor import event_log, status
from sluicegate.monitor.plan import pending
from tests.conftest import Workspace, beat
from tests.spark.test_recovery import Stopped, stop_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# It has a checkpoint of Spark's, beside tables with offsets.
STREAMED = (
    "  beats_an_hour:\n    mode: append\n    withWatermark: {time: 1 hour}\n    sql: SELECT window.start AS hour,"
    " count(*) AS beats FROM recordings_enriched GROUP BY window(time, '1 hour')\n"
)


def idle(reports: dict[str, Any]) -> bool:
    return {report.state for report in reports.values()} == {"idle"}


@pytest.mark.more
@pytest.mark.in_the_jvm
def test_a_renamed_pipeline_has_nothing_new_and_then_takes_in_what_lands(
    heartbeats: Workspace, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = heartbeats.folder / "pipelines" / "heart_rate" / "pipeline.yaml"
    definition.write_text(f"{definition.read_text().rstrip()}\n{STREAMED}")
    heartbeats.run(spark)
    before = heartbeats.content()
    events = len(event_log.newest_rows(heartbeats.lake, None, 100))
    for point in (point for point in _faults.POINTS if point.startswith("rename.")):  # stopped three times on its path
        with monkeypatch.context() as patched:
            stop_at(patched, point)
            with pytest.raises(Stopped):
                rename("heart_rate", "pulse", heartbeats.settings)
    rename("heart_rate", "pulse", heartbeats.settings)

    pulse = Workspace(heartbeats.folder, "pulse")
    assert pending(pulse.definition, pulse.settings).nothing
    assert idle(pulse.run(spark))
    assert pulse.content() == before
    assert len(event_log.newest_rows(pulse.lake, None, 100)) == events
    assert status.verify(pulse.definition, pulse.settings) == []

    pulse.land("recordings/d.json", [beat(1, 1, 90000, 70.0), beat(3, 9, 200000, 71.0)])
    reports = pulse.run(spark)
    assert {name: (one.state, one.read) for name, one in reports.items() if one.state != "idle"} == {
        "recordings_bronze": ("written", 2), "recordings_enriched": ("written", 2),
        "daily_patient_avg": ("written", reports["daily_patient_avg"].read),
        "beats_an_hour": ("written", reports["beats_an_hour"].read),
    }  # fmt: skip
    assert idle(pulse.run(spark))
    assert status.verify(pulse.definition, pulse.settings) == []
    assert not Path(heartbeats.lake.table("bronze", "")).exists()


@pytest.mark.more
@pytest.mark.ran
def test_entries_in_a_catalog_follow(heartbeats: Workspace, spark: SparkSession) -> None:
    text = (heartbeats.folder / "pipelines" / "heart_rate" / "pipeline.yaml").read_text()
    (said,) = re.findall(r"^database:.*?(?=^\S)", text, re.MULTILINE | re.DOTALL)
    heartbeats.edit("pipeline.yaml", said, "")
    entered = catalog.register(spark, heartbeats.definition, heartbeats.lake)
    assert "recordings_enriched" in entered
    rename("heart_rate", "pulse", heartbeats.settings)
    pulse = Workspace(heartbeats.folder, "pulse")
    try:
        assert catalog.is_due(pulse.definition, pulse.lake)
        assert catalog.register(spark, pulse.definition, pulse.lake) == entered
        assert not spark.catalog.databaseExists("heart_rate")
        assert spark.table("pulse.recordings_enriched").count() == len(pulse.rows("recordings_enriched"))
        assert catalog.register(spark, pulse.definition, pulse.lake) == []

        # With a database of its own, and a table of somebody else in it.
        pulse.edit("pipeline.yaml", "name: pulse\n", "name: pulse\ndatabase: {name: shown}\n")
        catalog.register(spark, pulse.definition, pulse.lake)
        spark.sql(f"CREATE TABLE shown.own USING delta LOCATION '{heartbeats.folder}/own' AS SELECT 1 AS n")
        rename("pulse", "heart_rate", pulse.settings)
        catalog.register(spark, heartbeats.definition, heartbeats.lake)
        assert spark.table("shown.own").count() == 1
        location = spark.sql("DESCRIBE TABLE EXTENDED shown.recordings_enriched").where("col_name = 'Location'")
        assert layout.to_ledger_path(location.collect()[0][1]) == heartbeats.uri("recordings_enriched")
    finally:
        for name in ("heart_rate", "pulse", "shown"):
            spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
