"""Versions of a bronze table's columns: of this table alone, each in words, also once its log has lost them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.lake import layout
from sluicegate.schema import history

pytestmark = pytest.mark.unit


@pytest.fixture
def at(tmp_path: Path) -> layout.Lake:
    return layout.Lake(str(tmp_path), "p")


def write(at: layout.Lake, mode: Any = "append", **columns: pa.DataType) -> None:
    rows = pa.schema([*columns.items()]).empty_table()
    how = {"schema_mode": "overwrite" if mode == "overwrite" else "merge"}
    write_deltalake(at.table("bronze", "t"), rows, mode=mode, **how)


def told(at: layout.Lake) -> list[tuple[int, str]]:
    return [(one["version"], one["changes"]) for one in history.versions(at, "t")]


def test_columns_that_come_go_and_change_are_told_by_version(at: layout.Lake) -> None:
    assert history.versions(at, "t") == []
    history.record_versions(at, "t")
    inner = pa.struct([("x", pa.int32()), ("more", pa.list_(pa.int16()))])
    write(at, a=pa.int64(), s=pa.string())
    history.record_versions(at, "t")
    write(at, a=pa.int64(), s=pa.string())
    write(at, a=pa.int64(), s=pa.string(), o=inner, m=pa.map_(pa.string(), pa.decimal128(9, 2)))
    write(at, "overwrite", s=pa.int8(), o=inner)
    came = "o STRUCT<x: INT, more: ARRAY<SMALLINT>> came; m MAP<STRING, DECIMAL(9,2)> came"
    versions = [(0, "the first columns"), (2, came), (3, "s STRING is TINYINT now; a went; m went")]
    assert told(at) == versions  # what is not kept yet is told, too
    history.record_versions(at, "t")
    history.record_versions(at, "t")
    assert told(at) == versions
    assert history.versions(at, "t")[-1]["columns"] == {"s": "TINYINT", "o": "STRUCT<x: INT, more: ARRAY<SMALLINT>>"}
    rows = DeltaTable(at.schemas("t")).to_pyarrow_table()["version"].to_pylist()
    assert sorted(rows) == [0, 2, 3]
    log = Path(at.table("bronze", "t")) / "_delta_log"
    DeltaTable(at.table("bronze", "t")).create_checkpoint()
    for version in range(3):
        (log / f"{version:020}.json").unlink()
    assert told(at) == versions


def test_columns_of_a_table_that_was_made_anew_are_its_own(at: layout.Lake) -> None:
    write(at, a=pa.int64())
    write(at, a=pa.int64(), b=pa.int64())
    history.record_versions(at, "t")
    shutil.rmtree(at.table("bronze", "t"))
    write(at, c=pa.string())
    assert told(at) == [(0, "the first columns")]
    history.record_versions(at, "t")
    assert [one["columns"] for one in history.versions(at, "t")] == [{"c": "STRING"}]


def test_the_same_columns_in_another_order_are_no_other_version(at: layout.Lake) -> None:
    write(at, a=pa.int64(), b=pa.string())
    write(at, "overwrite", b=pa.string(), a=pa.int64())
    assert told(at) == [(0, "the first columns")]
    assert [*history.versions(at, "t")[-1]["columns"]] == ["a", "b"]
