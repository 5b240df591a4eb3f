"""Ledger batches that bronze has not taken in yet, and what is to be read for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from sluicegate.console import files, human_bytes
from sluicegate.lake import offsets, tables
from sluicegate.landing.ledger import UNREAD

if TYPE_CHECKING:
    from sluicegate.flow.batch import Batch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A row of the ledger.
Entry = dict[str, Any]


class Left(NamedTuple):
    """Number and bytes of the files that are to be read."""

    files: int
    bytes: int

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Left:
        """Those of the files of some ledger entries."""
        sizes = [entry["size"] for entry in read_of(entries)]
        return cls(len(sizes), sum(sizes))

    def __str__(self) -> str:
        return f"{files(self.files)}, {human_bytes(self.bytes)}"


def read_of(entries: Iterable[Entry]) -> list[Entry]:
    """Entries whose files are read."""
    return [entry for entry in entries if entry["action"] not in UNREAD]


def chunks(batch: Batch) -> Iterator[tuple[int, list[Entry]]]:
    """Ledger batches in order, each with its files in order of arrival."""
    columns = [*map(F.col, ("path", "size", "action", "chunk")), F.unix_micros("modification_time").alias("micros")]
    rows: list[Entry] = [
        # Spark's own times lose their zone on the way into Python.
        {**row.asDict(), "modification_time": EPOCH + timedelta(microseconds=row["micros"])}
        for row in batch.rows.select(*columns).collect()
        # A RESTORE of the ledger shows entries once more that were taken in, as its files were compacted since.
        if row["chunk"] > batch.progress.since
    ]
    rows.sort(key=lambda row: (row["chunk"], row["modification_time"], row["path"]))
    for chunk, entries in groupby(rows, key=lambda row: row["chunk"]):
        yield int(chunk), list(entries)


def newest_redone(batch: Batch) -> int:
    """Newest ledger batch with rows that is to be read all the same: a run went on in the middle of a RESTORE."""
    target = tables.delta_table(batch.flow.target) if batch.progress.restores else None
    newest = offsets.newest_chunk(target, batch.progress.since) if target is not None else None
    return -1 if newest is None else newest
