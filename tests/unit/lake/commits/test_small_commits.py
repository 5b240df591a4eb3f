"""Commits of few rows without Spark: beside other programs, and only of values that statistics tell rightly."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sluicegate.errors import SluicegateError
from sluicegate.lake import log, tables
from sluicegate.lake.commits import file_statistics, small_commits
from sluicegate.lake.commits.small_commits import Facts

pytestmark = pytest.mark.unit

ROW = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    tables.write(str(tmp_path / "t"), ROW, configuration={"delta.enableChangeDataFeed": "true"})
    return str(tmp_path / "t")


class Others:
    """Another program, which appends a row each time that the table has been opened, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.left, self.open = times, tables.table_at
        monkeypatch.setattr(tables, "table_at", self)

    def __call__(self, uri: str, version: int | None = None) -> DeltaTable:
        table = self.open(uri, version)
        if self.left:
            self.left -= 1
            tables.write(uri, ROW, mode="append")
        return table


def rows(uri: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return sorted(((row["k"], row["v"]) for row in found), key=str)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_append_beside_others_is_tried_as_many_ATTEMPTS(
    uri: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(small_commits, "ATTEMPTS", 3)
    Others(monkeypatch, times)
    mine = pa.table({"k": pa.array([2], pa.int32())})
    if times < 3:
        small_commits.append(uri, mine, Facts("{}", "flow", 7))
        assert (2, None) in rows(uri)
    else:
        with pytest.raises(SluicegateError, match="another program committed to the table first"):
            small_commits.append(uri, mine, Facts("{}", "flow", 7))
    assert len(rows(uri)) == 1 + times + (times < 3)
    assert DeltaTable(uri).transaction_version("flow") == (7 if times < 3 else None)


def test_an_append_stops_where_the_table_has_become_another(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = tables.table_at

    def altered(where: str, version: int | None = None) -> DeltaTable:
        table = open_(where, version)
        monkeypatch.setattr(tables, "table_at", open_)
        tables.write(where, ROW.append_column("more", ROW["v"]), mode="append", schema_mode="merge")
        return table

    monkeypatch.setattr(tables, "table_at", altered)
    with pytest.raises(SluicegateError, match="another program committed to the table first"):
        small_commits.append(uri, ROW, Facts())


def test_a_merge_beside_another_commit_is_given_up(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Others(monkeypatch, 1)
    change = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["b", "b"], "op": ["update", "insert"]})
    with pytest.raises(SluicegateError, match="another program committed to the table first"):
        small_commits.merge(tables.table_at(uri), change, ["k"], "op", Facts("{}", "flow", 1))
    assert rows(uri) == [(1, "a"), (1, "a")]
    assert DeltaTable(uri).transaction_version("flow") is None


def test_an_offset_that_is_there_is_not_committed_again(uri: str) -> None:
    change = pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["b", "c"], "op": ["delete", "insert"]})
    for _ in range(2):
        small_commits.merge(tables.table_at(uri), change, ["k"], "op", Facts("{}", "flow", 4))
        small_commits.append(uri, ROW, Facts("{}", "flow", 3))
    assert (rows(uri), DeltaTable(uri).version()) == ([(2, "c")], 1)
    small_commits.append(uri, ROW.slice(0, 0), Facts("{}", "flow", 5))
    assert (rows(uri), DeltaTable(uri).transaction_version("flow")) == ([(2, "c")], 5)


def test_a_merge_that_changes_no_row_commits_its_offset(uri: str) -> None:
    change = pa.table({"k": pa.array([7], pa.int32()), "v": ["b"], "op": ["delete"]})
    assert small_commits.merge(tables.table_at(uri), change, ["k"], "op", Facts("{}", "flow", 4))
    table = DeltaTable(uri)
    assert (table.version(), table.transaction_version("flow"), rows(uri)) == (1, 4, [(1, "a")])


def test_an_offset_says_when_it_was_committed_as_those_of_spark_do(uri: str) -> None:
    before = int(time.time() * 1000)
    small_commits.append(uri, ROW, Facts("{}", "flow", 4))
    change = ROW.append_column("op", [["update"]])
    small_commits.merge(tables.table_at(uri), change, ["k"], "op", Facts("{}", "flow", 5))
    for version in (1, 2):
        [said] = [action["txn"] for action in log.actions(uri, version) if "txn" in action]
        assert before <= said["lastUpdated"] <= int(time.time() * 1000)


def test_a_table_that_is_open_is_not_opened_again_unless_others_have_committed(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tables.table_at(uri)
    with monkeypatch.context() as patched:
        patched.setattr(tables, "table_at", None)
        small_commits.append(uri, ROW, Facts(), opened)
    opened = tables.table_at(uri)
    tables.write(uri, ROW, mode="append")
    small_commits.append(uri, ROW, Facts("{}", "flow", 4), opened)
    assert (len(rows(uri)), DeltaTable(uri).version()) == (4, 3)


@pytest.mark.parametrize(
    ("values", "kind", "is_"),
    [
        ([None], pa.float64(), True), ([float("inf"), -0.0], pa.float32(), True),
        ([1.0, float("nan")], pa.float64(), False),
        ([Decimal("9" * 15)], pa.decimal128(38, 0), True), ([Decimal("1" + "0" * 15)], pa.decimal128(38, 0), False),
        ([Decimal("-0." + "9" * 15)], pa.decimal128(38, 15), True), ([Decimal("-1")], pa.decimal128(38, 15), False),
        ([datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"), True),
        ([-2_208_988_800_000_001], "micros", False),
        ([253_402_300_799_999_999], "micros", True), ([253_402_300_800_000_000], "micros", False),
        ([date(1582, 10, 15), date(9999, 12, 31)], pa.date32(), True), ([-141_428], "days", False),
        ([2_932_897], "days", False), ([b"a"], pa.binary(), False), ([None], pa.null(), False),
        ([1], pa.timestamp("us"), False), ([[{"a": [("x", float("nan"))]}]], "deep", False),
        ([[{"a": [("x", 1.0), ("y", None)]}, None], None, []], "deep", True), (["a" * 1000], pa.string(), True),
        ([b"A\xff"], "text", False), ([b"A", None], "text", True),
    ],
)  # fmt: skip
def test_values_are_stored_without_spark_if_statistics_of_files_tell_them(values: Any, kind: Any, is_: bool) -> None:
    deep = pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.float64()))]))
    ends = {
        "micros": (pa.int64(), pa.timestamp("us", "UTC")), "days": (pa.int32(), pa.date32()),
        "text": (pa.binary(), pa.string()),
    }  # fmt: skip
    if kind in ends:
        column = pa.array(values, ends[kind][0]).view(ends[kind][1])
    else:
        column = pa.array(values, deep if kind == "deep" else kind)
    assert file_statistics.are_right_for_rows(pa.table({"c": column})) is is_
