"""Ledger batches that bronze has not processed yet, and the files to read for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql import functions as F

from sluicegate.console import files, human_bytes, say, time_left
from sluicegate.flow.batch import Batch
from sluicegate.lake import offsets, tables
from sluicegate.landing.file_states import UNREAD

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A row of the ledger.
Entry = dict[str, Any]


class Amount(NamedTuple):
    """Number and bytes of files that are read."""

    files: int
    bytes: int

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Amount:
        """Return the amount of the files of some ledger entries."""
        sizes = [entry["size"] for entry in read_entries(entries)]
        return cls(len(sizes), sum(sizes))

    def __str__(self) -> str:
        return f"{files(self.files)}, {human_bytes(self.bytes)}"


class Pace:
    """Pace of consecutive ledger batches, in lines that a run prints.

    Args:
        name: the bronze table.
        batches: entries of all ledger batches to process.
    """

    def __init__(self, name: str, batches: Sequence[list[Entry]]) -> None:
        self.name, self.prints = name, len(batches) > 1
        self.total = self.left = Amount.from_entries(entry for entries in batches for entry in entries)
        self.begin = self.previous = time.monotonic()

    def report_batch(self, number: int, files_read: Amount, rows: Callable[[], int]) -> None:
        """Print the size and pace of the ledger batch that was just committed, and what is left.

        Args:
            number: number of the ledger batch.
            files_read: its files.
            rows: returns the number of rows that it gave.
        """
        self.left = Amount(self.left.files - files_read.files, self.left.bytes - files_read.bytes)
        moment = time.monotonic()
        seconds, self.previous = max(moment - self.previous, 1e-3), moment
        if not self.prints:
            return
        count, remainder = rows(), "none left"
        if self.left.files:
            remainder = f"{self.left} left"
        remainder += time_left(moment - self.begin, self.total.bytes - self.left.bytes, self.left.bytes)
        pace = f"{count:,} rows, {count / seconds:,.0f} a second"
        say(f"  bronze {self.name:<28} chunk {number}: {files_read}, {pace}; {remainder}")


def read_entries(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry["action"] not in UNREAD]


def chunks(batch: Batch) -> Iterator[tuple[int, list[Entry]]]:
    """Yield the ledger batches in order, each with its files in order of arrival."""
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


def newest_reread_batch(batch: Batch) -> int:
    """Return the newest ledger batch with rows that must be read again, as after an interrupted RESTORE."""
    if not batch.progress.restores:
        return -1
    target = tables.delta_table(batch.flow.target)
    if target is None:
        return -1
    newest = offsets.newest_chunk(target, batch.progress.since)
    if newest is None:
        return -1
    return newest
