"""Values of Parquet files of which pyarrow makes other ones are compared as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from sluicegate.definition import BronzeTable
from sluicegate.witness import records
from sluicegate.witness.comparison import Comparison
from sluicegate.witness.difference import Difference
from sluicegate.witness.table_columns import BronzeColumns

pytestmark = pytest.mark.unit

TEXT, KEY = pa.string(), UUID("00112233-4455-6677-8899-aabbccddeeff")


def compared(
    tmp_path: Path, landed: pa.Array, kind: pa.DataType, stored: Any, form: str = "parquet", **notes: str
) -> Difference:
    """What the comparison of a file of one value with its row comes to."""
    place, write = str(tmp_path / "a"), parquet.write_table if form == "parquet" else orc.write_table
    write(
        pa.table({"x": landed}).replace_schema_metadata({f"org.apache.spark.{n}": v for n, v in notes.items()}), place
    )
    files = records.FileReader(BronzeTable.model_validate({"path": str(tmp_path), "format": form}))
    return Comparison(BronzeColumns({"x": kind}), place, csv=False).run(files.records(place), [[(stored, None, None)]])


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
    assert not compared(tmp_path, of_struct, kind, {"k": str(KEY)}).has_differences
    assert compared(tmp_path, of_struct, kind, {"k": "x"}).has_differences
    assert not compared(tmp_path, of_list, pa.list_(TEXT), [str(KEY)]).has_differences


def test_of_an_interval_nothing_is_said(tmp_path: Path) -> None:
    twelve = pa.array([b"\1\0\0\0\2\0\0\0\0\0\0\0"], pa.binary(12))
    found = compared(tmp_path, twelve, TEXT, "P1M2DT0.000S")
    assert (found.has_differences, found.unsaid["x"]) == (False, 1)
    assert compared(tmp_path, twelve, TEXT, "another text").has_differences


@pytest.mark.parametrize(
    ("form", "notes", "sure"),
    [
        ("parquet", {}, True),
        ("parquet", {"version": "3.1.0"}, True),
        ("parquet", {"version": "2.4.5"}, False),
        ("parquet", {"version": "3.2.0", "legacyDateTime": ""}, False),
        ("parquet", {"version": "3.2.0", "legacyINT96": ""}, False),
        ("orc", {}, False),
    ],
)
def test_of_times_of_the_Julian_calendar_nothing_is_said(
    tmp_path: Path, form: str, notes: dict[str, str], sure: bool
) -> None:
    """Spark adds two days to the first day of the year 1 that another calendar has written; pyarrow does not."""
    days, moments = pa.array([-719_162], pa.date32()), pa.array([-2_208_988_800_000_001], pa.timestamp("us"))
    for landed, kind, stored in ((days, pa.date32(), -719_164), (moments, pa.timestamp("us"), 0)):
        for column, type_, row in (
            (landed, kind, stored),
            (pa.ListArray.from_arrays([0, 1], landed), pa.list_(kind), [stored]),
            (pa.StructArray.from_arrays([landed], ["d"]), pa.struct([("d", kind)]), {"d": stored}),
        ):
            found = compared(tmp_path, column, type_, row, form, **notes)
            assert (found.has_differences, sum(found.unsaid.values())) == ((True, 0) if sure else (False, 1))
    since = pa.array([-2_208_988_800_000_000], pa.timestamp("us"))
    assert compared(tmp_path, since, pa.timestamp("us"), 0, form, **notes).has_differences
    assert not compared(tmp_path, since, pa.timestamp("us"), -2_208_988_800_000_000, form, **notes).has_differences
