"""Tables that the version before the move of the modules wrote are read, proved and continued by this one.

The lake lies in data/former_lake.tar.gz; scripts/former_lake.py says how it was made and what is in it. It was made
elsewhere, so to its pipeline the landing folder has been moved: the files in it are known by name, size and time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sluicegate as sg
from sluicegate.gold import verify_gold
from sluicegate.lake import log, tables
from sluicegate.monitor import backlog, event_log, status
from sluicegate.monitor import verify as monitor_verify
from sluicegate.schema import history
from sluicegate.spark.session import new_session
from tests.conftest import ROOT, Workspace
from tests.support.archives import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ARCHIVE = ROOT / "tests" / "spark" / "data" / "former_lake.tar.gz"
FIRST = 1735689600  # the start of 2025, as in the script

# How each gold table is to be continued where rows came, and where rows changed as well, as its commit says.
CAME = {
    "patient_days": ("incremental", "partial"),
    "ward_days": ("incremental", "partial"),
    "device_spread": ("incremental", "groups"),
    "peaks": ("incremental", "keys"),
    "alarm_levels": ("incremental", "partial"),
    "hours": ("incremental", "mode complete"),
}
CHANGED = {**CAME, "hours": ("whole", "mode complete")}

# Which record makes the row of its keys, and what the row has, in plain Spark.
SILVER = """
SELECT device_id, mrn, name, time, heartrate FROM (
  SELECT r.device_id, r.mrn, p.name, CAST(r.time AS TIMESTAMP) AS time, r.heartrate,
    row_number() OVER (PARTITION BY r.device_id, r.time ORDER BY r._chunk, r._pos) AS place
  FROM readings_bronze AS r JOIN patients AS p ON r.mrn = p.mrn WHERE r.device_id > 0 AND r.heartrate > 0
) WHERE place = 1
"""


@pytest.fixture
def former(tmp_path: Path) -> Workspace:
    unpack(ARCHIVE, tmp_path)
    return Workspace(tmp_path, "former")


def findings(spark: SparkSession, former: Workspace) -> list[tuple[str, str, str]]:
    """What ``status --verify`` finds that is wrong or behind; sums that Spark makes otherwise are neither."""
    found = monitor_verify.findings(former.definition, former.settings)
    found += backlog.findings(former.definition, former.settings)
    found += verify_gold.prove(spark, former.definition, former.lake)
    return [(one.kind, one.table, one.what) for one in found if one.kind not in ("unproved", "proved")]


def versions(former: Workspace) -> dict[str, int]:
    """The version of each Delta table of the lake, ours among them, by its path."""
    home = former.folder / "lake"
    return {
        str(one.parent.relative_to(home)): tables.table_at(str(one.parent)).version()
        for one in sorted(home.rglob("_delta_log"))
    }


def states(former: Workspace, table: str) -> Counter[str]:
    return Counter(file["state"] for file in status.files(table, former.definition, former.settings).to_pylist())


def ways(former: Workspace) -> dict[str, tuple[str, str]]:
    """How each gold table came to what it is, as its last commit says."""
    said = {name: log.last_own_commit(tables.delta_table(former.uri(name))) for name in former.definition.gold}
    return {name: (commit.ours["mode"], commit.ours["strategy"]) for name, commit in said.items() if commit}


def assert_right(spark: SparkSession, former: Workspace) -> None:
    """Bronze has the records that landing has, silver what plain Spark makes of bronze, and gold of silver."""
    assert findings(spark, former) == []
    files = [file for file in (former.folder / "landing" / "readings").iterdir() if file.suffix == ".json"]
    landed = Counter(f"{file.name}: {line}" for file in files for line in file.read_text().splitlines())
    assert sum(landed.values()) == len(former.rows("readings_bronze"))
    session = new_session(spark)
    for layer in ("bronze", "silver"):
        for name in former.definition.names(layer):
            session.read.format("delta").load(former.uri(name)).createOrReplaceTempView(name)
    queries = {"readings": SILVER} | {name: table.query.text for name, table in former.definition.gold.items()}
    for name, query in queries.items():
        due = session.sql(query)
        assert comparable(former.rows(name, *due.columns)) == comparable(due.collect()), name


def comparable(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own: times without the zone that delta-rs gives them, doubles to 12 digits."""

    def value(one: Any) -> Any:
        if isinstance(one, float):
            return float(f"{one:.12g}")
        return one.replace(tzinfo=None) if isinstance(one, datetime) else one

    return sorted((tuple(value(one) for one in row) for row in rows), key=repr)


def lines(*readings: tuple[int, int, int, float]) -> str:
    """Records of a tracker: device, patient, minutes after the start of 2025, heart rate."""
    names = ("device_id", "mrn", "time", "heartrate")
    records = [(device, mrn, FIRST + 60 * minute, rate) for device, mrn, minute, rate in readings]
    return "".join(json.dumps(dict(zip(names, record, strict=True))) + "\n" for record in records)


def test_a_lake_of_the_version_before_the_move_is_read(
    spark: SparkSession, former: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was left, and before its files have come over: all of it is read, and nothing is to be done."""
    for file in [file for file in (former.folder / "landing").rglob("*") if file.is_file()]:
        file.unlink()
    assert states(former, "readings_bronze") == {"ingested": 5, "replaced": 1, "failed": 1}
    assert states(former, "alarms_bronze") == {"skipped": 1, "archived": 1}
    columns = [set(one["columns"]) for one in history.versions(former.lake, "readings_bronze")]
    assert [("battery" in names) for names in columns] == [False, True]
    left = {name: len(former.rows(name)) for name in ("readings_quarantine", "readings_set_aside", "patients_history")}
    assert left == {"readings_quarantine": 2, "readings_set_aside": 2, "patients_history": 4}
    assert {row[0] for row in former.rows("patients_deidentified", "name")} == {"***"}
    first = sg.sql("SELECT count(*) AS n FROM former.readings VERSION AS OF 0", former.settings)
    assert first.to_pylist() == [{"n": 11}]
    assert findings(spark, former) == []
    before = versions(former)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a session was opened for nothing")

    with monkeypatch.context() as patched:
        patched.setattr("sluicegate.spark.session.open_session", refuse)
        idle = former.run(None)  # type: ignore[arg-type]
    assert {report.state for report in idle.values()} == {"idle"}
    assert versions(former) == before


@pytest.mark.release
def test_a_lake_of_the_version_before_the_move_is_continued(spark: SparkSession, former: Workspace) -> None:
    told = event_log.newest_rows(former.lake, None, 1000).to_pylist()

    # Its files are known, and come with new ones, and with the one that could not be read, repaired.
    (former.folder / "landing" / "readings" / "broken.json.gz").unlink()
    former.land("readings/broken.json", lines((3, 1, 40, 66.0), (3, 1, 41, 67.0)), age=200)
    former.land(
        "readings/f.json", lines((1, 1, 0, 12.0), (1, 1, 3000, 88.25), (4, 2, 3001, 70.75), (2, 2, 1, 0)), age=190
    )
    former.land("alarms/second.csv", "device_id,level\n4,2\n", age=180)
    done = former.run(spark)
    assert (done["readings_bronze"].read, done["readings_bronze"].moved_files) == (6, 5)
    assert (done["patients_bronze"].moved_files, done["alarms_bronze"].read) == (2, 1)
    now = {name: len(former.rows(name)) for name in ("readings", "readings_quarantine", "readings_set_aside")}
    assert now == {"readings": 18, "readings_quarantine": 3, "readings_set_aside": 3}  # 4, 1 and 1 more
    assert [report.table for report in done.values() if report.state == "rebuilt"] == []
    assert ways(former) == CAME
    assert_right(spark, former)

    # A file that the former version read is replaced, and a patient of its time has another name.
    former.land("readings/b.json", lines((2, 2, 0, 65.5), (2, 2, 30, 66.5)), age=100)
    former.land("patients/third.csv", "mrn,name,ward\n2,Beau,North\n", age=90)
    done = former.run(spark)
    assert {name: done[name].state for name in ("readings", "patients", "patient_days", "ward_days")} == {
        "readings": "again", "patients": "written", "patient_days": "written", "ward_days": "again",
    }  # fmt: skip
    assert {row[0] for row in former.rows("readings", "name", "mrn") if row[1] == 2} == {"Beau"}
    assert ways(former) == CHANGED
    assert_right(spark, former)
    events = event_log.newest_rows(former.lake, None, 1000).to_pylist()
    assert events[: len(told)] == told
    assert len({(event["table_id"], event["version"]) for event in events}) == len(events) > len(told)
