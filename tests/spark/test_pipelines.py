"""Each pipeline of this project, in increments and at once, on files with every fault, against plain Python."""

from __future__ import annotations

import csv
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.jobs import copy_into
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import log as lake_log
from sluicegate.lake import tables as lakes
from sluicegate.landing.chosen import copy, reread
from sluicegate.monitor import status
from sluicegate.tools.simulators import Faults, Simulator
from sluicegate.tools.sqlshell import shell
from tests.conftest import ROOT, Workspace
from tests.support.pipelines_oracle import EXPECTED, plain, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LATE = {"known_student", "known_product"}
SOME = Faults(drift=True, duplicates=0.03, bad=0.04, late=0.05)


def workspace_of(folder: Path, pipeline: str) -> Workspace:
    """A workspace with the definitions as they are in this repository."""
    folder.mkdir(exist_ok=True)
    (folder / "pipelines").symlink_to(ROOT / "pipelines")
    return Workspace(folder, pipeline)


def land(workspace: Workspace, *faults: Faults) -> None:
    """A number of files for each of the faults; all have settled."""
    landing = workspace.folder / "landing"
    for one in faults:
        Simulator(workspace.pipeline, str(landing), records=120, seed=4, faults=one).load()
    then = time.time() - 60
    for file in sorted(landing.rglob("*.*")):
        if file.stat().st_mtime > then + 30:
            os.utime(file, (then, then))


def assert_right(workspace: Workspace) -> None:
    """Silver and gold hold what plain Python makes of the files, and every record is in one place."""
    for table, (columns, rows) in EXPECTED[workspace.pipeline](workspace.folder / "landing").items():
        assert plain(workspace.rows(table, *columns)) == plain(rows), table
    assert status.verify(workspace.definition, workspace.settings) == []


def at_once(spark: SparkSession, workspace: Workspace, folder: Path) -> Workspace:
    """The same files in one run, in a lake of its own."""
    other = workspace_of(folder, workspace.pipeline)
    (folder / "landing").symlink_to(workspace.folder / "landing")
    other.run(spark)
    return other


def waiting(workspace: Workspace) -> dict[str, int]:
    """How many records of each table wait in quarantine for a student or product alone."""
    tables = [name for name, table in workspace.definition.silver.items() if table.expectations.keys() & LATE]
    found = {name: workspace.rows(f"{name}_quarantine", "_failed_expectations") for name in tables}
    return {name: sum(set(rules) <= LATE for (rules,) in rows) for name, rows in found.items()}


@pytest.mark.parametrize(
    "pipeline",
    [
        "heart_rate",
        pytest.param("healthcare_dlh", marks=pytest.mark.more),
        *(pytest.param(name, marks=pytest.mark.release) for name in ("online_school", "retail")),
    ],
)
def test_in_increments_and_at_once(spark: SparkSession, tmp_path: Path, pipeline: str) -> None:
    workspace = workspace_of(tmp_path / "in increments", pipeline)
    land(workspace, Faults(), SOME)
    workspace.run(spark)
    assert_right(workspace)
    too_early = waiting(workspace)
    assert all(too_early.values())
    land(workspace, Faults(drift=True))
    workspace.run(spark)
    assert_right(workspace)
    # The students and products whose records came too early have been told of; broken records of theirs stay.
    assert all(left < too_early[table] for table, left in waiting(workspace).items())
    assert_right(at_once(spark, workspace, tmp_path / "at once"))


@pytest.mark.more
def test_the_school_in_python(spark: SparkSession, tmp_path: Path) -> None:
    """Its silver is made by Python functions, and its tables have the rows and columns of those made by SQL."""
    workspace = workspace_of(tmp_path, "online_school_python")
    land(workspace, Faults(), SOME, Faults())
    workspace.run(spark)
    assert_right(workspace)
    came = [record["enroll_id"] for record in records(tmp_path / "landing" / "enrollments")]
    rows = workspace.rows("enrollments_bronze", "enroll_id", "arrival_time", "source_file")
    assert Counter(enroll_id for enroll_id, _, _ in rows if enroll_id) == Counter(came)
    assert all(time and file.endswith(".json") for _, time, file in rows)
    silver = {"enrollments_bronze", "enrollments_silver"}
    types = {
        name: {field.name: str(field.type) for field in lakes.delta_table(workspace.uri(name)).schema().fields}  # type: ignore[union-attr]
        for name in silver
    }
    assert types["enrollments_silver"]["quantity"] == 'PrimitiveType("long")'
    assert "channel" in types["enrollments_bronze"]  # a new field of later files
    assert "receipt_time" not in types["enrollments_bronze"]
    assert {"student_id", "enroll_timestamp", "quantity", "courses"} <= types["enrollments_bronze"].keys()


@pytest.mark.more
def test_columns_and_types_are_those_of_the_lessons(spark: SparkSession, tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, "heart_rate")
    land(workspace, Faults())
    workspace.run(spark)
    table = spark.read.format("delta").load(workspace.uri("recordings_bronze"))
    types = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    assert {name: types[name] for name in ("device_id", "mrn", "time", "heartrate")} == {
        "device_id": "int", "mrn": "bigint", "time": "double", "heartrate": "double",
    }  # fmt: skip
    assert {"receipt_time", "source_file"} <= set(types)
    silver = spark.read.format("delta").load(workspace.uri("recordings_enriched"))
    assert silver.drop("_chunk", "_pos").dtypes == [
        ("device_id", "int"), ("mrn", "bigint"), ("name", "string"), ("time", "timestamp"), ("heartrate", "double"),
    ]  # fmt: skip
    high = shell.query(
        "WITH high AS (SELECT * FROM heart_rate.recordings_enriched WHERE heartrate > 80) "
        "SELECT count(*) AS n FROM high",
        {"heart_rate": workspace.definition}, workspace.settings,
    )  # fmt: skip
    rates = [rate for (rate,) in workspace.rows("recordings_enriched", "heartrate")]
    assert high.to_pylist() == [{"n": sum(rate > 80 for rate in rates)}]


@pytest.mark.more
def test_a_fact_table_takes_one_file_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, "healthcare_dlh")
    land(workspace, Faults(), Faults(), Faults())
    assert workspace.run(spark, "bronze")["fact_heartbeat_bronze"].files == 3
    table = lakes.delta_table(workspace.uri("fact_heartbeat_bronze"))
    assert table is not None
    written = [commit.rows_written for commit in lake_log.commits(table) if commit.operation == "WRITE"]
    assert written == [120, 120, 120]
    assert all(file.endswith(".snappy.parquet") for file in table.file_uris())
    database = workspace.definition.database
    assert database is not None
    assert (database.name, dict(database.properties)) == ("healthcare_dlh", {"contains_pii": "true"})
    assert database.comment


COURSE = "('C{0}', 'Course {0}', 'Noor Haddad', 'Data', {0})"


@pytest.mark.more
def test_a_definition_follows_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    """INSERT INTO is followed; an update, a delete or an overwrite makes the tables again, and nothing is skipped."""
    workspace = workspace_of(tmp_path, "online_school_courses")
    source = f"delta.`{tmp_path}/landing/courses_table`"

    def counts(state: str) -> dict[str, int]:
        reports = workspace.run(spark)
        assert reports["courses"].state == state
        assert status.verify(workspace.definition, workspace.settings) == []
        there = spark.sql(f"SELECT instructor, count(course_id) FROM {source} GROUP BY 1").collect()
        found = dict(workspace.rows("instructor_counts", "instructor", "total_courses"))
        assert found == {row[0]: row[1] for row in there}
        return found

    spark.sql(
        f"CREATE TABLE {source} (course_id STRING, title STRING, instructor STRING, category STRING, price DOUBLE) "
        "USING delta"
    )
    spark.sql(f"INSERT INTO {source} VALUES {COURSE.format(1)}, {COURSE.format(2)}")
    assert counts("written") == {"Noor Haddad": 2}
    spark.sql(f"INSERT INTO {source} VALUES {COURSE.format(3)}")
    assert counts("written") == {"Noor Haddad": 3}
    spark.sql(f"UPDATE {source} SET instructor = 'Mei Tanaka' WHERE course_id = 'C3'")
    assert counts("rebuilt") == {"Noor Haddad": 2, "Mei Tanaka": 1}
    spark.sql(f"INSERT OVERWRITE {source} VALUES {COURSE.format(9)}")
    assert counts("rebuilt") == {"Noor Haddad": 1}


@pytest.mark.skipif("SLUICEGATE_HEALTHCARE" not in os.environ, reason="SLUICEGATE_HEALTHCARE names no data folder")
def test_real_data(spark: SparkSession, tmp_path: Path) -> None:
    """24,206 readings of real trackers, with the counts and averages that others computed."""
    data = Path(os.environ["SLUICEGATE_HEALTHCARE"])
    workspace = workspace_of(tmp_path / "dlh", "healthcare_dlh")
    (workspace.folder / "landing").symlink_to(data)
    workspace.run(spark)
    with (data / "expected" / "heartbeat_by_patient.csv").open() as file:
        want = Counter((r["patient_name"], int(r["avg_heartrate"]), int(r["count"])) for r in csv.DictReader(file))
    gold = workspace.rows("fact_heartbeat_by_patient_gold", "patient_name", "avg_heartrate", "count")
    assert Counter(gold) == want
    shown = shell.query(
        "SELECT * FROM healthcare_dlh.fact_heartbeat_by_patient_gold",
        {"healthcare_dlh": workspace.definition}, workspace.settings,
    )  # fmt: skip
    rates = shown["avg_heartrate"].to_pylist()
    assert rates == sorted(rates, reverse=True)
    hearts = workspace_of(tmp_path / "hearts", "heart_rate")
    (hearts.folder / "landing").symlink_to(data)
    hearts.run(spark)
    with (data / "expected" / "device_counts.csv").open() as file:
        counts = {int(r["device_id"]): int(r["total_recordings"]) for r in csv.DictReader(file)}
    assert dict(hearts.rows("device_counts", "device_id", "total_recordings")) == counts


@pytest.mark.more
def test_the_school_by_copies_and_then_again_from_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """COPY INTO takes each file once, by the ledger of runs; a reset makes the table again from its files."""
    workspace = workspace_of(tmp_path, "online_school")
    land(workspace, Faults(), Faults())
    source = str(tmp_path / "landing" / "enrollments")

    def copied(**which: Any) -> int:
        done = copy_into.run(
            copy.Copy(source, **which), workspace.definition, "enrollments_updates", workspace.lake, {}, spark
        )
        return copy_into.result(done.tables[0])["num_inserted_rows"]

    assert copied(files=("enrollments-000001.json",)) == 120
    assert [copied(), copied()] == [120, 0]
    assert workspace.run(spark)["enrollments_updates"].state == "idle"
    assert_right(workspace)
    again = reread.Reset().discover
    Job(workspace.definition, workspace.lake, "bronze", {}, spark, only="enrollments_updates", finder=again).run()
    workspace.run(spark)
    assert_right(workspace)
