"""Silver in several batches: the tables of one batch, each commit exact, and a stopped run continues after the last."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sluicegate.definition.tables.silver import SilverTable
from sluicegate.lake import tables
from sluicegate.monitor import status
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right
from tests.spark.test_recovery import Stopped, run_until_stopped, stop_at
from tests.support import flows_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LIMITED = "    event_time: time\n    maxBytesPerTrigger: 1\n"


def one_at_a_time(workspace: Workspace) -> None:
    """Lets bronze commit each file, and silver take in one commit of bronze at a time."""
    workspace.edit("pipeline.yaml", "    format: json\n", "    format: json\n    maxFilesPerTrigger: 1\n")
    workspace.edit("pipeline.yaml", "    event_time: time\n", LIMITED)


def commits(workspace: Workspace, table: str) -> int:
    return DeltaTable(workspace.uri(table)).version() + 1


def test_a_first_load_is_taken_in_commit_by_commit(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped in its second batch, and with a column that came in the last file alone, which the query names."""
    late = [{**beat(7, 2, 1000, 88.0), "worn": "wrist"}, beat(7, 2, 1900, -1.0)]
    heartbeats.land("recordings/d.json", late, age=60)
    heartbeats.edit("recordings_enriched.sql", "r.heartrate", "r.heartrate, r.worn")
    one_at_a_time(heartbeats)

    with monkeypatch.context() as patched:
        stop_at(patched, "silver.between_commits", times=3)  # of patients, and then of the second batch
        assert run_until_stopped(spark, heartbeats)
    before = commits(heartbeats, "recordings_enriched")
    assert before == 1
    reports = heartbeats.run(spark)
    assert commits(heartbeats, "recordings_enriched") == 4
    assert "read so far" in capsys.readouterr().out

    assert_right(heartbeats)
    assert Counter(heartbeats.rows("recordings_enriched", "worn")) == Counter({(None,): 4, ("wrist",): 1})
    # Nine records landed; what the first batch took in was not read once more.
    assert 0 < reports["recordings_enriched"].read < 9
    assert reports["recordings_enriched"].total == 5
    assert {report.state for report in heartbeats.run(spark).values()} == {"idle"}


@pytest.mark.more
@pytest.mark.ran
def test_changes_that_wait_are_taken_in_commit_by_commit(spark: SparkSession, heartbeats: Workspace) -> None:
    one_at_a_time(heartbeats)
    heartbeats.land("patients/more.csv", "mrn,name\n9,Cy\n", age=50)
    for number in range(3):
        beats = [beat(8, 2, 5000 + number, 70.0), beat(8, 1, 0, -4.0), beat(1, 1, 0, 50.0 + number)]
        heartbeats.land(f"recordings/n{number}.json", beats, age=40 - number)
    before = commits(heartbeats, "recordings_enriched")
    reports = heartbeats.run(spark)
    assert commits(heartbeats, "recordings_enriched") == before + 3
    # The lookup's row comes with the first of these batches, which reprocesses the record that waited for it.
    assert reports["recordings_enriched"].state == "again"
    assert_right(heartbeats)
    assert {report.state for report in heartbeats.run(spark).values()} == {"idle"}


@pytest.mark.parametrize(
    "order", [pytest.param("latest", marks=pytest.mark.more), pytest.param("every", marks=pytest.mark.release)]
)
def test_several_flows_keys_and_histories_are_the_same_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    monkeypatch.setattr(SilverTable, "batch_bytes", property(lambda _: 1))
    world = flows_world.World(tmp_path, order=order)
    world.put("tags/0", {"n": 1, "tag": "red"})
    for number in range(3):
        for folder in flows_world.FOLDERS:
            world.put(f"{folder}/{number}", *(records(folder, number)))
        world.take_in(spark, "bronze")
    with monkeypatch.context() as patched:
        stop_at(patched, "silver.after_commit", times=2)
        with pytest.raises(Stopped):
            world.take_in(spark, "silver")
    world.take_in(spark, "silver")
    world.assert_right()
    assert commits(world, "t") > 2
    assert {report.state for report in world.take_in(spark).values()} <= {"idle", "blocked"}


def records(folder: str, number: int) -> list[dict[str, Any]]:
    """Two records of a flow, of which one has the key of a record in each other file. Values are texts but in `own`."""
    own = folder == "own"
    time = {"at": f"2020-01-01T00:00:0{number}Z", "x": "own"} if own else {"n": 1, "s": number}
    values: list[Any] = [5, None if number == 1 else 6] if own else ["5", "bad" if number == 1 else "6"]
    return [
        {"id": number, "k": 1, "v": values[0], "u": number, **time},
        {"id": 10 + number, "k": 10 + number, "v": values[1], "u": 1, **time},
    ]


@pytest.mark.more
def test_a_part_whose_files_are_gone_is_taken_in_with_all_the_rest(spark: SparkSession, heartbeats: Workspace) -> None:
    one_at_a_time(heartbeats)
    heartbeats.run(spark, "bronze")
    bronze = heartbeats.uri("recordings_bronze")
    spark.sql(f"OPTIMIZE delta.`{bronze}`")
    table = tables.delta_table(bronze)
    assert table is not None
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    heartbeats.run(spark)
    assert commits(heartbeats, "recordings_enriched") == 1
    assert status.verify(heartbeats.definition, heartbeats.settings) == []


def test_the_first_part_of_what_was_compacted_is_read_as_of_its_end(spark: SparkSession, heartbeats: Workspace) -> None:
    """Its change feed lacks files, and the version does not; later parts follow as ever."""
    one_at_a_time(heartbeats)
    heartbeats.run(spark, "bronze")
    bronze = heartbeats.uri("recordings_bronze")
    size = sum(tables.table_at(bronze).get_add_actions().column("size_bytes").to_pylist())
    heartbeats.edit("pipeline.yaml", "maxBytesPerTrigger: 1\n", f"maxBytesPerTrigger: {size}\n")
    spark.sql(f"OPTIMIZE delta.`{bronze}`")
    tables.table_at(bronze).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    heartbeats.land("recordings/d.json", [beat(1, 1, 1800, 70.0)], age=60)
    heartbeats.land("recordings/e.json", [beat(2, 2, 1800, 71.0)], age=50)
    reports = heartbeats.run(spark)
    assert commits(heartbeats, "recordings_enriched") > 1
    assert len(heartbeats.rows("recordings_enriched")) == reports["recordings_enriched"].written
    assert {(70.0,), (71.0,)} < {*heartbeats.rows("recordings_enriched", "heartrate")}
    assert status.verify(heartbeats.definition, heartbeats.settings) == []
