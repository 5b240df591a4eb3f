"""Gold tables of random queries over random tables that change at random: what plain Spark and DuckDB give, each time.

``python -m tests.worlds 1 50`` tries other seeds, for as long as you like.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluicegate.flow import thresholds
from tests.support.techniques import by_lot
from tests.worlds.world import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, 9])
def test_gold_is_what_plain_spark_and_duckdb_give_in_random_worlds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(thresholds, "SMALL", -1)  # small tables, too, keep what they need of their groups
    by_lot(monkeypatch, seed)
    problems = failures([seed], tmp_path, spark)
    assert not problems, "\n".join(problems)
