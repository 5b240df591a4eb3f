"""Columns hold the landed value or nothing: types × second types × formats × ways of typing, judged by Python.

A record of which a column lacks a landed value is in silver's quarantine, and any other in silver with all its values.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluicegate.lake import tables as lakes
from tests.support import exact_values
from tests.support.exact_values import Entries, Padded, Token

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Workspace

pytestmark = pytest.mark.spark

NOON = datetime(2024, 1, 2, 12, 0, 0, 123456)

# Of each type values at its ends, ordinary ones, and NULL.
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
TYPED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127, 0, None]),
    (pa.int16(), [-(2**15), 2**15 - 1, 100, None]),
    (pa.int32(), [-(2**31), 2**31 - 1, 12, None]),
    (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, 1]),
    (pa.float32(), [1.5, -3.4028234663852886e38, 16777216.0, float("nan")]),
    (pa.float64(), [2.5, 1e300, 0.1, 9.223372036854775807e18]),
    (pa.decimal128(10, 2), [Decimal("12.34"), Decimal("-99999999.99"), Decimal("2.00"), None]),
    (pa.decimal128(12, 4), [Decimal("1.2345"), Decimal("99999999.9999"), Decimal("7.5000"), None]),
    (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(2**70), Decimal(5), None]),
    (pa.bool_(), [True, False, True, None]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None]),
    (pa.timestamp("us"), [datetime(2024, 1, 2), NOON, datetime(9999, 12, 31), None]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 1, 2, tzinfo=UTC), NOON.replace(year=1, tzinfo=UTC), None, None]),
    (pa.string(), ["x", "007", "7", "2024-01-02"]),
    (pa.string(), ["", "12.50", "true", "2024-01-02 13:30:00"]),
    (STRUCT, [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None, {"a": 2**62, "b": None}]),
    (pa.struct([("b", pa.string()), ("a", pa.int64())]), [{"b": "x", "a": 1}, None, {"b": None, "a": 5}, None]),
    (pa.struct([("a", pa.float64()), ("c", pa.bool_())]), [{"a": 2.0, "c": None}, {"a": 2.5, "c": True}, None, None]),
    (pa.list_(pa.int32()), [[1, 2], [], [None, 3], None]),
    (pa.list_(pa.float64()), [[1.0, 2.5], [1e300], [], None]),
    (pa.list_(STRUCT), [[{"a": 1, "b": "x"}, None], [], [{"a": None, "b": None}], None]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1)], [], [("k", None), ("l", 2**60)], None]),
    (pa.map_(pa.string(), pa.decimal128(10, 2)), [[("k", Decimal("1.00"))], [("k", Decimal("1.50"))], [], None]),
]  # fmt: skip

# Values of JSON as they are written; those before the gap are cells of CSV, too.
WRITTEN: list[list[str]] = [
    ["0", "-128", "127", "5"],
    ["2147483648", "-9223372036854775808", "9223372036854775807", "12"],
    ["9007199254740993", "9007199254740992", "-1", "3"],
    ["0.1", "12.34", "-2.5", "1e-7"],
    ["0.1234567890123456789", "1234567890123456789012345", "1.50", "7"],
    ["1e400", "1e-400", "1.7976931348623157e308", "45.614405929400146"],
    ["true", "false", "true", "null"],
    ["2024", "20240102", "1577836800", "1.5"],
    ["1", "0", "1", "null"],
    ['"x"', '"007"', '"7"', '"1.2345"'],
    ['"2024-01-02"', '"2024-01"', '"2024"', '"2024-01-02 00:00:00+05:00"'],
    ['"2024-01-02T13:30:00.123456Z"', '"2024-01-02 10:00:00.1234567"', '"10:30"', '"2024-01-02 abc"'],
    ['"true"', '"yes"', '"1"', '" 5 "'],
    ["null", "null", "null", "null"],
    ['{"a":1,"b":"x"}', '{"b":2.5}', '{"a":"x","b":null}', '{"a":1,"n":{"c":[1]}}'],
    ['{"b":"y","a":12345678901234567890}', "null", '{"a":1.5}', '{"a":1.0,"z":null}'],
    ["[1,2]", "[]", "[null,3]", '[0.1234567890123456789,"x"]'],
    ['[{"a":1}]', '[{"a":"x","b":1.50}]', "[]", '[{"c":5}]'],
    ['{"k1":1.5}', "{}", "[]", '{"k1":"x","k2":2}'],
]  # fmt: skip
ATOMIC = 14
HINTS = (
    "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,18)", "BOOLEAN", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ", "STRING",
)  # fmt: skip
NESTED = ("STRUCT<a: INT, b: STRING>", "ARRAY<BIGINT>", "ARRAY<STRUCT<a: INT, b: DECIMAL(10,2)>>", "MAP<STRING,DOUBLE>")


@dataclass(frozen=True)
class Cells:
    """A bronze table of many columns, each with the values of one type and then of another.

    Attributes:
        form: format.
        way: ``hint``, ``inferred`` or ``widening``.
        together: whether both files are in one ledger batch.
        columns: for each column its hint, and the numbers of its pools.
    """

    name: str
    form: str
    way: str
    together: bool
    columns: list[tuple[str, int, int]]

    def definition(self) -> str:
        fields = [f"path: '${{landing}}/{self.name}'", f"format: {'json' if self.form == 'array' else self.form}"]
        options = {"csv": '{header: true, quote: "\'"}', "array": "{multiLine: true}"}
        if self.form in options:
            fields.append(f"options: {options[self.form]}")
        if self.way == "hint":
            hints = ", ".join(f"c{n} {hint}" for n, (hint, _, _) in enumerate(self.columns))
            fields.append(f'schemaHints: "{hints}"')
        elif self.form != "parquet":
            fields.append("inferColumnTypes: true")
        if self.way == "widening":
            fields.append("schemaEvolutionMode: addNewColumnsWithTypeWidening")
        return f"  {self.name}: {{{', '.join(fields)}}}\n"

    def file(self, second: bool) -> bytes:
        pools = [column[2 if second else 1] for column in self.columns]
        if self.form == "parquet":
            typed = {f"c{n}": pa.array(TYPED[pool][1], TYPED[pool][0]) for n, pool in enumerate(pools)}
            buffer = io.BytesIO()
            pq.write_table(pa.table({"row": [4 * second + n for n in range(4)], **typed}), buffer)
            return buffer.getvalue()
        rows = [[str(4 * second + n), *[WRITTEN[pool][n] for pool in pools]] for n in range(4)]
        names = ["row", *[f"c{n}" for n in range(len(pools))]]
        if self.form == "csv":
            cells = [["" if cell == "null" else cell.strip('"') for cell in row] for row in rows]
            return "\n".join(",".join(row) for row in [names, *cells]).encode()
        lines = [
            "{" + ",".join(f'"{name}":{cell}' for name, cell in zip(names, row, strict=True)) + "}" for row in rows
        ]
        return ("[" + ",\n".join(lines) + "]" if self.form == "array" else "\n".join(lines)).encode()

    def landed(self, second: bool) -> list[dict[str, Any]]:
        """Python's own reading of the file."""
        data = self.file(second)
        if self.form == "parquet":
            table = pq.read_table(io.BytesIO(data))
            maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
            rows = table.to_pylist(maps_as_pydicts="strict")
            return [{name: Entries(cell) if name in maps and cell is not None else cell
                     for name, cell in row.items()} for row in rows]  # fmt: skip
        if self.form == "csv":
            kind = Padded if self.way == "hint" else Token
            lines = csv.DictReader(io.StringIO(data.decode()), quotechar="'")
            return [{name: kind(cell) if cell else None for name, cell in row.items()} for row in lines]
        if self.form == "array":
            return list(exact_values.of_json(data.decode()))
        return [exact_values.of_json(line) for line in data.decode().splitlines()]

    @property
    def faults(self) -> str:
        return f"{self.form} {self.way} {'together' if self.together else 'apart'}"


def cells(name: str, form: str, way: str, together: bool, drawn: random.Random, number: int) -> Cells:
    pools = len(TYPED) if form == "parquet" else ATOMIC if form == "csv" else len(WRITTEN)
    hints = HINTS if form == "csv" else HINTS + NESTED
    columns = [(drawn.choice(hints), drawn.randrange(pools), drawn.randrange(pools)) for _ in range(number)]
    return Cells(name, form, way, together, columns)


CHEAP = [("csv", "hint", True), ("json", "hint", False), ("array", "inferred", True), ("parquet", "hint", True),
         ("parquet", "inferred", False), ("parquet", "widening", True), ("csv", "inferred", False)]  # fmt: skip


def test_a_column_has_the_landed_value_or_nothing(spark: SparkSession, workspace: Workspace) -> None:
    drawn = random.Random(37)
    hold(spark, workspace, [cells(f"t{n}", *shape, drawn, 8) for n, shape in enumerate(CHEAP)], in_silver=3)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(3))
def test_a_column_has_the_landed_value_or_nothing_whatever_the_types(
    spark: SparkSession, workspace: Workspace, seed: int
) -> None:
    drawn = random.Random(seed)
    shapes = [(form, way, together) for form in ("csv", "json", "array", "parquet")
              for way in ("hint", "inferred", "widening") for together in (True, False)]  # fmt: skip
    every = [cells(f"t{n}", *shape, drawn, 24) for n, shape in enumerate(shapes)]
    hold(spark, workspace, every, in_silver=len(every))


def hold(spark: SparkSession, workspace: Workspace, every: Sequence[Cells], in_silver: int) -> None:
    """Land both files of each table, and compare bronze, and silver of the first few, with Python's reading."""
    followed = every[:in_silver]
    silver = "".join(f'  s_{one.name}: {{sql: "SELECT * FROM STREAM({one.name})"}}\n' for one in followed)
    bronze = "".join(one.definition() for one in every)
    workspace.define(f"name: heart_rate\nbronze:\n{bronze}silver:\n{silver}")
    for second in (False, True):
        for one in every:
            suffix = "parquet" if one.form == "parquet" else "csv" if one.form == "csv" else "json"
            if not second:
                workspace.land(f"{one.name}/a.{suffix}", one.file(False), age=100)
            if second != one.together:
                workspace.land(f"{one.name}/b.{suffix}", one.file(True), age=90)
        reports = workspace.run(spark, "bronze", "silver")
        assert {name: report.failed for name, report in reports.items() if report.failed} == {}
    wrong = [fault for one in every for fault in faults(workspace, one)]
    wrong += [fault for one in followed for fault in silver_faults(workspace, one)]
    assert wrong == [], "\n".join([f"{len(wrong)} wrong", *wrong[:40]])


def silver_faults(workspace: Workspace, one: Cells) -> list[str]:
    """Records that silver neither has with all of their landed values nor quarantined."""
    silver = lakes.dataset(lakes.table_at(workspace.uri(f"s_{one.name}"))).to_table()
    held = lakes.delta_table(workspace.uri(f"s_{one.name}_quarantine"))
    rows = {int(row["row"]): row for row in silver.to_pylist()}
    quarantined = {int(row["row"]) for row in lakes.dataset(held).to_table().to_pylist()} if held else set()
    landed = {int(row["row"]): row for second in (False, True) for row in one.landed(second)}
    kinds = {field.name: field.type for field in silver.schema if re.fullmatch(r"c\d+", field.name)}
    wrong = []
    for number, record in landed.items():
        lacking = [name for name, kind in kinds.items() if exact_values.lacks(kind, record[name])]
        if (number in quarantined, number in rows) != (bool(lacking), not lacking):
            about = {name: (str(kinds[name]), record[name]) for name in lacking}
            wrong.append(f"silver of {one.faults}: row {number} is good {number in rows}, lacking {about}")
        elif not lacking:
            wrong += [f"silver of {one.faults}: {name} row {number} landed {record[name]!r}, is {rows[number][name]!r}"
                      for name, kind in kinds.items()
                      if not exact_values.same(rows[number][name], exact_values.of(kind, record[name])[0])]  # fmt: skip
    return wrong


def faults(workspace: Workspace, one: Cells) -> list[str]:
    """Cells whose column, or whose rescued data, is not what Python says."""
    held = lakes.delta_table(workspace.uri(one.name))
    assert held is not None
    stored = lakes.dataset(held).to_table()
    rows = {int(row["row"]): row for row in stored.to_pylist()}
    landed = {int(row["row"]): row for second in (False, True) for row in one.landed(second)}
    if rows.keys() != landed.keys():
        return [f"{one.faults}: rows {sorted(rows)}"]
    wrong = []
    for number, row in rows.items():
        rescued = json.loads(row["_rescued_data"] or "{}")
        if row["_corrupt_record"] is not None:
            wrong.append(f"{one.faults}: row {number} is corrupt: {row['_corrupt_record'][:300]}")
            continue
        for n in range(len(one.columns)):
            value, name = landed[number][f"c{n}"], f"c{n}"
            kind = stored.schema.field(name).type if name in stored.column_names else None
            if kind is None:
                if value is not None and name not in rescued:
                    wrong.append(f"{one.faults}: {name} {value!r} is nowhere")
                continue
            expected, lost = exact_values.of(kind, value)
            if not exact_values.same(row[name], expected) or (name in rescued) != lost:
                about = f"{one.faults}: {kind} {one.columns[n]} row {number} landed {value!r}"
                wrong.append(f"{about}, column {row[name]!r}, rescued {rescued.get(name)!r}, right {expected!r} {lost}")
    return wrong
