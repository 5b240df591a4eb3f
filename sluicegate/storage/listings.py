"""List a landing folder as an Arrow table, on local disk, S3 or by fsspec. No Spark.

Local disk is walked with ``os.scandir`` (see storage/local_files.py) and S3 listed by Arrow, since a landing folder
may hold a million files and fsspec makes a dictionary of each. All files below a folder are listed here, those of
tables, too; which tables a pipeline has is told by their logs (``fence.written_tables``, ``set_aside.local_tables``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from pyarrow import fs as arrow

from sluicegate.storage.filesystems import clamp_time, modification_time, open_store, uri
from sluicegate.storage.local_files import Admits, Entry, Walk, reason_of
from sluicegate.storage.s3 import S3

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modification_time", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

# Files converted to Arrow at a time: a whole landing folder as Python objects would fill the memory.
AT_ONCE = 50_000

# Why a link is passed over on a store that does not show its target.
LINK = "it is a link that may lead out of the landing folder: land the file itself"

# Suffix of the empty objects by which older Hadoop and EMR mark folders.
FOLDER_MARKER = "_$folder$"


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
    fs, root = open_store(address)
    passed: dict[str, str] = {}
    if "file" in fs.protocol:
        listed = _table(Walk(root, admits, passed).files())
    elif isinstance(fs, S3):
        listed = _table(_list_s3(fs, root))
    else:
        fs.invalidate_cache(root)  # a long-lived process, such as a sensor, must not use a cached listing
        if not fs.isdir(root):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)
        listed = _table(_list_fsspec(fs, root, passed))
    if skipped_paths is not None:
        skipped_paths |= {os.fsencode(path).decode("utf-8", "replace"): reason for path, reason in passed.items()}
    return listed


def _list_fsspec(fs: Any, root: str, refused: dict[str, str]) -> Iterator[Entry]:
    """Yield the files of a store that fsspec opens."""
    if type(fs).find is not AbstractFileSystem.find and getattr(type(fs), "_find", None) is not AsyncFileSystem._find:
        entries = fs.find(root, detail=True).items()  # the store has a recursive listing
    else:
        entries = _walk(fs, root, refused)
    return ((uri(fs, path), int(info["size"]), modification_time(fs, path, info)) for path, info in entries)


def _walk(fs: Any, root: str, refused: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield files folder by folder: fsspec's own walk silently skips unreadable folders."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            inside = fs.ls(folder, detail=True)
        except (FileNotFoundError, PermissionError) as error:
            if folder == root:
                raise
            if isinstance(error, PermissionError):  # else it was moved after its name was listed
                refused[f"{uri(fs, folder)}/"] = reason_of(error)
            continue
        for info in inside:
            path = info["name"].rstrip("/")
            if info["type"] == "directory":
                if path != folder:
                    folders += [path]
            elif info.get("islink") or info["type"] == "link":
                refused[uri(fs, path)] = LINK
            else:
                yield path, info


def _table(entries: Iterable[Entry]) -> pa.Table:
    waiting = iter(entries)
    batches = []
    while chunk := list(islice(waiting, AT_ONCE)):
        paths, sizes, times = zip(*chunk, strict=True)
        stamps = pa.array(map(clamp_time, times), pa.int64()).cast(FILES.field("modification_time").type)
        columns = [pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), stamps]
        batches.append(pa.record_batch(columns, schema=FILES))
    return pa.Table.from_batches(batches, schema=FILES)


def _list_s3(fs: S3, root: str) -> Iterator[Entry]:
    for info in fs.fs.get_file_info(arrow.FileSelector(root, recursive=True)):
        marker = not info.size and info.path.endswith(FOLDER_MARKER)
        if info.type is arrow.FileType.File and not marker:
            yield uri(fs, info.path), info.size, info.mtime_ns // 1000
