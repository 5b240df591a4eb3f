"""Compaction of our own small tables: no row changes, and most rows are not rewritten each time.

The newest files are merged into one, with each older file that holds no more rows than the newer ones together: a
table of n commits has some log n files, and each row is rewritten so many times. delta-rs's OPTIMIZE is not used: two
concurrent ones both succeed, and every row is doubled (1.6.6). This is one commit that adds a file and removes others
(``dataChange`` is false for all, so streams and change feed skip it), by compare-and-set on the version whose files
were read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from sluicegate.lake import tables
from sluicegate.lake.commits.commit_info import CommitInfo

# Rows of a row group: the unit that a reader can skip.
ROW_GROUP = 16_384


def compact_newest(table: DeltaTable, column: str, texts: tuple[str, ...] = (), facts: Mapping[str, Any] = {}) -> bool:
    """Compact the newest files of a table, once there are ``MANY_FILES``; ``table`` then has the new version.

    Args:
        table: a table without partitions or deletion vectors.
        column: integer column that grows with each commit; rows are sorted by it, newest first.
        texts: columns of short texts that get min/max statistics.
        facts: our commit metadata.

    Returns:
        whether a commit was made.

    Raises:
        CommitFailedError: another commit won the compare-and-set.
    """
    filesystem = tables.filesystem(table)
    if filesystem is None or not tables.is_plain(table):
        return False
    files = tables.statistics(table, "path", "size_bytes", "num_records", f"max.{column}")
    if files.num_rows < tables.MANY_FILES or any(files[name].null_count for name in files.column_names):
        return False
    taken = _newest_files(files.sort_by([(f"max.{column}", "descending")]))
    rows = tables.files_of(table, taken["path"].to_pylist()).to_table().sort_by([(column, "descending")])
    if rows.num_rows != pc.sum(taken["num_records"]).as_py():
        return False  # the statistics in the log are wrong: leave the files alone
    added = _write_file(rows, column, texts, filesystem)
    milliseconds = time.time_ns() // 1_000_000
    removed = [RemoveAction(file["path"], False, milliseconds, file["size_bytes"]) for file in taken.to_pylist()]
    version = table.version() + 1
    table.create_write_transaction(
        [*removed, added], mode="append", schema=table.schema(),
        commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=CommitInfo(facts).properties()),
    )  # fmt: skip
    table.load_as_version(version)
    if len(removed) > 10 * tables.MANY_FILES:
        table.create_checkpoint()  # else the next reader replays the removal of all those files
    return True


def _newest_files(files: pa.Table) -> pa.Table:
    """Return the files to merge: the first two, then each that has no more rows than all before it together."""
    rows = number = 0
    for count in files["num_records"].to_pylist():
        if number >= 2 and count > rows:
            break
        rows, number = rows + count, number + 1
    return files.slice(0, number)


def _write_file(rows: pa.Table, column: str, texts: tuple[str, ...], filesystem: Any) -> AddAction:
    """Write a data file with these rows and return its ``add`` action; no version refers to it yet."""
    import pyarrow.parquet as pq

    name = f"part-{uuid4()}-c000.zstd.parquet"
    pq.write_table(rows, name, filesystem=filesystem, row_group_size=ROW_GROUP, compression="zstd")
    counted = [field.name for field in rows.schema if pa.types.is_integer(field.type) or field.name in texts]
    spans = {name: pc.min_max(rows[name]).as_py() for name in counted if rows[name].null_count < rows.num_rows}
    stats = {
        "numRecords": rows.num_rows,
        "minValues": {name: span["min"] for name, span in spans.items()},
        "maxValues": {name: span["max"] for name, span in spans.items()},
        "nullCount": {field.name: rows[field.name].null_count for field in rows.schema},
    }
    size = filesystem.get_file_info(name).size
    return AddAction(name, size, {}, time.time_ns() // 1_000_000, False, json.dumps(stats))
