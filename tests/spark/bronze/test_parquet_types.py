"""Parquet files with types that Spark refuses: each costs at most its own values, never a file or a table."""

from __future__ import annotations

import io
import json
import random
import struct
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.monitor import status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# 2024-03-01T10:00:00Z in nanoseconds, with and without digits below a microsecond.
WHOLE, FINER = 1709287200_000001000, 1709287200_000001001


def define(workspace: Workspace, extra: str = "maxFilesPerTrigger: 1000") -> None:
    workspace.define(
        f"name: heart_rate\nbronze:\n  things: {{path: '${{landing}}/things', format: parquet, {extra}}}\n"
    )
    (workspace.folder / "landing" / "things").mkdir(parents=True)


def file_of(columns: dict[str, Any] | pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    parquet.write_table(table, file, **options)
    return file.getvalue()


def rescued(workspace: Workspace, key: str = "id") -> dict[Any, dict[str, Any]]:
    """What is rescued by the key of each record, without the path."""
    rows = workspace.rows("things", key, "_rescued_data")
    told = {id_: json.loads(text) for id_, text in rows if text}
    return {id_: {name: value for name, value in one.items() if name != "_file_path"} for id_, one in told.items()}


def times(*numbers: int | None, zone: str | None = None) -> pa.Array:
    return pa.array(numbers, pa.timestamp("ns", zone))


def test_nanoseconds_are_a_time_or_rescued(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    least = -(2**63) + 1  # pyarrow takes the least of all for none
    far = [WHOLE, FINER, None, least, 2**63 - 1, -1000, -1]
    ids = list(range(len(far)))
    workspace.land("things/a.parquet", file_of({"id": ids, "at": times(*far), "utc": times(*far, zone="Europe/Oslo")}))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (len(far), {})
    epoch = datetime(1970, 1, 1)
    want = [None if n is None or n % 1000 else epoch + timedelta(microseconds=n // 1000) for n in far]
    rows = sorted(workspace.rows("things", "id", "at", "utc"))
    assert [row[1] for row in rows] == want
    assert [row[2] for row in rows] == [time and time.replace(tzinfo=UTC) for time in want]
    assert rescued(workspace) == {
        1: {"at": "2024-03-01T10:00:00.000001001", "utc": "2024-03-01T10:00:00.000001001Z"},
        3: {"at": "1677-09-21T00:12:43.145224193", "utc": "1677-09-21T00:12:43.145224193Z"},
        4: {"at": "2262-04-11T23:47:16.854775807", "utc": "2262-04-11T23:47:16.854775807Z"},
        6: {"at": "1969-12-31T23:59:59.999999999", "utc": "1969-12-31T23:59:59.999999999Z"},
    }
    assert status.verify(workspace.definition, workspace.settings) == []


def test_units_may_differ_in_a_batch_and_over_batches(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    # As INT96, TIMESTAMP(NANOS) is of the same type to Arrow.
    workspace.land("things/0.parquet", file_of({"id": [0], "at": times(WHOLE)}, use_deprecated_int96_timestamps=True))
    for number, unit in enumerate(("ns", "us", "ms", "ns"), 1):
        at = pa.array([WHOLE], pa.timestamp("ns")).cast(pa.timestamp(unit), safe=False)
        workspace.land(f"things/{number}.parquet", file_of({"id": [number], "at": at}), age=90 - number)
    assert workspace.run(spark, "bronze")["things"].failed == {}
    workspace.land("things/5.parquet", file_of({"id": [5, 6], "at": times(WHOLE, FINER)}))
    assert workspace.run(spark, "bronze")["things"].failed == {}
    found = {id_: at and at.replace(tzinfo=None) for id_, at in workspace.rows("things", "id", "at")}
    exact = datetime(2024, 3, 1, 10, 0, 0, 1)
    assert found == {0: exact, 1: exact, 2: exact, 3: exact.replace(microsecond=0), 4: exact, 5: exact, 6: None}
    assert rescued(workspace) == {6: {"at": "2024-03-01T10:00:00.000001001"}}


def test_nested_nanoseconds_cost_themselves(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    kind = pa.timestamp("ns")
    of_struct = pa.array(
        [{"n": 1, "at": FINER}, {"n": 2, "at": WHOLE}, None], pa.struct([("n", pa.int64()), ("at", kind)])
    )
    of_list = pa.array([[WHOLE, FINER], [WHOLE, None], None], pa.list_(kind))
    of_map = pa.array([[("a", FINER)], [("b", WHOLE)], []], pa.map_(pa.string(), kind))
    by_time = pa.array([[(WHOLE, 1), (FINER, 2)], [(WHOLE, 3)], None], pa.map_(kind, pa.int64()))
    columns = {"id": [1, 2, 3], "s": of_struct, "l": of_list, "m": of_map, "k": by_time}
    workspace.land("things/a.parquet", file_of(columns))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (3, {})
    exact, long = datetime(2024, 3, 1, 10, 0, 0, 1), "2024-03-01T10:00:00.000001"
    rows = {
        row["id"]: row.asDict(recursive=True)
        for row in spark.read.format("delta").load(workspace.uri("things")).collect()
    }
    first, second, third = (rows[number] for number in (1, 2, 3))
    assert (first["s"], first["l"], first["m"], first["k"]) == ({"n": 1, "at": None}, [exact, None], {"a": None}, None)
    assert (second["s"], second["l"], second["m"], second["k"]) == (
        {"n": 2, "at": exact},
        [exact, None],
        {"b": exact},
        {exact: 3},
    )
    assert (third["s"], third["l"], third["m"], third["k"]) == (None, None, {}, None)
    assert rescued(workspace) == {
        1: {
            "s": {"n": 1, "at": f"{long}001"},
            "l": [f"{long}000", f"{long}001"],
            "m": {"a": f"{long}001"},
            "k": [{"key": f"{long}000", "value": 1}, {"key": f"{long}001", "value": 2}],
        }
    }


def test_a_part_of_a_column_that_is_null_in_all_records_has_no_type_yet(
    spark: SparkSession, workspace: Workspace
) -> None:
    """Its type comes with its first value; a group of nothing else is no column yet."""
    define(workspace)
    within, alone = pa.struct([("x", pa.null()), ("y", pa.int32())]), pa.struct([("x", pa.null())])
    some, others = pa.array([{"x": None, "y": 7}, None], within), pa.array([{"x": None}, None], alone)
    first = {"id": [1, 2], "s": some, "t": others}
    second = {"id": [3], "s": [{"x": "v", "y": 8}], "t": [{"x": 1.5}]}
    for number, columns in enumerate((first, second)):
        workspace.land(f"things/{number}.parquet", file_of(columns))
        workspace.run(spark, "bronze")
    assert rescued(workspace) == {}
    assert sorted(workspace.rows("things", "id", "s", "t")) == [
        (1, {"y": 7, "x": None}, None), (2, None, None), (3, {"y": 8, "x": "v"}, {"x": 1.5}),
    ]  # fmt: skip
    assert status.verify(workspace.definition, workspace.settings) == []


def test_types_without_a_type_of_spark_are_texts(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    of_id = UUID("00112233-4455-6677-8899-aabbccddeeff")
    columns = {
        "id": [1, 2],
        "millis": pa.array([86_399_999, None], pa.time32("ms")),
        "micros": pa.array([1, None], pa.time64("us")),
        "nanos": pa.array([86_399_999_999_999, 0], pa.time64("ns")),
        "uuid": pa.array([of_id.bytes, None], pa.uuid()),
        "wide": pa.array([Decimal("-" + "9" * 40 + ".25"), None], pa.decimal256(50, 2)),
        "most": pa.array([Decimal("9" * 38), None], pa.decimal128(38, 0)),
        "over": pa.array([Decimal("9" * 39), None], pa.decimal256(39, 0)),
        "texts": pa.array([[1_000_000, None], None], pa.list_(pa.time64("us"))),
        "u64": pa.array([2**64 - 1, 0], pa.uint64()),
    }
    workspace.land("things/a.parquet", file_of(columns))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (2, {})
    [first, second] = sorted(workspace.rows("things", *columns))
    assert first == (
        1, "23:59:59.999", "00:00:00.000001", "23:59:59.999999999", str(of_id), "-" + "9" * 40 + ".25",
        Decimal("9" * 38), "9" * 39,
        ["00:00:01.000000", None], Decimal(2**64 - 1),
    )  # fmt: skip
    assert second == (2, None, None, "00:00:00.000000000", None, None, None, None, None, 0)
    assert rescued(workspace) == {}


def test_numbers_of_half_precision_and_of_many_digits_are_exact(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    random_of = random.Random(5)
    wide = [random_of.choice((-1, 1)) * random_of.randrange(10 ** random_of.randrange(1, 75)) for _ in range(200)]
    wide += [0, 1, -1, 2**32, -(2**32), 2**128, -(2**128), 10**75, -(10**75)]
    context = Context(prec=80)
    digits = [Decimal(number).scaleb(-5, context) for number in wide]
    columns = {"id": range(1 << 16), "half": pa.array(halves), "wide": pa.array(digits, pa.decimal256(76, 5)).take(
        pa.array([n if n < len(digits) else None for n in range(1 << 16)]))}  # fmt: skip
    workspace.land("things/a.parquet", file_of({**columns, "id": pa.array(columns["id"], pa.int64())}))
    assert workspace.run(spark, "bronze")["things"].failed == {}
    rows = sorted(workspace.rows("things", "id", "half", "wide"))
    # NaN is not equal to itself, and its bits may differ.
    assert [struct.pack("<f", half) for _, half, _ in rows if half == half] == [
        struct.pack("<f", half) for half in halves.astype(np.float32) if half == half
    ]
    assert [n for n, half, _ in rows if half != half] == [n for n, half in enumerate(halves) if half != half]
    assert [text for _, _, text in rows[: len(digits)]] == [f"{value:f}" for value in digits]
    assert {text for _, _, text in rows[len(digits) :]} == {None}
    assert rescued(workspace) == {}


def test_a_later_file_follows_the_column_that_there_is(spark: SparkSession, workspace: Workspace) -> None:
    """As one with another type, or that is hinted otherwise."""
    define(workspace, 'schemaHints: "price DECIMAL(12,2), day DATE"')
    day = 1709251200_000000000
    workspace.land("things/a.parquet", file_of({"id": [1], "t": ["noon"]}), age=90)
    assert workspace.run(spark, "bronze")["things"].failed == {}
    columns = {
        "id": [2, 3],
        "t": pa.array([1, 2], pa.time64("ns")),
        "price": pa.array([Decimal("1.250"), Decimal("9" * 40)], pa.decimal256(60, 3)),
        "day": times(day, WHOLE),
    }
    workspace.land("things/b.parquet", file_of(columns))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (2, {})
    rows = {row[0]: row[1:] for row in workspace.rows("things", "id", "t", "price", "day")}
    assert rows[1] == ("noon", None, None)
    assert rows[2] == ("00:00:00.000000001", Decimal("1.25"), datetime(2024, 3, 1).date())
    assert rescued(workspace)[3] == {"price": "9" * 40 + ".000", "day": "2024-03-01T10:00:00.000001000"}


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_the_first_time_without_a_zone_may_come_late(spark: SparkSession, workspace: Workspace, unit: str) -> None:
    """Delta enables its feature for such columns by itself in new tables only."""
    define(workspace)
    workspace.land("things/a.parquet", file_of({"id": [1]}), age=90)
    workspace.run(spark, "bronze")
    at = times(WHOLE).cast(pa.timestamp(unit))
    workspace.land("things/b.parquet", file_of({"id": [2], "l": pa.array([[at[0]]], pa.list_(at.type))}), age=80)
    assert workspace.run(spark, "bronze")["things"].failed == {}
    workspace.land("things/c.parquet", file_of({"id": [3], "at": at}))
    assert workspace.run(spark, "bronze")["things"].failed == {}
    exact = datetime(2024, 3, 1, 10, 0, 0, 1)
    assert sorted(workspace.rows("things", "id", "at", "l")) == [(1, None, None), (2, None, [exact]), (3, exact, None)]
    assert status.verify(workspace.definition, workspace.settings) == []


def test_a_type_that_cannot_be_read_costs_its_column(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    workspace.land("things/a.parquet", file_of({"id": [1], "x": [[1]]}), age=90)
    workspace.run(spark, "bronze")
    many = pa.array([[Decimal(1)]], pa.list_(pa.decimal256(50, 0)))
    workspace.land("things/b.parquet", file_of({"id": [2], "x": many, "at": times(FINER)}))
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (1, {})
    assert sorted(workspace.rows("things", "id", "x")) == [(1, [1]), (2, None)]
    why = "not read: group (LIST) of numbers with more than 38 digits"
    assert rescued(workspace) == {2: {"at": "2024-03-01T10:00:00.000001001", "x": why}}


def test_files_of_which_nothing_can_be_read_fail_alone_and_say_why(spark: SparkSession, workspace: Workspace) -> None:
    """All of a ledger batch, too: none of them is a reason for the table to fail."""
    define(workspace)
    newer = file_of({"id": [1], "x": pa.array(np.array([1.5], np.float16))})
    # The number of FLOAT16 among the logical types, 15, becomes 25, which there is not yet.
    footer = int.from_bytes(newer[-8:-4], "little")
    said = newer[-8 - footer : -8].replace(b"\xfc\x00\x00", b"\x0c\x32\x00\x00")
    newer = newer[: -8 - footer] + said + len(said).to_bytes(4, "little") + b"PAR1"
    workspace.land("things/newer.parquet", newer, age=90)
    workspace.land("things/none.parquet", file_of(pa.table({})), age=80)
    workspace.land("things/secret.parquet", file_of({"id": [1]})[:-4] + b"PARE", age=70)
    workspace.land("things/cut.parquet", file_of({"id": [1]})[:-9], age=60)
    report = workspace.run(spark, "bronze")["things"]
    told = {path.rsplit("/", 1)[-1]: why for path, why in report.failed.items()}
    assert sorted(told) == ["cut.parquet", "newer.parquet", "none.parquet", "secret.parquet"]
    assert "the column x" in told["newer.parquet"]
    assert "no column" in told["none.parquet"]
    assert "encrypted" in told["secret.parquet"]
    workspace.land("things/whole.parquet", file_of({"id": [1], "at": times(WHOLE)}))
    assert workspace.run(spark, "bronze")["things"].failed == {}
    assert workspace.rows("things", "id") == [(1,)]


def test_columns_of_one_name_cost_themselves(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    ids, two = pa.array([1, 2]), pa.array([3, 4])
    for name, second in (("a", two), ("b", times(FINER, WHOLE))):
        table = pa.Table.from_arrays([ids, two, second], ["id", "twice", "twice"])
        workspace.land(f"things/{name}.parquet", file_of(table), age=90)
    report = workspace.run(spark, "bronze")["things"]
    assert (report.read, report.failed) == (4, {})
    rows = workspace.rows("things", "id", "_rescued_data")
    assert sorted(id_ for id_, _ in rows) == [1, 1, 2, 2]
    assert {json.loads(text)["twice"] for _, text in rows} == {"not read: there are 2 columns of this name"}
    assert status.verify(workspace.definition, workspace.settings) == []


def test_a_row_of_nothing_is_data(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace)
    workspace.land("things/a.parquet", file_of({"n": pa.array([None, 1.5]), "at": times(None, None)}))
    assert workspace.run(spark, "bronze")["things"].read == 2
    assert sorted(workspace.rows("things", "n", "at", "_rescued_data"), key=repr) == [(1.5, None, None), (None,) * 3]
