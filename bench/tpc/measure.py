"""What it costs to bring each table up to date incrementally, and to recompute it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench import measure
from bench.tpc.world import WHOLE, World
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Cost:
    """What one run of one table took.

    Attributes:
        seconds: of the job, in a warm Spark.
        cpu: CPU seconds of Spark and Python together; on a machine with other work they vary less.
        written: bytes of all files that are there since, of the table, its state and their logs.
    """

    seconds: float
    cpu: float
    written: int


@dataclass
class Figures:
    """What was measured of a table.

    Attributes:
        table: its name.
        layer: silver or gold.
        rows: rows that it has in the end.
        strategy: the refresh strategy that its last commit names.
        because: the reason there.
        techniques: how its batches were made.
        by_changes: costs of incremental runs.
        whole: costs of recomputing it.
    """

    table: str
    layer: str
    rows: int = 0
    strategy: str = ""
    because: str = ""
    techniques: list[str] = field(default_factory=list)
    by_changes: list[Cost] = field(default_factory=list)
    whole: list[Cost] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether it is recomputed when something changed, by its strategy or as its batches were."""
        return self.strategy == "whole" or {*self.techniques} == {"whole"}


class Wrong(Exception):
    """Raised when tables have not what they must have: the figures would be of something else."""


def measure_tables(
    spark: SparkSession,
    world: World,
    silver: Sequence[str],
    rounds: int,
    only: Collection[str] = (),
    tell: Callable[[str], None] = print,
) -> Iterator[list[Figures]]:
    """Loads a world, lands changes, and measures each table beside its twin; yields all figures after each round.

    Args:
        spark: the session.
        world: where; it must be empty.
        silver: the tables of silver that are measured, too.
        rounds: landings of changes that are measured; one before them warms Spark up.
        only: the gold tables that are measured, besides those that they read; all if there are none.
        tell: takes lines for people.

    Raises:
        Wrong: a table is not what DuckDB makes of the landed files.
    """
    world.define(twins=True, only=only)
    world.land()
    began = time.monotonic()
    world.run(spark)
    tell(f"{world.name}: first load of all tables and their twins in {time.monotonic() - began:.0f} s")
    _demand_right(world)
    gold = [name for name in world.pipeline.gold if not name.endswith(WHOLE)]
    found = {name: Figures(name, "silver" if name in silver else "gold") for name in [*silver, *gold]}
    for number in range(rounds + 1):
        counts = {name: len(rows) for name, rows in world.land(number + 1).items() if rows}
        tell(f"{world.name}: landed {counts}")
        _round(spark, world, found, number)
        _demand_right(world)
        for its in found.values():
            its.rows = tables.rows(tables.table_at(world.lake.table(its.layer, its.table)))
        if number:
            yield list(found.values())
    for name in silver:
        _cost(spark, world, "silver", name, full_refresh=True)  # warms up
        found[name].whole.append(_cost(spark, world, "silver", name, full_refresh=True)[0])
    yield list(found.values())


def _round(spark: SparkSession, world: World, found: dict[str, Figures], number: int) -> None:
    """Takes in what has landed, table by table; the first round warms up, and is not counted."""
    world.run(spark, "bronze")
    for name in world.pipeline.silver:
        cost, state = _cost(spark, world, "silver", name)
        if number and name in found and state != "idle":
            found[name].by_changes.append(cost)
    for name, its in found.items():
        for one in _alternate_order(name, number) if its.layer == "gold" else ():
            cost, state = _cost(spark, world, "gold", one)
            if number and state != "idle":
                (its.by_changes if one == name else its.whole).append(cost)
        if its.layer == "gold" and number:
            _read_commit(world, its)


def median(costs: Sequence[Cost]) -> Cost | None:
    """The medians of some costs; None without any."""
    if not costs:
        return None
    seconds, cpu, written = ([getattr(one, name) for one in costs] for name in ("seconds", "cpu", "written"))
    return Cost(statistics.median(seconds), statistics.median(cpu), int(statistics.median(written)))


def _alternate_order(name: str, number: int) -> list[str]:
    both = [name, f"{name}{WHOLE}"]
    return both if number % 2 else both[::-1]


def _demand_right(world: World) -> None:
    if wrong := world.differences():
        raise Wrong("; ".join(map(str, wrong)))


def _cost(spark: SparkSession, world: World, layer: str, name: str, *, full_refresh: bool = False) -> tuple[Cost, str]:
    before = _files(world, layer, name)
    watch = measure.Watch(os.getpid())
    try:
        state = world.run_one(spark, layer, name, full_refresh=full_refresh)
    finally:
        took = watch.end()
    after = _files(world, layer, name)
    written = sum(size for path, size in after.items() if before.get(path) != size)
    return Cost(took.seconds, took.cpu or 0.0, written), state


def _files(world: World, layer: str, name: str) -> dict[Path, int]:
    """Sizes of the files of a table, of what stands beside it, and of its state."""
    state = world.lake.group_state(name) if layer == "gold" else world.lake.set_aside(name)
    folders = [world.lake.table(layer, name), state, world.lake.quarantine(name)]
    return {file: file.stat().st_size for folder in folders for file in Path(folder).rglob("*") if file.is_file()}


def _read_commit(world: World, its: Figures) -> None:
    table = tables.table_at(world.lake.table("gold", its.table))
    infos = (commit.info for commit in log.commits(table) if commit.info.gold.strategy is not None)
    info = next(infos, CommitInfo())
    technique = info.gold.cost.get("technique", "")
    its.strategy, its.because = info.gold.strategy or "", info.gold.because
    if technique == "whole" and its.strategy != "whole":  # the strategy permits more, and this batch did not
        its.because = info.why or its.because
    its.techniques.append(technique)
