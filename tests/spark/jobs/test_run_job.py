"""All layers in one Spark: the tables that layer by layer gives, and what is left where a layer fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.flow.report import ReportLines
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import replay, run_job
from sluicegate.monitor import plan
from tests.conftest import Workspace, beat
from tests.spark.test_medallion import assert_right

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HOARDING = """
name: heart_rate
bronze:
  recordings_bronze: {path: "${landing}/recordings", format: json, schemaHints: "mrn BIGINT"}
silver:
  kept: {from: recordings_bronze, python: "transforms.py:hoards"}
gold:
  seen: {python: "transforms.py:tells", reads: [kept]}
"""

# The first fills the cache and sets what a query after it would see, as a user's function may; the second tells of it.
TRANSFORMS = """
from pyspark.sql import functions as F

def is_cached(session):
    return not session._jsparkSession.sharedState().cacheManager().isEmpty()

def hoards(batch, tables):
    session = batch.sparkSession
    session.conf.set("hoarded", "yes")
    session.range(3).createOrReplaceTempView("hoarded")
    session.table("hoarded").cache().count()
    assert is_cached(session)
    return batch

def tells(tables):
    session = tables["kept"].sparkSession
    facts = [session.conf.get("hoarded", "no"), session.catalog.tableExists("hoarded"), is_cached(session)]
    return tables["kept"].groupBy().agg(*[F.lit(str(fact)).alias(f"fact{n}") for n, fact in enumerate(facts)])
"""


@pytest.fixture
def job(heartbeats: Workspace, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, ReportLines]]:
    """Runs a job by its command line in the session of the tests; gives its exit code and its lines for programs."""
    # Else it would hide Spark's log from all tests after it.
    heartbeats.edit("pipeline.yaml", "    pii: [mrn, name]\n", "")

    def ran(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, ReportLines]:
        places = heartbeats.settings.arguments
        options = [f"--{name}={places[name]}" for name in ("lake", "landing", "pipelines")]
        capsys.readouterr()
        code = main(["--pipeline", "heart_rate", *options, *arguments])
        said = ReportLines()
        for line in capsys.readouterr().out.splitlines():
            said.take(line)
        return code, said

    return ran


def reported(said: ReportLines) -> list[tuple[str, dict[str, str]]]:
    """Each layer that a job reported, with the states of its tables."""
    return [
        (report["layer"], {table.table: table.state for table in (TableReport(**one) for one in report["tables"])})
        for report in said.reports()
    ]


@pytest.mark.more
def test_a_run_that_fails_in_silver_and_then_does_not(
    job: Callable[..., tuple[int, ReportLines]], heartbeats: Workspace
) -> None:
    heartbeats.edit("pipeline.yaml", "{expect_or_quarantine: heartrate > 0}", "{expect_or_fail: heartrate > 0}")
    code, said = job(run_job.main)
    assert code == 3
    assert reported(said) == [("bronze", {"recordings_bronze": "written", "patients_bronze": "written"})]
    assert said.error is not None
    assert (said.error.code, said.error.where.table) == ("SG300", "recordings_enriched")
    assert len(heartbeats.rows("recordings_bronze")) == 7
    assert plan.pending(heartbeats.definition, heartbeats.settings).layers == ["silver", "gold"]
    assert heartbeats.rows("daily_patient_avg") == []

    heartbeats.edit("pipeline.yaml", "{expect_or_fail: heartrate > 0}", "{expect_or_quarantine: heartrate > 0}")
    code, said = job(run_job.main)
    assert (code, said.error) == (0, None)
    assert [layer for layer, _ in reported(said)] == ["bronze", "silver", "gold"]
    assert reported(said)[0][1] == {"recordings_bronze": "idle", "patients_bronze": "idle"}
    assert_right(heartbeats)

    # An interval, with a file that waits; gold follows. Then again: silver has nothing to change, so there is no gold.
    heartbeats.land("recordings/d.json", [beat(1, 1, 1800, 63.0)], age=60)
    day = ("--mode=interval", "--from=2020-01-01", "--to=2020-01-02")
    assert [layer for layer, _ in reported(job(run_job.main, *day)[1])] == ["bronze", "silver", "gold"]
    assert [layer for layer, _ in reported(job(run_job.main, "--layers=silver,gold", *day)[1])] == ["silver"]

    # A replay by another rule, which gold follows in the same Spark; as a full refresh of silver it comes to the same.
    heartbeats.edit("pipeline.yaml", "heartrate > 0", "heartrate > 61")
    done = reported(job(replay.main, "--table=recordings_enriched", "--everything", "--follow")[1])
    assert [layer for layer, _ in done] == ["silver", "gold"]
    replayed = heartbeats.content()
    done = reported(job(run_job.main, "--mode=full-refresh", "--tables=recordings_enriched", "--follow")[1])
    assert (done[0][0], done[0][1]["recordings_enriched"]) == ("silver", "rebuilt")
    assert heartbeats.content() == replayed


def test_a_layer_leaves_nothing_to_the_next(
    spark: SparkSession, job: Callable[..., tuple[int, ReportLines]], heartbeats: Workspace
) -> None:
    heartbeats.define(HOARDING, transforms__py=TRANSFORMS)
    code, said = job(run_job.main)
    assert (code, [layer for layer, _ in reported(said)]) == (0, ["bronze", "silver", "gold"])
    assert heartbeats.rows("seen", "fact0", "fact1", "fact2") == [("no", "False", "False")]
    assert "hoarded" not in {table.name for table in spark.catalog.listTables()}
