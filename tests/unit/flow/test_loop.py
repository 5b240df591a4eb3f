"""The loop of a batch: what it does when changes, or a version, cannot be had. What Spark does is not part of this."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.errors import SluicegateError
from sluicegate.flow import loop as flow_loop
from sluicegate.flow import parts
from sluicegate.flow.batch_run import BatchRun
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.table_report import TableReport
from sluicegate.lake.table import Tables

pytestmark = pytest.mark.unit

FLOW = Flow("silver", "t", "/nowhere/source", "/nowhere/target")
GONE = RuntimeError("FAILED_READ_FILE.FILE_NOT_EXIST: part-0.parquet")
HISTORY = "the source's history is gone"


class Loop(BatchRun):
    """Loop whose batches are only on record, and fail at first as often as is said."""

    def __init__(self, gap: str = "", fails: int = 0) -> None:
        super().__init__(None, FLOW, list, {}, TableReport("t", "silver"), None, Tables())  # type: ignore[arg-type]
        self.gap, self.fails = gap, fails
        self.made: list[Progress] = []

    def follow(self, part: Progress) -> str:
        return self.gap

    def _why_query(self, part: Progress) -> str:
        return "a test"

    def _all_rows(self, whole: Progress) -> Any:
        return None

    def _apply(self, rows: Any, part: Progress, expected: Any = None) -> None:
        self.made.append(part)
        if len(self.made) <= self.fails:
            raise GONE


NOW = Progress("incremental", 5, 9)
PART = replace(NOW, until=7)
FIRST = Progress("whole", -1, 9)


@pytest.mark.parametrize("part", [NOW, PART])
def test_changes_that_cannot_be_had_make_a_full_refresh_of_all(part: Progress) -> None:
    loop = Loop(HISTORY)
    done = loop.catch_up(part, NOW)
    assert loop.made == [done]
    assert (done.kind, done.until, done.why) == ("whole", 9, HISTORY)


@pytest.mark.parametrize("part", [NOW, PART])
def test_a_full_refresh_that_fails_is_not_taken_for_changes(part: Progress) -> None:
    """All rows of the source, applied as changes, would be there twice."""
    loop = Loop(HISTORY, fails=1)
    with pytest.raises((SluicegateError, RuntimeError)):
        loop.catch_up(part, NOW)
    assert [one.kind for one in loop.made] == ["whole"]


def test_a_part_of_a_first_load_whose_version_is_gone_gives_way_to_all() -> None:
    part = replace(FIRST, until=3)
    loop = Loop(fails=1)
    assert loop.catch_up(part, FIRST) == FIRST
    assert loop.made == [part, FIRST]
    loop = Loop(fails=1)
    with pytest.raises((SluicegateError, RuntimeError)):
        loop.catch_up(FIRST, FIRST)
    assert loop.made == [FIRST]


@pytest.mark.parametrize("kind", ["idle", "blocked"])
def test_behind_a_part_there_may_be_nothing_left_to_do(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Others may have changed what the table reads since: it waits, or is up to date."""
    found = iter([NOW, Progress(kind, 7, 9)])
    made: list[Progress] = []

    def bring_up(self: object, part: Progress, waiting: Progress) -> Progress:
        made.append(part)
        return part

    monkeypatch.setattr(flow_loop, "progress", lambda *_: next(found))
    monkeypatch.setattr(parts, "first_part", lambda *_: PART)
    monkeypatch.setattr(BatchRun, "catch_up", bring_up)
    report = flow_loop.run(None, FLOW, list, {}, opened=Tables())  # type: ignore[arg-type]
    assert made == [PART]
    assert report.state == "written"
