"""What the log says of a table's files decides whether delta-rs may write their rows again; without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.lake.commits import file_statistics

pytestmark = pytest.mark.unit

STRUCT = pa.struct([("a", pa.struct([("b", pa.float64())]))])
DOTTED = pa.struct([("a.b", pa.float64())])


def stored(uri: Path, values: Any, kind: Any, **properties: str) -> DeltaTable:
    rows = pa.table({"k": [1, 2], "x": pa.array(values, kind)})
    tables.write(str(uri), rows, configuration={f"delta.{name}": value for name, value in properties.items()})
    return tables.table_at(str(uri))


# What delta-rs has no number for in JSON (inf), is not in the log, as if nobody had counted.
@pytest.mark.parametrize(
    ("values", "kind", "right", "right_without"),
    [
        ([1, None], pa.int64(), True, True), (["a", "b" * 100], pa.string(), True, True),
        ([1.0, -0.5], pa.float64(), True, False), ([None, None], pa.float32(), True, False),
        ([[float("nan")], []], pa.list_(pa.float64()), True, True),
        ([[("a", float("nan"))], []], pa.map_(pa.string(), pa.float64()), True, True),
        ([{"a": {"b": 1.0}}, None], STRUCT, True, False), ([{"a.b": 1.0}, None], DOTTED, False, False),
        ([1.0, float("inf")], pa.float64(), False, False),
        ([b"a", b"b"], pa.binary(), False, False), ([1, 2], pa.timestamp("us", "UTC"), True, False),
        ([1, 2], pa.timestamp("us"), False, False), ([0, 1], pa.date32(), True, False),
        ([1, 2], pa.decimal128(15, 2), True, True), ([1, 2], pa.decimal128(16, 2), True, False),
    ],
)  # fmt: skip
def test_values_of_doubtful_types_have_to_be_in_the_log(
    tmp_path: Path, values: Any, kind: Any, right: bool, right_without: bool
) -> None:
    assert file_statistics.are_right_for_table(stored(tmp_path / "with", values, kind)) is right
    without = stored(tmp_path / "without", values, kind, dataSkippingNumIndexedCols="1")
    assert file_statistics.are_right_for_table(without) is right_without


def test_every_file_counts(tmp_path: Path) -> None:
    table = stored(tmp_path / "t", [1, 2], pa.decimal128(38, 0))
    assert file_statistics.are_right_for_table(table)
    tables.write(table, pa.table({"k": [3], "x": pa.array([10**15], pa.decimal128(38, 0))}), mode="append")
    assert not file_statistics.are_right_for_table(tables.table_at(str(tmp_path / "t")))


def test_a_table_without_rows_has_none_that_stay(tmp_path: Path) -> None:
    tables.write(str(tmp_path / "t"), pa.table({"x": pa.array([], pa.float64())}))
    assert file_statistics.are_right_for_table(tables.table_at(str(tmp_path / "t")))
