"""Restores that only a longer look at a table's log finds, and what of the past stands after them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sluicegate.lake import log as lake_log
from sluicegate.lake import offsets
from sluicegate.lake.offsets import Restore, RestoreHistory
from tests.unit.lake.test_offsets import History

pytestmark = pytest.mark.unit


def line(*restores: tuple[int | None, int]) -> RestoreHistory:
    return RestoreHistory(tuple(Restore(*one) for one in restores), None, True)


def steward(history: History, times: int) -> None:
    """Commits of others, which tell of no chunk."""
    for number in range(times):
        name = f"{len(history.held)}-{number}"
        history.table.alter.set_table_properties({"steward": name}, raise_if_not_exists=False)
        history.held.append(history.held[-1])


@pytest.mark.parametrize("others", [1, 2, 3, 4, 5, 6, 12])
def test_a_restore_before_many_commits_of_others_is_found(tmp_path: Path, others: int) -> None:
    """A run saw version 1, and commits late: a RESTORE came in between, behind any number of other commits."""
    history = History(tmp_path)
    history.chunks = 2
    history.run()
    seen, reached = history.state()
    history.restore(0)
    steward(history, others)
    history.commit(3, seen, reached.app_id, 1)
    steward(history, 1)
    found = offsets.restore_history(history.table)
    assert found.restores == (Restore(0, 2),)
    assert found.news
    assert [version for version in range(len(history.held)) if found.keeps_commit(version)] == [
        0, *range(3, len(history.held)),
    ]  # fmt: skip


@pytest.mark.parametrize("others", [0, 3, 4, 5, 9])
def test_restores_that_a_commit_knows_of_are_no_news(tmp_path: Path, others: int) -> None:
    history = History(tmp_path)
    history.chunks = 2
    history.run()
    history.restore(0)
    history.run()
    steward(history, others)
    found = offsets.restore_history(history.table)
    assert (found.restores, found.news) == ((Restore(0, 2),), False)
    assert found.ours is not None
    assert found.ours.version == len(history.held) - 1 - others


@pytest.mark.parametrize(("gone", "restores"), [(0, ()), (1, (Restore(None, 2),)), (2, (Restore(None, 2),))])
def test_a_log_that_begins_late_and_tells_of_no_run_begins_a_new_epoch(
    tmp_path: Path, gone: int, restores: tuple[Restore, ...]
) -> None:
    history = History(tmp_path)
    for number in range(3):
        write_deltalake(history.uri, pa.table({"_chunk": pa.array([number], pa.int64())}), mode="append")
    history.forget(gone)
    found = offsets.restore_history(history.table)
    assert (found.restores, found.ours, found.news) == (restores, None, bool(restores))


@pytest.mark.parametrize("to", [0, 1, 2])
def test_a_restore_by_time_brings_back_a_version(tmp_path: Path, to: int) -> None:
    """Also the newest, by which nothing changes."""
    history = History(tmp_path)
    history.chunks = 3
    history.run()
    stamps = {commit.version: commit.timestamp for commit in lake_log.commits(history.table)}
    for version in (0, 1, 2):  # as if a day lay between them
        log = Path(history.uri) / "_delta_log" / f"{version:020}.json"
        day = int((datetime.now(UTC) - timedelta(days=9 - version)).timestamp() * 1000)
        log.write_text(log.read_text().replace(f'"timestamp":{stamps[version]}', f'"timestamp":{day}'))
        os.utime(log, (day / 1000, day / 1000))
    if to < 2:
        history.table.restore(datetime.now(UTC) - timedelta(days=8 - to, hours=12))
    else:  # Spark does so, delta-rs refuses it
        info = {"timestamp": 1, "operation": "RESTORE", "operationParameters": {"timestamp": "2026-01-01"}}
        log = Path(history.uri) / "_delta_log" / f"{3:020}.json"
        log.write_text(json.dumps({"commitInfo": info}))
    newest = next(lake_log.commits(history.table, 1))
    assert (newest.operation, newest.restored_to) == ("RESTORE", None)
    found, reached = history.state()
    assert found.restores == (Restore(to, 3),)
    assert reached.offset == to + 1


def test_rows_of_another_ledger_are_not_read_again_after_a_restore(tmp_path: Path) -> None:
    """A mark of -1 would say that the table has no chunk; that none is known says to look what there is."""
    history = History(tmp_path)
    history.run(0)
    line, reached = history.state()
    history.commit(1, line, reached.app_id, -1, rows=False)
    for chunk in (2, 3):
        history.commit(chunk, line, reached.app_id, chunk - 2)
    history.restore(1)
    other = "sluicegate.bronze.things@another"
    assert offsets.committed_offset(history.table, other, offsets.restore_history(history.table)).offset is None
    history.restore(0)
    assert offsets.committed_offset(history.table, other, offsets.restore_history(history.table)).offset == -1


def test_a_table_whose_rows_were_all_deleted_keeps_its_mark(tmp_path: Path) -> None:
    """What a person deleted does not come back by a RESTORE to the time after that."""
    history = History(tmp_path)
    history.chunks = 2
    history.run()
    history.table.delete()
    history.held.append([])
    steward(history, 1)
    history.restore(2)
    found, reached = history.state()
    assert found.restores == (Restore(2, 4),)
    assert reached.offset == 2


def test_the_newest_chunk_behind_another(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.chunks = 3
    history.run()
    found = [offsets.newest_chunk(history.table, after) for after in (-1, 1, 2, 3, 4)]
    assert found == [3, 3, 3, None, None]


def test_versions_that_a_restore_undid_stand_no_more() -> None:
    once = line((2, 5))
    assert [version for version in range(8) if once.keeps_commit(version)] == [0, 1, 2, 6, 7]
    twice = line((2, 5), (6, 8))
    assert [version for version in range(11) if twice.keeps_commit(version)] == [0, 1, 2, 6, 9, 10]
    undone = line((2, 5), (4, 8))  # the first RESTORE itself was undone
    assert [version for version in range(11) if undone.keeps_commit(version)] == [0, 1, 2, 3, 4, 9, 10]
    unknown = line((None, 5))
    assert all(unknown.keeps_commit(version) for version in range(8))
    assert all(line().keeps_commit(version) for version in range(3))


def test_the_last_restore_as_of_a_version() -> None:
    found = line((0, 3), (1, 6))
    assert [found.last_restore(version) for version in (2, 3, 5, 6, 9)] == [
        None, Restore(0, 3), Restore(0, 3), Restore(1, 6), Restore(1, 6),
    ]  # fmt: skip
    assert found.facts() == [[0, 3], [1, 6]]


@pytest.mark.parametrize(
    ("mark", "kept"), [(None, []), (0, []), (1, [(1, 1)]), (2, [(1, 1), (2, 7)]), (9, [(1, 1), (3, 3), (2, 7)])]
)
def test_records_of_undone_chunks_do_not_stand(mark: int | None, kept: list[Any]) -> None:
    rows = [{"chunk": chunk, "version": version} for chunk, version in ((1, 1), (2, 2), (3, 3), (2, 7), (4, 5))]
    found = offsets.surviving_rows(rows, line((3, 5), (None, 6)), mark)
    assert [(row["chunk"], row["version"]) for row in found] == kept
