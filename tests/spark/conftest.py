"""What holds for every test that shares the session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def settings_stay(spark: SparkSession) -> Iterator[None]:
    """Fails a test that leaves other settings in the session: another one, much later, would fail for them."""
    before = dict(spark.conf.getAll)
    yield
    assert dict(spark.conf.getAll) == before
