"""Ledger of a bronze table of Kafka's records: ranges of offsets, entered before they are read.

An entry is a range of one partition, and its path says which: ``kafka://orders/0/100-200`` has the offsets from 100 on
and before 200, and its size is their number. So a ledger batch gives the same records however often it is read, and
everything that goes by the ledger (offsets, file status, RESTORE) goes for Kafka as it does for files. A partition
goes on where its last entry ends; each that was ever seen has an entry, if only an empty one that is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from sluicegate.definition.tables.kafka import KafkaSource
from sluicegate.errors import RecordsLost, Where
from sluicegate.lake import log, tables
from sluicegate.lake.commits import compaction
from sluicegate.lake.commits.commit_info import LedgerFacts
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES

# Other runs may win the compare-and-set; each time the offsets are compared again.
ATTEMPTS = 20

_SCHEME = "kafka://"


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True)
class Range:
    """Offsets of a partition, from ``start`` on and before ``end``."""

    partition: Partition
    start: int
    end: int

    @property
    def path(self) -> str:
        """Its path in the ledger."""
        return f"{_SCHEME}{self.partition.topic}/{self.partition.number}/{self.start}-{self.end}"

    @property
    def size(self) -> int:
        """Number of its offsets, each of which a record may have."""
        return self.end - self.start

    @classmethod
    def from_path(cls, path: str) -> Range:
        """Return the range that a path of the ledger says."""
        topic, number, offsets = path.removeprefix(_SCHEME).split("/")
        start, _, end = offsets.partition("-")
        return cls(Partition(topic, int(number)), int(start), int(end))


@dataclass(frozen=True)
class TopicOffsets:
    """What the brokers have.

    Attributes:
        ids: id of each topic, by which one that was deleted and created again is known. Brokers older than Kafka 2.8
            have none.
        begins: first offset of each partition whose record is still there.
        ends: offset after the last record of each partition that can be read by now.
        tops: offset after the last record of each partition, be it one of a transaction that is still open. Empty if
            that is no other one.
    """

    ids: Mapping[str, str]
    begins: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    tops: Mapping[Partition, int] = field(default_factory=dict)


@dataclass
class Arrivals:
    """What a run found: the ranges to read, and those that it leaves out.

    Attributes:
        new: ranges to read.
        skipped: ranges that are not read: of before the table, or where records are gone. An empty one says only
            where a partition begins.
        lost: those of ``skipped`` whose records are gone.
    """

    new: list[Range] = field(default_factory=list)
    skipped: list[Range] = field(default_factory=list)
    lost: list[Range] = field(default_factory=list)


def compare(name: str, source: KafkaSource, topic_offsets: TopicOffsets, ledger_offsets: LedgerOffsets) -> Arrivals:
    """Compare the brokers' offsets with the ledger.

    Raises:
        RecordsLost: records are gone that were not read, or a topic is not the one that it was.
    """
    arrivals = Arrivals()
    demand_same(name, ledger_offsets.ids, topic_offsets)
    for partition, end in sorted(topic_offsets.ends.items()):
        begin = topic_offsets.begins[partition]
        if ledger_offsets.first and source.starting_offsets == "latest":
            arrivals.skipped.append(Range(partition, begin, end))
            continue
        start = ledger_offsets.next_offset(partition, begin)
        if (top := topic_offsets.tops.get(partition, end)) < start:
            raise truncated_topic_error(name, partition, start, top)
        if begin > start:
            lost = Range(partition, start, begin)
            if source.data_loss == "fail":
                raise lost_records_error(name, lost)
            arrivals.lost.append(lost)
            arrivals.skipped.append(lost)
            start = begin
        if start < end:
            arrivals.new.append(Range(partition, start, end))
        elif partition not in ledger_offsets.ends:
            arrivals.skipped.append(Range(partition, start, start))
    return arrivals


def demand_same(name: str, ids: Mapping[str, str], topic_offsets: TopicOffsets, during: str = "") -> None:
    """Check that no topic was deleted and created again.

    Args:
        name: the bronze table.
        ids: former id of each topic.
        topic_offsets: present offsets of the brokers.
        during: concurrent reads, for the message.

    Raises:
        RecordsLost: one was.
    """
    for topic, former in ids.items():
        if topic_offsets.ids.get(topic, former) != former:
            raise recreated_topic_error(name, topic, during)


@dataclass(frozen=True)
class LedgerOffsets:
    """What a ledger has of topics and partitions.

    Attributes:
        ids: id of each topic.
        ends: offset that each partition goes on at.
        first: whether there is no ledger yet.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    first: bool = True

    @classmethod
    def from_ledger(cls, ledger: DeltaTable | None) -> LedgerOffsets:
        """Return what this ledger has, by its newest commit: each says where all partitions go on.

        If its log says it no more, as a copy of the ledger's rows alone, they go on after the last of its ranges.
        """
        if ledger is None:
            return cls()
        metadata = _recorded_facts(ledger)
        if metadata is None:
            ranges = map(Range.from_path, tables.dataset(ledger).to_table(["path"])["path"].to_pylist())
            return cls({}, _ends(ranges), first=False)
        ends = {
            Partition(topic, int(number)): int(end)
            for topic, ends_of_topic in metadata.get("ends", {}).items()
            for number, end in ends_of_topic.items()
        }
        return cls(metadata.get("ids", {}), ends, first=False)

    def next_offset(self, partition: Partition, begin: int) -> int:
        """Return the next offset of a partition, or its beginning if the ledger does not have it."""
        if partition in self.ends:
            return self.ends[partition]
        # One that came after its topic was read first: all its records are due, from the very first.
        if any(other.topic == partition.topic for other in self.ends):
            return 0
        return begin

    def facts(self) -> dict[str, Any]:
        """Commit metadata from which it is read again."""
        ends: dict[str, dict[str, int]] = {}
        for partition, end in sorted(self.ends.items()):
            ends.setdefault(partition.topic, {})[str(partition.number)] = end
        return {LedgerFacts.kafka.key: {"ids": dict(self.ids), "ends": ends}}

    def advance(self, ranges: Iterable[Range]) -> LedgerOffsets:
        """Return the offsets after an entry of some ranges."""
        return replace(self, ends={**self.ends, **{range_.partition: range_.end for range_ in ranges}})


def _recorded_facts(ledger: DeltaTable) -> dict[str, Any] | None:
    """Return the facts on partitions in Sluicegate's newest commit, nearly always the newest of all."""
    for limit in (5, None):
        for commit in log.commits(ledger, limit):
            if commit.info.ledger.kafka is not None:
                return dict(commit.info.ledger.kafka)
    return None


def _ends(ranges: Iterable[Range]) -> dict[Partition, int]:
    ends: dict[Partition, int] = {}
    for range_ in ranges:
        ends[range_.partition] = max(range_.end, ends.get(range_.partition, 0))
    return ends


def batches(ranges: Sequence[Range], most: int) -> Iterator[list[Range]]:
    """Yield ledger batches of at most ``most`` offsets each, with the same share of every partition.

    The partitions of a topic advance together, and records of one time come in one batch.
    """
    records = sum(range_.size for range_ in ranges)
    if records == 0:
        return
    count = -(-records // most)
    starts = {range_.partition: range_.start for range_ in ranges}
    for number in range(1, count + 1):
        batch, room = [], most
        for range_ in ranges:
            until = range_.start + -(-range_.size * number // count)
            start, end = starts[range_.partition], min(until, starts[range_.partition] + room)
            if start < end:
                batch.append(Range(range_.partition, start, end))
                room -= end - start
                starts[range_.partition] = end
        yield batch
    remaining = [Range(range_.partition, starts[range_.partition], range_.end) for range_ in ranges]
    yield from batches([range_ for range_ in remaining if range_.size], most)


def enter(name: str, source: KafkaSource, uri: str, topic_offsets: TopicOffsets) -> Arrivals:
    """Enter new offset ranges into a ledger, one commit a batch, by compare-and-set, and return them.

    Args:
        name: the bronze table.
        source: its topics.
        uri: the ledger.
        topic_offsets: offsets of the brokers.

    Raises:
        RecordsLost: records are gone that were not read, or a topic is not the one that it was.
        CommitFailedError: other runs won the compare-and-set ``ATTEMPTS`` times in a row.
    """
    for attempt in range(ATTEMPTS):
        ledger = tables.delta_table(uri)
        ledger_offsets = LedgerOffsets.from_ledger(ledger)
        arrivals = compare(name, source, topic_offsets, ledger_offsets)
        try:
            _enter(
                ledger, uri, arrivals, source.maxRecordsPerBatch,
                replace(ledger_offsets, ids={**ledger_offsets.ids, **topic_offsets.ids}),
            )  # fmt: skip
        except CommitFailedError:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        return arrivals
    raise AssertionError("unreachable")


def _enter(ledger: DeltaTable | None, uri: str, arrivals: Arrivals, most: int, ledger_offsets: LedgerOffsets) -> None:
    skipped = arrivals.skipped
    if ledger is None:
        ledger_offsets = ledger_offsets.advance(skipped)
        entries = landing_ledger.stamp_rows(_entries(LedgerAction.SKIP, skipped), 0)
        ledger, skipped = landing_ledger.create(uri, entries, ledger_offsets.facts()), []
    elif not arrivals.new and not skipped:
        return
    compaction.compact_newest(ledger, "chunk", facts=ledger_offsets.facts())
    for batch in [*batches(arrivals.new, most)] or ([[]] if skipped else []):
        ledger_offsets = ledger_offsets.advance([*skipped, *batch])
        entries = [_entries(LedgerAction.SKIP, skipped), _entries(LedgerAction.READ, batch)]
        landing_ledger.append(ledger, pa.concat_tables(entries), ledger_offsets.facts())
        skipped = []


def _entries(action: LedgerAction, ranges: Iterable[Range]) -> pa.Table:
    time = datetime.now(UTC)
    rows = [{"path": range_.path, "size": range_.size, "modification_time": time} for range_ in ranges]
    return landing_ledger.add_action(action, pa.Table.from_pylist(rows, schema=FILES))


def lost_records_error(name: str, lost: Range) -> RecordsLost:
    """Return the error for records that the brokers deleted before they were read."""
    topic, number = lost.partition
    return RecordsLost(
        f"{lost.size:,} offsets of the topic {topic} were lost before {name} read them",
        where=Where(table=name, file=lost.path),
        cause=f"the next offset of partition {number} is {lost.start}, but the first record left has offset {lost.end}:"
        " the topic's retention has passed, or records were deleted",
        hint="lengthen the retention or run more often; `data_loss: skip` continues after them, and the ledger"
        " records the skipped offsets",
    )


def deleted_records_error(name: str, address: str) -> RecordsLost:
    """Return the error for records that the brokers deleted in the middle of a batch; nothing of it is written."""
    return RecordsLost(
        f"records were deleted from the topics while {name} read them",
        where=Where(table=name, file=address),
        cause="they existed when the run started",
        hint="run again: the next run reports the lost offsets",
    )


def truncated_topic_error(name: str, partition: Partition, start: int, end: int) -> RecordsLost:
    """Return the error for a partition that ends before the offset which was read last."""
    return RecordsLost(
        f"the topic {partition.topic} ends before the offset that {name} has read",
        where=Where(table=name, file=Range(partition, end, start).path),
        cause=f"the next offset of partition {partition.number} is {start}, but the brokers have no record after {end}:"
        " they lost records, or are not the brokers that were read before",
        hint="check bootstrap_servers; if the topic was recreated, read it into a new table, and let silver read both"
        " with flows",
    )


def recreated_topic_error(name: str, topic: str, during: str = "") -> RecordsLost:
    """Return the error for a topic that was deleted and created again: its offsets begin at 0 again."""
    meanwhile = ""
    if during:
        meanwhile = f"; this happened while {during}"
    return RecordsLost(
        f"the topic {topic} was deleted and recreated after {name} had read it",
        where=Where(table=name, file=f"{_SCHEME}{topic}"),
        cause="it has a new id and its offsets start at 0, so the recorded offsets do not apply to it" + meanwhile,
        hint="read it into a new table, and let silver read both with flows; or move the table and its ledger away, and"
        " the next run fills it from the records that the topic has",
    )
