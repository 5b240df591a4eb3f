"""The page of each pipeline, its commands in their order as a person types them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLUICEGATE = [sys.executable, "-m", "sluicegate.cli"]

# What the commands of a page must have said, in this order.
SAID = {
    "heart_rate": ["2,000 read", "(total_recordings|readings)", "running", "stops after its current batch", "verified"],
    "healthcare_dlh": ["3,000 read", "ingested", "avg_heartrate"],
    "online_school": [
        "2,000 read", "courses_counts", "5 rows", "known_student", "verified", r"1,000 +1,000 +0", "nothing new",
        "no row of the table would change",
    ],
    "online_school_python": ["the definition is right", "2,000 read", "verified"],
    "online_school_courses": ["Noor Haddad +2", "Mei Tanaka +1", "was changed by UPDATE", "Mei Tanaka +2", "verified"],
    "retail": ["1,000 read", "known_product", r"waiting *\n0 *\n", "made again whole", "margin", "verified"],
}  # fmt: skip


class Person:
    """Types what a page says; what does not end by itself goes on beside, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, ""
        self.environment = os.environ | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)}
        self.beside: subprocess.Popen[str] | None = None

    def type(self, line: str) -> None:
        command = [*SLUICEGATE, *shlex.split(line)[1:]]
        if "--continuous" in command:
            self.beside = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            self.wait_for_stream()
            return
        self.run(line, command)
        if "--stop-all" in command and self.beside is not None:
            out, _ = self.beside.communicate(timeout=300)
            assert self.beside.returncode == 0, out

    def run(self, what: str, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{what}\n{done.stdout}{done.stderr}"
        self.said += f"$ {what}\n{done.stdout}"
        return done.stdout

    def wait_for_stream(self) -> None:
        end = time.monotonic() + 300
        while "running" not in subprocess.run([*SLUICEGATE, "streams"], cwd=self.folder, env=self.environment,
                                              capture_output=True, text=True, check=True).stdout:  # fmt: skip
            assert self.beside is not None
            assert self.beside.poll() is None, self.beside.communicate()[0]
            assert time.monotonic() < end
            time.sleep(1)


@pytest.mark.parametrize("pipeline", SAID)
def test_a_page_does_what_it_says(tmp_path: Path, pipeline: str) -> None:
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    person = Person(tmp_path)
    try:
        for language, block in BLOCK.findall((ROOT / "pipelines" / pipeline / "README.md").read_text()):
            if language == "python":
                person.run(block, [sys.executable, "-c", block])
                continue
            for line in block.splitlines():
                person.type(line)
    finally:
        if person.beside is not None and person.beside.poll() is None:
            person.beside.kill()
    assert re.search(".*".join(f"(?:{words})" for words in SAID[pipeline]), person.said, re.DOTALL), person.said


def test_every_pipeline_has_a_page() -> None:
    assert {file.parent.name for file in (ROOT / "pipelines").glob("*/pipeline.yaml")} == set(SAID)
