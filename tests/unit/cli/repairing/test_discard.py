"""``sluicegate discard``, over a lake that runs have filled, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

import sluicegate as sg
from sluicegate.cli import app
from sluicegate.errors import PipelineRenamed, SluicegateError, TargetConflict, UserError
from sluicegate.lake.exclusion import renamed
from sluicegate.lake.exclusion.target_ownership import take_ownership
from sluicegate.launch.discard import LONGEST_NOTE, Discard, find_records, state, to_one_line
from tests.support.page_world import PageWorld

pytestmark = pytest.mark.unit

TABLE = "recordings_enriched"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageWorld:
    """Two runs, each with three records that broke a rule."""
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("LOGNAME", "ada")
    return PageWorld.at(tmp_path, runs=2)


def call(world: PageWorld, *words: str, answer: str | None = None) -> Result:
    own = world.workspace.settings
    places = ["--lake", own.lake, "--pipelines", str(own.pipelines)]
    return CliRunner().invoke(app.app, ["discard", "heart_rate", TABLE, *words, *places], input=answer)


def status(world: PageWorld) -> dict[str, Any]:
    found = sg.status(world.workspace.definition).tables
    table = next(one for one in found if one.table == TABLE)
    return {"quarantined": table.quarantined, "discarded": table.discarded}


def test_records_are_discarded_and_taken_back(world: PageWorld) -> None:
    shown = call(world, "--note", "a sensor test", "--dry-run")
    assert shown.output.splitlines() == [f"6 rows of the quarantine of {TABLE} wait", "  valid_heartrate: 6"]
    assert status(world) == {"quarantined": 6, "discarded": 0}
    done = call(world, "--note", "a  sensor\ttest\n", "--rule", "valid_heartrate", "--yes")
    assert done.exit_code == 0, done.output
    assert "6 discarded" in done.output
    assert status(world) == {"quarantined": 0, "discarded": 6}
    world.run(quarantined=2)
    assert status(world) == {"quarantined": 2, "discarded": 6}  # what comes later waits
    shown = call(world, "--note", "the rest", "--dry-run")
    assert shown.output.splitlines() == [f"2 rows of the quarantine of {TABLE} wait", "  valid_heartrate: 2"]
    listed = json.loads(call(world, "--undo", "--dry-run", "--json").stdout)
    assert (listed["records"], listed["written"]) == (6, 0)
    (made,) = listed["discards"]
    assert (made["by"], made["note"], made["records"]) == ("ada", "a sensor test", 6)
    assert call(world, "--note", "the rest", "--yes").exit_code == 0
    again = json.loads(call(world, "--undo", "--id", made["id"], "--yes", "--json").stdout)
    assert (again["records"], again["written"]) == (6, 6)
    assert status(world) == {"quarantined": 6, "discarded": 2}
    assert "of by" not in call(world, "--undo", "--yes").output
    assert status(world) == {"quarantined": 8, "discarded": 0}
    nothing = call(world, "--undo", "--yes")
    assert (nothing.exit_code, nothing.output) == (0, "no discard\n")


def test_it_asks_first(world: PageWorld) -> None:
    refused = call(world, "--note", "x")  # the input of a test is no terminal
    assert isinstance(refused.exception, UserError)
    assert "add --yes" in (refused.exception.hint or "")
    assert status(world) == {"quarantined": 6, "discarded": 0}
    said: list[int] = []
    assert (
        sg.discard(world.workspace.definition, TABLE, note="x", confirm=lambda one: bool(said.append(one.records))) == 0
    )
    assert (said, status(world)) == ([6], {"quarantined": 6, "discarded": 0})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a note"), (["--note", " \n\u200b "], "a note"),
        (["--note", "x" * 501], "the note has 501 characters"),
        (["--note", "x", "--rule", "valid_heartrat"], "rule valid_heartrat"),
        (["--note", "x", "--id", "one"], "an id"),
        (["--undo", "--id", "one"], "discard one"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(world: PageWorld, words: list[str], said: str) -> None:
    refused = call(world, *words, "--yes")
    assert isinstance(refused.exception, UserError)
    assert said in str(refused.exception)
    assert status(world) == {"quarantined": 6, "discarded": 0}


def test_a_rule_that_is_no_longer_defined_can_be_named(world: PageWorld) -> None:
    world.workspace.edit("pipeline.yaml", "valid_heartrate:", "plausible:")
    assert sg.discard(world.workspace.definition, TABLE, note="x", rules=["valid_heartrate"]) == 6


@pytest.mark.parametrize("table", ["recordings_bronze", "daily_patient_avg", "nowhere"])
def test_only_silver_tables_have_records_to_discard(world: PageWorld, table: str) -> None:
    with pytest.raises(UserError):
        sg.discard(world.workspace.definition, table, note="x")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_note_has_up_to_LONGEST_NOTE_characters(world: PageWorld, more: int) -> None:
    note = "é" * (LONGEST_NOTE + more)
    if more > 0:
        with pytest.raises(UserError, match=f"the note has {LONGEST_NOTE + more} characters"):
            sg.discard(world.workspace.definition, TABLE, note=note)
    else:
        assert sg.discard(world.workspace.definition, TABLE, note=note) == 6
    assert status(world)["discarded"] == (0 if more > 0 else 6)


def test_a_note_is_one_line() -> None:
    assert to_one_line("<b>x</b>\r\n=1+1\x1b[0m \u202e y") == "<b>x</b> =1+1 [0m y"


def test_of_a_quarantine_that_was_shown_nothing_is_discarded_that_came_later(world: PageWorld) -> None:
    at, definition = world.workspace.lake, world.workspace.definition
    shown = state(DeltaTable(at.quarantine(TABLE)), None)
    world.run(quarantined=4)
    assert find_records(definition, Discard(TABLE, note="x", shown=shown)).records == 6
    assert find_records(definition, Discard(TABLE, note="x", shown=f"{shown}/3")).records == 6
    assert find_records(definition, Discard(TABLE, note="x")).records == 10
    identity = shown.partition("@")[0]
    odd = [f"{identity}@{version}" for version in ("²", "٢", "-1", " 1", "9" * 12, "9" * 30, "1_0", "")]
    for gone in ("x@0", shown.replace("@", "@9"), "", "@", *odd):
        if gone:
            with pytest.raises(UserError, match="it was shown"):
                find_records(definition, Discard(TABLE, note="x", shown=gone))


@pytest.mark.parametrize("rules", [(), ("valid_heartrate",)])
def test_a_discard_that_came_after_the_question_is_not_taken_back(world: PageWorld, rules: tuple[str, ...]) -> None:
    definition = world.workspace.definition
    sg.discard(definition, TABLE, note="shown")

    def meanwhile(_chosen: Any) -> bool:
        world.run(quarantined=2)
        return bool(sg.discard(definition, TABLE, note="of another"))

    assert sg.discard(definition, TABLE, undo=True, rules=rules, confirm=meanwhile) == 6
    left = find_records(definition, Discard(TABLE, undo=True)).discards
    assert [(one.note, one.records) for one in left] == [("of another", 2)]


@pytest.mark.parametrize("name", ["a\n\x1b[31mb", "a\x00[31mb", "a \udc80[31mb"])
def test_the_name_of_a_user_is_one_line_of_text(world: PageWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    definition = world.workspace.definition
    monkeypatch.setattr("getpass.getuser", lambda: name)
    assert sg.discard(definition, TABLE, note="x") == 6
    (made,) = find_records(definition, Discard(TABLE, undo=True)).discards
    assert made.by == "a [31mb"
    assert sg.discard(definition, TABLE, undo=True) == 6


def test_tables_of_others_are_left_alone(world: PageWorld) -> None:
    at, definition = world.workspace.lake, world.workspace.definition
    take_ownership(at, "prod")
    with pytest.raises(TargetConflict):
        sg.discard(definition, TABLE, note="x")
    Path(at.target).unlink()
    renamed.record_rename(at.root, "heart_rate", "beats")
    with pytest.raises(PipelineRenamed):
        sg.discard(definition, TABLE, note="x")
    assert not Path(at.discards(TABLE)).exists()


def test_without_a_quarantine_there_is_nothing_to_do(world: PageWorld) -> None:
    done = call(world.__class__.at(world.workspace.folder / "other", runs=0), "--note", "x", "--yes")
    assert (done.exit_code, done.output) == (0, f"no rows of the quarantine of {TABLE} wait\n")


def test_an_error_of_the_store_is_a_sentence(world: PageWorld) -> None:
    folder = Path(world.workspace.lake.discards(TABLE))
    folder.mkdir(parents=True)
    (folder / "note.txt").write_text("mine")
    with pytest.raises(SluicegateError, match="not a Delta table"):
        sg.discard(world.workspace.definition, TABLE, note="x")
