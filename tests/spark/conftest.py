"""What holds for every test that shares the session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# A note of Delta's own to the session that commits; nothing is read by it.
NOTED = "spark.databricks.delta.lastCommitVersionInSession"


@pytest.fixture(autouse=True)
def settings_stay(spark: SparkSession) -> Iterator[None]:
    """Fails a test that leaves other settings in the session: another one, much later, would fail for them."""
    before = settings(spark)
    yield
    assert settings(spark) == before


def settings(spark: SparkSession) -> dict[str, str]:
    """The settings that a session has of its own."""
    return {name: value for name, value in spark.conf.getAll.items() if name != NOTED}
