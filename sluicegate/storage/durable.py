"""Make writes to local files durable: until the kernel has written them to disk they are only in memory.

A journal separates names from contents, so after a power cut a deletion may persist while files written before it have
0 bytes. One ``syncfs`` for each file system waits for everything on it, whichever program wrote it.
https://man7.org/linux/man-pages/man2/syncfs.2.html
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def sync_file_systems(addresses: Iterable[str]) -> None:
    """Wait until the file systems of local folders have written all data to disk, each once.

    Args:
        addresses: folders. Those that do not exist are passed over, as are addresses of object stores, whose answer to
            a write says that it is durable.

    Raises:
        OSError: a file system could not write everything, or does not confirm it.
    """
    devices: dict[int, str] = {}
    for path in addresses:
        if "://" not in path:
            with suppress(FileNotFoundError, NotADirectoryError):
                devices.setdefault(os.stat(path).st_dev, path)
    for path in devices.values():
        _sync_file_system(path)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _sync_file_system(path: str) -> None:
    """Sync the file system of a path; all of them where there is no ``syncfs`` (macOS)."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        if syncfs(opened) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(opened)


def write(address: str, text: str) -> None:
    """Write a small file atomically: readers find the former or the new one, also after a power cut.

    Args:
        address: path or URI of the file; missing folders are created.
        text: content of the file.

    Raises:
        OSError: the file cannot be written.
    """
    from sluicegate.storage import filesystems  # which needs fsspec

    fs, path = filesystems.open_store(address)
    if "file" not in fs.protocol:  # a PUT is atomic on an object store
        fs.pipe_file(path, text.encode())
        return
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        half.write_text(text, encoding="utf-8")
        sync(half)
        half.replace(file)
    finally:
        half.unlink(missing_ok=True)
    sync(file.parent)
