"""TPC-H and TPC-DI, loaded and changed: every table has what DuckDB makes of the landed files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.tpc.oracle import Oracle
from bench.tpc.world import World
from sluicegate.monitor import status
from sluicegate.tools.sqlshell import shell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.release]


def assert_right(world: World) -> None:
    """All tables are right, and every record is in one place."""
    assert [str(one) for one in world.differences()] == []
    assert status.verify(world.pipeline, world.settings) == []


# An example of each shape: a chain of joins, EXISTS, gold over gold, DISTINCT.
SOME = ("q03", "q04", "q11", "q16")


@pytest.mark.parametrize(
    ("name", "scale", "landings", "only"),
    [
        ("tpch", 0.001, 1, SOME),
        ("tpch", 0.01, 3, ()),
        ("tpcdi", 0.1, 3, ()),
    ],
)
def test_first_load_and_changes(
    spark: SparkSession, tmp_path: Path, name: str, scale: float, landings: int, only: tuple[str, ...]
) -> None:
    world = World(tmp_path, name, scale)
    world.define(only=only)
    world.land()
    world.run(spark)
    assert_right(world)
    for number in range(1, landings + 1):
        world.land(number)
        world.run(spark)
        assert_right(world)
    if name == "tpch":
        assert_first_of(world)


def assert_first_of(world: World) -> None:
    """A LIMIT of a reader takes the first rows by the ORDER BY of the table's query."""
    found = shell.query("SELECT * FROM tpch.q03 LIMIT 10", {"tpch": world.pipeline}, world.settings).to_pylist()
    columns, rows = Oracle("tpch", world.folder / "landing").rows("q03")
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    first = sorted(named, key=lambda row: (-row["revenue"], row["o_orderdate"]))
    assert [row["l_orderkey"] for row in found] == [row["l_orderkey"] for row in first[:10]]
