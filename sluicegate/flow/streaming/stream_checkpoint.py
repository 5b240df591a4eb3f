"""Read the checkpoint of a Spark stream over a Delta table without Spark.

``metadata`` has the id of the query, ``offsets/N`` where batch N ends, written before it is run, and ``commits/N`` is
there once it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.lake.layout import is_local, local_path
from sluicegate.storage import filesystems

# Delta's index of an offset before all files of a version: everything before that version, nothing of it yet.
BASE = -1


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint with one source.

    Attributes:
        address: path or URI of the checkpoint's folder.
    """

    address: str

    @property
    def location(self) -> str:
        """Location for Spark, which must not resolve a local path on its default file system."""
        if is_local(self.address):
            return f"file://{local_path(self.address)}"
        return self.address

    def query(self) -> str | None:
        """Return Spark's ID of the query; None without a readable checkpoint."""
        try:
            return str(json.loads(self._text("metadata") or "")["id"])
        except (ValueError, KeyError, TypeError):  # half-written when a machine went down
            return None

    def end(self, batch: int) -> int | None:
        """Return the source version at the end of a batch; None if unknown, or within a version."""
        try:
            return end_version(self._text(f"offsets/{batch}") or "")
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def is_begun(self, batch: int) -> bool:
        """Return whether Spark has recorded the end of a batch."""
        return self._text(f"offsets/{batch}") is not None

    def is_done(self, batch: int) -> bool:
        """Return whether Spark has recorded that a batch is done."""
        return self._text(f"commits/{batch}") is not None

    def remove(self) -> None:
        """Delete the checkpoint, if it exists."""
        fs, folder = filesystems.open_store(self.address)
        if fs.exists(folder):
            fs.rm(folder, recursive=True)

    def _text(self, file: str) -> str | None:
        fs, folder = filesystems.open_store(self.address)
        try:
            return bytes(fs.cat_file(f"{folder}/{file}")).decode()
        except (FileNotFoundError, UnicodeDecodeError):
            return None


def end_version(offsets: str, files: Callable[[int], int] | None = None) -> int | None:
    """Return the Delta version at the end of a batch, from the text of its offsets.

    Args:
        offsets: text that Spark wrote.
        files: number of files that a version delivers. After the last of them Delta writes the next version, but after
            the last change file it may write that file's index.

    Returns:
        None if the batch ends in the middle of a version.
    """
    ends = json.loads(offsets.splitlines()[2])
    version, index = int(ends["reservoirVersion"]), int(ends["index"])
    if index == BASE:
        return version - 1
    if files is not None and index + 1 == files(version):
        return version
    return None
