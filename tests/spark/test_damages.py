"""A damage of any value, row, file or log entry of a lake of all kinds of tables is found, and named with its table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluicegate.errors import DamagedTable
from sluicegate.flow.verification.finding import Finding
from sluicegate.gold import verify_gold
from sluicegate.lake.damage import whole
from sluicegate.launch import verification
from sluicegate.monitor import verify_damage
from sluicegate.silver import verify_silver
from tests.conftest import Workspace
from tests.support.damage_world import Damage, Damages, fill
from tests.support.other_damages import OtherDamages
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
    yield from verification.findings_without_spark(pipeline)
    yield from verify_silver.prove(spark, pipeline, at)
    yield from verify_gold.prove(spark, pipeline, at)


def unnoticed_damages(
    spark: SparkSession, prepared: Prepared, seed: int, kind: type[Damages]
) -> list[tuple[int, Damage, list[Finding]]]:
    """Damages of a seed of which no finding tells, and what was told instead; the lake is whole before each."""
    chance = random.Random(seed)
    unnoticed: list[tuple[int, Damage, list[Finding]]] = []
    for number in range(DAMAGES):
        workspace = lake(prepared, spark)
        damage = kind(workspace, chance).one()
        reported: list[Finding] = []
        for finding in findings(spark, workspace):
            reported.append(finding)
            if damage.is_told(finding.kind, finding.table):
                break
        else:
            unnoticed.append((number, damage, [finding for finding in reported if finding.kind != "proved"]))
    return unnoticed


@pytest.mark.release
@pytest.mark.parametrize("seed", range(4))
def test_each_damage_is_named_and_what_is_whole_is_verified(spark: SparkSession, prepared: Prepared, seed: int) -> None:
    whole_lake = list(findings(spark, lake(prepared, spark)))
    assert [str(finding) for finding in whole_lake if finding.kind in ("wrong", "unproved", "behind")] == []
    assert unnoticed_damages(spark, prepared, seed, Damages) == []


@pytest.mark.release
@pytest.mark.parametrize("seed", [1])
def test_damages_of_other_kinds_are_named(spark: SparkSession, prepared: Prepared, seed: int) -> None:
    assert unnoticed_damages(spark, prepared, seed, OtherDamages) == []
