"""Ranges of Kafka's offsets in a ledger: what is entered, in which batches, and what is an error."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.definition.tables.kafka import KafkaSource
from sluicegate.errors import RecordsLost
from sluicegate.lake import tables
from sluicegate.landing import kafka_ledger
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.kafka_ledger import LedgerOffsets, Partition, Range, TopicOffsets, batches, enter

pytestmark = pytest.mark.unit


def source(**more: Any) -> KafkaSource:
    return KafkaSource.model_validate({"bootstrap_servers": "b:9092", "topic_pattern": ".*", **more})


def offsets(ids: str = "1", **its: list[tuple[int, int]]) -> TopicOffsets:
    """Begin and end of the partitions of topics."""
    ends = {Partition(topic, number): end for topic, all_ in its.items() for number, end in enumerate(all_)}
    begins = {partition: begin for partition, (begin, _) in ends.items()}
    return TopicOffsets({topic: f"{topic}{ids}" for topic in its}, begins, {p: end for p, (_, end) in ends.items()})


class Ledger:
    """A ledger in a folder."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.uri, self.source = str(folder / "ledger"), source(**more)

    def enter(self, there: TopicOffsets) -> kafka_ledger.Arrivals:
        return enter("orders", self.source, self.uri, there)

    def entries(self) -> list[tuple[int, str, str]]:
        """Chunk, action and path of each entry; what is not said of the path is ``kafka://``."""
        rows = (
            tables.dataset(tables.table_at(self.uri))
            .to_table()
            .sort_by([("chunk", "ascending"), ("path", "ascending")])
        )
        return [(row["chunk"], row["action"], row["path"].removeprefix("kafka://")) for row in rows.to_pylist()]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_a_path_says_its_range() -> None:
    one = Range(Partition("a.b-c_d", 7), 100, 250)
    assert one.path == "kafka://a.b-c_d/7/100-250"
    assert Range.from_path(one.path) == one
    assert one.size == 150


def test_all_that_is_new_is_entered_once(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(3, 10), (0, 0)]))
    assert ledger.entries() == [(0, "skip", "t/1/0-0"), (1, "read", "t/0/3-10")]
    assert not ledger.enter(offsets(t=[(3, 10), (0, 0)])).new
    ledger.enter(offsets(t=[(10, 12), (0, 5)]))
    assert ledger.entries()[2:] == [(2, "read", "t/0/10-12"), (2, "read", "t/1/0-5")]


def test_the_first_run_may_begin_at_the_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, starting_offsets="latest")
    ledger.enter(offsets(t=[(3, 10), (0, 0)]))
    assert ledger.entries() == [(0, "skip", "t/0/3-10"), (0, "skip", "t/1/0-0")]
    ledger.enter(offsets(t=[(3, 11), (0, 1), (0, 4)], u=[(2, 6)]))
    read = [path for _, action, path in ledger.entries() if action == "read"]
    assert read == ["t/0/10-11", "t/1/0-1", "t/2/0-4", "u/0/2-6"]  # what comes later is read from its beginning


def test_no_topic_yet_is_no_work(ledger: Ledger) -> None:
    ledger.enter(offsets())
    assert ledger.entries() == []
    ledger.enter(offsets(t=[(0, 1)]))
    assert ledger.entries() == [(1, "read", "t/0/0-1")]


def test_records_that_are_gone_are_an_error(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 10)]))
    with pytest.raises(RecordsLost, match="4 offsets of the topic t") as raised:
        ledger.enter(offsets(t=[(14, 20)]))
    assert "the next offset of partition 0 is 10" in raised.value.cause
    assert "data_loss: skip" in raised.value.hint
    assert ledger.entries() == [(1, "read", "t/0/0-10")]


def test_a_partition_that_is_new_in_a_known_topic_is_due_from_0_on(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 10)]))
    with pytest.raises(RecordsLost, match="2 offsets"):
        ledger.enter(offsets(t=[(0, 10), (2, 3)]))


def test_they_are_skipped_where_the_definition_says_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, data_loss="skip")
    ledger.enter(offsets(t=[(0, 10)]))
    found = ledger.enter(offsets(t=[(14, 20)]))
    assert [one.path for one in found.lost] == ["kafka://t/0/10-14"]
    assert ledger.entries()[1:] == [(2, "skip", "t/0/10-14"), (2, "read", "t/0/14-20")]
    ledger.enter(offsets(t=[(25, 25)]))
    assert ledger.entries()[3:] == [(3, "skip", "t/0/20-25")]
    assert not ledger.enter(offsets(t=[(25, 25)])).skipped


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (offsets(t=[(0, 9)]), "the topic t ends before"),
        (offsets("2", t=[(0, 30)]), "the topic t was deleted and recreated after orders had read it"),
    ],
)
def test_a_topic_that_is_another_one_is_an_error(tmp_path: Path, there: TopicOffsets, message: str) -> None:
    ledger = Ledger(tmp_path, data_loss="skip")  # which says nothing of this
    ledger.enter(offsets(t=[(0, 10)]))
    with pytest.raises(RecordsLost, match=message):
        ledger.enter(there)


def test_brokers_that_give_topics_no_ids_are_followed_by_offsets(ledger: Ledger) -> None:
    """Neither is one that gets ids by an upgrade taken for another topic, nor one that shows none for a while."""
    for count, ids in enumerate(({}, {"t": "1"}, {}, {"t": "1"}), 1):
        ledger.enter(replace(offsets(t=[(0, count)]), ids=ids))
    assert [path for _, _, path in ledger.entries()] == ["t/0/0-1", "t/0/1-2", "t/0/2-3", "t/0/3-4"]
    with pytest.raises(RecordsLost, match="was deleted and recreated"):
        ledger.enter(replace(offsets(t=[(0, 9)]), ids={"t": "2"}))


def test_what_was_read_of_an_open_transaction_is_not_behind(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 10)]))
    open_from_4 = replace(offsets(t=[(0, 4)]), tops={Partition("t", 0): 10})
    found = ledger.enter(open_from_4)
    assert (found.new, found.skipped) == ([], [])
    with pytest.raises(RecordsLost, match="ends before"):
        ledger.enter(replace(open_from_4, tops={Partition("t", 0): 9}))


def test_a_ledger_that_says_no_more_where_partitions_go_on_is_asked_for_its_ranges(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 10), (0, 2)]))
    ledger.enter(offsets(t=[(0, 12), (0, 2)]))
    rows = tables.dataset(tables.table_at(ledger.uri)).to_table()
    shutil.rmtree(ledger.uri)
    tables.write(ledger.uri, rows, mode="append")  # a copy without the log
    known = LedgerOffsets.from_ledger(tables.delta_table(ledger.uri))
    assert (known.ids, known.first) == ({}, False)
    assert known.ends == {Partition("t", 0): 12, Partition("t", 1): 2}
    DeltaTable(ledger.uri).optimize.compact()  # by somebody else
    ledger.enter(offsets(t=[(0, 13), (0, 2)]))
    assert "t/0/12-13" in [path for _, _, path in ledger.entries()]
    other = tables.table_at(ledger.uri)
    other.alter.set_table_properties({"note": "by somebody else"}, raise_if_not_exists=False)
    assert LedgerOffsets.from_ledger(tables.delta_table(ledger.uri)).ends[Partition("t", 0)] == 13


def test_a_topic_that_is_replaced_while_it_is_read_says_what_was_read(ledger: Ledger) -> None:
    kafka_ledger.demand_same("orders", {"t": "t1", "gone": "g"}, offsets(t=[(0, 1)]), "rows were read")
    with pytest.raises(RecordsLost) as raised:
        kafka_ledger.demand_same("orders", {"t": "t1"}, offsets("2", t=[(0, 1)]), "rows were read")
    assert raised.value.cause.endswith("this happened while rows were read")


def test_a_topic_that_is_gone_does_not_stop_the_others(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 1)], u=[(0, 1)]))
    ledger.enter(offsets(u=[(0, 2)]))
    assert ledger.entries()[-1] == (2, "read", "u/0/1-2")
    ledger.enter(offsets(t=[(0, 4)], u=[(0, 2)]))  # it was out of sight: its id is the same
    assert ledger.entries()[-1] == (3, "read", "t/0/1-4")


def test_a_batch_has_no_more_records_than_it_may(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, maxRecordsPerBatch=10)
    ledger.enter(offsets(t=[(0, 12), (0, 9)]))
    assert [path for _, _, path in ledger.entries()] == [
        "t/0/0-4",
        "t/1/0-3",
        "t/0/4-8",
        "t/1/3-6",
        "t/0/8-12",
        "t/1/6-9",
    ]
    for size, chunks in ((9, [1]), (10, [1]), (11, [1, 2])):
        other = Ledger(tmp_path / str(size), maxRecordsPerBatch=10)
        other.enter(offsets(t=[(0, size)]))
        assert [chunk for chunk, _, _ in other.entries()] == chunks


@given(st.lists(st.integers(0, 50), max_size=5), st.integers(1, 20))
def test_batches_have_each_offset_once_and_in_order(sizes: list[int], most: int) -> None:
    ranges = [Range(Partition("t", number), 7 * number, 7 * number + size) for number, size in enumerate(sizes) if size]
    made = [*batches(ranges, most)]
    assert all(0 < sum(one.size for one in batch) <= most for batch in made)
    for whole in ranges:
        parts = [one for batch in made for one in batch if one.partition == whole.partition]
        assert [one.start for one in parts] == [whole.start, *[one.end for one in parts[:-1]]]
        assert parts[-1].end == whole.end


def test_of_two_runs_one_enters(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.enter(offsets(t=[(0, 1)]))
    append, others = landing_ledger.append, [ledger]

    def after_another(table: Any, *arguments: Any) -> None:
        if others:
            others.pop().enter(offsets(t=[(0, 5)]))
        append(table, *arguments)

    monkeypatch.setattr(landing_ledger, "append", after_another)
    ledger.enter(offsets(t=[(0, 7)]))
    assert [path for _, _, path in ledger.entries()] == ["t/0/0-1", "t/0/1-5", "t/0/5-7"]


def test_a_run_gives_up_after_ATTEMPTS(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.enter(offsets(t=[(0, 1)]))
    append, lost = landing_ledger.append, 0

    def refused(times: int) -> Any:
        def commit(*arguments: Any) -> None:
            nonlocal lost
            lost += 1
            if lost <= times:
                raise CommitFailedError("another run was first")
            append(*arguments)

        return commit

    monkeypatch.setattr(kafka_ledger, "ATTEMPTS", 3)
    for times in (3, 4):
        lost = 0
        monkeypatch.setattr(landing_ledger, "append", refused(times))
        with pytest.raises(CommitFailedError):
            ledger.enter(offsets(t=[(0, 2)]))
        assert lost == 3
    lost = 0
    monkeypatch.setattr(landing_ledger, "append", refused(2))
    ledger.enter(offsets(t=[(0, 2)]))
    assert ledger.entries()[-1] == (2, "read", "t/0/1-2")


def test_where_partitions_go_on_is_in_each_commit(ledger: Ledger) -> None:
    ledger.enter(offsets(t=[(0, 1), (0, 0)], u=[(4, 9)]))
    known = LedgerOffsets.from_ledger(tables.delta_table(ledger.uri))
    assert known.ids == {"t": "t1", "u": "u1"}
    assert known.ends == {Partition("t", 0): 1, Partition("t", 1): 0, Partition("u", 0): 9}
