"""Whatever records are like and however they are cut into files and runs, no record and no value of one is lost."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sluicegate.lake import tables as lake_tables
from sluicegate.monitor import status
from tests.conftest import Workspace, copy_heart_rate
from tests.support.properties import in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  things:
    path: ${landing}/things
    format: json
    maxFilesPerTrigger: 2
    schemaHints: "n BIGINT, id INT, price DOUBLE, at TIMESTAMP"
"""
SCALARS = st.one_of(
    st.integers(-5, 10**12), st.booleans(), st.sampled_from(["", "7", "x y", "2024-05-01", "ü\\\"'", "1.50", "null"]),
    st.floats(-1e6, 1e6, allow_nan=False),
)  # fmt: skip
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "B", "c d"]), inner, min_size=1, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = st.sampled_from(["id", "price", "at", "name", "Name", "o", "x.y", "_pos", "_metadata", "bad name"])
# A bare number is a year to Spark, also one that Python has no date for.
RECORD = st.dictionaries(FIELDS, NESTED).map(
    lambda record: {k: f"t{v}" if k == "at" and isinstance(v, (int, float)) else v for k, v in record.items()}
)
MALFORMED = st.sampled_from(
    ["{", "nonsense", '{"n": 1, "id":', '{"n": 2} trailing {', '{"n": 3}{"n": 4}', '{"n": 5}, {"n": 6}', '{"id": tru}']
)
FILE = st.lists(st.one_of(RECORD, RECORD, RECORD, MALFORMED), max_size=5)
FILES = st.lists(st.tuples(FILE, st.booleans()), min_size=1, max_size=4)


@in_spark(examples=4)
@given(files=FILES)
def test_every_record_and_value_is_kept(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, files: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("property")
    copy_heart_rate(folder)
    workspace = Workspace(folder)
    workspace.define(DEFINITION)
    (folder / "landing" / "things").mkdir(parents=True)
    written: dict[tuple[str, int], dict[str, Any]] = {}
    malformed: list[tuple[str, str]] = []
    for number, (records, run_now) in enumerate(files):
        lines = []
        for record in records:
            if isinstance(record, str):
                malformed.append((f"{number}.json", record))
                lines.append(record)
            else:
                identity = (f"{number}.json", 1000 + len(written))
                written[identity] = record
                lines.append(line(identity[1], record))
        workspace.land(f"things/{number}.json", "\n".join(lines), age=900 - number)
        if run_now:
            workspace.run(spark, "bronze")
    workspace.run(spark, "bronze")
    check(workspace, written, malformed)
    event(f"{len(written)} records, {len(malformed)} malformed")


def check(workspace: Workspace, written: dict[tuple[str, int], dict[str, Any]], malformed: list[Any]) -> None:
    rows = []
    if written or malformed:
        columns = lake_tables.delta_table(workspace.uri("things")).schema().to_arrow().names
        rows = [dict(zip(columns, row, strict=True)) for row in workspace.rows("things", *columns)]
    corrupt = Counter((file_of(row), row["_corrupt_record"]) for row in rows if row["_corrupt_record"] is not None)
    sound = {(file_of(row), row["n"]): row for row in rows if row["_corrupt_record"] is None}
    # Spark takes "" for an array or a struct where other records have one, and then the record for a corrupt one.
    doubtful = Counter((file, line(n, written[file, n])) for file, n in written.keys() - sound.keys())
    assert corrupt == Counter(malformed) + doubtful
    assert len(rows) == len(written) + len(malformed)
    for identity, row in sound.items():
        record = written[identity]
        rescued = json.loads(row["_rescued_data"] or "{}")
        for field, value in record.items():
            assert kept(value, row.get(field) if not field.startswith("_") else None, rescued.get(field)), (
                field,
                value,
                row,
            )
    assert status.verify(workspace.definition, workspace.settings) == []


def line(n: int, record: dict[str, Any]) -> str:
    return json.dumps({"n": n, **record}, ensure_ascii=False)


def file_of(row: dict[str, Any]) -> str:
    return str(row["source_file"]).rsplit("/", 1)[-1]


def kept(value: Any, column: Any, rescued: Any) -> bool:
    """Whether a value is in its column, as its text or as what the column's type makes of it, or was rescued."""
    if rescued is not None and same(value, rescued):
        return True
    if column is None:
        return False
    if isinstance(column, float):
        return column == float(value)
    if hasattr(column, "isoformat"):
        return str(column).startswith(str(value)[:10])
    return same(value, column)


def same(value: Any, found: Any) -> bool:
    """Whether ``found`` is a value, or its text, or the text of a part of it; and has nothing besides but NULL."""
    if isinstance(value, (dict, list)) and isinstance(found, str):
        found = json.loads(found)
    if isinstance(value, dict):
        there = {key: inner for key, inner in found.items() if inner is not None}
        return there.keys() == value.keys() and all(same(inner, there[key]) for key, inner in value.items())
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, value, found))
    if isinstance(value, bool):
        return found is value or found == ("true" if value else "false")
    if isinstance(value, (int, float)):
        return not isinstance(found, bool) and float(found) == value
    return bool(found == value)
