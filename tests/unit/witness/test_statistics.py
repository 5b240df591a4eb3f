"""What a log says of data files is compared with their footers: a wrong bound hides rows from queries."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.errors import DamagedTable
from sluicegate.flow.verification.finding import Finding
from sluicegate.lake.damage import damages
from sluicegate.witness import statistics
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINITION = """
name: heart_rate
bronze: {b: {path: "${landing}/x", format: json}}
silver:
  s: {sql: "SELECT id FROM STREAM(b)", expectations: {e: {expect_or_quarantine: id > 0}}}
gold: {g: {sql: "SELECT count(*) AS c FROM s"}}
"""
MOMENT = datetime(2024, 5, 1, 1, 2, 3, 456789, tzinfo=UTC)
ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int64()), "d": [0.1, -0.0, 2.5], "f": pa.array([0.1, 0.2, None], pa.float32()),
        "t": ["a", "é" * 40, "\U0001f600"], "m": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "day": [date(2024, 5, 1), date(1, 1, 1), None], "yes": [True, False, None],
        "p": pa.array([Decimal("0.10"), Decimal("99999999.99"), None], pa.decimal128(10, 2)),
        "of": [{"a": 1, "b": None}, {"a": 2, "b": "x"}, None], "list": [[1], [], None],
        "nothing": pa.nulls(3, pa.int64()), "binary": [b"\xff", b"", None],
    }
)  # fmt: skip


@pytest.fixture
def pipeline(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.define(DEFINITION)
    for name in ("b", "s", "s_quarantine", "g"):
        write_deltalake(made.uri(name), ROWS)
        write_deltalake(made.uri(name), ROWS.slice(0, 0), mode="append")
        write_deltalake(made.uri(name), ROWS.slice(1, 1), mode="append")
    return made


def found(pipeline: Workspace) -> list[Finding]:
    return list(statistics.findings(pipeline.definition, pipeline.lake))


def edited(uri: str, part: str, name: str, value: Any) -> None:
    """Changes what the log says of the first data file."""
    entry = damages.entry_of(Path(uri), 0)
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            said = json.loads(line["add"]["stats"])
            of = said[part] if name else said
            *parents, last = (name or part).split(".")
            for parent in parents:
                of = of[parent]
            assert of[last] != value
            of[last] = value
            line["add"]["stats"] = json.dumps(said)
    entry.write_text("\n".join(map(json.dumps, lines)))


def test_logs_of_whole_tables_say_what_footers_say(pipeline: Workspace) -> None:
    assert found(pipeline) == []


@pytest.mark.parametrize(("name", "told"), [("b", "b"), ("s", "s"), ("s_quarantine", "s"), ("g", "g")])
def test_a_wrong_row_count_is_named_with_its_table(pipeline: Workspace, name: str, told: str) -> None:
    edited(pipeline.uri(name), "numRecords", "", 2)
    [wrong] = found(pipeline)
    assert (wrong.kind, wrong.table, wrong.what.startswith(f"{name}, ")) == ("wrong", told, name != told)
    assert "it has 2 rows, but its footer says 3" in wrong.what


@pytest.mark.parametrize(
    ("part", "column", "value"),
    [
        ("minValues", "i", 2), ("maxValues", "i", 2), ("maxValues", "d", 2.4), ("minValues", "d", 0.1),
        ("maxValues", "f", 0.1), ("minValues", "t", "b"), ("maxValues", "m", "2024-05-01T01:02:03.455Z"),
        ("minValues", "m", "2024-05-01T01:02:03.459Z"), ("minValues", "day", "0001-01-02"),
        ("maxValues", "p", 99999999.98), ("maxValues", "of.a", 1), ("nullCount", "i", 0), ("nullCount", "of.b", 1),
    ],
)  # fmt: skip
def test_bounds_that_a_value_is_not_within_are_told(pipeline: Workspace, part: str, column: str, value: Any) -> None:
    edited(pipeline.uri("s"), part, column, value)
    told = found(pipeline)
    assert [(one.kind, one.table, f" {column} is " in one.what) for one in told] == [("wrong", "s", True)], told


def test_wider_bounds_and_statistics_that_are_not_there_hide_nothing(pipeline: Workspace) -> None:
    edited(pipeline.uri("s"), "maxValues", "d", 99.5)
    edited(pipeline.uri("b"), "numRecords", "", None)
    edited(pipeline.uri("g"), "minValues", "", {})
    assert found(pipeline) == []


def test_files_that_are_named_are_few_and_all_are_counted(pipeline: Workspace) -> None:
    uri = pipeline.uri("b")
    for _ in range(statistics.SHOWN + 2):
        write_deltalake(uri, ROWS.slice(0, 1), mode="append")
    for entry in sorted((Path(uri) / "_delta_log").glob("*.json")):
        entry.write_text(entry.read_text().replace('\\"numRecords\\":1', '\\"numRecords\\":7'))
    told: list[Any] = [one.what for one in found(pipeline)]
    count = DeltaTable(uri).get_add_actions().num_rows - 1  # the first has three rows
    assert len(told) == statistics.SHOWN + 1
    assert told[-1] == f"its log has wrong statistics of {count - statistics.SHOWN:,} more data files"


def test_a_data_file_that_is_gone_or_damaged_is_an_error_with_its_table(pipeline: Workspace) -> None:
    [*_, data] = sorted(Path(pipeline.uri("g")).glob("*.parquet"))
    content = data.read_bytes()
    for damage in (b"", content[:-20], None):
        data.unlink()
        if damage is not None:
            data.write_bytes(damage)
        with pytest.raises(DamagedTable) as raised:
            found(pipeline)
        assert raised.value.where.table == "g"
        data.write_bytes(content)
    assert found(pipeline) == []
