"""Small files put together: the same rows, few files, few rows written anew, and nobody overtaken by it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from sluicegate.lake import log, tables
from sluicegate.lake.commits import compaction

pytestmark = pytest.mark.unit


def enter(uri: str, chunk: int, rows: int = 1) -> None:
    entries = pa.table({"chunk": pa.array([chunk] * rows, pa.int64()), "path": [f"{chunk}/{n}" for n in range(rows)]})
    settings = {} if chunk else {"configuration": {"delta.enableChangeDataFeed": "true"}}
    tables.write(uri, entries, mode="append", commit_properties=CommitProperties(max_commit_retries=0), **settings)


def content(uri: str) -> list[tuple[int, str]]:
    return sorted((row["chunk"], row["path"]) for row in tables.dataset(DeltaTable(uri)).to_table().to_pylist())


def actions(uri: str, version: int, kind: str) -> list[dict[str, Any]]:
    lines = Path(uri, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    return [found[kind] for line in lines if kind in (found := json.loads(line))]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_files_are_put_together_once_there_are_MANY_FILES(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 5)
    uri = str(tmp_path / "ledger")
    for chunk in range(tables.MANY_FILES + beyond):
        enter(uri, chunk)
    before, table = content(uri), DeltaTable(uri)
    version = table.version()
    assert compaction.compact_newest(table, "chunk", facts={"folders": ["/a"]}) == (beyond >= 0)
    assert content(uri) == before
    assert table.version() == version + (beyond >= 0)
    if beyond < 0:
        return
    assert len(table.file_uris()) == 1
    (commit,) = log.commits(table, 1)
    assert (commit.ours, commit.overwrites) == ({"folders": ["/a"]}, False)
    for kind, number in (("add", 1), ("remove", version + 1)):
        told = actions(uri, table.version(), kind)
        assert [action["dataChange"] for action in told] == [False] * number
    described = tables.statistics(table, "num_records", "min.chunk", "max.chunk", "null_count.path").to_pylist()
    assert described == [{"num_records": version + 1, "min.chunk": 0, "max.chunk": version, "null_count.path": 0}]
    enter(uri, table.version() + 1)  # a chunk's number is the version that it makes, as before
    assert max(content(uri))[0] == DeltaTable(uri).version()


def test_the_files_of_many_commits_are_few_and_their_rows_written_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 8)
    uri, chance, written, most = str(tmp_path / "ledger"), random.Random(3), 0, 0
    wanted: list[tuple[int, str]] = []
    table = None
    for _ in range(150):
        if table is not None and compaction.compact_newest(table, "chunk"):
            written += tables.statistics(table, "num_records")["num_records"].to_pylist()[0]
            described = tables.statistics(table, "max.chunk", "num_records").sort_by([("max.chunk", "descending")])
            sizes = described["num_records"].to_pylist()
            most = max(most, len(sizes))
            rows = tables.rows_above(table, "chunk", -1).to_table()["chunk"].combine_chunks()
            assert pc.all(pc.less_equal(rows[1:], rows[:-1])).as_py(), "the newest come first"
        number = 0 if table is None else table.version() + 1
        rows_ = chance.choice([1, 1, 1, 2, 40])
        enter(uri, number, rows_)
        wanted += [(number, f"{number}/{row}") for row in range(rows_)]
        table = DeltaTable(uri)
    assert content(uri) == sorted(wanted)
    assert most < tables.MANY_FILES
    assert written < len(wanted) * 6  # all of them, each time there are 8 files, would be some ten times


def test_of_two_at_once_one_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 3)
    uri = str(tmp_path / "ledger")
    for chunk in range(4):
        enter(uri, chunk)
    before, one, other, appends = content(uri), DeltaTable(uri), DeltaTable(uri), DeltaTable(uri)
    assert compaction.compact_newest(one, "chunk")
    with pytest.raises(CommitFailedError):
        compaction.compact_newest(other, "chunk")
    once = CommitProperties(max_commit_retries=0)
    with pytest.raises(CommitFailedError):  # and so does who would enter files
        tables.write(appends, pa.table({"chunk": [4], "path": ["4/0"]}), mode="append", commit_properties=once)
    assert content(uri) == before
    late = DeltaTable(uri, version=3)
    enter(uri, 5)
    with pytest.raises(CommitFailedError):
        compaction.compact_newest(late, "chunk")
    assert content(uri) == [*before, (5, "5/0")]


def test_a_kill_before_the_commit_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 3)
    uri = str(tmp_path / "ledger")
    for chunk in range(4):
        enter(uri, chunk)
    before = content(uri)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", killed)
        with pytest.raises(KeyboardInterrupt):
            compaction.compact_newest(DeltaTable(uri), "chunk")
    assert content(uri) == before
    assert compaction.compact_newest(DeltaTable(uri), "chunk")
    assert content(uri) == before


def test_files_that_are_not_as_the_log_says_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MANY_FILES", 3)
    uri = str(tmp_path / "ledger")
    for chunk in range(4):
        enter(uri, chunk)
    files = tables.statistics
    more = lambda table, *columns: (  # noqa: E731
        (found := files(table, *columns)).set_column(
            found.column_names.index("num_records"), "num_records", pc.add(found["num_records"], 1)
        )
    )
    monkeypatch.setattr(tables, "statistics", more)
    assert not compaction.compact_newest(DeltaTable(uri), "chunk")
    monkeypatch.setattr(tables, "statistics", files)
    uncounted = str(tmp_path / "uncounted")
    settings = {"delta.dataSkippingNumIndexedCols": "0"}
    for number in range(4):
        options = {} if number else {"configuration": settings}
        tables.write(uncounted, pa.table({"chunk": [number]}), mode="append", **options)
    assert not compaction.compact_newest(DeltaTable(uncounted), "chunk")
