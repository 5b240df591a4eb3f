"""Model of a bronze table's Kafka source: which topics of which brokers, and how their records are read."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from sluicegate.definition.fields import OptionText, Part, field_error, suggest_name

# Columns of each record besides its value, with their types: no field of it has such a column.
COLUMNS = {
    "_key": "STRING", "_headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>", "_topic": "STRING", "_partition": "INT",
    "_offset": "BIGINT", "_timestamp": "TIMESTAMP",
}  # fmt: skip

# What Kafka's clients need to connect, by Kafka's own names; secrets are not among them.
# https://kafka.apache.org/39/documentation.html#consumerconfigs
ALLOWED = (
    "security.protocol", "sasl.mechanism", "sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.login.callback.handler.class",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates", "ssl.keystore.location",
    "ssl.keystore.type", "ssl.keystore.certificate.chain", "ssl.endpoint.identification.algorithm", "ssl.protocol",
    "ssl.enabled.protocols", "ssl.cipher.suites", "client.id", "client.rack", "client.dns.lookup",
    "request.timeout.ms", "default.api.timeout.ms", "fetch.max.bytes", "max.partition.fetch.bytes",
)  # fmt: skip

# Secrets of Kafka's clients, each with the environment variable that it comes from.
SECRETS = {
    "sasl.jaas.config": "SLUICEGATE_KAFKA_SASL_JAAS_CONFIG",
    "ssl.truststore.password": "SLUICEGATE_KAFKA_SSL_TRUSTSTORE_PASSWORD",
    "ssl.keystore.password": "SLUICEGATE_KAFKA_SSL_KEYSTORE_PASSWORD",
    "ssl.keystore.key": "SLUICEGATE_KAFKA_SSL_KEYSTORE_KEY",
    "ssl.key.password": "SLUICEGATE_KAFKA_SSL_KEY_PASSWORD",
}

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}")


def _check_servers(text: str) -> str:
    servers = [part.strip() for part in text.split(",")]
    for server in servers:
        if not _SERVER.fullmatch(server):
            raise field_error("servers", f"invalid broker address {server!r}", "write host:port, for example b1:9092")
    return ",".join(servers)


def _check_topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise field_error("name", f"{name!r} is not a valid topic name", "use letters, digits, . _ and -")
    return name


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise field_error("pattern", f"topic_pattern is not a valid regular expression: {error}") from None
    return text


def _check_security(options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if variable := SECRETS.get(name.removeprefix("kafka.")):
            reason = f"{name} is a secret, which a definition must not contain"
            raise field_error("refused-option", reason, f"set {variable} in the environment of the jobs")
        if name not in ALLOWED:
            bare = name.removeprefix("kafka.")
            if bare in ALLOWED:
                hint = f"write {bare}"
            else:
                hint = suggest_name(name, ALLOWED)
            raise field_error("unknown-option", f"unsupported option {name} of Kafka's clients", hint)
    return options


Topic = Annotated[OptionText, AfterValidator(_check_topic)]


class KafkaSource(Part):
    """Topics whose records a bronze table has. It has one of ``topic``, ``topics`` and ``topic_pattern``.

    Attributes:
        bootstrap_servers: brokers to ask first, as ``host:port`` with commas between.
        topic: the topic.
        topics: several topics.
        topic_pattern: regular expression that the whole name of a topic matches; new topics are found by each run.
        starting_offsets: where the first run begins: ``earliest``, with all records, or ``latest``, with those that
            come after it. Later partitions are read from their beginning.
        value: what the value of a record is: ``json``, an object whose fields become columns; ``text`` or ``binary``,
            one column ``value``.
        key: whether ``_key`` is text or binary.
        isolation: ``read_committed`` leaves out records of transactions that were aborted, and waits for the end of
            those that are open; ``read_uncommitted`` has them all.
        data_loss: when records are gone that were not read yet, ``fail`` stops the table until a person decides,
            and ``skip`` continues after them and enters their offsets into the ledger as skipped.
        maxRecordsPerBatch: maximum number of records of a ledger batch, which is one commit.
        security: options of Kafka's clients by Kafka's own names, such as ``security.protocol``. Secrets come from the
            environment.
    """

    bootstrap_servers: Annotated[OptionText, AfterValidator(_check_servers)]
    topic: Topic | None = None
    topics: Annotated[list[Topic], Field(min_length=1)] | None = None
    topic_pattern: Annotated[OptionText, AfterValidator(_check_pattern)] | None = None
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    value: Literal["json", "text", "binary"] = "json"
    key: Literal["text", "binary"] = "text"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    data_loss: Literal["fail", "skip"] = "fail"
    maxRecordsPerBatch: int = Field(1_000_000, ge=1)
    security: Annotated[dict[str, OptionText], AfterValidator(_check_security)] = {}

    @model_validator(mode="after")
    def _check_topics(self) -> KafkaSource:
        set_fields = self.fields_with_values("topic", "topics", "topic_pattern")
        if len(set_fields) != 1:
            needed = "set exactly one of topic, topics and topic_pattern"
            raise field_error("missing-field", f"{needed}, not {' and '.join(set_fields) or 'none'}")
        if self.topics is not None and (twice := [topic for topic in self.topics if self.topics.count(topic) > 1]):
            raise field_error("duplicate-name", f"duplicate topic {twice[0]}")
        return self

    @property
    def topic_names(self) -> list[str] | None:
        """Topics by their names; None if a pattern says which."""
        if self.topic is not None:
            return [self.topic]
        return self.topics

    @property
    def address(self) -> str:
        """Brokers and topics as a URI."""
        return f"kafka://{self.bootstrap_servers}/{','.join(self.topic_names or [str(self.topic_pattern)])}"
