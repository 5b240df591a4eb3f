"""The options that commands share: each says them in the same words, and gets its places as one ``Settings``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pytest
import typer
import typer.main
from typer.testing import CliRunner

import sluicegate
from sluicegate.cli import app
from sluicegate.cli.options import PLACES, JsonOption, PipelineName, pass_settings, printer
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


def commands() -> dict[str, Any]:
    """The commands by their names, as typer made them."""
    group: Any = typer.main.get_command(app.app)
    return dict(group.commands)


def one_command(*places: Any) -> tuple[typer.Typer, list[tuple[str, Settings, str | None, bool]]]:
    """A program of one command with the options of ``places``, and what it was called with."""
    program, calls = typer.Typer(), []

    @program.command()
    @pass_settings(*places)
    def show(
        pipeline: PipelineName,
        first: Annotated[str | None, typer.Option("--first")] = None,
        *,
        settings: Settings,
        as_json: JsonOption = False,
    ) -> None:
        calls.append((pipeline, settings, first, as_json))

    return program, calls


def test_a_command_gets_its_places_as_one_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LANDING", str(tmp_path / "arrivals"))
    monkeypatch.setenv("SLUICEGATE_LAKE", str(tmp_path / "elsewhere"))
    program, calls = one_command("lake", "landing", "pipelines", "master")
    words = ["beats", "--first", "a", "--lake", "s3://b/lake", "--master", "local[2]", "--json"]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    where = Settings("s3a://b/lake", str(tmp_path / "arrivals"), tmp_path / "pipelines", "local[2]")
    assert calls == [("beats", where, "a", True)]


def test_a_place_without_an_option_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICEGATE_MASTER", "spark://there:7077")
    program, calls = one_command("lake")
    assert CliRunner().invoke(program, ["beats", "--lake", str(tmp_path)]).exit_code == 0
    assert (calls[0][1].lake, calls[0][1].master) == (str(tmp_path), "spark://there:7077")
    assert CliRunner().invoke(program, ["beats", "--master", "local"]).exit_code == 2


def test_the_options_stand_where_the_command_takes_its_settings() -> None:
    @pass_settings("landing", "lake")
    def show(first: str = "", *, settings: Settings, last: bool = False) -> None:
        """Shows."""

    assert list(inspect.signature(show).parameters) == ["first", "landing", "lake", "last"]
    assert get_type_hints(show)["lake"] == str | None
    assert (show.__name__, show.__doc__) == ("show", "Shows.")


def test_every_command_says_a_shared_option_in_the_same_words() -> None:
    shared = [(name, param) for name, made in commands().items() for param in made.params if param.name in PLACES]
    assert len(shared) > 40
    for name, param in shared:
        of_all = PLACES[param.name]
        assert (param.opts, param.help, param.default) == ([f"--{param.name}"], of_all.help, None), name
        assert f"SLUICEGATE_{param.name.upper()}" in param.help
    order = {name: [param.name for param in made.params if param.name in PLACES] for name, made in commands().items()}
    assert all(places == [place for place in PLACES if place in places] for places in order.values())
    assert order["reset"] == list(PLACES)
    assert order["history"] == ["lake", "pipelines", "target"]


def test_the_lines_of_a_job_do_not_come_between_json(capsys: pytest.CaptureFixture[str]) -> None:
    printer(False)("to people")
    printer(True)("beside it")
    printer(False, quiet=True)("to people, too")
    printer(True, quiet=True)("to nobody")
    assert tuple(capsys.readouterr()) == ("to people\nto people, too\n", "beside it\n")


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"sluicegate {sluicegate.__version__}\n")
