"""Kafka's topics as the source of a bronze table, by a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deltalake import DeltaTable

from sluicegate.errors import LandingMissing, RecordsLost, UserError
from sluicegate.lake import log, tables
from sluicegate.monitor import plan, status
from tests.support.kafka_topics import Killed, Topic, at

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

SILVER = """\
silver:
  s:
    sql: SELECT CAST(id AS INT) AS id, CAST(n AS INT) AS n, _key AS k, _offset AS o FROM STREAM(beats)
    keys: [id]
"""


@pytest.mark.more
def test_each_record_lands_once_with_what_came_with_it(topic: Topic) -> None:
    client = topic.client
    client.create(topic.name, 2, retention_ms="-1")  # one record is of 2020, which a retention by time deletes
    headers = {"trace": b"\x01\xff", "empty": None}
    value = b'{"id": 1, "price": 1.10, "in": {"a": [1, 2]}}'
    client.send(topic.name, [(b"k1", value)], timestamp=1577836800123, headers=headers)
    client.send(topic.name, [(b"\xff", b'{"id": 2}'), (None, b'{"id": 3}')], partition=1)
    first = topic.run()
    assert (first.state, first.read, first.written, first.corrupt) == ("written", 3, 3, 0)
    one, *_ = topic.rows("id", "price", "in", "_key", "_topic", "_headers", "_timestamp")
    assert one[:5] == ("1", "1.10", {"a": ["1", "2"]}, "k1", topic.name)
    assert one[5] == [{"key": "trace", "value": b"\x01\xff"}, {"key": "empty", "value": None}]
    assert one[6].isoformat() == "2020-01-01T00:00:00.123000+00:00"
    assert [row[0] for row in topic.rows("_key")] == ["k1", "data:;base64,/w==", None]
    assert topic.rows("_pos", "_chunk") == [(0, 1), (1, 1), (2, 1)]
    assert topic.rows("source_file")[1] == (f"kafka://{topic.name}/1/0-2",)
    commit = log.last_own_commit(tables.table_at(topic.workspace.uri("beats")))
    assert commit is not None
    assert (commit.ours or {})["offsets"] == {topic.name: {"0": [0, 1], "1": [0, 2]}}
    assert topic.run().state == "idle"
    topic.send({"id": 4})
    with at("bronze.after_commit"), pytest.raises(Killed):
        topic.run()
    assert (topic.run().read, topic.run().state) == (0, "idle")
    assert topic.rows() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert topic.files() == [("ingested", "0/0-1", 1), ("ingested", "1/0-2", 2), ("ingested", "0/1-2", 1)]
    assert topic.verified() == []


@pytest.mark.release
def test_whatever_a_value_is_it_is_one_row(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.client.send(topic.name, [(b"k", None)])
    assert topic.run().read == 1  # a table without a column of the values
    bad = [
        "",
        " ",
        "no JSON",
        "[1, 2]",
        '[{"id": 2}, {"id": 3}]',
        "7",
        '"x"',
        "null",
        '{"id": 8} {"id": 9}',
        '{"id": 10',
    ]
    topic.send({"id": 1}, None, *bad, "{}", '{"_offset": 5, "_key": "x", "id": 11}')
    topic.client.send(topic.name, [(None, b"\x00\x01\xff")])
    report = topic.run()
    assert topic.rows("_key", "id", "_corrupt_record")[0] == ("k", None, None)
    ids, corrupt, rescued = zip(*topic.rows("id", "_corrupt_record", "_rescued_data")[1:], strict=True)
    assert ids == ("1", *[None] * 12, "11", None)
    assert list(corrupt) == [None, None, *bad, None, None, "data:;base64,AAH/"]
    assert [text and json.loads(text)["_offset"] for text in rescued] == [*[None] * 13, "5", None]
    assert (report.read, report.corrupt, report.rescued) == (15, 11, 1)
    assert topic.verified() == []


@pytest.mark.release
def test_columns_follow_the_records(topic: Topic) -> None:
    hints = "    schemaHints: id BIGINT, amount DECIMAL(10, 2), at TIMESTAMP"
    topic.define(f"{hints}, n INT\n    inferColumnTypes: true\n")
    topic.client.create(topic.name)
    topic.send({"id": 1, "amount": 12.10, "at": "2024-01-01T00:00:00Z", "n": 1}, {"id": "x", "amount": "1.234"})
    topic.run()
    kinds = {field.name: str(field.type.type) for field in DeltaTable(topic.workspace.uri("beats")).schema().fields[:4]
             if field.name in ("id", "amount", "at", "n")}  # fmt: skip
    assert kinds == {"id": "long", "amount": "decimal(10,2)", "at": "timestamp", "n": "integer"}
    rescued = [json.loads(row[0]) if row[0] else {} for row in topic.rows("_rescued_data")]
    assert rescued == [{}, {"id": "x", "amount": "1.234", "_file_path": f"kafka://{topic.name}/0/0-2"}]
    topic.send({"id": 2, "n": "text", "new": True})
    topic.run()
    assert topic.rows("id", "n", "new") == [(1, 1, None), (None, None, None), (2, None, True)]
    mode = "    schemaEvolutionMode: addNewColumnsWithTypeWidening\n"
    topic.workspace.edit("pipeline.yaml", f"{hints}, n INT", f"{mode}{hints}")
    topic.send({"id": 3, "n": 3_000_000_000})
    topic.run()
    assert topic.rows("n") == [(1,), (None,), (None,), (3_000_000_000,)]
    assert topic.verified() == []


@pytest.mark.release
@pytest.mark.parametrize(
    ("value", "expected"), [("text", ["{", None, "", None]), ("binary", [b"{", None, b"", b"\xff"])]
)
def test_values_may_be_text_or_bytes(topic: Topic, value: str, expected: list[Any]) -> None:
    topic.name += value
    topic.define(kafka=f", value: {value}, key: binary")
    topic.client.create(topic.name)
    topic.client.send(topic.name, [(b"\xff", b"{"), (None, None), (None, b""), (None, b"\xff")])
    topic.run()
    assert [row[0] for row in topic.rows("value")] == expected
    assert topic.rows("_key")[0] == (b"\xff",)
    assert topic.rows("_corrupt_record")[3] == (("data:;base64,/w==",) if value == "text" else (None,))


@pytest.mark.release
def test_a_value_may_be_one_variant(topic: Topic) -> None:
    topic.define("    singleVariantColumn: v\n")
    topic.client.create(topic.name)
    topic.send({"id": 1}, "[1, 2]", "no JSON", None)
    topic.run()
    held = topic.spark.read.format("delta").load(topic.workspace.uri("beats")).orderBy("_offset")
    found = held.selectExpr("to_json(v) AS v", "_corrupt_record").collect()
    assert [tuple(row) for row in found] == [('{"id":1}', None), ("[1,2]", None), (None, "no JSON"), (None, None)]


# Each point at which a run is stopped, and the batch in which it is.
STOPS = [
    ("ledger.before_commit", 1),
    ("ledger.after_commit", 2),
    ("bronze.before_commit", 2),
    ("bronze.after_commit", 1),
]


@pytest.mark.release
def test_a_kill_at_any_point_leaves_each_record_once(topic: Topic) -> None:
    topic.define(kafka=", maxRecordsPerBatch: 4", more=SILVER)
    topic.client.create(topic.name, 2)
    sent = 0
    for killed, batch in STOPS:
        for partition in (0, 1):
            topic.send(*[{"id": sent + n, "n": n} for n in range(4)], partition=partition)
            sent += 4
        with at(killed, batch), pytest.raises(Killed):
            topic.run()
    topic.run("bronze", "silver")
    assert sorted(int(row[0]) for row in topic.rows("id")) == [*range(sent)]
    assert sorted(row[0] for row in topic.workspace.rows("s", "id")) == [*range(sent)]
    assert topic.rows() == [(partition, offset) for partition in (0, 1) for offset in range(sent // 2)]
    assert topic.verified() == []


@pytest.mark.release
def test_what_was_restored_away_is_read_again(topic: Topic) -> None:
    topic.define(more=SILVER)
    topic.client.create(topic.name)
    for n in range(3):
        topic.send({"id": n, "n": n})
        topic.run("bronze", "silver")
    before = topic.rows("_chunk", "_pos", "id")
    DeltaTable(topic.workspace.uri("beats")).restore(0)
    assert topic.run().read == 2
    assert topic.rows("_chunk", "_pos", "id") == before
    topic.run("bronze", "silver")
    assert sorted(topic.workspace.rows("s", "id", "o")) == [(n, n) for n in range(3)]
    assert topic.verified() == []


@pytest.mark.release
def test_partitions_and_topics_that_come_are_read_from_their_beginning(topic: Topic) -> None:
    topic.define(kafka=", starting_offsets: latest")
    topic.workspace.edit("pipeline.yaml", f"topic: {topic.name}", f"topic_pattern: '{topic.name}.*'")
    topic.client.create(topic.name)
    topic.send({"id": 0})
    assert (topic.run().state, topic.rows()) == ("idle", [])
    topic.send({"id": 1})
    topic.client.widen(topic.name, 3)
    topic.send({"id": 2}, partition=2)
    assert topic.run().read == 2
    topic.client.create(f"{topic.name}-b")
    topic.client.send_values(f"{topic.name}-b", ['{"id": 3}'])
    assert topic.run().read == 1
    assert sorted(row[0] for row in topic.rows("id")) == ["1", "2", "3"]
    assert topic.files()[0] == ("skipped", "0/0-1", 0)
    assert topic.verified() == []


@pytest.mark.release
def test_records_that_were_gone_before_they_were_read(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 0}, {"id": 1})
    topic.run()
    topic.send({"id": 2}, {"id": 3}, {"id": 4})
    topic.client.forget(topic.name, 4)
    with pytest.raises(RecordsLost, match="2 offsets of the topic") as raised:
        topic.run()
    assert raised.value.exit_code == 2
    assert [row[0] for row in topic.rows("id")] == ["0", "1"]
    topic.define(kafka=", data_loss: skip")
    report = topic.run()
    assert (report.state, report.read) == ("written", 1)
    assert report.warnings == [f"skipped 2 offsets whose records were deleted: kafka://{topic.name}/0/2-4"]
    assert topic.files()[1:] == [("skipped", "0/2-4", 0), ("ingested", "0/4-5", 1)]
    assert topic.verified() == []


@pytest.mark.release
def test_records_that_go_between_the_ledger_and_bronze(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 0}, {"id": 1}, {"id": 2})
    with at("ledger.after_commit"), pytest.raises(Killed):
        topic.run()
    topic.client.forget(topic.name, 2)
    with pytest.raises(RecordsLost):
        topic.run()
    topic.define(kafka=", data_loss: skip")
    report = topic.run()
    assert report.read == 1
    assert "deleted before" in str(report.warnings)
    assert topic.files() == [("failed", "0/0-3", 1)]
    assert topic.verified() == []


@pytest.mark.release
def test_a_topic_that_was_made_again_is_another_one(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 0})
    topic.run()
    topic.client.delete(topic.name)
    with pytest.raises(LandingMissing, match="not found"):
        topic.run()
    topic.client.create(topic.name)
    topic.send({"id": 5}, {"id": 6})  # more than were read
    with pytest.raises(RecordsLost, match="was deleted and recreated after beats"):
        topic.run()


@pytest.mark.release
def test_records_of_transactions(topic: Topic) -> None:
    """Aborted records are none, and the end of a transaction is an offset without a record."""
    topic.client.create(topic.name)
    producer = topic.client.of_producer(transactional_id=topic.name)
    producer.initTransactions()
    for n, end in enumerate(("commit", "abort", "commit")):
        producer.beginTransaction()
        topic.client.send(topic.name, [(None, json.dumps({"id": n}).encode())], producer=producer)
        getattr(producer, f"{end}Transaction")()
    assert topic.run().read == 2
    producer.beginTransaction()
    topic.client.send(topic.name, [(None, b'{"id": 3}')], producer=producer)
    assert topic.run().state == "idle"  # it waits for the end of the transaction
    producer.commitTransaction()
    producer.close()
    assert topic.run().read == 1
    assert [row[0] for row in topic.rows("id")] == ["0", "2", "3"]
    assert topic.files() == [("ingested", "0/0-6", 2), ("ingested", "0/6-8", 1)]
    assert topic.verified() == []


@pytest.mark.release
def test_a_table_that_is_not_its_ledger_is_found(topic: Topic) -> None:
    topic.client.create(topic.name)
    topic.send({"id": 0}, {"id": 1})
    topic.run()
    DeltaTable(topic.workspace.uri("beats")).delete("_offset = 1")
    assert topic.verified() == [f"beats: kafka://{topic.name}/0/0-2 has 2 rows on record, but the table has 1 of them"]


@pytest.mark.release
def test_only_a_run_knows_what_waits(topic: Topic) -> None:
    topic.client.create(topic.name)
    definition, settings = topic.workspace.definition, topic.workspace.settings
    [work] = plan.pending(definition, settings).tables
    assert (work.work, work.waits) == (True, True)
    assert "brokers" in plan.pending(definition, settings).sentence()
    topic.send({"id": 0})
    topic.run()
    [table] = status.status(definition, settings).tables
    assert (table.rows, table.state) == (1, "as its last run left it")


@pytest.mark.release
def test_its_records_cannot_be_made_again(topic: Topic) -> None:
    from sluicegate.landing.chosen.reread import Reset
    from sluicegate.launch.pipeline import refresh
    from sluicegate.launch.request import Request

    definition = topic.workspace.definition
    with pytest.raises(UserError, match="does not read files"):
        Reset().discover("beats", definition.bronze["beats"], topic.workspace.lake)
    request = Request.from_arguments(definition, "full-refresh", None, None, ["beats"], None)
    with pytest.raises(UserError, match="Kafka"):
        refresh(definition, topic.workspace.settings, None, print, request)
