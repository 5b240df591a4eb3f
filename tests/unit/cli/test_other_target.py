"""Commands that only read say whose tables they show, where these are not the chosen target's."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.lake.exclusion.target_ownership import take_ownership
from sluicegate.lake.layout import Lake
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINITION = "name: heart_rate\nTARGETSbronze:\n  raw: {path: '${landing}/recordings', format: json}\n"
TARGETS = "targets:\n  dev: {lake: '/nowhere/dev'}\n  prod: {lake: '/nowhere/prod'}\n"
COMMANDS = [["plan", "heart_rate"], ["status", "heart_rate"], ["history", "heart_rate"], ["files", "heart_rate", "raw"],
            ["schema", "heart_rate", "raw"]]  # fmt: skip


def said(workspace: Workspace, words: list[str], *more: str) -> str:
    """What a command says on stderr; its stdout is for what it shows, be it JSON or not."""
    own = workspace.settings
    places = ["--lake", own.lake, "--pipelines", str(own.pipelines), *more]
    places += ["--landing", own.landing] if words[0] != "history" else []
    done = CliRunner().invoke(app.app, [*words, *places, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_tables_of_another_target_are_shown_with_a_warning(workspace: Workspace, words: list[str]) -> None:
    workspace.define(DEFINITION.replace("TARGETS", TARGETS))
    assert said(workspace, words, "--target", "dev") == ""  # nobody's yet
    take_ownership(Lake(workspace.settings.lake, "heart_rate"), "prod")
    assert said(workspace, words, "--target", "prod") == ""
    warned = said(workspace, words, "--target", "dev")
    assert warned.startswith("warning: the tables of heart_rate in ")
    assert warned.endswith(
        "belong to the target prod, and are read as those of dev; the definition has the targets dev, prod\n"
    )
    workspace.define(DEFINITION.replace("TARGETS", ""))
    assert said(workspace, words).endswith("are read as a pipeline without targets; the definition has no targets\n")
