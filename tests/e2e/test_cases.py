"""``sluicegate test`` as a person types it: what it prints, its exit codes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, copy_heart_rate

pytestmark = pytest.mark.e2e

WRONG = """\
cases:
  wrong on purpose:
    description: The name is another one.
    given:
      patients_bronze: |
        mrn, name
        1, Ada
    expect:
      patients:
        - {mrn: 1, name: Eve}
"""


def sluicegate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a folder, as somebody does whose Spark is a cluster that is far away."""
    command = [sys.executable, "-m", "sluicegate.cli", *arguments]
    env = os.environ | {"SLUICEGATE_MASTER": "spark://nobody.invalid:7077", "PYTHONPATH": str(ROOT)}
    env |= {"TMPDIR": str(folder / "tmp")}
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.release
def test_cases_of_a_pipeline(tmp_path: Path) -> None:
    copy_heart_rate(tmp_path)
    tests = tmp_path / "pipelines" / "heart_rate" / "tests"
    (tests / "readings.yaml").unlink()  # one of its cases is about a table that is not in this copy
    (tests / "wrong.yaml").write_text(WRONG)
    done = sluicegate(tmp_path, "test", "heart_rate")
    assert done.returncode == 3, done.stdout + done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any(re.fullmatch(r"ok patients.yaml: a patient who is corrected .* \d+\.\d s", line) for line in lines)
    assert any(re.fullmatch(r"FAILED wrong.yaml: wrong on purpose \d+\.\d s", line) for line in lines)
    assert f"{tests / 'wrong.yaml'}:9" in lines
    assert "~ differs 1 Eve ≠ Ada" in lines
    assert re.match(
        r"2 passed, 1 failed in \d+\.\d s; \d+\.\d s to start and stop Spark, \d+\.\d s per case", lines[-1]
    )
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "landing").exists()
    assert not list((tmp_path / "tmp").glob("sluicegate-test-*"))
    print(done.stdout)


def test_mistakes_are_told_before_spark_starts(tmp_path: Path) -> None:
    copy_heart_rate(tmp_path)
    tests = tmp_path / "pipelines" / "heart_rate" / "tests"
    (tests / "readings.yaml").write_text(WRONG.replace("patients:\n", "patient:\n"))
    told = sluicegate(tmp_path, "test", "heart_rate", "--json")
    assert told.returncode == 2
    error = json.loads(told.stdout)["error"]
    assert (error["code"], error["file"], error["line"]) == ("SG216", str(tests / "readings.yaml"), 9)
    assert error["hint"] == "did you mean patients?"
    for file in tests.iterdir():
        file.unlink()
    none = sluicegate(tmp_path, "test", "heart_rate")
    assert none.returncode == 2
    assert "has no cases" in none.stderr
    assert "testing-pipelines.md" in none.stderr
    assert sluicegate(tmp_path, "test", "heart_rat").returncode == 2
