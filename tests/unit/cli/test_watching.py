"""What is shown while one waits: status again and again, bars of former runs, time left; and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate import console
from sluicegate.cli import app, options
from sluicegate.console import sparkline, time_left
from sluicegate.monitor import event_log
from tests.conftest import ROOT, Workspace
from tests.support.by_hand import records

pytestmark = pytest.mark.unit


def run(workspace: Workspace, *arguments: str) -> str:
    places = [f"--{name}={workspace.folder / name}" for name in ("lake", "pipelines")]
    if arguments[0] == "status":
        places.append(f"--landing={workspace.folder / 'landing'}")
    done = CliRunner().invoke(app.app, [*arguments, *places])
    return done.output + str(done.exception or "")


def test_status_is_shown_until_ctrl_c(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        records(workspace, "patients_bronze", [len(slept)])
        if len(slept) == 3:
            raise KeyboardInterrupt

    for folder in ("recordings", "patients"):
        (workspace.folder / "landing" / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(time, "sleep", sleep)
    text = run(workspace, "status", "heart_rate", "--watch")
    assert text.count("patients_bronze ") >= 3
    assert text.count("Ctrl-C ends it") == 3
    assert slept == [options.WATCHED_EVERY] * 3
    assert "\x1b" not in text


def test_watching_is_not_for_programs(workspace: Workspace) -> None:
    assert "--watch" in run(workspace, "status", "heart_rate", "--watch", "--json")


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0, 0], "  "), ([5], "█"), ([1, 2, 4, 8], "▁▂▄█"), ([0, 1, 1000], " ▁█"), ([7, 7, 7], "███")],
)
def test_bars(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars


def test_history_has_bars_of_tables_with_several_commits(workspace: Workspace) -> None:
    for written in (1, 8):
        records(workspace, "recordings_enriched", [1], layer="silver", table="recordings_enriched", written=written)
    records(workspace, "daily_patient_avg", [1], layer="gold", table="daily_patient_avg", written=3)
    event_log.copy_events(workspace.definition, workspace.lake)
    text = run(workspace, "history", "heart_rate")
    assert "rows written, the latest commit last:\n  recordings_enriched  ▁█  1 to 8\n" in text


@pytest.mark.parametrize(
    ("took", "done", "left", "said"),
    [
        (10, 0, 5, ""),
        (10, 1, 2.9, ""),
        (10, 1, 3, ", about 30 seconds left"),
        (10, 10, 119, ", about 119 seconds left"),
        (10, 10, 120, ", about 2 minutes left"),
        (10, 10, 7_200, ", about 2 hours left"),
        (10, 10, 200_000, ", about 2 days left"),
        (10, 10, 0, ""),
    ],
)
def test_time_left_is_said_of_what_is_LONG(took: float, done: float, left: float, said: str) -> None:
    assert console.LONG == 30
    assert time_left(took, done, left) == said


def completed(workspace: Workspace, words: str) -> list[str]:
    """What a shell is offered for the last of some words."""
    place = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "_SLUICEGATE_COMPLETE": "complete_bash"}
    places = {"SLUICEGATE_PIPELINES": str(workspace.folder / "pipelines")}
    done = subprocess.run(
        [Path(sys.executable).parent / "sluicegate"],
        env={**os.environ, **place, **places}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_pipelines(workspace: Workspace) -> None:
    assert completed(workspace, "sluicegate st") == ["stop", "status", "streams"]
    assert completed(workspace, "sluicegate status h") == ["heart_rate"]
    assert "--verify" in completed(workspace, "sluicegate status --v")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(workspace: Workspace, shell: str) -> None:
    done = CliRunner().invoke(app.app, ["completion", shell])
    assert done.exit_code == 0
    assert "_SLUICEGATE_COMPLETE=complete_" in done.output
