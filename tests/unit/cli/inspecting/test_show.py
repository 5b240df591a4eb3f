"""``sluicegate show``: the views of the Lakehouse page as text and as JSON, over a lake that runs have filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import sluicegate as sg
from sluicegate.cli.app import app
from sluicegate.errors import UserError
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit

TABLE = "recordings_enriched"
LAST = "scheduled__2026-03-02T06:15:00+00:00"

# The words of each view, with what its text says, and where its JSON has a fact, and which.
VIEWS: dict[str, tuple[list[str], list[str], list[Any], Any]] = {
    "home": ([], ["heart_rate", "fine", "1 pipeline"], [0, "name"], "heart_rate"),
    "graph": (["heart_rate"], [TABLE, f"as of the run {LAST}"], ["run", "key"], LAST),
    "table": (["heart_rate", TABLE], ["70 rows, version 1", "valid_heartrate"], ["rows"], 70),
    "quarantine": (["heart_rate", TABLE, "--quarantine"], ["6 records in quarantine, 0 discarded"], ["records"], 6),
    "runs": (["heart_rate", "--runs"], [LAST, "2 runs"], [0, "key"], LAST),
    "run": (["heart_rate", "--run", LAST], [f"{LAST}: scheduled, committed"], ["tables", 1, "balance", "written"], 35),
    "days": (["heart_rate", "--days"], ["2026-03-02    70", f"{TABLE} by time"], ["days", 0, "rows"], 70),
    "search": (["--search", "heartrate"], ["DOUBLE", "2 hits"], [1, "table"], TABLE),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PageWorld:
    """Two runs; nothing in this module changes it."""
    return PageWorld.at(tmp_path_factory.mktemp("show"), runs=2)


def show(world: PageWorld, *words: str) -> Result:
    return world.command("show", *words)


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_text_and_json(world: PageWorld, view: str) -> None:
    words, said, place, fact = VIEWS[view]
    done = show(world, *words)
    assert done.exit_code == 0, done.output
    for one in said:
        assert one in done.output
    found = json.loads(show(world, *words, "--json").stdout)
    for step in place:
        found = found[step]
    assert found == fact


def test_rows_are_shown_on_demand_and_without_personal_data(world: PageWorld) -> None:
    for words in (["heart_rate", TABLE], ["heart_rate", TABLE, "--quarantine"]):
        assert "••••" not in show(world, *words).output
        shown = show(world, *words, "--rows").output
        assert "••••" in shown
        assert "Ada" not in shown


def test_a_quarantine_can_be_of_one_rule(world: PageWorld) -> None:
    words = ("heart_rate", TABLE, "--quarantine", "--rows", "--json", "--rule")
    assert len(json.loads(show(world, *words, "valid_heartrate").stdout)["examples"]) == 6
    assert json.loads(show(world, *words, "known_patient").stdout)["examples"] == []


def test_discarded_records_are_counted_apart_with_their_notes(tmp_path: Path) -> None:
    world = PageWorld.at(tmp_path, runs=1)
    sg.discard(world.workspace.definition, TABLE, note="a sensor test")
    world.run(quarantined=2)
    shown = show(world, "heart_rate", TABLE, "--quarantine", "--rows").output
    assert "2 records in quarantine, 3 discarded" in shown
    assert "3 records: a sensor test" in shown
    assert shown.count("0001.json  discarded by") == 3
    assert "0002.json  discarded by" not in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["heart_rate", "--runs", "--days"], "--runs and --days"),
        (["heart_rate", TABLE, "--quarantine", "--search", "x"], "--quarantine and --search"),
        (["--runs"], "--runs requires"), (["--run", LAST], "--run requires"),
        (["--days"], "--days requires"), (["--quarantine"], "--quarantine requires"),
        (["heart_rate", "--quarantine"], "a silver table"),
        (["heart_rate", TABLE, "--runs"], "--runs does not take a table"),
        (["heart_rate", TABLE, "--run", LAST], "--run does not take a table"),
        (["heart_rate", TABLE, "--search", "x"], "--search does not take a table"),
        (["heart_rate", TABLE, "--rule", "valid_heartrate"], "--rule requires"),
        (["heart_rate", "--rows"], "--rows requires"), (["--rows"], "--rows requires"),
        (["heart_rate", "nowhere"], "table nowhere"),
        (["heart_rate", "recordings_bronze", "--quarantine"], "silver table"),
        (["heart_rate", TABLE, "--quarantine", "--rule", "nothing"], "unknown rule"),
        (["heart_rate", "--run", "nowhere"], "run nowhere"),
        (["nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_an_error_of_the_user(world: PageWorld, words: list[str], said: str) -> None:
    refused = show(world, *words).exception
    assert isinstance(refused, UserError)
    assert said in refused.message
    assert refused.exit_code == 2


@pytest.mark.parametrize("view", VIEWS)
def test_before_the_first_run_there_is_little_to_show(tmp_path: Path, view: str) -> None:
    world = PageWorld.at(tmp_path, runs=0)
    words = VIEWS[view][0]
    done = show(world, *words)
    if view == "run":
        assert isinstance(done.exception, UserError)
        assert done.exception.hint == "its last runs: none"
        return
    assert done.exit_code == 0, done.output
    json.loads(show(world, *words, "--json").stdout)
    said = {"graph": "it has not run yet", "table": "not created yet", "runs": "0 runs", "search": "0 hits",
            "quarantine": "0 records in quarantine, 0 discarded"}  # fmt: skip
    assert said.get(view, "") in done.output


def test_a_folder_without_pipelines_is_shown_as_one(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = CliRunner().invoke(app, ["show", "--pipelines", str(tmp_path / "none"), "--lake", str(tmp_path / "lake")])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "0 pipelines")


def test_what_a_terminal_would_obey_does_not_reach_it(tmp_path: Path) -> None:
    world = PageWorld.at(tmp_path, runs=0)
    evil = "run\x1b]0;x\x07\x9b31m\u202e<b>"
    world.run(run_id=evil)
    for words in (["heart_rate"], ["heart_rate", "--runs"], ["heart_rate", "--run", evil], ["heart_rate", TABLE]):
        for more in ([], ["--json"]):
            done = show(world, *words, *more)
            assert done.exit_code == 0, done.output
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.output)
            assert "<b>" in done.output  # a terminal has no markup, and rich is told so
