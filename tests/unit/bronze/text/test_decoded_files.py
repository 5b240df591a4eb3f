"""Copies of landed files are where others do not meet them, and do not stay."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluicegate.bronze.text import decoded_files
from sluicegate.bronze.text.decoded_files import LEFT_OVER, STARTED
from sluicegate.definition import BronzeTable
from sluicegate.errors import SourceError
from sluicegate.spark import executors

pytestmark = pytest.mark.unit

LATIN = BronzeTable.model_validate({"path": "/x", "format": "csv", "options": {"encoding": "cp1252", "header": "true"}})


@pytest.mark.parametrize(("seconds", "stays"), [(-60, True), (60, False)])
def test_copies_of_a_killed_run_are_removed_after_LEFT_OVER(tmp_path: Path, seconds: int, stays: bool) -> None:
    started = datetime.now(UTC) - LEFT_OVER - timedelta(seconds=seconds)
    left = tmp_path / "p/_state/things_decoded" / f"{started.strftime(STARTED)}-x"
    left.mkdir(parents=True)
    landed = tmp_path / "a.csv"
    landed.write_bytes(b"a\n\xe9\n")
    session: Any = None
    with decoded_files.open_copies(session, f"{tmp_path}/p/bronze/things") as decoded:
        copy = Path(decoded.paths_to_read("things", LATIN, [str(landed)], {})[0])
        assert copy.read_text() == "a\né\n"
    assert not copy.exists()
    assert left.exists() == stays


@pytest.mark.parametrize(("size", "few"), [(-1, executors.FEW), (0, executors.FEW), (1, 0)])
def test_files_of_more_than_SMALL_bytes_are_decoded_by_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, few: int
) -> None:
    asked: list[int] = []

    def each(session: Any, work: Any, paths: list[str], *given: Any, few: int) -> dict[str, Any]:
        asked.append(few)
        return {path: work(path, *given) for path in paths}

    monkeypatch.setattr(executors, "map_files", each)
    monkeypatch.setattr(decoded_files, "SMALL", 1000)
    landed = tmp_path / "a.csv"
    landed.write_bytes(b"a\n\xe9\n")
    session: Any = None
    with decoded_files.open_copies(session, f"{tmp_path}/p/bronze/things") as decoded:
        decoded.paths_to_read("things", LATIN, [str(landed)], {str(landed): 1000 + size})
    assert asked == [few]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    session: Any = None
    with (
        decoded_files.open_copies(session, f"{tmp_path}/p/bronze/things") as decoded,
        pytest.raises(SourceError, match=r"none.csv") as raised,
    ):
        decoded.paths_to_read("things", LATIN, [f"{tmp_path}/none.csv"], {})
    assert "FileNotFoundError" in (raised.value.cause or "")


def test_executors_without_this_package_can_unpickle_how_files_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def map_by_json(session: Any, work: Any, paths: list[str], *given: Any, few: int) -> dict[str, Any]:
        return {path: work(path, *json.loads(json.dumps(given))) for path in paths}

    monkeypatch.setattr(executors, "map_files", map_by_json)
    landed = tmp_path / "a.csv"
    landed.write_bytes(b'1;2\nx;"\xe9;\n')
    options = {"encoding": "cp1252", "skipRows": "1", "sep": ";", "quote": ""}
    table = BronzeTable.model_validate({"path": "/x", "format": "csv", "options": options})
    with decoded_files.open_copies(None, f"{tmp_path}/p/bronze/things") as decoded:  # type: ignore[arg-type]
        with pytest.raises(SourceError):  # by ";" and without quotes both lines have two values
            decoded.paths_to_read("things", table, [str(landed)], {})
        landed.write_bytes(b'1\nx;"\xe9;\n')
        decoded.results.clear()
        copy = Path(decoded.paths_to_read("things", table, [str(landed)], {})[0])
        assert copy.read_text() == 'x;"é;\n'
