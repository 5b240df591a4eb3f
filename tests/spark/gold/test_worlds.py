"""Gold tables of random queries over random tables that change at random: what plain Spark and DuckDB give, each time.

``python -m tests.worlds 1 50`` tries other seeds, for as long as you like.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.flow import thresholds
from tests.support.techniques import by_lot
from tests.worlds.world import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.release
@pytest.mark.parametrize("seed", [1, 9])
def test_gold_is_what_plain_spark_and_duckdb_give_in_random_worlds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", -1)  # small tables, too, keep what they need of their groups
    by_lot(monkeypatch, seed)
    problems = failures([seed], tmp_path, spark)
    assert not problems, "\n".join(problems)


@pytest.mark.more
@pytest.mark.in_the_jvm
def test_queries_of_any_shape_are_what_plain_spark_and_duckdb_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", -1)
    by_lot(monkeypatch, 3)
    strategies: Counter[str] = Counter()
    problems = failures([3], tmp_path, spark, queries=8, shaped=True, strategies=strategies)
    assert not problems, "\n".join(problems)
    assert strategies["keys"] + strategies["partial"] + strategies["groups"] >= 6, strategies
