"""How suggestions name the program: so that a copy of the line runs in the shell that shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.console import program
from sluicegate.flow.verification.finding import Finding

pytestmark = pytest.mark.unit


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment whose Python is this process, and which no PATH names."""
    scripts = tmp_path / "a checkout" / ".venv" / "bin"
    scripts.mkdir(parents=True)
    written(scripts, "ours")
    monkeypatch.setattr("sys.executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(scripts.parent.parent)
    return scripts.parent.parent


def written(folder: Path, said: str) -> None:
    (folder / "sluicegate").write_text(f"#!/bin/sh\necho {said}\n")
    (folder / "sluicegate").chmod(0o755)


def ran() -> str:
    """What a shell finds by the words that a suggestion begins with."""
    return subprocess.run(program(), shell=True, check=True, capture_output=True, text=True).stdout.strip()


def test_where_the_environment_is_not_activated_it_is_the_path_from_here(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert (program(), ran()) == (".venv/bin/sluicegate", "ours")
    monkeypatch.chdir(checkout / ".venv" / "bin")
    assert (program(), ran()) == ("./sluicegate", "ours")
    monkeypatch.chdir(tmp_path)
    assert (program(), ran()) == ("'a checkout/.venv/bin/sluicegate'", "ours")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (program(), ran()) == (f"'{checkout}/.venv/bin/sluicegate'", "ours")


def test_where_PATH_has_this_one_it_is_its_name(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{checkout}/.venv/bin:/usr/bin:/bin")
    assert (program(), ran()) == ("sluicegate", "ours")
    (checkout / "linked").mkdir()
    (checkout / "linked" / "sluicegate").symlink_to(checkout / ".venv" / "bin" / "sluicegate")
    monkeypatch.setenv("PATH", f"{checkout}/linked:/usr/bin:/bin")
    assert (program(), ran()) == ("sluicegate", "ours")


def test_where_PATH_has_another_one_it_is_not_that(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "other").mkdir()
    written(checkout / "other", "theirs")
    monkeypatch.setenv("PATH", f"{checkout}/other:/usr/bin:/bin")
    assert (program(), ran()) == (".venv/bin/sluicegate", "ours")


def test_without_a_script_beside_the_python_it_is_its_name(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "sluicegate").unlink()
    assert program() == "sluicegate"


def test_what_mends_a_finding_is_said_with_it() -> None:
    found = Finding("behind", "t", "1 file waits", "sluicegate run sluicegate_demo")
    assert found.lines(".venv/bin/sluicegate")[1] == "  run: .venv/bin/sluicegate run sluicegate_demo"
    assert found.lines()[1] == "  run: sluicegate run sluicegate_demo"


def test_commands_suggest_what_can_be_typed(tmp_path: Path) -> None:
    """The real program of this environment, by its path, in a shell whose PATH lacks it."""
    script = Path(sys.executable).with_name("sluicegate")
    if not script.exists():
        pytest.skip("this environment has no script")
    (tmp_path / "a.csv").write_text("id,n\n" + "".join(f"{n},1\n" for n in range(20)))
    words = [str(script), "new", "mine", "--from", "a.csv", "--land"]
    said = subprocess.run(
        words, cwd=tmp_path, env=os.environ | {"PATH": "/usr/bin:/bin"}, check=True, capture_output=True, text=True
    ).stdout
    assert f"next:\n  {script} run mine\n" in said
