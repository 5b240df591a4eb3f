"""List a landing folder as an Arrow table, on local disk, S3 or by fsspec. No Spark.

Local disk is walked with ``os.scandir`` (see storage/local_files.py) and S3 listed by Arrow, since a landing folder
may hold a million files and fsspec makes a dictionary of each. All files below a folder are listed here, those of
tables, too; which tables a pipeline has is told by their logs (``fence.written_tables``, ``set_aside.local_tables``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

import pyarrow as pa

from sluicegate.storage.filesystems import clamp_time, to_local_path
from sluicegate.storage.local_files import Admits, Entry, Walk

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# Files converted to Arrow at a time: a whole landing folder as Python objects would fill the memory.
AT_ONCE = 50_000


def files(address: str, admits: Admits = lambda _: True, skipped_paths: dict[str, str] | None = None) -> pa.Table:
    """List all files in a folder and below (schema ``FILES``), without folder markers.

    Entries that are not files (a pipe, a dangling link) are omitted, and so are local names that are not UTF-8.

    Args:
        address: the folder.
        admits: predicate on names below the folder, which decides the name of a file with links. It filters no file.
        skipped_paths: receives entries that are unreadable or lead out of the folder, with the reason; the
            name of a folder ends in ``/``.

    Raises:
        FileNotFoundError: the folder does not exist.
        OSError: the folder cannot be listed.
    """
    passed: dict[str, str] = {}
    listed = _table(_entries(address, admits, passed))
    if skipped_paths is not None:
        skipped_paths |= {os.fsencode(path).decode("utf-8", "replace"): reason for path, reason in passed.items()}
    return listed


def _entries(address: str, admits: Admits, skipped_paths: dict[str, str]) -> Iterable[Entry]:
    path = to_local_path(address)
    if path is not None:
        return Walk(path, admits, skipped_paths).files()
    from sluicegate.storage import store_listings  # which needs fsspec

    return store_listings.entries(address, admits, skipped_paths)


def _table(entries: Iterable[Entry]) -> pa.Table:
    waiting = iter(entries)
    batches = []
    while chunk := list(islice(waiting, AT_ONCE)):
        paths, sizes, times = zip(*chunk, strict=True)
        stamps = pa.array(map(clamp_time, times), pa.int64()).cast(FILES.field("modification_time").type)
        columns = [pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), stamps]
        batches.append(pa.record_batch(columns, schema=FILES))
    return pa.Table.from_batches(batches, schema=FILES)
