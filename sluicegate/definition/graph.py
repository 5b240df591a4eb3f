"""Graph of tables that read each other: their order, and its cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

# The tables that each table reads, by name; names that are not among the keys do not count.
Reads = Mapping[str, Sequence[str]]


def topological_order(reads: Reads) -> list[str]:
    """Return tables in topological order, each after those that it reads, else in the given order.

    Tables of a cycle, and those that read them, are left out.
    """
    names = [*reads]
    place = {name: number for number, name in enumerate(names)}
    sorter = TopologicalSorter({name: [source for source in read if source in reads] for name, read in reads.items()})
    with suppress(CycleError):  # it still gives those that no cycle keeps waiting
        sorter.prepare()
    ready: list[int] = []
    order: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, place[name])
        order.append(names[heappop(ready)])
        sorter.done(order[-1])
    return order


def cycles(reads: Reads) -> Iterator[list[str]]:
    """Yield cycles of tables, each once and beginning with its first table, in which each table reads the next.

    The last table reads the first. Of the cycles through one table, the shortest is yielded.
    """
    reported: set[frozenset[str]] = set()
    for name in reads:
        cycle = _shortest_cycle(reads, name)
        if cycle and frozenset(cycle) not in reported:
            reported.add(frozenset(cycle))
            yield cycle


def _shortest_cycle(reads: Reads, start: str) -> list[str]:
    """Return the shortest cycle through a table, empty if it is in none."""
    paths = [[start]]
    visited: set[str] = set()
    while paths:
        path = paths.pop(0)
        for read in reads[path[-1]]:
            if read == start:
                return path
            if read in reads and read not in visited:
                visited.add(read)
                paths.append([*path, read])
    return []
