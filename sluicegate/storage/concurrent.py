"""Many looks at a store at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

# Looks at a store at a time: at 20,000 objects, 40 ms each, one after another would take a quarter of an hour.
CONCURRENT_CALLS = 32


def each(function: Callable[[A], B], things: Iterable[A]) -> list[B]:
    """What a look at each thing gives, in their order; many at a time, for stores that are far away.

    Raises:
        Exception: what the first look that failed raised.
    """
    with ThreadPoolExecutor(CONCURRENT_CALLS) as pool:
        return list(pool.map(function, things))
