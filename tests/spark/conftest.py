"""What holds for every test that shares the session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What Delta notes for itself in the session that commits, and the name of the last job that a test ran: nothing else
# goes by them.
NOTED = {"spark.databricks.delta.lastCommitVersionInSession", "spark.app.name"}


@pytest.fixture(autouse=True)
def settings_stay(spark: SparkSession) -> Iterator[None]:
    """Fails a test that leaves other settings in the session: another one, much later, would fail for them."""
    before = settings(spark)
    yield
    assert settings(spark) == before


def settings(spark: SparkSession) -> dict[str, str]:
    """The settings that a session has of its own."""
    return {name: value for name, value in spark.conf.getAll.items() if name not in NOTED}
