"""Folders of one process: nobody else's to read, and not left for good."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sluicegate import private_folders
from sluicegate.private_folders import PREFIX, PrivateFolder, remove_abandoned_folders
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

CODE = """
import time
from sluicegate.private_folders import PrivateFolder
folder = PrivateFolder()
(folder.path / "rows").write_text("a value")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_it_is_private_and_removed_with_what_is_in_it() -> None:
    folder = PrivateFolder()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    (folder.path / "below").mkdir()
    (folder.path / "below" / "rows").touch()
    folder.remove()
    assert not folder.path.exists()


def test_what_a_killed_process_leaves_is_removed_and_nothing_else(tmp_path: Path) -> None:
    at_work = PrivateFolder()
    (tmp_path / f"{PREFIX}link").symlink_to(at_work.path)
    others = tmp_path / "another-folder"
    others.mkdir()
    unfinished = tmp_path / f"{PREFIX}unfinished"  # killed before its file was made
    unfinished.mkdir()
    unknown = tmp_path / f"{PREFIX}unknown"  # not made by us
    unknown.mkdir()
    (unknown / "file").touch()
    process = subprocess.Popen([sys.executable, "-c", CODE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    remove_abandoned_folders()
    assert (left / "rows").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    remove_abandoned_folders()
    assert not left.exists()
    assert not unfinished.exists()
    assert at_work.path.exists()
    assert others.exists()
    assert (unknown / "file").exists()
    at_work.remove()


def test_a_folder_that_is_removed_as_it_is_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tempfile.mkdtemp
    first: list[str] = []

    def mkdtemp(**arguments: str) -> str:
        folder = made(**arguments)
        if not first:
            first.append(folder)
            remove_abandoned_folders()
        return folder

    monkeypatch.setattr(private_folders.tempfile, "mkdtemp", mkdtemp)
    folder = PrivateFolder()
    assert not os.path.exists(first[0])
    assert (folder.path / private_folders.IN_USE).exists()
    folder.remove()
