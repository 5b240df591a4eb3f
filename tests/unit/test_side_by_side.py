"""Work that is done side by side, in the order of what needs what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.side_by_side import side_by_side

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

    raised = side_by_side(needs, work, most)
    assert sorted(begun) == sorted(ended) == sorted(needs)
    assert max(at_once, default=0) <= most
    assert [*raised] == [name for name in needs if int(name[1:]) in failing]
    assert all(isinstance(error, KeyError) for error in raised.values())


def test_pieces_that_need_nothing_of_each_other_meet() -> None:
    both = threading.Barrier(2, timeout=10)
    assert side_by_side({"a": [], "b": [], "c": ["a", "b"]}, lambda name: None if name == "c" else _meet(both), 2) == {}


def _meet(barrier: threading.Barrier) -> None:
    barrier.wait()
