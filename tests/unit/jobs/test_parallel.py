"""Work that is done side by side, in the order of what needs what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.jobs import layer_job, parallel
from sluicegate.jobs.parallel import run_side_by_side
from sluicegate.storage import concurrent
from sluicegate.storage.concurrent import map_concurrently
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


@st.composite
def graphs(draw: Callable[[Any], Any]) -> dict[str, list[str]]:
    """Pieces that need some of those before them, in any order."""
    names = [f"n{number}" for number in range(draw(st.integers(0, 8)))]
    needs = {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else [] for at, name in enumerate(names)
    }
    order: list[str] = draw(st.permutations(names))
    return {name: needs[name] for name in order}


@given(graphs(), st.integers(1, 4), st.sets(st.integers(0, 7)))
def test_each_piece_once_after_those_that_it_needs_whatever_fails(
    needs: dict[str, list[str]], most: int, failing: set[int]
) -> None:
    lock, begun, ended, at_once = threading.Lock(), [], [], []  # type: ignore[var-annotated]

    def work(name: str) -> None:
        with lock:
            assert set(needs[name]) <= set(ended)
            begun.append(name)
            at_once.append(len(begun) - len(ended))
        try:
            if int(name[1:]) in failing:
                raise KeyError(name)
        finally:
            with lock:
                ended.append(name)

    raised = run_side_by_side(needs, work, most)
    assert sorted(begun) == sorted(ended) == sorted(needs)
    assert max(at_once, default=0) <= most
    assert [*raised] == [name for name in needs if int(name[1:]) in failing]
    assert all(isinstance(error, KeyError) for error in raised.values())


@given(graphs(), st.integers(1, 4), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_what_needs_a_piece_that_failed_or_waits_is_left_and_nothing_else(
    needs: dict[str, list[str]], most: int, failing: set[int], waiting: set[int]
) -> None:
    begun: list[str] = []
    left: dict[str, list[str]] = {}

    def work(name: str) -> bool:
        begun.append(name)
        if int(name[1:]) in failing:
            raise KeyError(name)
        return int(name[1:]) not in waiting

    raised = run_side_by_side(needs, work, most, leave=left.__setitem__)
    assert sorted([*begun, *left]) == sorted(needs)
    assert [*raised] == [name for name in needs if name in begun and int(name[1:]) in failing]
    for name, of in needs.items():
        missing = [need for need in of if need in raised or need in left or int(need[1:]) in waiting]
        assert left.get(name, []) == missing


def test_pieces_that_need_nothing_of_each_other_meet() -> None:
    both = threading.Barrier(2, timeout=10)
    assert (
        run_side_by_side({"a": [], "b": [], "c": ["a", "b"]}, lambda name: None if name == "c" else _meet(both), 2)
        == {}
    )


def _meet(barrier: threading.Barrier) -> None:
    barrier.wait()


def test_looks_are_many_at_a_time_and_their_answers_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent, "CONCURRENT_CALLS", 3)
    three = threading.Barrier(3)  # none gets past it alone

    def look(number: int) -> int:
        three.wait(300)
        return -number

    assert map_concurrently(look, range(9)) == [-number for number in range(9)]
    assert map_concurrently(look, []) == []
    with pytest.raises(KeyError):
        map_concurrently({}.__getitem__, [1])


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_a_job_fills_no_more_tables_at_a_time_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: int
) -> None:
    """Two may be; of three the last one waits for the first that ends."""
    monkeypatch.setattr(layer_job, "SIDE_BY_SIDE", 2)
    workspace = Workspace(tmp_path)
    names = [f"t{number}" for number in range(tables)]
    items = "".join(f"  {name}: {{path: /nowhere/{name}, format: json}}\n" for name in names)
    workspace.define(f"name: heart_rate\nbronze:\n{items}")
    lock, meeting = threading.Lock(), threading.Barrier(min(tables, 2), timeout=60)
    begun: list[str] = []
    at_once: list[int] = []
    ended: list[str] = []

    class Watched(layer_job.Job):
        def _fill_and_report(self, name: str, way: Any) -> bool:
            with lock:
                begun.append(name)
                at_once.append(len(begun) - len(ended))
                meets = len(begun) <= 2
            if meets:
                meeting.wait()
            with lock:
                ended.append(name)
            return True

    Watched(workspace.definition, workspace.lake, "bronze", {}, tell=lambda _: None).run()
    assert sorted(ended) == names
    assert max(at_once) == min(tables, 2)


def test_an_interrupt_stops_those_that_run_until_they_end_and_begins_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, over, begun, stops = futures.wait, threading.Event(), [], []

    def wait(running: Any, **how: Any) -> Any:
        if "timeout" in how:
            return waited(running, **how)
        raise KeyboardInterrupt

    def work(name: str) -> None:
        begun.append(name)
        assert over.wait(60)

    def stop() -> None:
        stops.append(1)
        if len(stops) == 3:  # what was begun after the first is stopped by a later one
            over.set()

    monkeypatch.setattr(parallel, "wait", wait)
    monkeypatch.setattr(parallel, "STOPPED_EVERY", 0.05)
    with pytest.raises(KeyboardInterrupt):
        run_side_by_side({"a": [], "b": []}, work, 1, stop)
    assert (begun, len(stops)) == (["a"], 3)
