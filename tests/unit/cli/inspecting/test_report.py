"""``sluicegate report``: one file with all views, that needs nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import UserError
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PageWorld:
    return PageWorld.at(tmp_path_factory.mktemp("report"), runs=2)


def report(world: PageWorld, *words: str) -> Any:
    return world.command("report", "heart_rate", *words)


def test_one_file_has_all_views(world: PageWorld, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = report(world, "--out", str(file))
    assert done.exit_code == 0, done.output
    text = file.read_text()
    assert re.search(r'(?:src|href|action)="(?!#)', text) is None  # nothing but anchors
    assert "<script" not in text
    anchors = set(re.findall(r'href="#([^"]+)"', text))
    assert anchors <= set(re.findall(r'id="([^"]+)"', text))
    assert "table-recordings_enriched" in anchors
    assert {"column-recordings_bronze-heartrate", "column-patients-name"} <= anchors  # what columns are computed from
    assert "40 read = 35 written + 3 quarantined + 2 duplicates" in text
    assert "Rows are" in text
    assert "Ada" not in text


def test_a_run_is_chosen_and_rows_are_shown_without_personal_data(world: PageWorld, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = report(world, "scheduled__2026-03-02T06:00:00+00:00", "--rows", "--out", str(file))
    assert done.exit_code == 0, done.output
    text = file.read_text()
    assert "2 read = 2 written" in text  # the patients came with the first run
    assert "Rows of the newest files" in text
    assert "Ada" not in text
    facts = json.loads(report(world, "--json").output)
    assert facts["run"]["run"]["key"] == "scheduled__2026-03-02T06:15:00+00:00"


def test_what_cannot_be_done_is_said(world: PageWorld, tmp_path: Path) -> None:
    unknown = report(world, "nowhere").exception
    assert isinstance(unknown, UserError)
    assert "run nowhere" in unknown.message
    assert "scheduled__2026-03-02T06:15:00+00:00" in (unknown.hint or "")
    assert isinstance(report(world, "--out", str(tmp_path / "no" / "x.html")).exception, UserError)
