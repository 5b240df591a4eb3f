"""Commands whose jobs use a Spark Connect server, which has a Spark of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.jobs.serve import SERVES
from sluicegate.settings import Settings
from sluicegate.spark import connect, submit
from tests.conftest import ROOT, beat

pytestmark = [pytest.mark.e2e, pytest.mark.more]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A working folder with the sample files landed, but nothing made yet."""
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    (tmp_path / "token").write_text(TOKEN)
    shutil.copytree(ROOT / "data" / "heart_rate", tmp_path / "landing")
    return tmp_path


TOKEN = "a secret of these tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that asks for a token."""
    folder = tmp_path_factory.mktemp("server")
    token = folder / "token"
    token.write_text(TOKEN)
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), ROOT / "pipelines", "local[2]")
    env = submit.submit_env() | {connect.TOKEN_FILE: str(token)}
    command = submit.serve_command(settings, 0)
    assert not any(TOKEN in word for word in command)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            lines = iter(running.stdout or ())
            yield next(line for line in lines if line.startswith(SERVES)).removeprefix(SERVES).strip()
        finally:
            running.terminate()
            running.wait(60)


def sluicegate(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line of this Python."""
    env = {name: value for name, value in os.environ.items() if name != "SLUICEGATE_MASTER"}
    env |= {"PYTHONPATH": str(ROOT), connect.TOKEN_FILE: str(folder / "token"), **environment}
    command = [sys.executable, "-m", "sluicegate.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_pipeline_runs_and_goes_on_by_a_server(home: Path, server: str) -> None:
    tried = {connect.TRIAL: "1", connect.REMOTE: server}
    refused = sluicegate(home, "run", "heart_rate", **{connect.REMOTE: server})
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "not proven to be exact" in refused.stderr + refused.stdout

    first = sluicegate(home, "run", "heart_rate", **tried)
    assert first.returncode == 0, first.stdout + first.stderr
    file = home / "landing" / "recordings" / "later.json"
    file.write_text(json.dumps([beat(1, 1, 0, 80.0), beat(1, 1, 60, 81.0)]))
    os.utime(file, (0, 0))
    second = sluicegate(home, "run", "heart_rate", **tried)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "2 read" in second.stdout

    verified = sluicegate(home, "status", "heart_rate", "--verify", SLUICEGATE_MASTER="local[2]")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "verified: every record is in exactly one place" in verified.stdout


def test_a_wrong_token_is_refused(home: Path, server: str) -> None:
    (home / "other").write_text("another")
    tried = {connect.TRIAL: "1", connect.REMOTE: server, connect.TOKEN_FILE: str(home / "other")}
    refused = sluicegate(home, "run", "heart_rate", **tried)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "refuses the token" in refused.stdout + refused.stderr
    assert "another" not in refused.stdout + refused.stderr
