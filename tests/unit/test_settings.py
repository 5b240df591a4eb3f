from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.errors import LakeUnsupported
from sluicegate.settings import Settings
from sluicegate.storage import filesystems
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

ELSEWHERE = ["abfss://c@account.dfs.core.windows.net/x", "gs://bucket/x", "hdfs://name:8020/x", "HTTPS://host/x"]


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_store_that_is_not_supported_is_refused_by_its_scheme(address: str) -> None:
    for place in ("lake", "landing"):
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


def test_a_definition_that_names_such_a_store_is_refused_in_a_sentence(workspace: Workspace) -> None:
    workspace.edit("pipeline.yaml", "${landing}/recordings", "abfss://c@account.dfs.core.windows.net/recordings")
    places = workspace.settings.arguments
    options = [part for name in ("lake", "landing", "pipelines") for part in (f"--{name}", places[name])]
    result = CliRunner().invoke(app.app, ["plan", "heart_rate", *options])
    assert isinstance(result.exception, LakeUnsupported)


@pytest.mark.parametrize("arguments", [["-h"], ["plan", "-h"], ["run", "--help"]])
def test_help_has_a_short_option(arguments: list[str]) -> None:
    result = CliRunner().invoke(app.app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_a_local_place_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.of(lake="x/../y").lake == str(tmp_path / "y")
