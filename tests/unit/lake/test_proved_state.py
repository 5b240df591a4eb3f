"""Files that a table had when it was proved, and has no more: they tell only while they are what they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.lake.proved_state import ProvedState

pytestmark = pytest.mark.unit


def state(uri: str) -> ProvedState:
    proved = ProvedState.from_table(DeltaTable(uri))
    assert proved is not None
    return proved


@pytest.fixture
def uri(tmp_path: Path) -> str:
    address = str(tmp_path / "with space")
    write_deltalake(address, pa.table({"id": [1, 2]}))
    write_deltalake(address, pa.table({"id": [3]}), mode="append")
    return address


def test_files_that_went_are_told_while_they_are_what_was_proved(uri: str) -> None:
    proved = state(uri)
    assert proved.replaced_files(uri, proved) == []
    DeltaTable(uri).update({"id": "30"}, predicate="id = 3")
    current = state(uri)
    [replaced_file] = proved.files.keys() - current.files.keys()
    assert proved.replaced_files(uri, current) == [replaced_file]


def removed(path: Path) -> None:
    path.unlink()


def touched(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000))


def longer(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes() + b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [removed, touched, longer])
def test_a_file_that_was_changed_before_it_was_copied_tells_nothing(uri: str, change: Callable[[Path], None]) -> None:
    proved = state(uri)
    DeltaTable(uri).update({"id": "30"}, predicate="id = 3")
    current = state(uri)
    [replaced_file] = proved.files.keys() - current.files.keys()
    change(Path(uri, replaced_file))
    assert proved.replaced_files(uri, current) is None
