"""What a verification records of a table, until when the next one goes by it, and what it says of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from sluicegate.definition import load
from sluicegate.flow.verification.finding import Finding
from sluicegate.flow.verification.proofs import TARGET, Proof, Proofs
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
    assert (proofs.last_proof("silver", "s", "as defined") is not None) == is_kept


def test_a_proof_says_when_all_of_the_table_was_compared() -> None:
    class State:
        version = 7

    whole, later = date(2026, 11, 22), date(2026, 11, 28)
    states = {TARGET: State()}
    same_day = str(Proof("d", whole, whole, states, {}))  # type: ignore[arg-type]
    assert "version 7 on 2026-11-22" in same_day
    of_a_week = str(Proof("d", whole, later, states, {}))  # type: ignore[arg-type]
    assert "2026-11-28" in of_a_week
    assert "in full on 2026-11-22" in of_a_week


@pytest.mark.parametrize(("days", "holds"), [(0, True), (6, True), (7, False), (-1, False)])
def test_a_proof_holds_for_WHOLE_AFTER_days_and_not_if_it_is_of_a_day_to_come(
    settings: Settings, days: int, holds: bool
) -> None:
    """Of a clock that was ahead nothing tells for how long the proof would hold."""
    lake = Lake(settings.lake, "p")
    Proofs(lake).keep("silver", "s", "as defined", {}, None)
    proof = Path(lake.proof("silver", "s"))
    facts = json.loads(proof.read_text())
    compared = date.fromisoformat(facts["whole"]) - timedelta(days=days)
    proof.write_text(json.dumps(facts | {"whole": compared.isoformat()}))
    assert (Proofs(lake, since_last=True).last_proof("silver", "s", "as defined") is not None) == holds
    assert Proofs(lake).last_proof("silver", "s", "as defined") is None, "all is to be compared"


def test_a_proof_of_what_changed_keeps_the_day_on_which_all_was_compared(settings: Settings) -> None:
    lake = Lake(settings.lake, "p")
    whole, later = datetime.now(UTC).date() - timedelta(days=3), datetime.now(UTC).date() - timedelta(days=1)
    Proofs(lake).keep("silver", "s", "as defined", {}, Proof("as defined", whole, later, {}))
    proof = Proofs(lake, since_last=True).last_proof("silver", "s", "as defined")
    assert proof is not None
    assert proof.whole == whole
    assert proof.last > later
