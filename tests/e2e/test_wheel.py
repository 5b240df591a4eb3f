"""The wheel in a clean environment, with no repository around: its jars, its provider, and a DAG of a few lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluicegate.spark import jars
from tests.conftest import ROOT, Workspace, beat

pytestmark = pytest.mark.e2e

UV = str(Path(sys.executable).with_name("uv"))
LANDED_AT = 1_770_000_000

# As in docs/howto/existing-airflow.md.
DAG_FILE = """\
from sluicegate.airflow.dag import medallion_dags
from sluicegate.settings import Settings

globals().update(medallion_dags(Settings.of(pipelines="{0}/pipelines", landing="{0}/landing", lake="{0}/lake")))
"""


def said(command: list[str], **environment: str) -> str:
    """What a command prints, when nothing of this repository or of another Airflow is within its reach."""
    strangers = ("AIRFLOW", "PYTHON", "SLUICEGATE", "VIRTUAL_ENV", "SPARK")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(strangers)}
    done = subprocess.run(command, cwd="/", env=clean | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The programs of an environment with the wheel and, beside it, what uv.lock pins for its extras."""
    said([UV, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT)])
    (wheel,) = tmp_path.glob("*.whl")
    venv = tmp_path / "venv"
    python = ["--python", str(venv / "bin" / "python")]
    said([UV, "venv", "--quiet", "--python", sys.executable, str(venv)])
    said([UV, "sync", "--quiet", "--frozen", "--no-dev", "--all-extras", "--no-install-project",
          "--project", str(ROOT)], UV_PROJECT_ENVIRONMENT=str(venv))  # fmt: skip
    said([UV, "pip", "install", "--quiet", "--no-deps", *python, str(wheel)])
    # There is nowhere to take anything from: this fails unless all that the wheel asks for is there.
    said([UV, "pip", "install", "--quiet", "--no-index", *python, "sluicegate[airflow]"])
    return venv / "bin"


def maven(folder: Path) -> str:
    """A Maven repository with the jars of this checkout."""
    for jar in jars.read():
        (folder / jar.path).parent.mkdir(parents=True)
        (folder / jar.path).symlink_to(jars.folder() / jar.file)
    return folder.as_uri()


@pytest.mark.more
def test_a_project_begins_with_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    """From an empty folder to gold, a passed case and a run of its DAG, with nothing of this checkout but jars."""
    program, folder = str(installed / "sluicegate"), tmp_path / "shop"
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n2,Bo\n")
    said([program, "init", str(folder)])
    said([program, "init", str(tmp_path / "club"), "--from", str(tmp_path / "people.csv")])
    # The jars come at first use.
    places = {"SLUICEGATE_MASTER": "local[2]", "SLUICEGATE_WARM": "0", "SLUICEGATE_MAVEN": maven(tmp_path / "maven")}

    def said_in(project: Path, *words: str) -> str:
        return said(["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(project), program, *words], **places)

    said_in(folder, "run", "sales")
    checks = json.loads(said_in(folder, "doctor", "--json"))["checks"]
    assert {check["state"] for check in checks} <= {"ok", "optional"}
    rows = json.loads(said_in(folder, "sql", "SELECT orders FROM sales.orders_by_day ORDER BY day", "--json"))
    assert json.dumps(rows).count("orders") >= 3
    assert "2 passed" in said_in(folder, "test", "sales")
    assert "1 passed" in said_in(tmp_path / "club", "test", "club")

    late = folder / "landing" / "sales" / "orders" / "late.csv"
    late.write_text("order_id,ordered_at,customer,country,amount\n90,2026-02-01 09:00:00,Ada,DE,7.00\n")
    os.utime(late, (LANDED_AT, LANDED_AT))
    airflow = airflow_of(folder) | places
    said([str(installed / "airflow"), "db", "migrate"], **airflow)
    said([str(installed / "airflow"), "dags", "test", "sales"], **airflow)
    query = "SELECT orders FROM sales.orders_by_day WHERE day = DATE '2026-02-01'"
    assert json.loads(said_in(folder, "sql", query, "--json")) == [{"orders": 1}]


def airflow_of(folder: Path) -> dict[str, str]:
    """Variables of an Airflow whose DAGs are those of a folder."""
    return {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }


@pytest.mark.release
def test_a_pipeline_runs_in_an_airflow_that_has_only_the_wheel(installed: Path, workspace: Workspace) -> None:
    folder = workspace.folder
    # One task, and so one start of Spark, for all layers; of the others the demo has one each.
    workspace.edit("pipeline.yaml", "\ndatabase:", "\ntasks: run\ndatabase:")
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n")
    workspace.land("recordings/a.json", [beat(1, 1, 0, 60.0), beat(1, 1, 900, 63.0), beat(2, 2, 0, -3.0)])
    (folder / "dags").mkdir()
    (folder / "dags" / "pipelines.py").write_text(DAG_FILE.format(folder))
    airflow = airflow_of(folder)

    def told(*command: str) -> Any:
        printed = said([str(installed / "airflow"), *command, "--output", "json"], **airflow)
        return json.loads(printed[printed.index("\n[") if "\n[" in printed else printed.index("[") :])

    where = said([str(installed / "python"), "-c", "import sluicegate as s; print(s.__file__)"])
    assert where.startswith(str(installed.parent))
    fetched = said([str(installed / "sluicegate"), "jars"], SLUICEGATE_MAVEN=maven(folder / "maven"))
    assert all(f"fetched {jar.file}" in fetched for jar in jars.read())
    assert "class-data archive" in fetched

    said([str(installed / "airflow"), "db", "migrate"], **airflow)
    assert "sluicegate" in [provider["package_name"] for provider in told("providers", "list")]
    assert told("dags", "list-import-errors", "--local") == []
    said([str(installed / "airflow"), "dags", "test", "heart_rate"], **airflow)
    assert workspace.rows("daily_patient_avg", "name", "avg_heartrate") == [("Ada", 61.5)]
