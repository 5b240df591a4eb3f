"""A schedule of numbers, ranges, stars and steps is known to be right without croniter, which would say the same."""

from __future__ import annotations

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from sluicegate.definition import fields

pytestmark = pytest.mark.unit

NUMBERS = st.integers(0, 99).map(str)
PARTS = st.one_of(
    st.just("*"),
    NUMBERS,
    st.builds("{}-{}".format, NUMBERS, NUMBERS),
    NUMBERS.map("*/{}".format),
    st.text("*/-,0159LR"),
)
FIELDS = st.lists(PARTS, min_size=1, max_size=3).map(",".join)


@given(st.lists(FIELDS, min_size=4, max_size=6).map(" ".join))
def test_what_is_plain_is_right(schedule: str) -> None:
    if fields._is_plain_cron(schedule):
        assert croniter.is_valid(schedule)
        if "*" in schedule.split()[2:4]:
            assert fields.check_cron(schedule) == schedule


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "5 5 30 feb *"])
def test_a_day_that_never_comes_is_a_mistake(schedule: str) -> None:
    """Airflow would look for it whenever it makes the DAG, and find none."""
    with pytest.raises(PydanticCustomError, match="never runs"):
        fields.check_cron(schedule)


@pytest.mark.parametrize("schedule", ["0 0 29 2 *", "0 0 30 2 mon", "0 0 31 * *", "0 0 30 2,3 *", "* * * 2 mon#5"])
def test_a_day_that_comes_seldom_is_none(schedule: str) -> None:
    assert fields.check_cron(schedule) == schedule


def small(first: int, last: int) -> st.SearchStrategy[str]:
    within = st.integers(first, last)
    spans = st.tuples(within, within).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.integers(1, last).map("*/{}".format)
    return st.lists(st.one_of(st.just("*"), within.map(str), spans, steps), min_size=1, max_size=4).map(",".join)


@given(st.tuples(*(small(*ends) for ends in fields._CRON_FIELDS)).map(" ".join))
def test_what_is_right_and_plain_needs_no_croniter(schedule: str) -> None:
    assert fields._is_plain_cron(schedule)
    assert croniter.is_valid(schedule)


@pytest.mark.parametrize(
    "schedule",
    ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 7", "*/0 * * * *", "*/60 * * * *",
     "9-5 * * * *", "5- * * * *", "* * * * mon", "* * * * L", "R * * * *", "* * * *", "", "¹ * * * *", ", * * * *"],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_croniter(schedule: str) -> None:
    assert not fields._is_plain_cron(schedule)
