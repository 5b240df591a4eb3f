"""What a server still writes for a client that is gone does not get into a table that was fenced."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.lake import tables
from sluicegate.lake.exclusion import fence, lock
from sluicegate.lake.layout import Lake
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.ran
def test_a_write_that_began_before_the_fence_fails(spark: SparkSession, heartbeats: Workspace) -> None:
    from pyspark.sql import functions as F

    lake, uri = heartbeats.lake, heartbeats.uri("recordings_enriched")
    begun = heartbeats.folder / "begun"

    @F.udf("double")  # type: ignore[untyped-decorator]
    def slowly(rate: float) -> float:
        begun.touch()
        time.sleep(8)
        return rate

    rows = spark.read.format("delta").load(uri).limit(1).coalesce(1).withColumn("heartrate", slowly("heartrate"))
    raised: list[Exception] = []

    def write() -> None:
        try:
            rows.write.format("delta").mode("append").save(uri)
        except Exception as error:
            raised.append(error)

    before = heartbeats.rows("recordings_enriched", "heartrate")
    writer = threading.Thread(target=write)
    writer.start()
    while not begun.exists():
        time.sleep(0.1)
    Path(lake.locks).mkdir(exist_ok=True)
    Path(fence._note(lake)).write_text("a run whose client was killed")
    with fence.sole_writer(lake, "the next run", remote=False):
        writer.join()
    assert "DELTA_METADATA_CHANGED" in str(raised[0])
    assert heartbeats.rows("recordings_enriched", "heartrate") == before
    assert not Path(fence._note(lake)).exists()
    reports = heartbeats.run(spark)
    assert {report.state for report in reports.values()} == {"idle"}, "a fence is no change of rows"


@pytest.mark.ran
def test_the_fence_is_for_those_after_a_run_that_did_not_end_well(spark: SparkSession, heartbeats: Workspace) -> None:
    lake, note = heartbeats.lake, Path(fence._note(heartbeats.lake))
    assert heartbeats.uri("recordings_enriched") in fence.written_tables(lake)
    assert heartbeats.lake.ledger("recordings_bronze") not in fence.written_tables(lake)
    with fence.sole_writer(lake, "a run", remote=True):
        assert note.exists()
    assert not note.exists()
    with pytest.raises(ValueError, match="lost"), fence.sole_writer(lake, "a run", remote=True):
        raise ValueError("lost")
    assert note.exists()
    fenced = [tables.table_at(uri) for uri in fence.written_tables(lake)]
    with fence.sole_writer(lake, "the next", remote=False), lock.turn(lake, "another") as holder:
        assert holder is not None
        assert "the next" in holder
    for table in fenced:
        now = tables.table_at(table.table_uri)
        assert now.version() == table.version() + 1
        assert fence.PROPERTY in now.metadata().configuration


def test_a_clustered_table_is_fenced_and_spark_writes_it_on(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), "heart_rate")
    uri = lake.table("gold", "by_bed")
    spark.sql(f"CREATE TABLE delta.`{uri}` (k INT, v STRING) USING delta CLUSTER BY (k)")
    spark.sql(f"INSERT INTO delta.`{uri}` VALUES (1, 'a')")
    before = tables.table_at(uri)
    fence._write_note(lake, "a run whose client was killed")
    with fence.sole_writer(lake, "the next run", remote=False):
        pass
    after = tables.table_at(uri)
    assert (after.version(), after.protocol()) == (before.version() + 1, before.protocol())
    spark.sql(f"INSERT INTO delta.`{uri}` VALUES (2, 'b')")
    described = spark.sql(f"DESCRIBE DETAIL delta.`{uri}`").select("clusteringColumns", "numFiles")
    assert described.collect() == [(["k"], 2)]


def test_a_lake_without_tables_needs_no_fence(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "a b"), "heart_rate")
    assert fence.written_tables(lake) == []
    with pytest.raises(KeyboardInterrupt), fence.sole_writer(lake, "a run", remote=True):
        raise KeyboardInterrupt
    assert Path(fence._note(lake)).exists()
    refused = fence.sole_writer(lake, "a run that no server lets in", remote=True, sent=lambda: False)
    with pytest.raises(ValueError, match="refused"), refused:
        raise ValueError("refused")
    assert not Path(fence._note(lake)).exists()
    with fence.sole_writer(lake, "the next", remote=False):
        assert fence.written_tables(lake) == []
