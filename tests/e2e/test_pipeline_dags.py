"""Each pipeline of this project through its DAG, in a real Airflow with real Spark, against plain Python."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.definition import LAYERS
from sluicegate.monitor import status
from sluicegate.tools.demo.local_airflow import LocalAirflow
from sluicegate.tools.simulators import Faults, Simulator
from tests.conftest import ROOT, Workspace
from tests.e2e.test_airflow import until
from tests.support.pipelines_oracle import EXPECTED, plain

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

# What the Delta table that online_school_courses follows has in each round: the second one overwrites it.
COURSES = (
    (["C1", "C2", "C3"], ["Hopper", "Lovelace", "Hopper"]),
    (["C1", "C4"], ["Hamilton", "Lovelace"]),
)


def ended(airflow: LocalAirflow, dag: str, run_id: str) -> str:
    """How a run ended."""
    until(
        lambda: airflow.run_state(dag, run_id) in ("success", "failed"),
        lambda: f"{run_id} is {airflow.run_state(dag, run_id)}",
    )
    return airflow.run_state(dag, run_id)


def test_every_pipeline_through_its_dag(tmp_path: Path) -> None:
    """All of them read one landing folder; two rounds of files, the second one with every fault. No schedule is on.

    Each layer of the first pipeline has a task of its own, and the others one task for all.
    """
    shutil.copytree(ROOT / "pipelines", tmp_path / "pipelines")
    names = (*EXPECTED, "online_school_courses")
    for name in names[1:]:
        Workspace(tmp_path, name).edit("pipeline.yaml", "\nbronze:\n", "\ntasks: run\nbronze:\n")
    settings = Workspace(tmp_path).settings
    with LocalAirflow(tmp_path / ".airflow", settings, lasting=False) as airflow:
        for number, faults in enumerate((Faults(), Faults(drift=True, duplicates=0.03, bad=0.04, late=0.05))):
            for name in ("heart_rate", "online_school", "retail"):
                Simulator(name, settings.landing, records=100, seed=2, faults=faults).load()
            then = time.time() - 60
            for file in Path(settings.landing).rglob("*.*"):
                if file.stat().st_mtime > then:
                    os.utime(file, (then, then))
            rows = pa.table(dict(zip(("course_id", "instructor"), COURSES[number], strict=True)))
            write_deltalake(f"{settings.landing}/courses_table", rows, mode="overwrite")
            for name in names:
                airflow.wait(name)
                run_id = airflow.trigger(name)
                assert ended(airflow, name, run_id) == "success", airflow.log
                if name in names[1:]:
                    layers = [report["layer"] for report in airflow.result(name, run_id, "run")]
                    assert layers == [layer for layer in LAYERS if Workspace(tmp_path, name).definition.names(layer)]
                workspace = Workspace(tmp_path, name)
                if name in EXPECTED:
                    are_right(workspace)
                else:
                    counts = workspace.rows("instructor_counts", "instructor", "total_courses")
                    assert sorted(counts) == sorted(Counter(COURSES[number][1]).items())
                assert status.verify(workspace.definition, workspace.settings) == []


def are_right(workspace: Workspace) -> None:
    """Its tables have what plain Python makes of the landed files."""
    for table, (columns, rows) in EXPECTED[workspace.pipeline](workspace.folder / "landing").items():
        assert plain(workspace.rows(table, *columns)) == plain(rows), (workspace.pipeline, table)
