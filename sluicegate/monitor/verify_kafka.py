"""Proof that a bronze table has the records of Kafka's topics that its ledger says, each once. No Spark, no broker.

Offsets are compared with rows. A topic may have fewer records than offsets: compaction takes records away, and a
transaction's end has an offset of its own. So of each range the rows are as many as its commit had, none has another's
offset, and none lies outside of it; how many offsets have no row is said by ``sluicegate files``. The ledger's ranges
follow each other without a gap from the first to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import DeltaTable

from sluicegate.flow.finding import Finding
from sluicegate.lake import layout, offsets, tables
from sluicegate.landing import file_status
from sluicegate.landing.kafka_ledger import Partition, Range

ID = ["_topic", "_partition", "_offset"]


def findings(at: layout.Lake, name: str) -> Iterator[Finding]:
    """What is not right about a bronze table of Kafka's records.

    Args:
        at: the lake.
        name: the table.
    """
    ledger, bronze = tables.delta_table(at.ledger(name)), tables.delta_table(at.table("bronze", name))
    if ledger is None:
        return
    if bronze is None:
        if gone := tables.rows(tables.delta_table(at.outcome(name))):
            what = f"the table is gone, into which {gone:,} ranges of offsets were read; a run reads them again"
            yield Finding("wrong", name, what, f"sluicegate run {at.pipeline}")
        return
    line = offsets.lineage(bronze)
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), line).offset or 0
    entries = [entry for entry in file_status.statuses(at, name).to_pylist() if entry["chunk"] <= offset]
    if untold := file_status.untold(at, name):
        what = "the status of its newest ranges is not on record yet, as a run ended right after its commit"
        yield Finding("behind", name, what, f"sluicegate run {at.pipeline}")
    yield from _gaps(name, entries)
    read = {entry["path"]: entry for entry in entries if entry["state"] != "skipped"}
    yield from _rows(name, bronze, {p: e for p, e in read.items() if e["chunk"] not in untold}, read)


def _gaps(name: str, entries: list[dict[str, Any]]) -> Iterator[Finding]:
    """Ranges of a partition that do not follow the one before them."""
    ends: dict[Partition, int] = {}
    ranges = sorted((Range.of(entry["path"]) for entry in entries), key=lambda one: (one.partition, one.start, one.end))
    for one in ranges:
        if (end := ends.get(one.partition, one.start)) != one.start:
            topic, number = one.partition
            what = "in two ranges" if one.start < end else "in no range"
            first, last = sorted((end, one.start))
            which = f"offsets {first:,} to {last - 1:,} of {topic}/{number}"
            yield Finding("wrong", name, f"{which} are {what} of its ledger")
        ends[one.partition] = max(ends.get(one.partition, one.end), one.end)


def _rows(
    name: str, bronze: DeltaTable, settled: Mapping[str, Mapping[str, Any]], read: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Rows that are not those of the ranges.

    Args:
        name: the table.
        bronze: its opened table.
        settled: entries of the ranges whose rows are on record, by their paths.
        read: entries of all ranges that were read.
    """
    rows = tables.dataset(bronze).to_table([*ID, "_chunk", "_pos", "source_file"])
    for columns, what in ((ID, "offset"), (["_chunk", "_pos"], "identity")):
        twice = rows.num_rows - rows.group_by(columns).aggregate([]).num_rows
        if twice:
            yield Finding("wrong", name, f"{twice:,} records have the {what} of another")
    counted = rows.group_by(["source_file", "_chunk", "_topic", "_partition"]).aggregate(
        [([], "count_all"), ("_offset", "min"), ("_offset", "max")]
    )
    found = {group["source_file"]: group for group in counted.to_pylist()}
    for path, entry in settled.items():
        there = found[path]["count_all"] if path in found else 0
        if entry["rows"] is None:
            yield Finding("wrong", name, f"no status is on record for {path}")
        elif entry["rows"] != there:
            yield Finding("wrong", name, f"{path} gave {entry['rows']:,} rows, and {there:,} are in the table")
    for path, group in found.items():
        if path not in read or read[path]["chunk"] != group["_chunk"]:
            yield Finding("wrong", name, f"rows of {path} are in the table, but not the range in the ledger")
            continue
        its = Range.of(path)
        of = Partition(group["_topic"], group["_partition"])
        if of != its.partition or group["_offset_min"] < its.start or group["_offset_max"] >= its.end:
            yield Finding("wrong", name, f"rows of {path} have offsets that are not in this range")
