"""The heart_rate pipeline from landed files to gold, held against plain Python, however the files came."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.monitor import status
from tests.conftest import Workspace, beat, copy_heart_rate
from tests.support.oracle import expected
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDINGS = ("device_id", "mrn", "name", "time", "heartrate")


def assert_right(workspace: Workspace, corrected: Callable[[float], float] = float) -> None:
    """All tables hold what the landed files give, by a transform that corrects rates, and every record is accounted
    for.
    """
    want = expected(workspace.folder / "landing", corrected)
    assert Counter(workspace.rows("recordings_enriched", *RECORDINGS)) == want["silver"]
    quarantined = workspace.rows("recordings_enriched_quarantine", "device_id", "mrn", "_failed_expectations")
    assert Counter((d, m, tuple(rules)) for d, m, rules in quarantined) == want["quarantine"]
    aside = workspace.rows("recordings_enriched_set_aside", "reason")
    assert Counter(aside) == Counter({("duplicate",): want["duplicates"]} if want["duplicates"] else {})
    gold = {(m, n, d): a for m, n, d, a in workspace.rows("daily_patient_avg", "mrn", "name", "date", "avg_heartrate")}
    assert gold == pytest.approx(want["gold"], rel=1e-12)
    assert status.verify(workspace.definition, workspace.settings) == []


def test_files_become_gold(spark: SparkSession, heartbeats: Workspace) -> None:
    reports = heartbeats.run(spark)
    assert_right(heartbeats)
    silver = reports["recordings_enriched"]
    assert (silver.read, silver.written, silver.quarantined, silver.duplicates) == (7, 4, 2, 1)
    assert silver.expectations["valid_heartrate"] == {"passed": 6, "failed": 1}
    assert reports["recordings_bronze"].files == 3
    assert reports["daily_patient_avg"].written == 3


@pytest.mark.ran
def test_second_run_starts_no_spark(
    spark: SparkSession, heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refuse(*_: object) -> None:
        raise AssertionError("a session was opened for nothing")

    monkeypatch.setattr("sluicegate.spark.session.open_session", refuse)
    again = heartbeats.run(None)  # type: ignore[arg-type]
    assert {report.state for report in again.values()} == {"idle"}


@pytest.mark.more
def test_one_by_one_is_all_at_once(spark: SparkSession, heartbeats: Workspace, tmp_path: Path) -> None:
    landing, later = tmp_path / "landing", tmp_path / "later"
    heartbeats.run(spark)
    at_once = heartbeats.content()
    files = sorted((f for f in landing.rglob("*") if f.is_file()), key=lambda f: f.stat().st_mtime)
    landing.rename(later)
    other = Workspace(tmp_path)
    (tmp_path / "lake").rename(tmp_path / "lake at once")
    for folder in ("recordings", "patients"):
        (landing / folder).mkdir(parents=True)
    for file in files:
        (later / file.relative_to(landing)).rename(file)
        other.run(spark)
    assert other.content() == at_once
    assert_right(other)


READING = st.builds(
    beat,
    device=st.integers(1, 3),
    mrn=st.integers(1, 4),
    seconds=st.sampled_from([0.0, 0.5, 900.0, 86399.0, 86400.0, 1e6]),
    heartrate=st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 60.0, 61.25, "72.5"])),
)
PATIENTS = st.dictionaries(st.integers(1, 4), st.sampled_from(["Ada", "Bo", "Çelik, J."]), min_size=1)
STEP = st.one_of(
    st.tuples(st.just("recordings"), st.lists(READING, max_size=6)), st.tuples(st.just("patients"), PATIENTS)
)


@pytest.mark.more
@in_spark(examples=2)
@given(steps=st.lists(st.tuples(STEP, st.booleans()), min_size=3, max_size=4))
def test_tables_are_a_function_of_what_landed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    """Files of recordings and of patients, late ones too, in any order, with runs in between or not."""

    folder = tmp_path_factory.mktemp("property")
    copy_heart_rate(folder)
    for name in ("recordings", "patients"):
        (folder / "landing" / name).mkdir(parents=True)
    workspace = Workspace(folder)
    # The lookup has to exist before anything can be joined with it.
    workspace.land("patients/first.csv", "mrn,name\n1,Ada\n", age=1000)
    for number, ((kind, content), run_now) in enumerate(steps):
        age = 900 - 10 * number
        if kind == "recordings":
            workspace.land(f"recordings/{number}.json", content, age)
        else:
            quoted = "".join(f'{mrn},"{name}"\n' for mrn, name in content.items())
            workspace.land(f"patients/{number}.csv", f"mrn,name\n{quoted}", age)
        if run_now:
            workspace.run(spark)
    workspace.run(spark)
    if any(kind == "recordings" and content for (kind, content), _ in steps):
        assert_right(workspace)


@pytest.mark.skipif("SLUICEGATE_HEALTHCARE" not in os.environ, reason="SLUICEGATE_HEALTHCARE names no data folder")
def test_real_data(spark: SparkSession, workspace: Workspace) -> None:
    """24,206 readings of real trackers, with the averages that others computed."""
    import csv

    data = Path(os.environ["SLUICEGATE_HEALTHCARE"])
    (workspace.folder / "landing" / "recordings").rmdir()
    (workspace.folder / "landing" / "patients").rmdir()
    (workspace.folder / "landing" / "recordings").symlink_to(data / "recordings")
    (workspace.folder / "landing" / "patients").symlink_to(data / "patients")
    reports = workspace.run(spark)
    assert (reports["recordings_enriched"].written, reports["recordings_enriched"].quarantined) == (24139, 67)
    with (data / "expected" / "daily_patient_avg.csv").open() as file:
        want = {(int(r["mrn"]), r["name"], r["date"]): float(r["avg_heartrate"]) for r in csv.DictReader(file)}
    rows = workspace.rows("daily_patient_avg", "mrn", "name", "date", "avg_heartrate")
    assert {(m, n, d.date().isoformat()): a for m, n, d, a in rows} == pytest.approx(want, abs=1e-9)
