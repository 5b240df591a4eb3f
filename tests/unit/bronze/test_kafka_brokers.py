"""How Kafka's brokers are connected to: secrets come from the environment, and no error quotes them."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from sluicegate.bronze import kafka_brokers
from sluicegate.definition.tables.kafka import KafkaSource
from sluicegate.errors import BrokerRefused, BrokerUnreachable, JavaMissing, LandingMissing, SluicegateError
from sluicegate.spark import jars

pytestmark = pytest.mark.unit


def source(**security: str) -> KafkaSource:
    return KafkaSource.model_validate({"bootstrap_servers": "b:9092", "topic": "t", "security": security})


def test_a_user_and_a_password_make_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_KAFKA_USERNAME", "ada")
    monkeypatch.setenv("SLUICEGATE_KAFKA_PASSWORD", 'a"b\\c')
    options = kafka_brokers.connection(source(**{"sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "SASL_SSL"}))
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="a\\"b\\\\c";'
    assert options["sasl.jaas.config"] == login
    assert options["security.protocol"] == "SASL_SSL"
    assert "sasl.jaas.config" not in kafka_brokers.connection(source())


def test_other_secrets_have_variables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_KAFKA_SSL_KEY_PASSWORD", "secret")
    monkeypatch.setenv("SLUICEGATE_KAFKA_SASL_JAAS_CONFIG", "login")
    options = kafka_brokers.connection(source(**{"sasl.mechanism": "OAUTHBEARER", "request.timeout.ms": "5"}))
    assert options == {
        "bootstrap.servers": "b:9092", "request.timeout.ms": "5", "default.api.timeout.ms": "30000",
        "sasl.mechanism": "OAUTHBEARER", "ssl.key.password": "secret", "sasl.jaas.config": "login",
    }  # fmt: skip
    its = kafka_brokers.reader_options(source())
    assert (its["kafka.bootstrap.servers"], its["kafka.isolation.level"]) == ("b:9092", "read_committed")


JAVA = "An error occurred while calling o1.get.\n: java.util.concurrent.ExecutionException: {0}\n\tat x\nCaused by: {0}"


@pytest.mark.parametrize(
    ("thrown", "kind", "cause"),
    [
        ("org.apache.kafka.common.errors.TimeoutException: Call(describe) timed out", BrokerUnreachable,
         "TimeoutException: Call(describe) timed out"),
        ("java.util.concurrent.TimeoutException: Cannot fetch record for offset 3 in 120000 milliseconds",
         BrokerUnreachable, "TimeoutException: Cannot fetch record for offset 3 in 120000 milliseconds"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: not here", LandingMissing,
         ""),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", BrokerRefused,
         "SaslAuthenticationException: Authentication failed"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: not authorized: [t]", BrokerRefused,
         "TopicAuthorizationException: not authorized: [t]"),
        ("org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given", BrokerUnreachable,
         "ConfigException: No resolvable bootstrap urls given"),
        ('java.lang.IllegalArgumentException: password="secret" is wrong', BrokerRefused,
         "ExecutionException, IllegalArgumentException"),
    ],
)  # fmt: skip
def test_errors_of_the_client_become_ours(thrown: str, kind: type[SluicegateError], cause: str) -> None:
    error = kafka_brokers.translate_error(Exception(JAVA.format(thrown)), "beats", source())
    assert type(error) is kind
    assert error.cause == cause
    assert (error.where.table, error.where.file) == ("beats", "kafka://b:9092/t")
    assert "secret" not in error.for_people()


def test_jars_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path))
    wanted: list[Any] = jars.read(jars.KAFKA_LOCK)
    with pytest.raises(JavaMissing, match="beats reads Kafka") as raised:
        jars.demand_kafka("beats")
    assert "KAFKA=1" in raised.value.hint
    assert raised.value.cause == f"{wanted[0].file} and 3 more are missing"
    for jar in wanted:
        (tmp_path / jar.file).touch()
    jars.demand_kafka("beats")


def test_the_connector_is_of_the_spark_that_is_pinned() -> None:
    versions = {jar.coordinate.split(":")[1]: jar.coordinate.split(":")[2] for jar in jars.read(jars.KAFKA_LOCK)}
    connector = {name: version for name, version in versions.items() if name.startswith("spark-")}
    assert set(connector.values()) == {importlib.metadata.version("pyspark")}
    assert len(connector) == 2
