"""The daily cleaning of the compose stack: what goes, and what has to stay."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from docker import upkeep
from tests.conftest import ROOT
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

NOW = datetime.now(UTC)
BEFORE = NOW - timedelta(days=30)


def test_its_tables_are_airflows_and_those_of_the_page() -> None:
    from airflow.utils.db_cleanup import config_dict

    assert set(upkeep.TABLES) <= config_dict.keys()
    assert not {"asset_event", "trigger", "dag"} & set(upkeep.TABLES)
    assert f"--tables {','.join(upkeep.TABLES)}\n" in (ROOT / "docs" / "howto" / "existing-airflow.md").read_text()


@pytest.mark.parametrize(("seconds", "stays"), [(-60, False), (60, True)])
def test_files_go_once_they_are_old(tmp_path: Path, seconds: int, stays: bool) -> None:
    new, old = tmp_path / "dag" / "run" / "new.log", tmp_path / "dag" / "other" / "old.log"
    for file in (new, old):
        file.parent.mkdir(parents=True)
        file.write_text("x")
    os.utime(old, times=(BEFORE.timestamp() + seconds,) * 2)
    assert upkeep.delete_files(tmp_path, BEFORE) == (0 if stays else 1, 0)
    assert (old.exists(), old.parent.exists(), new.exists()) == (stays, stays, True)


def test_a_folder_that_is_missing_is_no_trouble(tmp_path: Path) -> None:
    assert upkeep.delete_files(tmp_path / "none", BEFORE) == (0, 0)


def test_a_file_that_cannot_be_deleted_keeps_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("another's", "ours"):
        file = tmp_path / name / "old.log"
        file.parent.mkdir()
        file.write_text("x")
        os.utime(file, times=(BEFORE.timestamp() - 60,) * 2)
    unlink = Path.unlink

    def refused(file: Path) -> None:
        if file.parent.name == "another's":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(file)

    monkeypatch.setattr(Path, "unlink", refused)  # root, as which tests may run, is refused nothing
    assert upkeep.delete_files(tmp_path, BEFORE) == (1, 1)
    assert not (tmp_path / "ours").exists()
    assert "another's/old.log: Permission denied" in capsys.readouterr().err
