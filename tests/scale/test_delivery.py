"""More files in a commit, and more commits behind, than any default of Delta's takes in at once: nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workspace
from tests.support.delivery_world import Again, Foreign, Gold, Streaming, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.scale]

LAYERS = [Foreign, World, Again, Gold, Streaming]


@pytest.mark.parametrize("files", [1_100, 20_000])
@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_many_files_in_one_commit(spark: SparkSession, workspace: Workspace, kind: type[World], files: int) -> None:
    world = kind(spark, workspace)
    world.run()
    world.grow(files)
    world.run()
    assert world.taken == world.rows >= files
    assert world.run().state == "idle"


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_many_commits_behind(spark: SparkSession, workspace: Workspace, kind: type[World]) -> None:
    world = kind(spark, workspace)
    world.run()
    for _ in range(1_100):
        World.grow(world, 1)
    world.run()
    assert world.taken == world.rows > 1_100
    assert world.run().state == "idle"


def test_many_chunks_behind(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(
        "name: heart_rate\nbronze:\n"
        "  things: {path: '${landing}/things', format: json, schemaHints: id BIGINT, maxFilesPerTrigger: 1}\n"
    )
    for number in range(1_100):
        workspace.land(f"things/{number:05}.json", f'{{"id": {number}}}\n')
    assert workspace.run(spark, "bronze")["things"].read == 1_100
    assert sorted(workspace.rows("things", "id")) == [(number,) for number in range(1_100)]


def test_one_row_into_600_000_groups(spark: SparkSession, workspace: Workspace) -> None:
    world = Gold(spark, workspace)
    groups = 600_000
    for first, count in ((0, groups), (7, 1)):
        world.grow(count, keys=[f"g{number}" for number in range(first, first + count)], files=1)
        report = world.run()
    assert (report.inserted, report.updated, report.deleted) == (0, 1, 0)
    found = dict(workspace.rows("total", "k", "n"))
    assert (len(found), found["g7"], found["x"]) == (groups + 1, 2, 1)
    assert sum(found.values()) == groups + 2
