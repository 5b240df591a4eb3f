"""Rows of Kafka's records beside the ranges of the ledger, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.monitor import verify_kafka

pytestmark = pytest.mark.unit

FIELDS = [("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("_chunk", pa.int64()),
          ("_pos", pa.int64()), ("source_file", pa.string())]  # fmt: skip


def path(number: int, start: int, end: int) -> str:
    return f"kafka://t/{number}/{start}-{end}"


def records(number: int, start: int, end: int, chunk: int) -> list[dict[str, Any]]:
    """The rows of a range, as bronze has them."""
    return [
        {"_topic": "t", "_partition": number, "_offset": n, "_chunk": chunk, "_pos": 100 * number + n,
         "source_file": path(number, start, end)}
        for n in range(start, end)
    ]  # fmt: skip


RANGES = [(0, 0, 3, 1), (1, 0, 2, 1), (0, 3, 6, 2), (0, 6, 7, 4)]


def found(folder: Path, rows: list[dict[str, Any]]) -> list[str]:
    """What is not right about rows beside the ranges."""
    write_deltalake(folder, pa.Table.from_pylist(rows, pa.schema(FIELDS)), mode="overwrite")
    read = {path(*one[:3]): {"chunk": one[3], "rows": one[2] - one[1]} for one in RANGES}
    return sorted(one.what for one in verify_kafka._rows("raw", DeltaTable(folder), read, read))


def every() -> list[dict[str, Any]]:
    return [row for one in RANGES for row in records(*one)]


@pytest.mark.parametrize("at_once", [1, 5, 100])
def test_each_record_is_there_once_whatever_is_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(verify_kafka, "AT_ONCE", at_once)
    own = every()
    assert found(tmp_path, own) == []
    assert found(tmp_path, own[1:]) == ["kafka://t/0/0-3 has 3 rows on record, but the table has 2 of them"]
    assert found(tmp_path, [*own, own[-1]]) == [
        "1 records have a duplicate identity",
        "1 records have a duplicate offset",
        "kafka://t/0/6-7 has 1 rows on record, but the table has 2 of them",
    ]
    # Of another ledger batch than the range, of none, and before the first.
    for chunk in (3, 9, -1, None):
        assert found(tmp_path, [*own, own[0] | {"_chunk": chunk}])[-1] == (
            "rows of kafka://t/0/0-3 are in the table, but the range is not in the ledger"
        )
    assert found(tmp_path, [own[0] | {"_offset": 4}, *own[1:]])[-1] == (
        "rows of kafka://t/0/0-3 have offsets outside this range"
    )


@pytest.mark.parametrize(("at_once", "parts"), [(3, 3), (4, 2), (8, 2), (9, 1), (10, 1)])
def test_rows_are_read_by_ledger_batches_of_AT_ONCE_offsets(
    monkeypatch: pytest.MonkeyPatch, at_once: int, parts: int
) -> None:
    """Five offsets, three and one: a ledger batch is read as a whole, and others with it as far as there is room."""
    monkeypatch.setattr(verify_kafka, "AT_ONCE", at_once)
    read = {path(*one[:3]): {"chunk": one[3]} for one in RANGES}
    assert len([*verify_kafka._parts(read)]) == parts
