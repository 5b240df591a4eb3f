"""What tests of Kafka share: a broker, and a topic of each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workspace
from tests.support.kafka_broker import Client, running
from tests.support.kafka_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def client(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("kafka")) as broker:
        made = Client(spark, broker)
        yield made
        made.close()


@pytest.fixture
def topic(spark: SparkSession, workspace: Workspace, client: Client, request: pytest.FixtureRequest) -> Topic:
    made = Topic(spark, workspace, client, request.node.name.split("[")[0][:80].replace("_", "-"))
    made.define()
    return made
