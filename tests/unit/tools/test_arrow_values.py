"""Values of Arrow that Python does not have are texts, and the others what they are."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from sluicegate.tools import arrow_values

pytestmark = pytest.mark.unit

FAR = 253402300800_000000  # 10000-01-01T00:00:00Z in microseconds
TEXT, ZONED = "10000-01-01 00:00:00.000000", "10000-01-01 00:00:00.000000Z"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([2_932_897, 2_932_896, None], pa.date32()), ["10000-01-01", date(9999, 12, 31), None]),
        (pa.array([FAR, 0], pa.timestamp("us")), [TEXT, datetime(1970, 1, 1)]),
        (pa.array([FAR], pa.timestamp("us", "UTC")), [ZONED]),
        (pa.array([2**62], pa.timestamp("us")), ["148108-07-06 14:00:27.387904"]),
        (pa.array([{"t": FAR, "n": 1}, None], pa.struct([("t", pa.timestamp("us")), ("n", pa.int8())])),
         [{"t": TEXT, "n": 1}, None]),
        (pa.array([[FAR, None], []], pa.list_(pa.timestamp("us"))), [[TEXT, None], []]),
        (pa.array([[("k", FAR)]], pa.map_(pa.string(), pa.timestamp("us"))), [[("k", TEXT)]]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
    ],
)  # fmt: skip
def test_values(column: pa.Array, values: list[Any]) -> None:
    assert arrow_values.values(column) == values


def test_rows_have_all_columns_whatever_their_names() -> None:
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([FAR, 0], pa.timestamp("us"))], ["a", "a"])
    assert arrow_values.rows(table) == [[1, TEXT], [2, datetime(1970, 1, 1)]]
    assert arrow_values.rows(table.select([])) == [[], []]
