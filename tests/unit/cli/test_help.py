"""What an error code means is explained offline, and a message says by which command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sluicegate import errors
from sluicegate.cli import app
from sluicegate.cli.error_help import EXPLANATIONS
from sluicegate.errors import UserError, error_type
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


def help_on(*words: str) -> str:
    done = CliRunner().invoke(app.app, ["help", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_code_is_explained() -> None:
    codes = {one.code for one in vars(errors).values() if isinstance(one, type) and hasattr(one, "exit_code")}
    assert codes == EXPLANATIONS.keys()
    for code, found in EXPLANATIONS.items():
        assert found.means.endswith("."), code
        assert found.causes, code
        assert found.remedies, code
        assert all(line.endswith(".") for line in found.causes + found.remedies), code
        assert not found.page or (ROOT / "docs" / found.page).is_file(), code


@pytest.mark.parametrize("topic", ["SG208", "sg208"])
def test_a_code_shows_what_it_means_and_what_to_do(topic: str) -> None:
    said = help_on(topic)
    assert said.startswith("SG208 FanOut, exit code 2\n")
    assert "several rows for one record" in said
    assert "set `rows: many`" in said
    assert "docs/howto/many-rows.md" in said


def test_programs_get_the_same_facts() -> None:
    facts = json.loads(help_on("SG303", "--json"))
    assert (facts["code"], facts["error"], facts["exit_code"]) == ("SG303", "TableRuleFailed", 3)
    assert facts["remedies"] == list(EXPLANATIONS["SG303"].remedies)
    assert [one["code"] for one in json.loads(help_on("--json"))] == list(EXPLANATIONS)


def test_without_a_topic_all_codes_are_listed() -> None:
    said = help_on()
    for code in EXPLANATIONS:
        assert f"{code}  {error_type(code).__name__}" in said


def test_a_command_shows_its_own_help() -> None:
    assert "--newest" in help_on("history")


@pytest.mark.parametrize(("topic", "hint"), [("histroy", "did you mean history?"), ("zzz", "`sluicegate help` lists")])
def test_another_topic_is_refused_with_what_there_is(topic: str, hint: str) -> None:
    with pytest.raises(UserError, match="no help") as caught:
        help_on(topic)
    assert hint in caught.value.hint


def test_a_message_ends_with_the_command_that_explains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sluicegate", "plan", "nothing", "--pipelines", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        app.main()
    assert capsys.readouterr().err.splitlines()[-1] == "  more: sluicegate help SG202"
    monkeypatch.setattr(sys, "argv", [*arguments, "--json"])
    with pytest.raises(SystemExit):
        app.main()
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "SG202"
    assert captured.err == ""


def test_each_command_is_one_whole_line_below_a_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app.app, ["-h"]).stdout.splitlines()
    commands = [line for line in lines[lines.index("Start a project:") :] if line.startswith("  ")]
    assert sorted(line.split()[0] for line in commands) == sorted(typer.main.get_command(app.app).commands)  # type: ignore[attr-defined]
    assert all(len(line) <= 80 for line in lines)
    assert all(line.endswith(".") and not line.endswith("..") for line in commands)
    assert [line.split()[0] for line in commands][:2] == ["init", "new"]
