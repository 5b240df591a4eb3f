"""What a verification records of a table, until when the next one goes by it, and what it says of it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from sluicegate.definition import load
from sluicegate.flow.finding import Finding
from sluicegate.flow.proofs import TARGET, Proof, Proofs
from sluicegate.lake.layout import Lake
from sluicegate.launch import verification
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(
        "name: p\nbronze:\n  b: {path: '${landing}/b', format: json}\nsilver:\n  s: {sql: SELECT n FROM STREAM(b)}\n"
    )
    return Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")


@pytest.mark.parametrize(
    ("kind", "table", "is_kept"),
    [
        ("proved", "s", True),
        ("unseen", "s", True),
        ("wrong", "b", True),
        ("wrong", "s", False),
        ("unproved", "s", False),
        ("wrong", "silver/s", False),  # a damaged file, whose finding has the folder of the table
    ],
)
def test_what_is_wrong_or_could_not_be_proved_is_compared_again(
    settings: Settings, kind: str, table: str, is_kept: bool
) -> None:
    pipeline, lake = load("p", settings), Lake(settings.lake, "p")
    Proofs(lake).keep("silver", "s", "as defined", {}, None)
    proofs = Proofs(lake, since_last=True)
    verification.forget_doubtful(pipeline, [Finding(kind, table, "for a test")], proofs)  # type: ignore[arg-type]
    assert (proofs.last("silver", "s", "as defined") is not None) == is_kept


def test_a_proof_says_when_all_of_the_table_was_compared() -> None:
    class State:
        version = 7

    whole, later = date(2026, 11, 22), date(2026, 11, 28)
    states = {TARGET: State()}
    same_day = str(Proof("d", whole, whole, states, {}))  # type: ignore[arg-type]
    assert "version 7 on 2026-11-22" in same_day
    of_a_week = str(Proof("d", whole, later, states, {}))  # type: ignore[arg-type]
    assert "2026-11-28" in of_a_week
    assert "as a whole on 2026-11-22" in of_a_week
