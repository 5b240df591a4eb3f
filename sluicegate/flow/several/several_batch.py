"""Batch of several flows: the rows of each in one frame, and one commit with all offsets.

Sources have different columns. So in the frame a record has its identity, with its flow, and all of its columns in one
struct named after the flow, which is NULL in records of other flows. Spark unpacks this before it reads: each flow's
records are read as if alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate.flow.batch import Batch
from sluicegate.flow.model import StreamProgress, name_of
from sluicegate.flow.streaming import delivery
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.lake import tables
from sluicegate.schema import columns
from sluicegate.schema.columns import FLOW, IDENTITY, ROW
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def records_column(name: str) -> str:
    """Return the column with the records of a flow."""
    return f"_sluicegate_of_{name}"


def pack_flows(frames: Mapping[str, DataFrame], *, numbered: bool) -> DataFrame:
    """Pack the records of several flows into one frame.

    Args:
        frames: records of each flow, by its name.
        numbered: whether the identity of records includes a number; it is 0 for sources without one.
    """
    from pyspark.sql import functions as F

    def pack_flow(name: str, frame: DataFrame) -> DataFrame:
        identity = (*IDENTITY, FLOW, *([ROW] if numbered else []))
        frame = add_flow_name(frame, name, numbered=numbered)
        return frame.select(*identity, F.struct(*map(quote_name, frame.columns)).alias(records_column(name)))

    records = [pack_flow(name, frame) for name, frame in frames.items()]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), records)


def add_flow_name(frame: DataFrame, name: str, *, numbered: bool) -> DataFrame:
    """Add ``_record_flow`` to records of a flow: its name, before the flow within its source."""
    from pyspark.sql import functions as F

    if FLOW in frame.columns:
        inner = F.concat(F.lit(f"{name}/"), F.col(FLOW))
    else:
        inner = F.lit(name)
    frame = frame.withColumn(FLOW, inner)
    if numbered and ROW not in frame.columns:
        return frame.withColumn(ROW, F.lit(0).cast("bigint"))
    return frame


def unpack_flow(records: DataFrame, name: str) -> DataFrame:
    """Unpack the records of one flow, with its source's columns and ``_record_flow``."""
    return records.where(f"{quote_name(records_column(name))} IS NOT NULL").select(
        f"{quote_name(records_column(name))}.*"
    )


@dataclass
class StreamsBatch(Batch):
    """Batch of several flows.

    Attributes:
        deliveries: delivery of each flow by name.
        counts: row count of each flow by its source's log.
    """

    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> DataFrame:
        """Rows of all flows; see ``pack_flows``."""
        return self._pack_flows({name: delivery.rows for name, delivery in self.deliveries.items()})

    @property
    def rows_by_flow(self) -> Mapping[str, DataFrame]:
        """Rows of each flow by name, with its source's columns and ``_record_flow``."""
        numbered = self.progress.of_many
        return {name: add_flow_name(part.rows, name, numbered=numbered) for name, part in self.deliveries.items()}

    @property
    def counts_by_flow(self) -> Mapping[str, int]:
        """Row count of each flow."""
        return self.counts

    def records(self) -> DataFrame:
        """Return all records of all flows as of the end of the batch; see ``pack_flows``."""
        streams = self.progress.streams.items()
        records = {name: self._records_at(self.flow.streams[name], stream.until) for name, stream in streams}
        return self._pack_flows(records)

    def widen_to_all_rows(self) -> Batch:
        """Return this batch over all rows of all sources, to replace the target."""
        return _widen_to_all_rows(self)

    @property
    def may_have_rescued(self) -> bool:
        """Whether any flow may have records with rescued data, or that could not be parsed."""
        return any(delivery.may_have_rescued for name, delivery in self.deliveries.items() if self.counts[name])

    def prove(self) -> None:
        """Check the rows of each flow against the log of its source; see ``Delivery.prove``."""
        for delivered in self.deliveries.values():
            delivered.prove()

    def _pack_flows(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        return pack_flows(frames, numbered=self.progress.of_many)


def batch_of(session: SparkSession, batch: Batch) -> StreamsBatch:
    """Return the batch of several flows.

    Args:
        session: the session.
        batch: the batch, whose own rows are not used.

    Raises:
        RuntimeError: the history of a source is gone in the middle; see ``GAP`` in flow/streaming/source_stream.py.
    """
    of_streams = StreamsBatch(**{attribute.name: getattr(batch, attribute.name) for attribute in fields(Batch)})
    if batch.whole:
        return _widen_to_all_rows(of_streams)
    deliveries: dict[str, Delivery] = {}
    counts: dict[str, int] = {}
    streams = dict(batch.progress.streams)
    for name in streams:
        try:
            deliveries[name], counts[name] = _delivery(session, of_streams, name, streams[name])
        except RuntimeError as error:
            if delivery.GONE not in str(error):
                raise
            reason = f"the history of {name_of(batch.flow.streams[name])} is no longer available"
            streams[name] = replace(streams[name], restarts=True, why=reason)
            deliveries[name], counts[name] = _delivery(session, of_streams, name, streams[name])
    progress = replace(batch.progress, streams=streams)
    return replace(
        of_streams, delivery=_first_delivery(deliveries), deliveries=deliveries, counts=counts,
        read=sum(counts.values()),
        progress=progress, reprocesses=batch.reprocesses or progress.reprocesses,
    )  # fmt: skip


def _widen_to_all_rows(batch: StreamsBatch) -> StreamsBatch:
    versions = {name: (batch.flow.streams[name], stream.until) for name, stream in batch.progress.streams.items()}
    deliveries = {
        name: Delivery(
            batch._records_at(uri, version), replace(batch.flow, source=uri), table=batch.opened.table_at(uri, version)
        )
        for name, (uri, version) in versions.items()
    }
    counts = {name: batch.opened.rows_at(uri, version) for name, (uri, version) in versions.items()}
    return replace(
        batch, delivery=_first_delivery(deliveries), deliveries=deliveries, counts=counts, read=sum(counts.values()),
        whole=True, reprocesses=False, choice=None,
    )  # fmt: skip


def _delivery(session: SparkSession, batch: Batch, name: str, stream: StreamProgress) -> tuple[Delivery, int]:
    """Return the rows of a flow, and their number by the log."""
    uri = batch.flow.streams[name]
    flow = replace(batch.flow, source=uri)
    if stream.is_whole:
        table = batch.opened.table_at(uri, stream.until)
        return Delivery(batch._records_at(uri, stream.until), flow, table=table), tables.rows(table)
    if not stream.has_work:
        return Delivery(batch._records_at(uri, stream.until).limit(0), flow), 0
    expected = delivery.expected_rows(uri, stream.since, stream.until, feed=True)
    changes = table_reader.changes(session, uri, stream.since + 1, stream.until)
    rows = changes.where(f"_commit_version <= {stream.until}").drop(*columns.CHANGE_COLUMNS)
    delivered = Delivery(rows, flow, expected)
    return delivered, delivered.read


def _first_delivery(deliveries: Mapping[str, Delivery]) -> Delivery:
    return next(iter(deliveries.values()))
