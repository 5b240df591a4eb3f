"""A change feed tells what came since a version only if the table still has the commit that was read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.flow.versions_read import VersionRead, versions_read
from sluicegate.lake.table import Table, Tables

pytestmark = pytest.mark.unit


def add(uri: str, number: int) -> None:
    write_deltalake(uri, pa.table({"n": [number]}), mode="append")


def read(uri: str, version: int) -> VersionRead:
    return versions_read(Tables(), {"t": (uri, version)})["t"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    address = str(tmp_path / "t")
    add(address, 0)
    add(address, 1)
    return address


def test_a_table_goes_on_from_a_version_that_it_has(uri: str) -> None:
    before = read(uri, 1)
    add(uri, 2)
    assert before.continues_to(read(uri, 2), Table(uri))
    assert before.continues_to(read(uri, 1), Table(uri))
    assert not read(uri, 2).continues_to(before, Table(uri))
    assert VersionRead(**before.as_dict()) == before


def test_a_table_that_was_put_back_and_written_on_does_not(uri: str, tmp_path: Path) -> None:
    shutil.copytree(uri, tmp_path / "backup")
    add(uri, 2)
    before = read(uri, 2)
    shutil.rmtree(uri)
    shutil.copytree(tmp_path / "backup", uri)
    add(uri, 7)
    add(uri, 8)
    assert not before.continues_to(read(uri, 3), Table(uri))


def test_neither_does_one_that_was_restored_or_is_another(uri: str) -> None:
    before = read(uri, 1)
    DeltaTable(uri).restore(0)
    assert not before.continues_to(read(uri, 2), Table(uri))
    shutil.rmtree(uri)
    for number in range(3):
        add(uri, number)
    assert not before.continues_to(read(uri, 2), Table(uri))


def test_a_version_whose_log_entry_was_cleaned_away_is_itself_and_leads_to_no_other(uri: str) -> None:
    DeltaTable(uri).create_checkpoint()
    (Path(uri) / "_delta_log" / f"{0:020}.json").unlink()
    before = read(uri, 0)
    assert before.entry is None
    assert before.continues_to(before, Table(uri))
    assert not before.continues_to(read(uri, 1), Table(uri))


def test_a_table_that_is_not_there_was_not_read(tmp_path: Path) -> None:
    assert versions_read(Tables(), {"t": (str(tmp_path / "none"), 0)}) == {}
