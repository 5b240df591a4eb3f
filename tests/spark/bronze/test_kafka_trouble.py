"""What goes wrong with Kafka: brokers, topics and credentials that are not there, or not any more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sluicegate.bronze import kafka_brokers
from sluicegate.errors import BrokerRefused, BrokerUnreachable, LandingMissing, RecordsLost, SluicegateError
from tests.conftest import ROOT
from tests.support.kafka_broker import PASSWORD, USER, Client, running
from tests.support.kafka_topics import Killed, Topic, at

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm, pytest.mark.release]

SASL = ", security: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of a second or two for an answer."""
    monkeypatch.setattr(kafka_brokers, "PATIENCE", {"request.timeout.ms": "800", "default.api.timeout.ms": "1500"})


@pytest.mark.usefixtures("impatient")
def test_brokers_that_are_not_there_or_do_not_answer(topic: Topic) -> None:
    with pytest.raises(LandingMissing, match="not found"):
        topic.run()
    topic.client.create(topic.name)
    topic.send({"id": 1})
    with topic.client.broker.paused(), pytest.raises(BrokerUnreachable, match="do not answer"):
        topic.run()
    topic.define(server="127.0.0.1:1")
    started = time.monotonic()
    with pytest.raises(BrokerUnreachable, match="do not answer") as raised:
        topic.run()
    assert time.monotonic() - started < 20
    assert raised.value.exit_code == 1
    topic.define(server="no-such-host.invalid:9092")
    with pytest.raises(BrokerUnreachable, match="do not answer"):
        topic.run()
    topic.define()
    assert topic.run().read == 1


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_gone_in_the_middle_of_a_run(topic: Topic, tmp_path: Path) -> None:
    with running(tmp_path / "own") as broker:
        own = Client(topic.spark, broker)
        topic.client = own
        topic.define(kafka=", maxRecordsPerBatch: 2")
        own.create(topic.name)
        topic.send(*[{"id": n} for n in range(6)])
        for point, batch in (("ledger.after_commit", 3), ("bronze.before_commit", 1), ("bronze.after_commit", 1)):
            with at(point, batch, broker.stop), pytest.raises(BrokerUnreachable, match="do not answer"):
                topic.run()
            broker.start()
        assert topic.run().read == 4
        assert topic.rows("id") == [(str(n),) for n in range(6)]
        assert topic.verified() == []
        own.close()


def test_records_that_go_while_they_are_read(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 0}, {"id": 1}, {"id": 2})
    forget = lambda: topic.client.forget(topic.name, 2)  # noqa: E731
    with at("bronze.before_commit", 1, forget), pytest.raises(RecordsLost, match="were deleted from the topics while"):
        topic.run()
    with pytest.raises(RecordsLost, match="2 offsets of the topic"):
        topic.run()
    topic.define(kafka=", data_loss: skip")
    assert topic.run().read == 1
    assert topic.verified() == []


def test_a_backlog_whose_records_go_while_the_run_works_on_it(topic: Topic) -> None:
    """With each batch the brokers are asked again, so that what is left of a later one is read."""
    topic.define(kafka=", data_loss: skip, maxRecordsPerBatch: 2")
    topic.client.create(topic.name)
    topic.send(*[{"id": n} for n in range(6)])
    with at("bronze.after_commit", 1, lambda: topic.client.forget(topic.name, 5)):
        report = topic.run()
    assert [row[0] for row in topic.rows("id")] == ["0", "1", "5"]
    assert report.read == 3
    assert len([text for text in report.warnings if "deleted before" in text]) == 2
    assert topic.verified() == []


def test_a_topic_that_is_deleted_or_replaced_in_the_middle_of_a_run(topic: Topic) -> None:
    topic.define(kafka=", maxRecordsPerBatch: 2")
    topic.client.create(topic.name)
    topic.send(*[{"id": n} for n in range(6)])

    def replace() -> None:
        topic.client.delete(topic.name)
        topic.client.create(topic.name)
        topic.send(*[{"id": 100 + n} for n in range(6)])

    with at("bronze.after_commit", 1, replace), pytest.raises(RecordsLost, match="is another one") as raised:
        topic.run()
    assert "_chunk 1" in raised.value.cause
    assert [row[0] for row in topic.rows("id")] == ["0", "1"]
    with pytest.raises(RecordsLost, match="is another one"):
        topic.run()
    shutil.rmtree(topic.workspace.lake.table("bronze", "beats"))
    shutil.rmtree(topic.workspace.lake.ledger("beats"))
    with (
        at("bronze.before_commit", 1, lambda: topic.client.delete(topic.name)),
        pytest.raises(LandingMissing, match=r"was deleted from|not found"),
    ):
        topic.run()


def test_credentials_are_taken_from_the_environment(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 1})
    topic.define(kafka=SASL, server=topic.client.broker.secured)
    monkeypatch.setenv("SLUICEGATE_KAFKA_USERNAME", USER)
    for wrong in ("", "another-secret"):
        monkeypatch.setenv("SLUICEGATE_KAFKA_PASSWORD", wrong)
        with pytest.raises(BrokerRefused) as raised:
            topic.run()
        assert "another-secret" not in raised.value.for_people()
    monkeypatch.delenv("SLUICEGATE_KAFKA_USERNAME")
    with pytest.raises(BrokerRefused, match="cannot connect"):
        topic.run()
    monkeypatch.setenv("SLUICEGATE_KAFKA_USERNAME", USER)
    monkeypatch.setenv("SLUICEGATE_KAFKA_PASSWORD", PASSWORD)
    assert topic.run().read == 1
    files = [file for file in topic.workspace.folder.rglob("*") if file.is_file()]
    assert not [file for file in files if b"4711" in file.read_bytes()]
    options = kafka_brokers.reader_options(topic.workspace.definition.bronze["beats"].topic_source)
    read = topic.spark.read.format("kafka").options(subscribe=topic.name, **options).load()
    assert "4711" not in read._jdf.queryExecution().toString() + str(read._jdf.queryExecution().logical().toJSON())


def test_a_compacted_topic_has_gaps(topic: Topic) -> None:
    topic.client.create(topic.name, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    keyed = [(b"k%d" % (n % 3), json.dumps({"id": n}).encode()) for n in range(30)]
    topic.client.send(topic.name, keyed)
    time.sleep(0.3)
    topic.client.send(topic.name, [(b"last", b'{"id": 30}')])  # it closes the segment before it
    time.sleep(3)
    report = topic.run()
    assert report.read < 31
    assert {"27", "28", "29", "30"} <= {row[0] for row in topic.rows("id")}
    assert topic.files() == [("ingested", "0/0-31", report.read)]
    assert topic.verified() == []


def test_many_partitions_and_a_huge_record(topic: Topic) -> None:
    topic.define(kafka=", maxRecordsPerBatch: 150")
    topic.client.create(topic.name, 100, max_message_bytes=str(64 << 20))
    for partition in range(100):
        topic.send({"id": partition}, {"id": 100 + partition}, partition=partition)
    producer = topic.client.of_producer(max_request_size=str(64 << 20), buffer_memory=str(128 << 20))
    topic.client.send(
        topic.name, [(None, json.dumps({"id": 200, "text": "x" * (24 << 20)}).encode())], 7, producer=producer
    )
    producer.close()
    report = topic.run()
    assert (report.read, report.corrupt) == (201, 0)
    assert sorted(int(row[0]) for row in topic.rows("id")) == [*range(201)]
    [length] = [len(row[0]) for row in topic.rows("text") if row[0]]
    assert length == 24 << 20
    assert topic.verified() == []


CHANGES = """\
silver:
  s:
    from: beats
    apply_changes: {keys: [_key], sequence_by: _offset, apply_as_deletes: id IS NULL, column_list: [_key, n]}
"""


def test_tombstones_delete_and_a_table_that_was_restored_has_them_again(topic: Topic) -> None:
    topic.define(more=CHANGES)
    topic.client.create(topic.name)

    def send(key: int, value: str | None) -> None:
        topic.client.send(topic.name, [(str(key).encode(), None if value is None else value.encode())])

    send(1, '{"id": 1, "n": 1}')
    send(2, '{"id": 2, "n": 2}')
    topic.run("bronze", "silver")
    send(1, None)
    send(2, '{"id": 2, "n": 3}')
    send(2, '{"id": 2, "n')  # which is no delete
    topic.run("bronze", "silver")
    assert topic.workspace.rows("s", "_key", "n") == [("2", "3")]
    DeltaTable(topic.workspace.uri("beats")).restore(0)
    topic.run("bronze", "silver")
    assert topic.workspace.rows("s", "_key", "n") == [("2", "3")]
    assert topic.verified() == []


def test_nothing_is_lost_or_doubled_where_a_part_of_the_lake_is_gone(topic: Topic) -> None:
    topic.client.create(topic.name)
    for n in range(3):
        topic.send({"id": n})
        topic.run()
    lake = topic.workspace.lake
    shutil.rmtree(lake.file_status("beats"))
    topic.send({"id": 3})
    topic.run()
    assert topic.rows("id") == [(str(n),) for n in range(4)]
    shutil.rmtree(lake.table("bronze", "beats"))
    topic.run()
    assert topic.rows("id") == [(str(n),) for n in range(4)]
    assert topic.verified() == []
    shutil.rmtree(lake.ledger("beats"))
    with pytest.raises(SluicegateError) as raised:
        topic.run()
    assert "beats is not the table that it was filled from" in raised.value.message
    assert topic.rows("id") == [(str(n),) for n in range(4)]


def test_open_transactions_are_waited_for_also_where_they_were_read_before(topic: Topic) -> None:
    topic.define(kafka=", isolation: read_uncommitted")
    topic.client.create(topic.name)
    producer = topic.client.of_producer(transactional_id=topic.name)
    producer.initTransactions()
    producer.beginTransaction()
    topic.client.send(topic.name, [(None, b'{"id": 0}')], producer=producer)
    assert topic.run().read == 1
    topic.define()
    assert topic.run().state == "idle"
    topic.client.send(topic.name, [(None, b'{"id": 1}')], producer=producer)
    assert topic.run().state == "idle"
    producer.commitTransaction()
    assert topic.run().read == 1
    producer.beginTransaction()
    topic.client.send(topic.name, [(None, b'{"id": 2}')], producer=producer)
    producer.abortTransaction()
    producer.close()
    with at("bronze.before_commit"), pytest.raises(Killed):
        topic.run()
    assert topic.run().read == 0  # nothing but records of a transaction that was aborted
    assert topic.rows("id") == [("0",), ("1",)]
    assert topic.verified() == []


def test_commands_show_no_secret_and_need_no_server(topic: Topic, tmp_path: Path) -> None:
    """With all that Spark can log: lines of INFO, and events with the plans of queries."""
    topic.client.create(topic.name)
    topic.send({"id": 1})
    topic.define(kafka=SASL, server=topic.client.broker.secured)
    (tmp_path / "conf").mkdir()
    (tmp_path / "events").mkdir()
    settings = {"spark.log.level": "INFO", "spark.eventLog.enabled": "true", "spark.eventLog.dir": tmp_path / "events",
                "spark.eventLog.compress": "false"}  # fmt: skip
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {its}\n" for key, its in settings.items()))
    environment = {
        "SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(ROOT), "SLUICEGATE_KAFKA_USERNAME": USER,
        "SPARK_CONF_DIR": str(tmp_path / "conf"), "SLUICEGATE_DEBUG": "1",
    }  # fmt: skip
    said = []

    def command(*words: str, password: str = PASSWORD) -> int:
        its = os.environ | environment | {"SLUICEGATE_KAFKA_PASSWORD": password}
        line = [sys.executable, "-m", "sluicegate.cli", *words]
        done = subprocess.run(line, cwd=topic.workspace.folder, env=its, capture_output=True, text=True, check=False)
        said.append(done.stdout + done.stderr)
        return done.returncode

    assert command("plan", "heart_rate") == 0
    assert command("run", "heart_rate", password="guess-4711") == 2
    assert "SG219" in said[-1]
    assert command("run", "heart_rate", "--remote", "sc://127.0.0.1:1") == 0
    assert command("files", "heart_rate", "beats") == 0
    assert command("status", "heart_rate", "--verify") == 0
    assert topic.rows("id") == [("1",)]
    logged = [file.read_bytes() for file in (tmp_path / "events").rglob("*") if file.is_file()]
    assert any(b"KafkaRelation" in text or b"kafka" in text for text in logged)
    assert "INFO" in said[2]
    everywhere = [text.encode() for text in said] + logged
    everywhere += [file.read_bytes() for file in topic.workspace.folder.rglob("*") if file.is_file()]
    assert not [text for text in everywhere if b"4711" in text]
