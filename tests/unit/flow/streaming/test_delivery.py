"""What a log tells of the rows between two versions, and what becomes of a batch that is not all of them. No Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate.errors import AccountingError
from sluicegate.flow.batch_run import BatchRun
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.policies import ForeignTablePolicy, Policy, QueryPolicy
from sluicegate.flow.streaming import delivery, source_stream, stream_checkpoint

pytestmark = pytest.mark.unit

FEED = {"delta.enableChangeDataFeed": "true"}
DELIVERED = "insert", "delete", "update_preimage", "update_postimage"


class Table:
    """A Delta table, whose log can be written by hand as well."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "t")
        self.add(10, parts=2)

    def add(self, rows: int, parts: int = 1, mode: Any = "append") -> None:
        data = pa.table({"id": list(range(rows)), "p": [str(i % parts) for i in range(rows)]})
        write_deltalake(self.uri, data, mode=mode, partition_by=["p"], configuration=FEED)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.uri)

    def log(self, version: int) -> Path:
        return Path(self.uri) / "_delta_log" / f"{version:020}.json"

    def edit(self, version: int, change: Callable[[str, dict[str, Any]], None]) -> None:
        """Changes each action of a commit."""
        actions = [json.loads(line) for line in self.log(version).read_text().splitlines()]
        for action in actions:
            for kind, what in action.items():
                change(kind, what)
        self.log(version).write_text("\n".join(map(json.dumps, actions)) + "\n")

    def commit(self, *actions: dict[str, Any]) -> int:
        """Writes a commit by hand; returns its version."""
        version = max(int(file.stem) for file in self.log(0).parent.glob("*.json")) + 1
        self.log(version).write_text("\n".join(map(json.dumps, actions)) + "\n")
        return version

    def told(self, since: int = 0, *, feed: bool = True) -> delivery.ExpectedRows:
        return delivery.expected_rows(self.uri, since, self.delta.version(), feed=feed)

    def fed(self, since: int = 0) -> Counter[int]:
        """Rows of each version as delta-rs's own change feed has them."""
        found = pa.table(self.delta.load_cdf(starting_version=since + 1).read_all())
        assert {*found["_change_type"].to_pylist()} <= {*DELIVERED}
        return Counter(found["_commit_version"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def unstated(_kind: str, what: Any) -> None:
    """What a writer that counts nothing leaves out."""
    if isinstance(what, dict):
        what.pop("stats", None)


CHANGES: dict[str, Callable[[Table, random.Random], Any]] = {
    "add": lambda table, luck: table.add(luck.randint(1, 30), luck.randint(1, 4)),
    "overwrite": lambda table, luck: table.add(luck.randint(1, 30), luck.randint(1, 4), "overwrite"),
    "delete": lambda table, luck: table.delta.delete(f"id % 3 = {luck.randint(0, 2)}"),
    "delete all": lambda table, luck: table.delta.delete(),
    "update": lambda table, luck: table.delta.update({"id": "id + 1"}, predicate=f"id % 3 = {luck.randint(0, 2)}"),
    "optimize": lambda table, luck: table.delta.optimize.compact(),
    "properties": lambda table, luck: table.delta.alter.set_table_properties(
        {"steward": str(luck.random())}, raise_if_not_exists=False
    ),
    "unstated": lambda table, luck: (table.add(5, luck.randint(1, 4)), table.edit(table.delta.version(), unstated)),
}


@pytest.mark.parametrize("seed", range(6))
def test_as_many_rows_are_told_of_as_the_change_feed_has(table: Table, seed: int) -> None:
    luck = random.Random(seed)
    for _ in range(8):
        CHANGES[luck.choice([*CHANGES])](table, luck)
        if luck.random() < 0.2:
            table.delta.create_checkpoint()
    told = table.told()
    assert {version: count for version, count in told.rows.items() if count} == dict(table.fed())
    assert told.count == sum(table.fed().values())
    assert all(bool(told.files[version]) == bool(told.rows[version]) for version in told.rows)


def test_who_follows_added_rows_only_is_told_of_these(table: Table) -> None:
    table.add(7, parts=3)
    table.delta.optimize.compact()
    table.delta.delete("id = 1")
    table.edit(1, unstated)
    assert (table.told(feed=False).rows[1], table.told(feed=False).rows[2]) == (7, 0)
    actions = [json.loads(line) for line in table.log(3).read_text().splitlines()]
    assert any("cdc" in action for action in actions)  # what the change feed has is not what was added
    kept = [json.loads(action["add"]["stats"])["numRecords"] for action in actions if "add" in action]
    assert (table.told(feed=False).rows[3], table.told(feed=False).files[3]) == (sum(kept), len(kept))


def test_a_merge_that_changed_nothing_gives_nothing(table: Table) -> None:
    metrics = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
    file = {"path": "x", "dataChange": True, "stats": '{"numRecords": 5}'}
    info = {"operation": "MERGE", "operationMetrics": metrics}
    version = table.commit({"commitInfo": info}, {"add": file}, {"remove": {"path": "y", "dataChange": True}})
    assert delivery.expected_rows(table.uri, version - 1, version, feed=True).rows == {version: 0}
    for name in metrics:
        table.edit(version, lambda kind, what, name=name: what.update(operationMetrics=metrics | {name: "1"})  # type: ignore[misc]
                   if kind == "commitInfo" else unstated("", None))  # fmt: skip
        table.edit(version, lambda kind, what: what.update(stats='{"numRecords": 3}') if kind == "remove" else None)
        assert delivery.expected_rows(table.uri, version - 1, version, feed=True).rows == {version: 8}


def test_deletion_vectors_count(table: Table) -> None:
    def file(path: str, gone: int, rows: int = 9) -> dict[str, Any]:
        vector = {"deletionVector": {"cardinality": gone}} if gone else {}
        return {"path": path, "dataChange": True, "stats": json.dumps({"numRecords": rows}), **vector}

    def told(*actions: dict[str, Any], operation: str = "DELETE") -> int | None:
        version = table.commit({"commitInfo": {"operation": operation}}, *actions)
        return delivery.expected_rows(table.uri, version - 1, version, feed=True).count

    assert told({"add": file("a", 2)}) == 7
    assert told({"remove": file("a", 2)}) == 7
    assert told({"remove": file("a", 2)}, {"add": file("a", 6)}) == 4
    assert told({"remove": file("a", 0)}, {"add": file("a", 6)}, {"add": file("b", 0)}) == 15
    # Which rows a RESTORE brings back of a file, and which it takes away, is not in the log.
    assert told({"remove": file("a", 6)}, {"add": file("a", 2)}, operation="RESTORE") is None


def test_files_of_another_table_and_with_odd_names_are_found(table: Table, tmp_path: Path) -> None:
    odd = tmp_path / "other table" / "50% of it.parquet"
    odd.parent.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), odd)
    quoted = str(odd).replace("%", "%25").replace(" ", "%20")
    file = {"dataChange": True}
    version = table.commit({"add": {"path": f"file://{quoted}", **file}}, {"add": {"path": quoted, **file}})
    assert delivery.expected_rows(table.uri, version - 1, version, feed=False).count == 6


@pytest.mark.parametrize("gone", ["_delta_log", "a file that only it counts"])
def test_history_that_is_gone_is_told_as_such(table: Table, gone: str) -> None:
    table.add(3)
    table.edit(1, unstated)
    adds = [json.loads(line).get("add") for line in table.log(1).read_text().splitlines()]
    [path] = [add["path"] for add in adds if add]
    (table.log(1) if gone == "_delta_log" else Path(table.uri) / path).unlink()
    with pytest.raises(RuntimeError, match=delivery.GONE):
        delivery.expected_rows(table.uri, 0, 1, feed=True)
    assert delivery.GONE in source_stream.GAP


def test_many_commits_are_counted_whole(table: Table) -> None:
    for commits in range(1, 5):
        table.add(3, parts=3)
        table.edit(commits, unstated)  # so that its files are looked at, too
        assert table.told().rows == dict.fromkeys(range(1, commits + 1), 3)


def test_all_rows_of_a_version_are_counted_even_if_its_writer_did_not(table: Table) -> None:
    table.add(7)
    table.edit(1, unstated)
    assert (delivery.rows_at(table.uri, 0), delivery.rows_at(table.uri, 1)) == (10, 17)


def test_rows_that_deletion_vectors_hide_are_not_of_a_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_deltalake(uri, pa.table({"id": list(range(30))}))
    write_deltalake(uri, pa.table({"id": list(range(9))}), mode="append")
    log = tmp_path / "t" / "_delta_log"
    [add] = [json.loads(line)["add"] for line in (log / f"{0:020}.json").read_text().splitlines() if '"add"' in line]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    # The rows 3, 4, 7, 11, 18 and 29.
    vector = {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
              "sizeInBytes": 44, "cardinality": 6}  # fmt: skip
    actions = (
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}},
        {"add": {**add, "deletionVector": vector}},
    )
    (log / f"{2:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    assert (delivery.rows_at(uri, 1), delivery.rows_at(uri, 2)) == (39, 33)


# --- where a batch ends ----------------------------------------------------------------------------------------------


class Feed:
    """Rows of a change feed as Spark has them, in DuckDB: of both engines the condition has one meaning."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def where(self, condition: str) -> Feed:
        """Spark's word for it."""
        return Feed(self.rows.filter(condition))

    def drop(self, *columns: str) -> Feed:
        """Spark's word for it."""
        return Feed(self.rows.project(", ".join(name for name in self.rows.columns if name not in columns)))


@pytest.mark.parametrize("signed", [False, True])
def test_what_was_committed_since_the_marks_were_read_is_the_next_runs(table: Table, signed: bool) -> None:
    """A stream is not told where to end: it brings what another program commits while it starts."""
    for rows in (1, 2, 4, 8):
        table.add(rows)
    given = pa.table(table.delta.load_cdf(1).read_all())
    assert Counter(given["_commit_version"].to_pylist()) == {1: 1, 2: 2, 3: 4, 4: 8}
    flow = Flow("silver", "s", table.uri, "", policy=QueryPolicy(row_deltas=signed))
    run: Any = BatchRun(None, flow, list, {}, None, None, None)  # type: ignore[arg-type]
    for until, count in ((1, 1), (2, 3), (3, 7), (4, 15)):
        taken: Any = run._limit_feed(Feed(duckdb.from_arrow(given)), Progress("incremental", 0, until), 4)  # type: ignore[arg-type]
        assert len(taken.rows) == count
        assert ("_commit_version" in taken.rows.columns) is signed


def offsets(version: int, index: int) -> str:
    end = {"sourceVersion": 1, "reservoirVersion": version, "index": index, "isStartingVersion": False}
    return f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}'


def test_a_batch_that_ends_in_the_middle_of_a_version_ends_nowhere() -> None:
    assert stream_checkpoint.end_version(offsets(3, -1)) == 2
    assert stream_checkpoint.end_version(offsets(3, 0)) is None
    assert stream_checkpoint.end_version(offsets(3, 9223372036854775807)) is None
    of_twelve = [stream_checkpoint.end_version(offsets(3, index), {3: 12}.__getitem__) for index in (10, 11, 12)]
    assert of_twelve == [None, 3, None]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_batch_must_end_behind_every_change(table: Table, tmp_path: Path, foreign: bool) -> None:
    table.add(3, parts=3)
    table.add(4, parts=4)
    table.delta.optimize.compact()  # gives nothing: whether a batch ends before or behind it is all the same
    folder = tmp_path / "offsets"
    folder.mkdir()
    way = Flow("silver", "s", table.uri, "", policy=ForeignTablePolicy() if foreign else Policy())

    def end(version: int, index: int = -1, since: int = 0) -> int:
        (folder / "0").write_text(offsets(version, index))
        told, found = source_stream.demand_all(tmp_path, way, Progress("incremental", since, 3), None)
        assert told.count == (7 if since == 0 else 4)
        return found

    assert (end(4), end(3), end(3, since=1)) == (3, 3, 3)
    for version, index in ((2, -1), (1, -1), (2, 0), (2, 2), (2, 4)):
        with pytest.raises(AccountingError, match="in one batch"):
            end(version, index)
    if foreign:  # Delta never writes such an end for a stream of added rows
        with pytest.raises(AccountingError, match="in the middle of a version"):
            end(2, 3)
    else:
        assert end(2, 3) == 3
