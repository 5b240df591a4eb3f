"""Values of Parquet files of which pyarrow makes other ones are compared as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.definition import BronzeTable
from sluicegate.witness import records
from sluicegate.witness.comparison import Comparison, Difference
from sluicegate.witness.table_columns import Columns

pytestmark = pytest.mark.unit

TEXT, KEY = pa.string(), UUID("00112233-4455-6677-8899-aabbccddeeff")


def compared(tmp_path: Path, landed: pa.Array, kind: pa.DataType, stored: Any) -> Difference:
    """What the comparison of a Parquet file of one value with its row comes to."""
    place = str(tmp_path / "a.parquet")
    parquet.write_table(pa.table({"x": landed}), place)
    files = records.Files(BronzeTable.model_validate({"path": str(tmp_path), "format": "parquet"}))
    return Comparison(Columns({"x": kind}), place, csv=False).run(files.records(place), [[(stored, None, None)]])


@pytest.mark.parametrize(
    ("landed", "kind", "stored", "other"),
    [
        (pa.array([1], pa.time32("ms")), TEXT, "00:00:00.001", "00:00:00.002"),
        (pa.array([1], pa.time64("us")), TEXT, "00:00:00.000001", "00:00:00.000000"),
        (pa.array([1], pa.time64("ns")), TEXT, "00:00:00.000000001", "00:00:00.000000000"),
        (pa.array([KEY.bytes], pa.uuid()), TEXT, str(KEY), str(KEY).replace("f", "e")),
        (pa.array([1_500], pa.duration("ns")), pa.int64(), 1_500, 1),
        (pa.array([2], pa.int8()).cast(pa.bool8()), pa.int8(), 2, 1),
        (pa.array([[1, None]], pa.list_(pa.time64("ns"))), pa.list_(TEXT), ["00:00:00.000000001", None], ["0", None]),
        (
            pa.array([{"t": 1, "d": 2}], pa.struct([("t", pa.time32("ms")), ("d", pa.duration("us"))])),
            pa.struct([("t", TEXT), ("d", pa.int64())]),
            {"t": "00:00:00.001", "d": 2},
            {"t": "00:00:00.001", "d": 3},
        ),
        (
            pa.array([[(1, 2)]], pa.map_(pa.time32("ms"), pa.duration("us"))),
            pa.map_(TEXT, pa.int64()),
            [("00:00:00.001", 2)],
            [("00:00:00.001", 3)],
        ),
    ],
    ids=str,
)
def test_values_are_those_that_are_stored(
    tmp_path: Path, landed: pa.Array, kind: pa.DataType, stored: Any, other: Any
) -> None:
    assert str(compared(tmp_path, landed, kind, stored)) == ""
    assert compared(tmp_path, landed, kind, other).changed == 1


def test_identifiers_within_others_are_texts(tmp_path: Path) -> None:
    stored = pa.array([KEY.bytes], pa.uuid())
    of_struct = pa.StructArray.from_arrays([stored], ["k"])
    of_list = pa.ListArray.from_arrays([0, 1], stored)
    kind = pa.struct([("k", TEXT)])
    assert not compared(tmp_path, of_struct, kind, {"k": str(KEY)}).any
    assert compared(tmp_path, of_struct, kind, {"k": "x"}).any
    assert not compared(tmp_path, of_list, pa.list_(TEXT), [str(KEY)]).any


def test_of_an_interval_nothing_is_said(tmp_path: Path) -> None:
    twelve = pa.array([b"\1\0\0\0\2\0\0\0\0\0\0\0"], pa.binary(12))
    found = compared(tmp_path, twelve, TEXT, "P1M2DT0.000S")
    assert (found.any, found.unsaid["x"]) == (False, 1)
    assert compared(tmp_path, twelve, TEXT, "another text").any
