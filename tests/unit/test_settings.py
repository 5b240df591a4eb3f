from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.errors import DefinitionError, LakeUnsupported
from sluicegate.settings import Settings, resolve_settings
from sluicegate.storage import filesystems
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

ELSEWHERE = ["abfss://c@account.dfs.core.windows.net/x", "gs://bucket/x", "hdfs://name:8020/x", "HTTPS://host/x"]
ELSEWHERE += ["wasbs://c@account/x", "dbfs:/x", "dbfs:///x", "/Volumes/main/x"]


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_store_that_is_not_supported_is_refused_by_its_scheme(address: str) -> None:
    for place in ("lake", "landing", "pipelines"):
        with pytest.raises(LakeUnsupported) as refused:
            Settings.of(**{place: address})
        assert address in refused.value.message
    with pytest.raises(LakeUnsupported):
        filesystems.open_store(address)


@pytest.mark.parametrize("address", ["s3://bucket/x", "s3a://bucket/x", "/data/gs:/x", "gs/x", "memory://x"])
def test_other_places_are_taken(address: str) -> None:
    Settings.of(lake=address, landing=address)


@pytest.mark.parametrize("command", ["plan", "run", "status", "files", "sql"])
def test_a_command_says_so_in_a_sentence(workspace: Workspace, command: str) -> None:
    argument = "SELECT 1" if command == "sql" else "heart_rate"
    options = ["--pipelines", str(workspace.folder / "pipelines"), "--lake", "gs://bucket/lake"]
    result = CliRunner().invoke(app.app, [command, argument, *options])
    assert isinstance(result.exception, LakeUnsupported)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_definition_that_names_such_a_store_is_refused_with_its_line(address: str, workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "${landing}/recordings", f"{address}/recordings")
    places = workspace.settings.arguments
    options = [part for name in ("lake", "landing", "pipelines") for part in (f"--{name}", places[name])]
    result = CliRunner().invoke(app.app, ["plan", "heart_rate", *options])
    assert isinstance(result.exception, DefinitionError)
    assert [(mistake.code, mistake.line) for mistake in result.exception.mistakes] == [("unsupported-store", 13)]


@pytest.mark.parametrize("address", ELSEWHERE)
@pytest.mark.parametrize("command", ["import {}", "new shop --from {}", "new shop --from sales={}", "init --from {}"])
def test_a_source_on_such_a_store_is_refused_and_nothing_is_written(
    command: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app.app, command.format(address).split())
    assert isinstance(result.exception, LakeUnsupported)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ELSEWHERE)
@pytest.mark.parametrize("line", ["lake = '{}'", "pipelines = '{}'", "[targets.prod]\nlanding = '{}'"])
def test_a_project_file_that_names_such_a_store_is_refused(line: str, address: str, tmp_path: Path) -> None:
    (tmp_path / "sluicegate.toml").write_text(line.format(address))
    with pytest.raises(LakeUnsupported):
        resolve_settings({"target": "prod"}, tmp_path)


@pytest.mark.parametrize("arguments", [["-h"], ["plan", "-h"], ["run", "--help"]])
def test_help_has_a_short_option(arguments: list[str]) -> None:
    result = CliRunner().invoke(app.app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_a_local_place_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.of(lake="x/../y").lake == str(tmp_path / "y")
