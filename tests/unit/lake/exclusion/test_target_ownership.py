"""Whose tables a lake has: a target that once wrote them keeps another one out, whatever leads it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.errors import TargetConflict
from sluicegate.jobs import base
from sluicegate.lake.exclusion.target_ownership import lock_for_target, take_ownership
from sluicegate.lake.layout import Lake

pytestmark = pytest.mark.unit


def test_the_first_target_is_entered_and_keeps_others_out(tmp_path: Path) -> None:
    at = Lake(str(tmp_path / "lake"), "shop")
    for _ in range(2):
        take_ownership(at, "dev")
    assert Path(at.target).read_text() == "dev\n"
    with pytest.raises(TargetConflict) as caught:
        take_ownership(at, "prod")
    assert caught.value.exit_code == 2
    assert caught.value.message.endswith("the target dev, but this run is of prod")
    with pytest.raises(TargetConflict, match="this run is of no target"):
        take_ownership(at, "")
    take_ownership(Lake(at.root, "other"), "prod")
    Path(at.target).unlink()
    take_ownership(at, "prod")


def test_a_pipeline_without_targets_enters_none(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    take_ownership(at, "")
    assert [*tmp_path.rglob("*")] == []


def test_whoever_writes_asks_first(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    with base.hold_write_lock(at, "a run", target="dev"):
        assert Path(at.target).read_text() == "dev\n"
    with pytest.raises(TargetConflict), base.hold_write_lock(at, "a run", target="prod"):
        pytest.fail("it came in")


def test_a_run_that_was_killed_as_it_entered_its_target_left_none(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    Path(at.target).parent.mkdir()
    Path(at.target).touch()
    take_ownership(at, "")
    take_ownership(at, "prod")
    assert Path(at.target).read_text() == "prod\n"


def test_files_are_cleaned_by_the_target_whose_the_tables_are(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    take_ownership(at, "dev")
    with pytest.raises(TargetConflict), lock_for_target(at, "command line", "prod"):
        pytest.fail("it came in")
    with lock_for_target(at, "command line", "dev"):
        pass
