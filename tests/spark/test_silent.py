"""What Spark's file source, or an obvious way to build on it, loses without a word: here it is loaded or reported.

Each case was seen with Spark 4.2 and Delta 4.4. Those that need more than a file are in tests of their own: changed and
repaired files, truncated archives and arrays (landing/test_file_status.py, schema/test_evolution.py), discoveries at
the same time (tests/unit/landing/test_interleaving.py), files that were taken away (landing/test_clean_source.py),
kills (test_recovery.py).
"""

from __future__ import annotations

import gzip
import itertools
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.bronze import ingest
from sluicegate.jobs.layer_job import Job
from tests.conftest import Workspace
from tests.spark.landing.test_file_status import define, ids, states, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = 86_400.0


def record(number: int) -> str:
    return json.dumps({"id": number}) + "\n"


def test_no_file_is_passed_over(spark: SparkSession, workspace: Workspace) -> None:
    """One file a chunk: a mark that went up out of order would have the others taken for known."""
    define(workspace, "format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1")
    landed = {
        "new.json": (record(1), 60.0),
        "late.json": (record(2), 8 * DAY),  # more than 7 days older than the newest
        "plain/folder/same.json": (record(3), 61.0),  # not of the form key=value
        "other/same.json": (record(4), 62.0),  # a name that another folder has too
        "zero.json": ("", 63.0),
        "blank.json": ("\n \n", 64.0),
        "picture.json": (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe" * 9, 65.0),
        "utf16.json": (record(5).encode("utf-16"), 66.0),
        "whole.json.gz": (gzip.compress(record(6).encode()), 67.0),
        "half.json.gz": (gzip.compress(record(7).encode() * 900)[:-30], 68.0),
        "two.json": (record(8).strip() + record(9), 69.0),  # the second stands behind the first on its line
        "list.json": ('[{"id": 10}, {"id": 11}]\n', 70.0),
    }
    for name, (data, age) in landed.items():
        workspace.land(f"things/{name}", data, age)
    for unfinished in ("x.json.tmp", "_x.json", ".x.json", "x.json.part"):
        workspace.land(f"things/{unfinished}", record(0))
    workspace.run(spark, "bronze")
    assert [id for id in ids(workspace) if id is not None] == [1, 10, 11, 2, 3, 4, 5, 6]
    became = dict(states(workspace))
    assert len(states(workspace)) == len(landed)
    assert {name for name, state in became.items() if state != "ingested"} == {"half.json.gz"}
    corrupt = dict(_corrupt(workspace))
    assert corrupt.keys() == {"picture.json", "two.json"}
    assert corrupt["two.json"] == [record(8).strip() + record(9).strip()]
    assert verified(workspace)
    assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]


def _corrupt(workspace: Workspace) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file, text in workspace.rows("things", "source_file", "_corrupt_record"):
        if text is not None:
            found.setdefault(file.rsplit("/", 1)[-1], []).append(text)
    return found


@pytest.mark.parametrize("overwrites", [False, pytest.param(True, marks=pytest.mark.more)])
def test_two_bronze_runs_at_once(
    spark: SparkSession, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, overwrites: bool
) -> None:
    """Without the lock the marks are the fence: in every order of their commits each chunk's rows come once."""
    define(workspace, f"format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1, allowOverwrites: {overwrites}")
    expected = []
    orders = sorted(set(itertools.permutations("aabb")))
    for turn, order in enumerate(orders[: len(orders) // 2]):  # the others are these with the names changed
        for number in range(2):
            name = f"things/{number if overwrites else f'{turn}-{number}'}.json"
            workspace.land(name, record(100 * turn + number), age=500 - 10 * turn - number)
        new = [100 * turn, 100 * turn + 1]
        expected = new if overwrites else expected + new
        _in_order(spark, workspace, monkeypatch, order)
        assert sorted(ids(workspace)) == sorted(expected), order
        assert workspace.run(None, "bronze")["things"].state == "idle"  # type: ignore[arg-type]
        assert verified(workspace)


def _in_order(spark: SparkSession, workspace: Workspace, patch: pytest.MonkeyPatch, order: tuple[str, ...]) -> None:
    """Runs bronze as ``a`` and as ``b`` at once, each of two chunks, with their commits in the given order."""
    turn, mine, both = threading.Condition(), threading.local(), threading.Barrier(2)
    waiting, failures = list(order), []
    commit, point = ingest.Chunk.commit, ingest._faults.point

    def known_by_name(chunk: Any) -> None:
        mine.name = chunk.batch.facts["run_id"]
        commit(chunk)

    def gate(name: str) -> None:
        point(name)
        if name == "bronze.before_commit":
            if not getattr(mine, "met", False):
                mine.met = True
                both.wait(timeout=120)  # both have read the marks, and know the same chunks
            with turn:
                assert turn.wait_for(lambda: waiting[0] == mine.name, timeout=120)
        elif name == "bronze.after_commit":
            with turn:
                waiting.remove(mine.name)
                turn.notify_all()

    def run(name: str) -> None:
        try:
            Job(workspace.definition, workspace.lake, "bronze", {"run_id": name}, spark).run()
        except Exception as error:
            failures.append(error)
        with turn:
            waiting[:] = [other for other in waiting if other != name]
            turn.notify_all()

    with patch.context() as patched:
        patched.setattr(ingest.Chunk, "commit", known_by_name)
        patched.setattr(ingest._faults, "point", gate)
        runs = [threading.Thread(target=run, args=(name,)) for name in "ab"]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join(timeout=300)
    assert failures == []
    assert waiting == []
