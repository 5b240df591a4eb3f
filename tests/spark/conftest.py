"""What holds for every test that shares the session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluicegate.spark import connect
from tests.conftest import Workspace, begin, land_heartbeats
from tests.support.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What Delta notes for itself in the session that commits, and the name of the last job that a test ran: nothing else
# goes by them.
NOTED = {"spark.databricks.delta.lastCommitVersionInSession", "spark.app.name"}


@pytest.fixture(autouse=True)
def has_what_it_looks_at(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    """Skips a test of what only a JVM of one's own has, where a server runs the others."""
    if connect.is_remote(spark) and request.node.get_closest_marker("in_the_jvm"):
        pytest.skip("it looks into its own JVM, and a client of a server has none")


@pytest.fixture(autouse=True)
def settings_stay(spark: SparkSession) -> Iterator[None]:
    """Fails a test that leaves other settings in the session: another one, much later, would fail for them."""
    before = settings(spark)
    yield
    assert settings(spark) == before


def settings(spark: SparkSession) -> dict[str, str]:
    """The settings that a session has of its own."""
    return {name: value for name, value in spark.conf.getAll.items() if name not in NOTED}


@pytest.fixture(autouse=True)
def tables_are_let_go(spark: SparkSession) -> Iterator[None]:
    """Lets Spark forget the tables and sessions of a test, which no other test has.

    Delta keeps the state of each table for an hour, and Spark each session in which a stream ran, both with the plans
    of their queries: after some two hundred tests a tenth of all CPU seconds went into collecting garbage around them.
    """
    yield
    if connect.is_remote(spark):
        return
    jvm = spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    listeners = spark.sparkContext._jsc.sc().listenerBus()
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.streaming.runtime.StreamingQueryListenerBus")
    left = listeners.findListenersByClass(jvm.scala.reflect.ClassTag.apply(kind))
    for number in range(left.size()):
        listeners.removeListener(left.apply(number))


@pytest.fixture(scope="session")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Workspaces that several tests begin with."""
    return Prepared(tmp_path_factory.mktemp("prepared"), spark)


@pytest.fixture
def heartbeats(
    heartbeats: Workspace, request: pytest.FixtureRequest, spark: SparkSession, prepared: Prepared
) -> Workspace:
    """What the fixture of all tests gives; with the marker ``ran`` as a first run leaves it, through all layers or
    through those that the marker names.
    """
    ran = request.node.get_closest_marker("ran")
    if ran is None:
        return heartbeats

    def fill(workspace: Workspace) -> None:
        begin(workspace)
        land_heartbeats(workspace)
        workspace.run(spark, *ran.args)

    return prepared.workspace(" ".join(["heartbeats", *ran.args]), fill)
