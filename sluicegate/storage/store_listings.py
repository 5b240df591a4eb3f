"""List a folder of a store that fsspec opens, or S3 by Arrow; a local one where an address names it by a URI."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from pyarrow import fs as arrow

from sluicegate.storage.filesystems import modification_time, open_store, uri
from sluicegate.storage.local_files import Admits, Entry, Walk, reason_of
from sluicegate.storage.s3 import S3

# Why a link is passed over on a store that does not show its target.
LINK = "it is a link that may lead out of the landing folder: land the file itself"

# Suffix of the empty objects by which older Hadoop and EMR mark folders.
FOLDER_MARKER = "_$folder$"


def entries(address: str, admits: Admits, skipped_paths: dict[str, str]) -> Iterable[Entry]:
    """Return the files in a folder and below; see ``listings.files``."""
    fs, root = open_store(address)
    if "file" in fs.protocol:
        return Walk(root, admits, skipped_paths).files()
    if isinstance(fs, S3):
        return _list_s3(fs, root)
    fs.invalidate_cache(root)  # a long-lived process, such as a sensor, must not use a cached listing
    if not fs.isdir(root):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)
    return _list_fsspec(fs, root, skipped_paths)


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


def _list_s3(fs: S3, root: str) -> Iterator[Entry]:
    for info in fs.fs.get_file_info(arrow.FileSelector(root, recursive=True)):
        marker = not info.size and info.path.endswith(FOLDER_MARKER)
        if info.type is arrow.FileType.File and not marker:
            yield uri(fs, info.path), info.size, info.mtime_ns // 1000
