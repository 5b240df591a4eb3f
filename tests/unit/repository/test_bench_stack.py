"""The table of the compose stack after many runs; the series itself needs the stack."""

from __future__ import annotations

import pytest

from bench import stack

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("shown", "size"),
    [("512B / 1GiB", 512), ("1.5KiB / 1GiB", 1536), ("640MiB / 2GiB", 640 << 20), ("1.25GiB / 2.25GiB", 5 << 28)],
)
def test_memory_is_read_as_docker_shows_it(shown: str, size: int) -> None:
    assert stack.memory_of(shown) == size


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="is no size"):
        stack.memory_of("--")


def test_each_sample_is_a_column_and_the_table_takes_the_place_of_the_one_before() -> None:
    first = stack.Sample(0, None, {"logs": 1000}, {"connect": 1 << 20})
    last = stack.Sample(200, 25.4, {"logs": 2_500_000}, {"connect": 1 << 30}, {"connect": 1})
    made = stack.table([first, last])
    assert made.splitlines() == [
        "| after runs | 0 | 200 |",
        "| --- | --- | --- |",
        "| seconds of a run |  | 25 |",
        "| disk: logs | 1.0 kB | 2.5 MB |",
        "| memory: connect | 1.0 MB | 1.1 GB |",
        "| restarts | 0 | connect 1 |",
    ]
    page = stack.written("# Sizing\n", stack.table([first]))
    assert "## The compose stack after many runs" in page
    again = stack.written(page + "\nmore\n", made)
    assert again.count(stack.BEGIN) == again.count("| after runs") == 1
    assert again.endswith("\nmore\n")
    assert "connect 1" in again
