"""A sample is of the size that was asked for, the same all day, and in time of everything."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from sluicegate.flow.verification.sample import EVERYTHING, Sample

pytestmark = pytest.mark.unit

DAY = date(2026, 11, 28)
NAMES = [f"file-{number}.json" for number in range(2_000)]


@pytest.mark.parametrize("percent", [0.5, 10, 33.3, 61, 99])
def test_a_sample_has_its_size_on_each_day(percent: float) -> None:
    for number in range(50):
        sample = Sample(percent, DAY + timedelta(number))
        size = sum(end - begin for begin, end in sample.intervals)
        assert size == pytest.approx(percent / 100)
        assert all(0 <= begin <= end <= 1 for begin, end in sample.intervals)
    taken = sum(Sample(percent, DAY).has("t", name) for name in NAMES)
    assert taken / len(NAMES) == pytest.approx(percent / 100, abs=0.04)


@pytest.mark.parametrize("days", [1, 7, 30])
@pytest.mark.parametrize("percent", [5, 10, 100 / 7, 50])
def test_samples_reach_everything_in_time(days: int, percent: float) -> None:
    left = set(NAMES)
    for number in range(int(250 / percent) + 1):
        sample = Sample(percent, DAY + timedelta(number * days))
        left -= {name for name in left if sample.has("t", name)}
    assert not left


def test_a_whole_sample_has_everything_and_tables_have_samples_of_their_own() -> None:
    assert all(EVERYTHING.has("t", name) for name in NAMES)
    half = Sample(50, DAY)
    one, other = ([half.has(table, name) for name in NAMES] for table in ("a", "b"))
    assert one != other
    assert one == [Sample(50, DAY).has("a", name) for name in NAMES]
