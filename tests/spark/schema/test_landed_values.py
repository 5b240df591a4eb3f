"""A typed column has the landed value or nothing: what does not fit rescues itself, and none of its neighbours."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluicegate.lake import tables as lakes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Workspace

pytestmark = pytest.mark.spark


def parquet(**columns: pa.Array) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def held(workspace: Workspace, table: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Types of the data columns, and rows by ``id``, with the rescued values without the file's path."""
    found = lakes.delta_table(workspace.uri(table))
    assert found is not None
    data = lakes.dataset(found).to_table()
    rows = []
    for row in sorted(data.to_pylist(), key=lambda row: int(row["id"])):
        rescued = json.loads(row["_rescued_data"] or "{}")
        own = {name: value for name, value in row.items() if not name.startswith("_") and name not in ("id", *OURS)}
        rows.append({**own, "rescued": {k: v for k, v in rescued.items() if k != "_file_path"}})
    return {field.name: str(field.type) for field in data.schema}, rows


OURS = ("receipt_time", "source_file")


def test_types_that_spark_cannot_cast_cost_their_values_and_not_the_file(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define("name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: parquet}\n")
    noon = datetime(2024, 1, 2, 12)
    first = {
        "ntz": pa.array([noon]), "whole": pa.array([1]), "truth": pa.array([True]), "day": pa.array([date(2024, 1, 2)]),
        "tiny": pa.array([1], pa.int8()), "at": pa.array([noon], pa.timestamp("us", "UTC")), "n": pa.array([1]),
    }  # fmt: skip
    second = {
        "ntz": pa.array([5]), "whole": pa.array([noon]), "truth": pa.array([noon], pa.timestamp("us", "UTC")),
        "day": pa.array([7]), "tiny": pa.array([True]), "at": pa.array([Decimal("1.123")]), "n": pa.array([2.0]),
    }  # fmt: skip
    workspace.land("things/a.parquet", parquet(id=pa.array([1]), good=pa.array(["x"]), **first), age=90)
    workspace.land("things/b.parquet", parquet(id=pa.array([2]), good=pa.array(["y"]), **second), age=80)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.failed, report.rescued) == ({}, 1)
    _, rows = held(workspace, "things")
    assert rows[0]["rescued"] == {}
    assert None not in rows[0].values()
    assert (rows[1]["good"], rows[1]["n"], rows[1]["tiny"]) == ("y", 2, None)
    assert rows[1].keys() - {name for name, value in rows[1].items() if value is None} == {"good", "n", "rescued"}
    assert rows[1]["rescued"].keys() == second.keys() - {"n"}


def test_a_nested_value_that_does_not_fit_rescues_itself(spark: SparkSession, workspace: Workspace) -> None:
    hints = "id INT, a MAP<STRING,STRING>, o STRUCT<x: DOUBLE, y: STRUCT<z: INT>>, l ARRAY<DECIMAL(10,2)>, n BIGINT"
    workspace.define(
        "name: heart_rate\nbronze:\n"
        "  things: {path: '${landing}/things', format: json, schemaEvolutionMode: rescue, "
        f"schemaHints: '{hints}'}}\n"
    )
    lines = [
        '{"id":1,"a":{"k1":"x"},"o":{"x":0.1,"y":{"z":1}},"l":[1.5]}',
        '{"id":2,"a":{},"o":{"x":0.1234567890123456789,"y":{"z":2}},"l":[]}',
        '{"id":3,"a":[],"o":{"x":2,"new":1},"l":[1.505,2]}',
        '{"id":4,"a":{"k2":"y"},"o":{"x":3,"y":[]},"l":{}}',
        '{"id":5,"o":{"x":4,"y":{"z":5,"u":null}},"l":[12345678901234567890]}',
        '{"id":6,"o":"","n":""}',
        '{"id":7,"o":{"x":9007199254740993,"y":{"z":"7"}},"n":7}',
    ]
    workspace.land("things/a.json", "\n".join(lines))
    report = workspace.run(spark, "bronze")["things"]
    assert report.corrupt == 0
    _, rows = held(workspace, "things")
    assert [row["rescued"] for row in rows] == [
        {},
        {"o": '{"x":0.1234567890123456789,"y":{"z":2}}'},
        {"a": "[]", "o": '{"x":2,"new":1}', "l": "[1.505,2]"},
        {"o": '{"x":3,"y":[]}', "l": "{}"},
        {"l": "[12345678901234567890]"},
        {"o": "", "n": ""},
        {"o": '{"x":9007199254740993,"y":{"z":"7"}}'},
    ]
    assert [row["o"] for row in rows] == [
        {"x": 0.1, "y": {"z": 1}},
        {"x": None, "y": {"z": 2}},
        {"x": 2.0, "y": None},
        {"x": 3.0, "y": None},
        {"x": 4.0, "y": {"z": 5}},
        None,
        {"x": None, "y": {"z": 7}},
    ]
    assert [row["l"] for row in rows] == [[Decimal("1.50")], [], [None, Decimal("2.00")], None, [None], None, None]
    assert [row["a"] for row in rows][:4] == [[("k1", "x")], [], None, [("k2", "y")]]


def test_a_column_has_no_type_before_its_first_value(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n"
        "  typed: {path: '${landing}/typed', format: parquet}\n"
        "  inferred: {path: '${landing}/inferred', format: json, inferColumnTypes: true}\n"
        "  hinted: {path: '${landing}/hinted', format: parquet, schemaHints: 'n DATE'}\n"
    )
    nulls = parquet(id=pa.array([1]), n=pa.nulls(1), m=pa.nulls(1))
    for table in ("typed", "hinted"):
        workspace.land(f"{table}/a.parquet", nulls)
    workspace.land("inferred/a.json", '{"id": 1, "n": null, "m": null}')
    workspace.run(spark, "bronze")
    assert held(workspace, "typed")[0].keys() & {"n", "m"} == set()
    assert held(workspace, "inferred")[0].keys() & {"n", "m"} == set()
    assert held(workspace, "hinted")[0]["n"] == "date32[day]"
    workspace.land("typed/b.parquet", parquet(id=pa.array([2]), n=pa.array([2.5]), m=pa.nulls(1)))
    workspace.land("inferred/b.json", '{"id": 2, "n": 2.5, "m": {"a": 1}}')
    workspace.run(spark, "bronze")
    assert held(workspace, "typed")[1] == [{"n": None, "rescued": {}}, {"n": 2.5, "rescued": {}}]
    assert held(workspace, "inferred")[1] == [
        {"n": None, "m": None, "rescued": {}},
        {"n": 2.5, "m": {"a": 1}, "rescued": {}},
    ]


def test_structs_are_compared_by_name(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define("name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: parquet}\n")
    one, other = pa.struct([("a", pa.int64()), ("b", pa.string())]), pa.struct([("b", pa.string()), ("a", pa.int64())])
    more = pa.struct([("c", pa.bool_()), ("b", pa.string()), ("a", pa.float64())])
    for n, kind in enumerate((one, other, more), 1):
        value = {"a": n, "b": "x", **({"c": True} if kind is more else {})}
        columns = {"s": pa.array([value], kind), "l": pa.array([[value, None]], pa.list_(kind))}
        workspace.land(f"things/{n}.parquet", parquet(id=pa.array([n]), **columns), age=100 - n)
        if n != 2:
            workspace.run(spark, "bronze")
    _, rows = held(workspace, "things")
    assert [row["rescued"] for row in rows] == [{}, {}, {}]
    assert [row["s"] for row in rows] == [{"a": n, "b": "x", "c": True if n == 3 else None} for n in (1, 2, 3)]
    assert [row["l"] for row in rows] == [[row["s"], None] for row in rows]


def test_a_type_is_inferred_only_if_it_gives_back_every_text(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: csv, inferColumnTypes: true, "
        "options: {header: true}}\n"
    )
    cells = "id,zip,code,phone,long,n,d\n1,01234,1E5,+49301,0.1234567890123456789,1.50,2024-01-02\n2,5,7,8,1,1e-3,\n"
    workspace.land("things/a.csv", cells)
    workspace.run(spark, "bronze")
    kinds, rows = held(workspace, "things")
    assert {name for name, kind in kinds.items() if kind == "string"} >= {"zip", "code", "phone", "long"}
    assert (kinds["id"], kinds["n"], kinds["d"]) == ("int32", "double", "date32[day]")
    assert (rows[0]["zip"], rows[0]["code"], rows[0]["n"], rows[1]["n"]) == ("01234", "1E5", 1.5, 0.001)
    workspace.land("things/b.csv", "id,zip,code,phone,long,n,d\n003,x,x,x,x,007,2024\n")
    workspace.run(spark, "bronze")
    found = lakes.delta_table(workspace.uri("things"))
    assert found is not None
    [new] = [row for row in lakes.dataset(found).to_table().to_pylist() if row["id"] is None]
    rescued = json.loads(new["_rescued_data"])
    assert (new["n"], new["d"], {name: rescued[name] for name in ("id", "n", "d")}) == (
        None,
        None,
        {"id": "003", "n": "007", "d": "2024"},
    )


def test_keys_of_a_map_are_rescued_with_all_that_they_are(spark: SparkSession, workspace: Workspace) -> None:
    """Spark's JSON has of a struct, an array or bytes as a key only what Java prints of it."""
    workspace.define(
        "name: heart_rate\nbronze:\n  things: {path: '${landing}/things', format: parquet}\n"
        "silver:\n  good: {sql: 'SELECT * FROM STREAM(things)'}\n"
    )
    keys: list[tuple[str, pa.DataType, Any, Any]] = [
        ("a", pa.struct([("k", pa.int32())]), {"k": 1}, [{"key": {"k": 1}, "value": 2.5}]),
        ("b", pa.list_(pa.int32()), [1, 2], [{"key": [1, 2], "value": 2.5}]),
        ("c", pa.binary(), b"\x00\xff", {"AP8=": 2.5}),
        ("d", pa.date32(), date(2024, 1, 2), {"2024-01-02": 2.5}),
    ]

    def maps(kind: pa.DataType, item: Any) -> dict[str, pa.Array]:
        return {name: pa.array([[(key, item)]], pa.map_(of, kind)) for name, of, key, _ in keys}

    workspace.land("things/a.parquet", parquet(id=pa.array([1]), **maps(pa.int64(), 5)), age=90)
    workspace.land("things/b.parquet", parquet(id=pa.array([2]), **maps(pa.float64(), 2.5)), age=80)
    workspace.land("things/c.parquet", parquet(id=pa.array([3]), **maps(pa.float64(), 3.0)), age=70)
    workspace.run(spark, "bronze", "silver")
    _, rows = held(workspace, "things")
    assert [row["rescued"] for row in rows] == [{}, {name: shown for name, _, _, shown in keys}, {}]
    assert [row[name] for row in (rows[0], rows[2]) for name in "abcd"] == [
        [(key, item)] for item in (5, 3) for _, _, key, _ in keys
    ]
    assert sorted(workspace.rows("good", "id")) == [(1,), (3,)]
    rules = [f"{name} fits its type" for name in "abcd"]
    assert workspace.rows("good_quarantine", "id", "_failed_expectations") == [(2, rules)]


def test_a_seat_is_no_number(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n"
        "  things: {path: '${landing}/things', format: csv, options: {header: true}, inferColumnTypes: true}\n"
    )
    workspace.land("things/a.csv", "id,seat\n1,12D\n2,14F\n3,3D\n")
    workspace.run(spark, "bronze")
    assert sorted(workspace.rows("things", "id", "seat")) == [(1, "12D"), (2, "14F"), (3, "3D")]
