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


def test_times_inside_of_values_are_read_in_the_format_of_the_definition(
    spark: SparkSession, workspace: Workspace
) -> None:
    """As those at the top: by yyyy-dd-MM 2024-02-01 is 2 January. New columns are typed by it, too."""
    hints = "schemaHints: 'd DATE, n STRUCT<d: DATE, t: STRING>, l ARRAY<DATE>'"
    form = "dateFormat: yyyy-dd-MM"
    workspace.define(
        "name: heart_rate\nbronze:\n"
        f"  lines: {{path: '${{landing}}/lines', format: json, options: {{{form}}}, {hints}}}\n"
        f"  rows: {{path: '${{landing}}/rows', format: xml, options: {{rowTag: r, {form}}}, {hints}}}\n"
        f"  cells: {{path: '${{landing}}/cells', format: csv, inferColumnTypes: true, "
        f"options: {{header: true, {form}}}}}\n"
    )
    text = "2024-02-01"
    workspace.land("lines/a.json", json.dumps({"d": text, "n": {"d": text, "t": text}, "l": [text]}) + "\n", age=90)
    spaced = f'{{"d":"{text}","n":{{"d": "{text}","t":"{text}"}},"l":["{text}",1]}}\n'
    workspace.land("lines/b.json", spaced, age=80)
    workspace.land("rows/a.xml", f"<x><r><d>{text}</d><n><d>{text}</d><t>{text}</t></n><l>{text}</l><l>x</l></r></x>")
    workspace.land("cells/a.csv", "d,x\n2024-31-01,a\n2024-02-01,b\n", age=90)
    workspace.run(spark, "bronze")
    day = date(2024, 1, 2)
    for name in ("lines", "rows"):
        for row in workspace.rows(name, "d", "n", "l"):
            assert (row[0], row[1]["d"], row[1]["t"], row[2][0]) == (day, day, text, day), name
    assert workspace.rows("cells", "d") == [(date(2024, 1, 31),), (day,)]


# More of a table's definition, fields of a record, those of one with an empty text, and what is rescued of it.
EMPTY_TEXTS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ("inferColumnTypes: true", {"n": 5}, {"n": ""}, {"n": ""}),
    ("inferColumnTypes: true", {"o": {"n": 5}}, {"o": {"n": ""}}, {"o": '{"n":""}'}),
    ("inferColumnTypes: false", {"o": {"n": 5}}, {"o": ""}, {"o": ""}),
    ("schemaHints: 'm MAP<STRING, BIGINT>'", {"m": {"k": 5}}, {"m": {"k": ""}}, {"m": '{"k":""}'}),
    ("schemaHints: 'l ARRAY<ARRAY<BIGINT>>'", {"l": [[5]]}, {"l": [[1], [""]]}, {"l": '[[1],[""]]'}),
]


def test_an_empty_text_takes_nothing_from_its_neighbours(spark: SparkSession, workspace: Workspace) -> None:
    tables = [f"  t{n}: {{path: '${{landing}}/t{n}', format: json, {case[0]}}}\n" for n, case in enumerate(EMPTY_TEXTS)]
    workspace.define(f"name: heart_rate\nbronze:\n{''.join(tables)}")
    for n, (_, filled, empty, _) in enumerate(EMPTY_TEXTS):
        lines = [{"id": 1, "t": "", **filled}, {"id": 2, "t": "x", **empty}]
        workspace.land(f"t{n}/a.json", "\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    reports = workspace.run(spark, "bronze")
    for n, (*_, rescued) in enumerate(EMPTY_TEXTS):
        assert reports[f"t{n}"].corrupt == 0
        _, rows = held(workspace, f"t{n}")
        assert [(row["t"], row["rescued"]) for row in rows] == [("", {}), ("x", rescued)]


def test_names_and_texts_without_double_quotes_keep_their_digits(spark: SparkSession, workspace: Workspace) -> None:
    """Beside an array, by which the lines of a file are read one by one."""
    options = "{allowUnquotedFieldNames: true, allowComments: true}"
    workspace.define(
        f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', format: json, options: {options}}}\n"
    )
    lines = [
        "{'id': '1', 'a1': 'it is 5', 'n': 12345678901234567890.123}",
        "{id: '2', a1: \"don't 6\", n: 7 /* it's 8 */}",
        '[{"id": "3", "a1": "x\'9", "n": -1.50}]',
    ]
    workspace.land("things/a.json", "\n".join(lines))
    workspace.run(spark, "bronze")
    _, rows = held(workspace, "things")
    assert [(row["a1"], row["n"]) for row in rows] == [
        ("it is 5", "12345678901234567890.123"),
        ("don't 6", "7"),
        ("x'9", "-1.50"),
    ]


def test_texts_beside_a_variant_keep_their_digits(spark: SparkSession, workspace: Workspace) -> None:
    table = "format: json, schemaHints: 'v VARIANT'"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', {table}}}\n")
    lines = [
        '{"id":1,"n":12345678901234567890.123,"v":{"a":1.10}}',
        '[{"id":2,"n":1.50,"v":"x7"},{"id":3,"n":"y"}]',
        '{"id":4,"n":2.0} {}',
    ]
    workspace.land("things/a.json", "\n".join(lines))
    assert workspace.run(spark, "bronze")["things"].corrupt == 1
    found = spark.read.format("delta").load(workspace.uri("things"))
    rows = found.selectExpr("id", "n", "to_json(v)", "_corrupt_record").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [
        (None, None, None, lines[2]),
        ("1", "12345678901234567890.123", '{"a":1.1}', None),
        ("2", "1.50", '"x7"', None),
        ("3", "y", None, None),
    ]


def test_a_decimal_at_the_end_of_a_whole_type_fits(spark: SparkSession) -> None:
    """As of unsigned numbers of Parquet, which Spark reads as decimals."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, LongType

    from sluicegate.schema import typed_values

    numbers = [2**63 - 1, 2**63 - 512, -(2**63), 2**63, 2**64 - 1]
    frame = spark.createDataFrame([(Decimal(number),) for number in numbers], "v DECIMAL(20,0)")
    fit = typed_values.fit_value(F.col("v"), DecimalType(20, 0), LongType())
    assert fit.lost is not None
    rows = frame.select(fit.value, fit.lost).collect()
    assert [tuple(row) for row in rows] == [(n, False) if n < 2**63 else (None, True) for n in numbers]


def test_keys_of_a_map_that_become_one_cost_their_map(spark: SparkSession, workspace: Workspace) -> None:
    hints = "schemaHints: 'm MAP<DOUBLE, STRING>'"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', format: json, {hints}}}\n")
    workspace.land("things/a.json", '{"id":1,"m":{"1.0":"a","2":"b"}}\n{"id":2,"m":{"1.0":"a","1.00":"b"}}')
    workspace.run(spark, "bronze")
    _, rows = held(workspace, "things")
    assert [(row["m"], row["rescued"]) for row in rows] == [
        ([(1.0, "a"), (2.0, "b")], {}),
        (None, {"m": '{"1.0":"a","1.00":"b"}'}),
    ]


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
    cells = (
        "id,zip,code,phone,long,n,d,period\n1,01234,1E5,+49301,0.1234567890123456789,1.50,2024-01-02,7d\n"
        "2,5,7,8,1,1e-3,,1d\n"
    )
    workspace.land("things/a.csv", cells)
    workspace.run(spark, "bronze")
    kinds, rows = held(workspace, "things")
    assert {name for name, kind in kinds.items() if kind == "string"} >= {"zip", "code", "phone", "long", "period"}
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
