"""Ranges that a part of a table is read by."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.frames.data_skipping import RANGES, ranges

pytestmark = pytest.mark.unit


@given(st.sets(st.integers(0, 500)), st.integers(1, 12))
def test_ranges_hold_all_values_and_leave_the_widest_gaps_out(values: set[int], most: int) -> None:
    ascending = sorted(values)
    found = ranges(ascending, most)
    assert len(found) <= most
    assert all(first <= last and {first, last} <= values for first, last in found)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(found))
    inside = {one for first, last in found for one in range(first, last + 1)}
    assert values <= inside
    gaps = sorted((b - a - 1 for a, b in pairwise(ascending)), reverse=True)
    assert len(inside - values) == sum(gaps[most - 1 :])


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_there_are_no_more_than_so_many_RANGES(beyond: int) -> None:
    """Above that the two values with the narrowest gap between them share one."""
    values = [n * n for n in range(1, RANGES + beyond + 1)]
    apart = [(value, value) for value in values]
    assert ranges(values) == (apart if beyond <= 0 else [(1, 4), *apart[2:]])
