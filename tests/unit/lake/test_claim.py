"""Whose tables a lake has: a target that once wrote them keeps another one out, whatever leads it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.errors import TargetConflict
from sluicegate.jobs import base
from sluicegate.lake.claim import claim
from sluicegate.lake.layout import Lake

pytestmark = pytest.mark.unit


def test_the_first_target_is_entered_and_keeps_others_out(tmp_path: Path) -> None:
    at = Lake(str(tmp_path / "lake"), "shop")
    for _ in range(2):
        claim(at, "dev")
    assert Path(at.target).read_text() == "dev\n"
    with pytest.raises(TargetConflict) as caught:
        claim(at, "prod")
    assert caught.value.exit_code == 2
    assert caught.value.message.endswith("are those of the target dev, and this run is of prod")
    with pytest.raises(TargetConflict, match="this run is of no target"):
        claim(at, "")
    claim(Lake(at.root, "other"), "prod")
    Path(at.target).unlink()
    claim(at, "prod")


def test_a_pipeline_without_targets_enters_none(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    claim(at, "")
    assert [*tmp_path.rglob("*")] == []


def test_whoever_writes_asks_first(tmp_path: Path) -> None:
    at = Lake(str(tmp_path), "shop")
    with base.writing(at, "a run", target="dev"):
        assert Path(at.target).read_text() == "dev\n"
    with pytest.raises(TargetConflict), base.writing(at, "a run", target="prod"):
        pytest.fail("it came in")
