"""The page of each pipeline, its commands in their order as a person types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.pages import Person

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

# What the commands of a page must have said, in this order.
SAID = {
    "heart_rate": ["2,000 read", "(total_recordings|readings)", "running", "stops after its current batch", "verified"],
    "healthcare_dlh": ["3,000 read", "ingested", "avg_heartrate"],
    "online_school": [
        "2,000 read", "courses_counts", "5 rows", "known_student", "verified", r"1,000 +1,000 +0", "nothing new",
        "no row of the table would change",
    ],
    "online_school_python": ["the definition is valid", "2,000 read", "verified"],
    "online_school_courses": ["Noor Haddad +2", "Mei Tanaka +1", "was changed by UPDATE", "Mei Tanaka +2", "verified"],
    "retail": ["1,000 read", "known_product", r"waiting *\n0 *\n", "affected rows are", "margin", "verified"],
}  # fmt: skip


@pytest.mark.parametrize("pipeline", SAID)
def test_a_page_does_what_it_says(tmp_path: Path, pipeline: str) -> None:
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    person = Person(tmp_path)
    person.follow((ROOT / "pipelines" / pipeline / "README.md").read_text())
    assert re.search(".*".join(f"(?:{words})" for words in SAID[pipeline]), person.said, re.DOTALL), person.said


def test_every_pipeline_has_a_page() -> None:
    assert {file.parent.name for file in (ROOT / "pipelines").glob("*/pipeline.yaml")} == set(SAID)
