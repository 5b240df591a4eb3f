"""The order of tables that read each other, and their cycles, for any graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.definition import graph

pytestmark = pytest.mark.unit


@st.composite
def graphs(draw: Callable[[Any], Any]) -> dict[str, list[str]]:
    """Tables that read any others, themselves too, and some that are not among them."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 7)))]
    read = st.lists(st.sampled_from([*names, "elsewhere"]), unique=True, max_size=3)
    return {name: draw(read) for name in draw(st.permutations(names))}


def reached(reads: dict[str, list[str]], start: str) -> set[str]:
    """All tables that a table is made of."""
    found: set[str] = set()
    left = [start]
    while left:
        for read in reads.get(left.pop(), []):
            if read not in found:
                found.add(read)
                left.append(read)
    return found


@given(graphs())
def test_each_table_comes_after_those_that_it_reads_and_as_early_as_it_can(reads: dict[str, list[str]]) -> None:
    order = graph.topological_order(reads)
    round_about = {name for name in reads if name in reached(reads, name)}
    assert {*order} == {name for name in reads if not ({name} | reached(reads, name)) & round_about}
    for at, name in enumerate(order):
        before = {*order[:at]}
        assert all(read in before for read in reads[name] if read in reads)
        could = [one for one in reads if one not in before and all(r in before for r in reads[one] if r in reads)]
        assert name == could[0]


@given(graphs())
def test_cycles_are_those_that_there_are(reads: dict[str, list[str]]) -> None:
    found = [*graph.cycles(reads)]
    for cycle in found:
        assert all(read in reads[name] for name, read in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        assert len({*cycle}) == len(cycle)
    assert len({frozenset(cycle) for cycle in found}) == len(found)
    round_about = {name for name in reads if name in reached(reads, name)}
    assert {cycle[0] for cycle in found} <= round_about
    assert bool(found) == bool(round_about) == (len(graph.topological_order(reads)) < len(reads))


def test_many_tables_are_ordered_at_once() -> None:
    reads = {f"t{number}": [f"t{number + 1}"] for number in range(5000)}
    assert graph.topological_order(reads) == [*reversed(reads)]
