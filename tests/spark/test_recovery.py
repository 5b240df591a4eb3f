"""A run that stops anywhere, and whatever happens before the next one, leaves nothing lost and nothing doubled."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate import _faults
from sluicegate.errors import SluicegateError
from sluicegate.flow.batch import Batch
from sluicegate.lake import log as lake_log
from sluicegate.lake import tables
from sluicegate.lake.layout import LAYERS
from sluicegate.monitor import status
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right
from tests.support.delivery_world import without_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Stopped(BaseException):
    """Stands for a kill: nothing of ours catches it."""


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str, times: int = 1) -> list[str]:
    """Makes the run stop when it passes a fault point for the n-th time; returns the points passed."""
    passed: list[str] = []

    def point(here: str) -> None:
        passed.append(here)
        if here == name and passed.count(name) == times:
            raise Stopped(here)

    monkeypatch.setattr(_faults, "point", point)
    return passed


def run_until_stopped(spark: SparkSession, workspace: Workspace) -> bool:
    try:
        workspace.run(spark)
    except Stopped:
        return True
    return False


# Those of cleanSource, which the sample does not use, are in landing/test_clean_source.py, those of rules that refuse a
# batch in bronze/test_record_rules.py and gold/test_rules.py, that of records which are reprocessed is in
# silver/test_reprocess.py, that between two commits of gold, which is for greater tables, in gold/test_refresh.py, and
# those of a rename in maintenance/test_rename.py, of discards in unit/lake/test_discards.py, and of a copy that becomes
# a new table in silver/test_deidentified.py.
ELSEWHERE = {"silver.after_removal", "gold.between_commits"}
OTHERS = ("clean.", "rules.", "rename.", "discards.", "copy.")
POINTS = [point for point in _faults.POINTS if not point.startswith(OTHERS) and point not in ELSEWHERE]
# Where most is at stake: rows without their outcome, and one of two tables without the other.
FIRST = {"bronze.after_commit", "silver.between_commits"}


# One point more of each layer.
SECOND = {"ledger.after_commit", "bronze.before_commit", "gold.before_commit", "events.before_commit"}


def of_a_tier(point: str) -> Any:
    if point in FIRST:
        return point
    return pytest.param(point, marks=pytest.mark.more if point in SECOND else pytest.mark.release)


@pytest.mark.ran("bronze")  # so that the stop meets tables that have rows already
@pytest.mark.parametrize(
    "name",
    [of_a_tier(point) for point in POINTS],
)
def test_stop_at_every_point(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heartbeats.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0), beat(5, 5, 1, 50.0)], age=60)
    stop_at(monkeypatch, name)
    if POINTS.index(name) % 2:
        without_streams(monkeypatch)  # in the run that stops
    assert run_until_stopped(spark, heartbeats), f"no run passes {name}"
    monkeypatch.undo()
    heartbeats.run(spark)
    assert_right(heartbeats)
    heartbeats.run(None)  # type: ignore[arg-type]  # and then there is nothing left to do


def test_every_point_is_passed(spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = stop_at(monkeypatch, "none")
    heartbeats.run(spark)
    assert set(passed) == set(POINTS)


BAD = [beat(4, 1, 5, -7.0), beat(4, 1, 10, 66.0)]


@pytest.mark.ran
@pytest.mark.parametrize("late", ["at the point", "in the commit"])
def test_a_quarantine_that_a_former_run_makes_late(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """A server goes on for a client that is gone: what is not there yet cannot be fenced."""
    table = Path(heartbeats.uri("recordings_enriched_quarantine"))
    former = heartbeats.rows("recordings_enriched_quarantine", "heartrate")  # which the next run puts back
    shutil.rmtree(table)
    heartbeats.land("recordings/d.json", BAD, age=60)
    stop_at(monkeypatch, "silver.between_commits")
    assert run_until_stopped(spark, heartbeats)
    monkeypatch.undo()
    aside = heartbeats.folder / "not there yet"
    table.rename(aside)
    heartbeats.land("recordings/e.json", [beat(4, 1, 15, -8.0)], age=50)  # so that the next run's offset is greater
    heartbeats.run(spark, "bronze")
    commit = Batch.commit

    @contextmanager
    def committing(batch: Batch, **facts: Any) -> Iterator[None]:
        with commit(batch, **facts):
            if facts.get("step") == "enter" and late == "in the commit":
                aside.rename(table)
            yield

    def point(here: str) -> None:
        if here == "silver.before_commit" and late == "at the point":
            aside.rename(table)

    with monkeypatch.context() as patched:
        patched.setattr(Batch, "commit", committing)
        patched.setattr(_faults, "point", point)
        if late == "in the commit":
            with pytest.raises(SluicegateError, match="was changed by another run"):
                heartbeats.run(spark, "silver")
            assert len(heartbeats.rows("recordings_enriched_quarantine", "_chunk")) == len(former) + 1
        else:  # the rows that silver lacks in its quarantine are merged by identity, so none is there twice
            heartbeats.run(spark, "silver")
    heartbeats.run(spark)
    rates = heartbeats.rows("recordings_enriched_quarantine", "heartrate")
    assert sorted(rates, key=repr) == sorted([*former, (-8.0,), (-7.0,)], key=repr)
    assert (66.0,) in heartbeats.rows("recordings_enriched", "heartrate")


@pytest.mark.ran
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("silver.before_commit", "recordings_enriched"),
        ("silver.between_commits", "recordings_enriched"),
        ("gold.before_commit", "daily_patient_avg"),
    ],
)
def test_a_run_stops_where_another_has_committed(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, table: str
) -> None:
    uri = heartbeats.uri(table)
    heartbeats.land("recordings/d.json", BAD, age=60)
    passed: list[str] = []

    def point(here: str) -> None:
        if here == name and not passed:
            passed.append(here)
            spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('steward' = 'me')")
            passed.append(str(tables.table_at(uri).version()))

    with monkeypatch.context() as patched:
        patched.setattr(_faults, "point", point)
        with pytest.raises(SluicegateError, match=f"{table} was changed by another run"):
            heartbeats.run(spark)
    assert tables.table_at(uri).version() == int(passed[1])
    heartbeats.run(spark)
    assert_right(heartbeats)


@pytest.mark.ran
def test_lookup_changes_between_stop_and_recovery(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap that loses rows: judged once without a patient, the second time with."""
    heartbeats.land("recordings/d.json", [beat(7, 7, 0, 70.0), beat(8, 8, 0, 71.0), beat(1, 1, 0, 99.0)], age=60)
    stop_at(monkeypatch, "silver.between_commits", times=1)
    assert run_until_stopped(spark, heartbeats)
    monkeypatch.undo()
    heartbeats.land("patients/more.csv", "mrn,name\n7,Gil\n9,Ira\n", age=50)
    heartbeats.run(spark)
    assert_right(heartbeats)


@pytest.mark.ran
@pytest.mark.chaos
def test_rule_changes_between_stop_and_recovery(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats.land("recordings/d.json", [beat(1, 1, 5, -7.0), beat(1, 1, 6, 66.0), beat(1, 1, 0, 99.0)], age=60)
    stop_at(monkeypatch, "silver.between_commits")
    assert run_until_stopped(spark, heartbeats)
    monkeypatch.undo()
    heartbeats.edit("pipeline.yaml", "expect_or_quarantine: heartrate > 0}", "expect_or_quarantine: heartrate > -100}")
    heartbeats.run(spark)
    assert status.verify(heartbeats.definition, heartbeats.settings) == []
    rates = [rate for (rate,) in heartbeats.rows("recordings_enriched", "heartrate")]
    assert sorted(rates) == [-7.0, 60.0, 62.5, 66.0, 80.0, 90.0]


@pytest.mark.ran
def test_optimize_only_moves_the_mark(spark: SparkSession, heartbeats: Workspace) -> None:
    before = heartbeats.content()
    spark.sql(f"OPTIMIZE delta.`{heartbeats.uri('recordings_bronze')}`")
    spark.sql(f"ALTER TABLE delta.`{heartbeats.uri('recordings_enriched')}` SET TBLPROPERTIES ('steward' = 'me')")
    reports = heartbeats.run(spark)
    assert reports["recordings_enriched"].read == 0
    assert heartbeats.content() == before
    assert {r.state for r in heartbeats.run(None).values()} == {"idle"}  # type: ignore[arg-type]


@pytest.mark.ran
def test_deleted_source_rows_leave_silver(spark: SparkSession, heartbeats: Workspace) -> None:
    spark.sql(f"DELETE FROM delta.`{heartbeats.uri('recordings_bronze')}` WHERE device_id = 1")
    reports = heartbeats.run(spark)
    assert (reports["recordings_enriched"].state, reports["recordings_enriched"].deleted) == ("again", 3)
    assert {device for (device,) in heartbeats.rows("recordings_enriched", "device_id")} == {2}
    assert {mrn for (mrn,) in heartbeats.rows("daily_patient_avg", "mrn")} == {2}
    assert status.verify(heartbeats.definition, heartbeats.settings)[0].startswith("recordings_bronze: ")


@pytest.mark.more
@pytest.mark.ran
def test_vacuumed_feed_is_a_rebuild(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.land("recordings/d.json", [beat(2, 2, 7200, 75.0)], age=60)
    heartbeats.run(spark, "bronze")
    log = heartbeats.lake.table("bronze", "recordings_bronze")
    spark.sql(f"ALTER TABLE delta.`{log}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    heartbeats.land("recordings/e.json", [beat(2, 2, 7300, 76.0)], age=50)
    heartbeats.run(spark, "bronze")  # writes a checkpoint of the log, after which older commits may be cleaned away
    from pathlib import Path

    for version in (0, 1):
        (Path(log) / "_delta_log" / f"{version:020}.json").unlink()
    reports = heartbeats.run(spark, "silver", "gold")
    assert reports["recordings_enriched"].state == "rebuilt"
    assert "history is no longer available" in reports["recordings_enriched"].why
    assert_right(heartbeats)


@pytest.mark.more
@pytest.mark.ran
def test_silver_made_anew_after_its_tables_were_deleted(spark: SparkSession, heartbeats: Workspace) -> None:
    import shutil

    shutil.rmtree(heartbeats.uri("recordings_enriched"))
    heartbeats.run(spark)
    assert_right(heartbeats)


@pytest.mark.ran
def test_gold_follows_its_definition(spark: SparkSession, heartbeats: Workspace) -> None:
    heartbeats.edit("daily_patient_avg.sql", "avg(heartrate)", "max(heartrate)")
    reports = heartbeats.run(spark)
    assert reports["daily_patient_avg"].why == "its definition changed"
    assert max(rate for (rate,) in heartbeats.rows("daily_patient_avg", "avg_heartrate")) == 90.0
    assert [name for name, report in reports.items() if report.state != "idle"] == ["daily_patient_avg"]


@pytest.mark.ran
def test_two_runs_at_once(spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock, too, in one driver: of two writers with one mark Delta refuses the slower, or lets it pass."""
    heartbeats.land("recordings/d.json", [beat(2, 2, 7200, 75.0), beat(1, 1, 0, 99.0)], age=60)
    refused: list[str] = []
    both = threading.Barrier(2)

    def point(name: str) -> None:
        if name == "bronze.before_commit":
            both.wait(300)  # each has read the mark, and none has committed

    def run() -> None:
        for layer in LAYERS:
            try:
                heartbeats.run(spark, layer)
            except Exception as error:
                refused.append(str(error))

    monkeypatch.setattr(_faults, "point", point)
    runs = [threading.Thread(target=run) for _ in range(2)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    monkeypatch.undo()
    # By Delta at its commit, or by the slower one's own look at the table before it.
    assert all("CONCURRENT" in one.upper() or "was changed by another run" in one for one in refused), refused
    bronze = tables.table_at(heartbeats.uri("recordings_bronze"))
    chunks = [commit.ours["chunk"] for commit in lake_log.commits(bronze) if commit.ours and "chunk" in commit.ours]
    assert chunks == [2, 1], "one commit for each chunk, whoever made it"
    heartbeats.run(spark)
    assert_right(heartbeats)
