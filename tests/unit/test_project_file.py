"""One place for settings: a project's file, and which of four sources a value is from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sluicegate import settings as settings_module
from sluicegate.airflow.dag import settings_below
from sluicegate.cli import app
from sluicegate.definition import load
from sluicegate.errors import DefinitionError, SettingsError, UserError
from sluicegate.project_file import SETTINGS, find_project, key_lines
from sluicegate.settings import Settings, resolve_settings

pytestmark = pytest.mark.unit

WHOLE = """\
lake = "tables"
landing = "s3://bucket/landing"  # a URI stays one
warm_minutes = 2.5
only_writer = false

[targets.prod]
lake = "/data/lake"
master = "spark://main:7077"
spark_slots = 8
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's settings but those of the test."""
    for setting in SETTINGS.values():
        monkeypatch.setenv(setting.variable, "of nobody")  # so that it is as before after the test
        monkeypatch.delenv(setting.variable)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(settings_module, "_exported", set())
    monkeypatch.chdir(tmp_path)


def mistakes(folder: Path, text: str) -> list[tuple[str, int | None, str]]:
    (folder / "sluicegate.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        find_project(folder)
    return [(mistake.code, mistake.line, mistake.hint) for mistake in refused.value.mistakes]


def test_a_file_is_found_upwards_and_its_paths_are_below_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    settings = Settings.of()
    assert settings.lake == str(tmp_path / "tables")
    assert settings.landing == "s3a://bucket/landing"
    assert settings.pipelines == tmp_path / "pipelines"  # a default, and below the project, too
    assert settings.master == "local[*]"
    assert settings.given == frozenset()


def test_the_table_of_a_pyproject_is_such_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[project]\nname = "x"\n\n[tool.other]\nsluicegate = 1\n')
    assert find_project(tmp_path) is None
    table = '[tool.sluicegate]\nlake = "tables"\n[tool.sluicegate.targets.a]\nlake = "l"\n'
    file.write_text(f'[project]\nname = "x"\n\n{table}')
    project = find_project(tmp_path)
    assert project is not None
    assert (project.values["lake"].text, project.values["lake"].line) == (str(tmp_path / "tables"), 5)
    assert project.targets["a"]["lake"].text == str(tmp_path / "l")


def test_two_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.sluicegate]\n")
    assert mistakes(tmp_path, "")[0][0] == "two-files"


def test_all_mistakes_come_at_once_with_their_lines(tmp_path: Path) -> None:
    text = (
        'lak = "x"\nlanding = 3\nwarm_minutes = -1\nspark_slots = 1.5\nonly_writer = "yes"\npii_key = "abc"\n'
        'metastore = "jdbc:postgresql://db/x?password=abc"\nmaster = "${MASTER}"\nSLUICEGATE_LANDING = "x"\n'
        '[targets.dev]\nlakes = "y"\ntarget = "prod"\n[other]\nlake = "x"\n'
    )
    assert mistakes(tmp_path, text) == [
        ("unknown-key", 1, "did you mean lake?"),
        ("wrong-type", 2, 'for example "lake", in quotes'),
        ("wrong-type", 3, ""),
        ("wrong-type", 4, ""),
        ("wrong-type", 5, ""),
        ("secret", 6, "set its SLUICEGATE_* variable in the environment of every process that needs it"),
        ("secret", 7, "set the SLUICEGATE_* variable of this setting in the environment of the processes"),
        ("not-allowed", 8, "set the setting's own variable"),
        ("unknown-key", 9, "did you mean landing?"),
        ("unknown-key", 13, mistakes(tmp_path, "other = 1")[0][2]),
        ("unknown-key", 11, "did you mean lake?"),
        ("unknown-key", 12, mistakes(tmp_path, "[targets.a]\nqqq = 1")[0][2]),
    ]


@pytest.mark.parametrize("text", ["lake = ", "lake = 'a'\nlake = 'b'\n", "targets = 3", "[targets]\ndev = 3"])
def test_a_file_that_is_not_one_is_refused(tmp_path: Path, text: str) -> None:
    assert len(mistakes(tmp_path, text)) == 1


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_bytes(b'lake = "\xe4"')
    with pytest.raises(UserError):
        find_project(tmp_path)


def test_a_file_is_read_again_once_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text('lake = "a"')
    assert Settings.of().lake == str(tmp_path / "a")
    (tmp_path / "sluicegate.toml").write_text('lake = "other"')
    assert Settings.of().lake == str(tmp_path / "other")


@pytest.mark.parametrize("how", ["flag", "variable", "default"])
def test_a_target_is_chosen_in_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    (tmp_path / "sluicegate.toml").write_text(("target = 'prod'\n" if how == "default" else "") + WHOLE)
    if how == "variable":
        monkeypatch.setenv("SLUICEGATE_TARGET", "prod")
    settings = Settings.of(target="prod" if how == "flag" else None)
    assert (settings.lake, settings.master) == ("/data/lake", "spark://main:7077")
    assert settings.landing == "s3a://bucket/landing"  # of the file, as the target has none
    assert settings.project_target == "prod"


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    with pytest.raises(SettingsError) as refused:
        Settings.of(target="prd")
    assert refused.value.hint == "did you mean prod?"
    assert mistakes(tmp_path, 'target = "prd"\n' + WHOLE) == [("unknown-target", 1, "did you mean prod?")]


def define(folder: Path, targets: str = "") -> None:
    (folder / "pipelines" / "p").mkdir(parents=True)
    text = "name: p\nbronze:\n  raw: {path: '${landing}/raw', format: json}\n" + targets
    (folder / "pipelines" / "p" / "pipeline.yaml").write_text(text)


def test_a_pipeline_without_targets_runs_as_one_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    define(tmp_path)
    settings = load("p", Settings.of(target="prod")).settings
    assert (settings.lake, settings.target) == ("/data/lake", "")
    assert "target" not in settings.arguments


def test_a_pipeline_with_targets_has_its_own_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text("target = 'prod'\n" + WHOLE)
    define(tmp_path, "targets: {prod: {lake: /of/its/own}}\n")
    settings = load("p", Settings.of()).settings
    assert (settings.lake, settings.master, settings.target) == ("/of/its/own", "spark://main:7077", "prod")


def test_a_target_of_nobody_is_still_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text("lake = 'x'")
    define(tmp_path)
    with pytest.raises(DefinitionError):
        load("p", Settings.of(target="prod"))


# What each source says of a setting; None where it says nothing.
SAID = st.none() | st.sampled_from(["a", "b", "c"])


@given(st.sampled_from(["lake", "landing", "pipelines", "master"]), SAID, SAID, SAID, SAID, st.booleans())
def test_the_first_source_that_has_a_value_gives_it(
    tmp_path_factory: pytest.TempPathFactory,
    key: str,
    flag: str | None,
    variable: str | None,
    of_target: str | None,
    of_file: str | None,
    chosen: bool,
) -> None:
    folder = tmp_path_factory.mktemp("project")
    lines = [f'{key} = "/{of_file}/file"' if of_file else "", "[targets.prod]"]
    lines.append(f'{key} = "/{of_target}/target"' if of_target else "")
    (folder / "sluicegate.toml").write_text("\n".join(lines))
    flags: dict[str, str | None] = {key: flag and f"/{flag}/flag", "target": "prod" if chosen else None}
    default = SETTINGS[key].default if key == "master" else str(folder / SETTINGS[key].default)
    sources = [
        (flag and f"/{flag}/flag", "flag", None),
        (variable and f"/{variable}/variable", "environment", None),
        (of_target and chosen and f"/{of_target}/target", "file", 3),
        (of_file and f"/{of_file}/file", "file", 1),
        (default, "default", None),
    ]
    with pytest.MonkeyPatch.context() as patch:
        if variable:
            patch.setenv(SETTINGS[key].variable, f"/{variable}/variable")
        resolved = resolve_settings(flags, folder)
    value, fields = resolved.values[key], vars(Settings.from_resolved(flags, resolved))
    assert (value.text, value.source, value.line) == next(source for source in sources if source[0])
    assert str(fields[key]) == value.text


def test_what_only_the_file_says_becomes_a_variable_until_another_file_says_other_things(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    resolve_settings({"target": "prod"}).export()
    assert os.environ["SLUICEGATE_WARM"] == "2.5"
    assert os.environ["SLUICEGATE_SPARK_SLOTS"] == "8"
    assert os.environ["SLUICEGATE_ONLY_WRITER"] == "0"
    assert "SLUICEGATE_LAKE" not in os.environ
    assert resolve_settings({}).values["warm_minutes"].source == "file"  # and not of this process's environment
    (tmp_path / "sluicegate.toml").write_text("warm_minutes = 7")
    resolve_settings({}).export()
    assert os.environ["SLUICEGATE_WARM"] == "7"
    assert "SLUICEGATE_SPARK_SLOTS" not in os.environ


def test_a_variable_of_whoever_started_the_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    monkeypatch.setenv("SLUICEGATE_WARM", "1")
    resolve_settings({}).export()
    assert os.environ["SLUICEGATE_WARM"] == "1"


def test_a_dag_file_reads_the_file_of_its_own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "dags").mkdir(parents=True)
    (project / "sluicegate.toml").write_text(WHOLE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = settings_below(project, "prod")
    assert (settings.lake, settings.pipelines) == ("/data/lake", project / "pipelines")
    assert settings.given == {"pipelines"}
    assert os.environ["SLUICEGATE_SPARK_SLOTS"] == "8"


def printed(*words: str) -> Mapping[str, Any]:
    done = CliRunner().invoke(app.app, ["settings", *words, "--json"])
    assert done.exit_code == 0, done.output
    facts: Mapping[str, Any] = json.loads(done.stdout)
    return facts


def test_the_command_says_where_each_value_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sluicegate.toml").write_text(WHOLE)
    monkeypatch.setenv("SLUICEGATE_MASTER", "local[3]")
    facts = printed("--landing", "here", "--target", "prod")
    values = {value["name"]: value for value in facts["settings"]}
    assert list(values) == list(SETTINGS)
    assert facts["file"] == str(tmp_path / "sluicegate.toml")
    places = {name: (values[name]["value"], values[name]["source"], values[name]["line"]) for name in values}
    assert places["lake"] == ("/data/lake", "file", 7)
    assert places["landing"] == (str(tmp_path / "here"), "flag", None)
    assert places["pipelines"] == (str(tmp_path / "pipelines"), "default", None)
    assert places["master"] == ("local[3]", "environment", None)
    assert places["warm_minutes"] == ("2.5", "file", 3)
    assert places["maven"] == (None, "default", None)


def test_the_command_prints_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_MASTER", "sc://host:15002/;token=hush")
    monkeypatch.setenv("SLUICEGATE_METASTORE", "jdbc:postgresql://me:hush@db/x")
    assert "hush" not in json.dumps(printed())
    assert "hush" not in CliRunner().invoke(app.app, ["settings"]).output


def test_every_command_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text("pipelines = 'definitions'\nwarm_minutes = 3")
    result = CliRunner().invoke(app.app, ["plan", "p"])
    assert str(tmp_path / "definitions") in str(result.exception)
    assert os.environ["SLUICEGATE_WARM"] == "3"


def test_lines_are_those_of_keys_with_quotes_and_spaces() -> None:
    text = "# lake = 1\n'lake' = 2\n[ targets . \"a b\" ] # of\n  master  = 3\nx = {y = 1}\n"
    assert key_lines(text) == {"lake": 2, "targets.a b": 3, "targets.a b.master": 4, "targets.a b.x": 5}
