"""Proof that a bronze table has the records of Kafka's topics that its ledger says, each once. No Spark, no broker.

Offsets are compared with rows. A topic may have fewer records than offsets: compaction takes records away, and a
transaction's end has an offset of its own. So of each range the rows are as many as its commit had, none has another's
offset, and none lies outside of it; how many offsets have no row is said by ``sluicegate files``. The ledger's ranges
follow each other without a gap from the first to the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, tables
from sluicegate.landing import file_status
from sluicegate.landing.file_states import FileStatus
from sluicegate.landing.kafka_ledger import Partition, Range
from sluicegate.monitor import verify_files

ID = ["_topic", "_partition", "_offset"]

# Offsets whose rows are held in memory together; about 100 bytes each.
AT_ONCE = 1_000_000


def findings(lake: layout.Lake, name: str) -> Iterator[Finding]:
    """Yield what is not right about a bronze table of Kafka's records.

    Args:
        lake: the lake.
        name: the table.
    """
    ledger, bronze = tables.delta_table(lake.ledger(name)), tables.delta_table(lake.table("bronze", name))
    if ledger is None:
        return
    if bronze is None:
        yield from verify_files.deleted_table_findings(lake, name, "ranges of offsets")
        return
    entries = verify_files.committed_entries(lake, name, ledger, bronze)
    if untold := file_status.unrecorded_batches(lake, name):
        sentence = "the status of its newest ranges is not recorded yet, because a run ended right after its commit"
        yield Finding(FindingKind.BEHIND, name, sentence, f"sluicegate run {lake.pipeline}")
    yield from _gaps(name, entries)
    read = {entry["path"]: entry for entry in entries if entry["state"] != FileStatus.SKIPPED}
    yield from _rows(name, bronze, {p: e for p, e in read.items() if e["chunk"] not in untold}, read)


def _gaps(name: str, entries: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yield the ranges of a partition that do not follow the one before them."""
    ends: dict[Partition, int] = {}
    ranges = [Range.from_path(entry["path"]) for entry in entries]
    ranges.sort(key=lambda range_: (range_.partition, range_.start, range_.end))
    for range_ in ranges:
        if (end := ends.get(range_.partition, range_.start)) != range_.start:
            topic, number = range_.partition
            where = "in no range"
            if range_.start < end:
                where = "in two ranges"
            first, last = sorted((end, range_.start))
            which = f"offsets {first:,} to {last - 1:,} of {topic}/{number}"
            yield Finding(FindingKind.WRONG, name, f"{which} are {where} of its ledger")
        ends[range_.partition] = max(ends.get(range_.partition, range_.end), range_.end)


def _rows(
    name: str, bronze: DeltaTable, settled: Mapping[str, Mapping[str, Any]], read: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield the rows that are not those of the ranges.

    They are read by a few ledger batches at a time, each of which has a bounded number of records. That is enough to
    know that no offset is there twice: ranges do not overlap (``_gaps``), and no row lies outside of its own.

    Args:
        name: the table.
        bronze: its opened table.
        settled: entries of the ranges whose rows are on record, by their paths.
        read: entries of all ranges that were read.
    """
    rows, counts, twice = tables.dataset(bronze), Counter[str](), Counter[str]()
    wrong: list[Finding] = []
    for batches in _parts(read):
        part = rows.to_table([*ID, "_chunk", "_pos", "source_file"], filter=batches)
        for columns, noun in ((ID, "offset"), (["_chunk", "_pos"], "identity")):
            twice[noun] += part.num_rows - part.group_by(columns).aggregate([]).num_rows
        groups = part.group_by(["source_file", "_chunk", "_topic", "_partition"])
        for group in groups.aggregate([([], "count_all"), ("_offset", "min"), ("_offset", "max")]).to_pylist():
            counts[group["source_file"]] += group["count_all"]
            wrong += _placement_findings(name, group, read)
    for noun, count in twice.items():
        if count:
            yield Finding(FindingKind.WRONG, name, f"{count:,} records have a duplicate {noun}")
    for path, entry in settled.items():
        if entry["rows"] is None:
            yield Finding(FindingKind.WRONG, name, f"no status is recorded for {path}")
        elif entry["rows"] != counts[path]:
            text = f"{path} has {entry['rows']:,} rows on record, but the table has {counts[path]:,} of them"
            yield Finding(FindingKind.WRONG, name, text)
    yield from wrong


def _parts(read: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """Yield conditions that split all rows by ledger batches: some ``AT_ONCE`` offsets to each, or one batch."""
    sizes = Counter[int]()
    for path, entry in read.items():
        sizes[entry["chunk"]] += Range.from_path(path).size
    number, since, size = pc.field("_chunk"), pc.scalar(True), 0
    # The first and the last have no end of their own: a row of a ledger batch that is in no ledger is looked at, too.
    for batch in sorted(sizes):
        if size and size + sizes[batch] > AT_ONCE:
            yield since & (number.is_null() | (number < batch))
            since, size = number >= batch, 0
        size += sizes[batch]
    yield since


def _placement_findings(
    name: str, group: Mapping[str, Any], read: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield what is wrong with the place of rows of one range, ledger batch and partition."""
    path = group["source_file"]
    if path not in read or read[path]["chunk"] != group["_chunk"]:
        yield Finding(FindingKind.WRONG, name, f"rows of {path} are in the table, but the range is not in the ledger")
        return
    range_, of = Range.from_path(path), Partition(group["_topic"], group["_partition"])
    if of != range_.partition or group["_offset_min"] < range_.start or group["_offset_max"] >= range_.end:
        yield Finding(FindingKind.WRONG, name, f"rows of {path} have offsets outside this range")
