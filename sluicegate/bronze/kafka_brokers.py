"""Connect to Kafka's brokers by the Java client in the session's JVM, and read the offsets of topics.

Secrets come from the job's environment and go only to Kafka's clients: Spark and Kafka omit them from logs, and our
messages never quote an option. https://kafka.apache.org/39/javadoc/org/apache/kafka/clients/admin/Admin.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sluicegate.definition.tables.kafka import SECRETS
from sluicegate.errors import BrokerRefused, BrokerUnreachable, LandingMissing, SluicegateError, UserError, Where
from sluicegate.landing.kafka_ledger import Partition, TopicOffsets
from sluicegate.spark import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition.tables.kafka import KafkaSource

# Milliseconds: an answer to one request, and to a question with its retries.
PATIENCE = {"request.timeout.ms": "15000", "default.api.timeout.ms": "30000"}

# Milliseconds that a broker holds back an answer without records. Spark's reader asks for the offsets of a partition
# right behind such a question, and gets its answer after that one: by Kafka's default half a second for each partition.
HELD_BACK = "50"

# Login modules by mechanism, for a user and a password.
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

# Exceptions of Kafka's clients by what they mean; their messages quote no secret.
REFUSED = ("AuthenticationException", "AuthorizationException", "SslException", "SSLHandshakeException")
UNREACHABLE = ("TimeoutException", "DisconnectException", "NetworkException", "UnknownHostException")
MISSING = ("UnknownTopicOrPartitionException", "UnknownTopicIdException")
# A name that nobody resolves is told apart by its text alone.
UNRESOLVED = "No resolvable bootstrap urls"

# Id of a topic at brokers that give it none.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_THROWN = re.compile(r"(?:[\w$]+\.)+([\w$]*(?:Exception|Error))(?:: ([^\n]*))?")


def connection(source: KafkaSource) -> dict[str, str]:
    """Return the options of Kafka's clients by their Kafka names, with secrets from the environment."""
    options = {"bootstrap.servers": source.bootstrap_servers, **PATIENCE, **source.security}
    secrets = {name: os.environ.get(variable, "") for name, variable in SECRETS.items()}
    user, password = os.environ.get("SLUICEGATE_KAFKA_USERNAME"), os.environ.get("SLUICEGATE_KAFKA_PASSWORD")
    if user and not secrets["sasl.jaas.config"] and (module := MODULES.get(source.security.get("sasl.mechanism", ""))):
        login = f"username={_quote(user)} password={_quote(password or '')}"
        secrets["sasl.jaas.config"] = f"{module} required {login};"
    return options | {name: value for name, value in secrets.items() if value}


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def reader_options(source: KafkaSource) -> dict[str, str]:
    """Return the options with which Spark's reader connects."""
    options = {f"kafka.{name}": value for name, value in connection(source).items()}
    return options | {"kafka.isolation.level": source.isolation, "kafka.fetch.max.wait.ms": HELD_BACK}


def offsets(session: SparkSession, name: str, source: KafkaSource) -> TopicOffsets:
    """Return the existing topics, with the first and end offsets of their partitions.

    Args:
        session: a session with a JVM of its own.
        name: the bronze table, for messages.
        source: its topics.

    Raises:
        BrokerUnreachable: the brokers do not answer.
        BrokerRefused: the brokers reject the credentials.
        LandingMissing: a topic does not exist.
        UserError: the session is on a Spark Connect server.
    """
    if connect.is_remote(session):
        raise UserError(
            f"{name} reads Kafka, which requires a job with its own JVM",
            where=Where(table=name),
            hint="run it with spark-submit, as `sluicegate run` does",
        )
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

    try:
        return _offsets(session._jvm, name, source)
    except Py4JJavaError as error:
        raise translate_error(error, name, source) from None
    except (Py4JError, TypeError) as error:
        if "JavaPackage" in str(error) or "does not exist in the JVM" in str(error):
            raise UserError(
                f"{name} reads Kafka, but this job's Spark was started without the Kafka jars",
                where=Where(table=name),
                hint="start it with the jars that `sluicegate jars --kafka` fetches",
            ) from None
        raise


def _offsets(jvm: Any, name: str, source: KafkaSource) -> TopicOffsets:
    properties = jvm.java.util.Properties()
    for option, value in connection(source).items():
        properties.setProperty(option, value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        topics = _topics(jvm, admin, name, source)
        ids: dict[str, str] = {}
        partitions: dict[Partition, Any] = {}
        described = {}
        if topics:
            described = admin.describeTopics(_java_list(jvm, topics)).allTopicNames().get()
        for topic in topics:
            about = described[topic]
            if (topic_id := str(about.topicId().toString())) != NO_ID:
                ids[topic] = topic_id
            for partition in about.partitions():
                number = partition.partition()
                partitions[Partition(topic, number)] = jvm.org.apache.kafka.common.TopicPartition(topic, number)
        spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
        begins = _list_offsets(jvm, admin, partitions, spec.earliest(), source.isolation)
        ends = _list_offsets(jvm, admin, partitions, spec.latest(), source.isolation)
        if source.isolation == "read_uncommitted":
            return TopicOffsets(ids, begins, ends)
        return TopicOffsets(ids, begins, ends, _list_offsets(jvm, admin, partitions, spec.latest(), "read_uncommitted"))
    finally:
        with suppress(Exception):
            admin.close(jvm.java.time.Duration.ofSeconds(1))


def _topics(jvm: Any, admin: Any, name: str, source: KafkaSource) -> list[str]:
    """Return the existing topics that the definition names or matches.

    Raises:
        LandingMissing: a named topic does not exist.
    """
    if source.topic_names is None:
        pattern = re.compile(source.topic_pattern or "")
        topic_names = admin.listTopics().names().get()
        return sorted(str(topic) for topic in topic_names if pattern.fullmatch(str(topic)))
    # Not by their descriptions, which would be an error for all if one were missing.
    topic_names = set(map(str, admin.listTopics().names().get()))
    if missing := [topic for topic in source.topic_names if topic not in topic_names]:
        raise LandingMissing(
            f"topic {missing[0]} not found at {source.bootstrap_servers}, or these credentials may not describe it",
            where=Where(table=name, file=source.address),
            hint="correct the name, or create the topic",
        )
    return list(source.topic_names)


def _list_offsets(
    jvm: Any, admin: Any, partitions: Mapping[Partition, Any], spec: Any, isolation: str
) -> dict[Partition, int]:
    if not partitions:
        return {}
    request = jvm.java.util.HashMap()
    for topic_partition in partitions.values():
        request.put(topic_partition, spec)
    level = getattr(jvm.org.apache.kafka.common.IsolationLevel, isolation.upper())
    options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
    answers = admin.listOffsets(request, options).all().get()
    return {partition: int(answers.get(topic_partition).offset()) for partition, topic_partition in partitions.items()}


def _java_list(jvm: Any, items: list[str]) -> Any:
    java_list = jvm.java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return java_list


def translate_error(error: Exception, name: str, source: KafkaSource) -> SluicegateError:
    """Translate an error of Kafka's clients; the message never quotes the value of an option."""
    thrown = [(kind, text or "") for kind, text in _THROWN.findall(str(error))]
    kinds = [kind for kind, _ in thrown]
    where = Where(table=name, file=source.address)
    if blamed := [exception for exception in thrown if exception[0].endswith(REFUSED)]:
        return BrokerRefused(
            f"the brokers at {source.bootstrap_servers} denied access",
            where=where,
            cause=": ".join(filter(None, blamed[-1])),
            hint="check kafka.security in the definition, the variables SLUICEGATE_KAFKA_…, and that this user may"
            " describe and read the topics",
        )
    if any(kind.endswith(MISSING) for kind in kinds):
        return LandingMissing(
            f"a topic of {name} was deleted from {source.bootstrap_servers} while the run read it",
            where=where,
            hint="run again: the next run names the deleted topic",
        )
    blamed = [exception for exception in thrown if exception[0].endswith(UNREACHABLE) or UNRESOLVED in exception[1]]
    if blamed:
        return BrokerUnreachable(
            f"the brokers at {source.bootstrap_servers} do not answer",
            where=where,
            cause=": ".join(filter(None, blamed[-1])),
            hint="check bootstrap_servers, security.protocol and the network; a new run continues after the last"
            " commit ended",
        )
    return BrokerRefused(
        f"cannot connect to the brokers at {source.bootstrap_servers}",
        where=where,
        cause=", ".join(dict.fromkeys(kinds)) or type(error).__name__,
        hint="check bootstrap_servers and kafka.security in the definition, and the variables SLUICEGATE_KAFKA_…",
    )
