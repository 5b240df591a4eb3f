"""Fill bronze from Kafka: each ledger batch, an offset range of each partition, is one commit.

Ranges are entered into the ledger before they are read (landing/kafka_ledger.py), and read by a batch query with fixed
ends, without checkpoint or consumer group. Each commit records its offsets. Unlike files, ranges block each other: a
range that cannot be read stops the table before all later ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluicegate.bronze import kafka_brokers, reread_rows
from sluicegate.bronze.ingest import Chunk
from sluicegate.bronze.kafka_reader import KafkaReader
from sluicegate.bronze.ledger_batches import chunks, newest_reread_batch
from sluicegate.bronze.unreadable_files import Failure
from sluicegate.console import say
from sluicegate.definition import BronzeTable
from sluicegate.errors import BrokerUnreachable, LandingMissing, SluicegateError
from sluicegate.flow.batch import Batch
from sluicegate.frames import small_writes
from sluicegate.lake import layout
from sluicegate.landing.file_states import UNREAD
from sluicegate.landing.kafka_ledger import Range, TopicOffsets, deleted_records_error, demand_same, lost_records_error
from sluicegate.schema.landed import record_landed_names

# Words of Spark's connector for records that are gone; and of Kafka's clients, and its own, for brokers that are not
# there.
GONE = ("KAFKA_DATA_LOSS", "OffsetOutOfRangeException", "data may have been lost", "are out of range")
OF_CLIENTS = ("org.apache.kafka.common.", "Cannot fetch record for offset")


def apply(batch: Batch, name: str, table: BronzeTable, at: layout.Lake, there: TopicOffsets) -> None:
    """Read the new ledger batches, oldest first, each into one commit.

    The brokers are asked again after each batch: a run over a backlog may take hours, in which records expire by
    retention, and a topic that is deleted and re-created has new records under former offsets.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.
        at: the lake.
        there: the brokers' offsets at the start of the run.

    Raises:
        RecordsLost: records of a range are gone, or a topic was re-created.
        LandingMissing: a topic was deleted.
        BrokerUnreachable: the brokers no longer answer.
        SchemaMismatch: a column's type differs from the definition, or a new column is not allowed.
        ExpectationFailed: records of a ledger batch break a rule that fails the run; that batch and later ones wait.
    """
    newest, places = newest_reread_batch(batch), reread_rows.ArchivedLocations(at, name)
    pending = list(chunks(batch))
    for count, (number, entries) in enumerate(pending, 1):
        started = time.monotonic()
        KafkaChunk(batch, name, table.value_table, number, entries, number <= newest, places, there=there).commit()
        there = _offsets_after(batch, name, table, there, number, is_last=count == len(pending))
        if len(pending) > 1:
            offsets = sum(entry["size"] for entry in entries if entry["action"] not in UNREAD)
            pace = offsets / max(time.monotonic() - started, 1e-3)
            left = "none left"
            if count < len(pending):
                left = f"{len(pending) - count} left"
            say(f"  bronze {name:<28} chunk {number}: {offsets:,} offsets, {pace:,.0f} a second; {left}")
    if not pending or pending[-1][0] < batch.progress.until:
        # The ledger's last commits entered nothing (it was compacted, say): only the offset moves.
        with batch.commit():
            small_writes.commit_only(batch.session, batch.flow.target)


def _offsets_after(
    batch: Batch, name: str, table: BronzeTable, before: TopicOffsets, number: int, *, is_last: bool
) -> TopicOffsets:
    """Return the brokers' offsets after a ledger batch was read; after the last batch, as far as they answer."""
    try:
        there = kafka_brokers.offsets(batch.session, name, table.topic_source)
    except (BrokerUnreachable, LandingMissing):
        if is_last:
            return before
        raise
    demand_same(name, before.ids, there, f"the rows with _chunk {number} may come from the new topic")
    return there


@dataclass
class KafkaChunk(Chunk):
    """Ledger batch of ranges on its way into one commit.

    Attributes:
        there: the brokers' offsets.
    """

    there: TopicOffsets = field(default_factory=lambda: TopicOffsets({}, {}, {}))

    @property
    def amount(self) -> dict[str, Any]:
        """Half-open offset range ``[start, end)`` of each partition."""
        by_topic: dict[str, dict[str, list[int]]] = {}
        for offset_range in (Range.from_path(entry["path"]) for entry in self.entries if entry["action"] not in UNREAD):
            by_topic.setdefault(offset_range.partition.topic, {})[str(offset_range.partition.number)] = [
                offset_range.start,
                offset_range.end,
            ]
        return {"offsets": by_topic}

    def _frame(self, paths: Sequence[str], damaged: dict[str, str], records: dict[str, int] | None = None) -> DataFrame:
        schema = self.schema()
        reader = KafkaReader(
            self.batch.session, schema, connection=kafka_brokers.reader_options(self.table.topic_source),
            begins=self._first_numbers(), parts=self._available_ranges(paths, damaged),
        )  # fmt: skip
        frame = record_landed_names(reader.read(paths), schema.landed)
        self.collisions, self.padded = schema.collisions, schema.padded_headers
        return frame.withColumn("_chunk", F.lit(self.number).cast("bigint"))

    def _first_numbers(self) -> dict[str, int]:
        """Number of the first record of each range, which is the same at each attempt."""
        begins, count = {}, 0
        for entry in sorted(self.entries, key=lambda entry: Range.from_path(entry["path"]).partition):
            if entry["action"] not in UNREAD:
                begins[entry["path"]] = count
                count += Range.from_path(entry["path"]).size
        return begins

    def _available_ranges(self, paths: Sequence[str], damaged: dict[str, str]) -> dict[str, Range]:
        """Return what the brokers still have of each range; the rest is added to ``damaged``.

        Raises:
            RecordsLost: records are gone, and the definition has ``data_loss: fail``.
        """
        parts = {}
        for path in paths:
            offset_range = Range.from_path(path)
            begin = self.there.begins.get(offset_range.partition, offset_range.end)
            if begin > offset_range.start:
                missing = Range(offset_range.partition, offset_range.start, min(begin, offset_range.end))
                if self.table.topic_source.data_loss == "fail":
                    raise lost_records_error(self.name, missing)
                damaged[path] = f"the offsets [{missing.start}, {missing.end}) were deleted before they were read"
            parts[path] = Range(
                offset_range.partition, min(max(begin, offset_range.start), offset_range.end), offset_range.end
            )
        return parts

    def _failures(self, paths: list[str], error: Exception) -> dict[str, Failure]:
        """Raise the error: a range that cannot be read is never skipped."""
        if not isinstance(error, SluicegateError):
            text = str(error)
            if any(sign in text for sign in GONE):
                raise deleted_records_error(self.name, self.table.topic_source.address) from None
            if any(sign in text for sign in OF_CLIENTS):
                raise kafka_brokers.translate_error(error, self.name, self.table.topic_source) from None
        raise error
