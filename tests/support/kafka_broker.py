"""A Kafka broker for tests: the real one, in a JVM of its own, and a client that writes to it.

``make setup KAFKA=test`` fetches its jars into ``.jars/kafka-broker``, pinned as those of Sluicegate are, and so does
the first test that lacks them; the rest of its class path are jars that pyspark brings. One process is controller and
broker (KRaft).
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.errors import JavaMissing
from sluicegate.spark import jars, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = Path(__file__).with_name("kafka-broker.lock")

Message = tuple[bytes | None, bytes | None]

# Who may log in where a password is asked for; it has what needs to be escaped.
USER, PASSWORD = "ada", 'pass"word\\4711'


@dataclass
class Broker:
    """A broker that is up.

    Attributes:
        address: where all may read and write.
        secured: where a user and a password are asked for (SASL_PLAINTEXT, PLAIN).
        folder: has its data, and takes its logs.
    """

    address: str
    secured: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        properties = str(self.folder / "server.properties")
        command = [java.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", _class_path(), "kafka.Kafka", properties]
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        _wait(self.process, int(self.address.rpartition(":")[2]), self.folder / "broker.log")

    def stop(self) -> None:
        """Ends it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Lets it stand still: it takes connections, and does not answer."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def fetch() -> None:
    """Fetches the broker's jars unless they are there."""
    jars.fetch(jars.read(LOCK), jars.folder() / "kafka-broker", java.java(), java.spark_home())


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker that is up.

    Args:
        folder: takes its logs and data.
    """
    broker, secured, controller = _free(), _free(), _free()
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text(f"version=1\ncluster.id={uuid.uuid4().hex[:22]}\nnode.id=1\n")
    properties = {
        "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},SASL://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": _login(),
        "controller.listener.names": "CONTROLLER", "log.dirs": data, "num.partitions": 1,
        "offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1, "transaction.state.log.num.partitions": 1,
        "offsets.topic.num.partitions": 1,
        "auto.create.topics.enable": "false", "log.cleaner.dedupe.buffer.size": 4 << 20,
        "message.max.bytes": 64 << 20, "log.cleaner.backoff.ms": 200,
    }  # fmt: skip
    (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    made = Broker(f"127.0.0.1:{broker}", f"127.0.0.1:{secured}", folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _login() -> str:
    """Who may log in, as a file of properties has it: there a backslash stands for the next character."""
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required user_{USER}="{password}";'.replace("\\", "\\\\")


def _class_path() -> str:
    fetch()
    clients = [str(jar) for jar in jars.folder().glob("kafka-clients-*.jar")]
    return ":".join([f"{jars.folder()}/kafka-broker/*", *clients, f"{java.spark_home()}/jars/*"])


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the broker did not start: {log.read_text()[-3000:]}")


@dataclass
class Client:
    """Makes topics and writes records, by Kafka's own client in the JVM of a session."""

    session: SparkSession
    broker: Broker

    @property
    def server(self) -> str:
        """The broker's address."""
        return self.broker.address

    def __post_init__(self) -> None:
        self.jvm: Any = self.session._jvm
        self.admin = self.jvm.org.apache.kafka.clients.admin.AdminClient.create(self._properties())
        self.producer = self.of_producer()

    def _properties(self, **more: str) -> Any:
        properties = self.jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self.server, **more}.items():
            properties.setProperty(name.replace("_", "."), value)
        return properties

    def of_producer(self, **more: str) -> Any:
        """A producer of its own, such as one with transactions."""
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        properties = self._properties(key_serializer=serializer, value_serializer=serializer, **more)
        return self.jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)

    def close(self) -> None:
        """Closes what holds connections."""
        self.producer.close()
        self.admin.close()

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Makes a topic; ``config`` has its properties, with _ for the dot."""
        one = self.jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1)
        one = one.configs({name.replace("_", "."): value for name, value in config.items()})
        self.admin.createTopics([one]).all().get()

    def widen(self, topic: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        more = self.jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        self.admin.createPartitions({topic: more}).all().get()

    def delete(self, topic: str) -> None:
        """Deletes a topic, and waits until it is gone."""
        self.admin.deleteTopics([topic]).all().get()
        while topic in set(self.admin.listTopics().names().get()):
            time.sleep(0.05)

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Deletes the records of a partition before an offset, as a retention does."""
        of = self.jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        # By reflection, as Py4J does not tell this method from another of its name that belongs to an object.
        new_array, jvm = self.session.sparkContext._gateway.new_array, self.jvm
        kinds, values = new_array(jvm.java.lang.Class, 1), new_array(jvm.java.lang.Object, 1)
        kinds[0], values[0] = jvm.java.lang.Long.TYPE, jvm.java.lang.Long.valueOf(str(before))
        made = jvm.java.lang.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
        records = made.getMethod("beforeOffset", kinds).invoke(None, values)
        self.admin.deleteRecords({of: records}).all().get()

    def send(
        self,
        topic: str,
        messages: Sequence[Message],
        partition: int = 0,
        *,
        timestamp: int | None = None,
        headers: Mapping[str, bytes | None] | None = None,
        producer: Any = None,
    ) -> None:
        """Writes records, each a key and a value, and waits until the broker has them."""
        by = producer or self.producer
        header = self.jvm.org.apache.kafka.common.header.internals.RecordHeader
        its = [header(name, value) for name, value in (headers or {}).items()]
        made = self.jvm.org.apache.kafka.clients.producer.ProducerRecord
        for key, value in messages:
            by.send(made(topic, partition, timestamp, key, value, its))
        by.flush()

    def send_values(self, topic: str, values: Sequence[str | None], partition: int = 0) -> None:
        """Writes values without keys."""
        self.send(topic, [(None, None if value is None else value.encode()) for value in values], partition)


if __name__ == "__main__":  # make setup KAFKA=test
    try:
        fetch()
    except JavaMissing as error:
        sys.exit(f"setup: {error.for_people()}")
