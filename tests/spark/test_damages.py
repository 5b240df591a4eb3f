"""A damage of any value, row, file or log entry of a lake of all kinds of tables is found, and named with its table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import DamagedTable
from sluicegate.flow.finding import Finding
from sluicegate.gold import verify as gold_verify
from sluicegate.lake.damage import whole
from sluicegate.monitor import verify_damage
from sluicegate.run import verification
from sluicegate.silver import verify as silver_verify
from tests.conftest import Workspace
from tests.support.damage_world import Damage, Damages, fill
from tests.support.prepared import Prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Damages by each of four seeds: 100 in all.
DAMAGES = 25

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]


def lake(prepared: Prepared, spark: SparkSession) -> Workspace:
    """The lake as it was filled, at the same place each time."""
    whole._whole.clear()
    return prepared.workspace("all kinds of tables", lambda made: fill(made, spark))


def findings(spark: SparkSession, workspace: Workspace) -> Iterator[Finding]:
    """Findings of a verification one by one, as the job comes to them."""
    try:
        yield from _compared(spark, workspace)
    except DamagedTable as error:
        yield Finding("wrong", error.where.table or "", str(error))


def _compared(spark: SparkSession, workspace: Workspace) -> Iterator[Finding]:
    pipeline, at = workspace.definition, workspace.lake
    if damaged := verify_damage.findings(pipeline, pipeline.settings):
        yield from damaged
        return
    yield from verification.without_spark(pipeline)
    yield from silver_verify.prove(spark, pipeline, at)
    yield from gold_verify.prove(spark, pipeline, at)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(4))
def test_each_damage_is_named_and_what_is_whole_is_verified(spark: SparkSession, prepared: Prepared, seed: int) -> None:
    chance = random.Random(seed)
    found = list(findings(spark, lake(prepared, spark)))
    assert [str(one) for one in found if one.kind in ("wrong", "unproved", "behind")] == []
    missed: list[tuple[int, Damage, list[Finding]]] = []
    for number in range(DAMAGES):
        workspace = lake(prepared, spark)
        damage = Damages(workspace, chance).one()
        told = []
        for one in findings(spark, workspace):
            told.append(one)
            if damage.is_told(one.kind, one.table):
                break
        else:
            missed.append((number, damage, [one for one in told if one.kind != "proved"]))
    assert missed == []
