"""Sizes of unpacked files and of their longest lines, found without holding either in memory.

Data that is held in memory as a whole (a line, or a multi-line JSON file) is limited by ``maxRecordBytes`` of the
definition, and a decompressed file by ``maxFileBytes``: otherwise a few megabytes that expand to gigabytes would end
every run. Most files need not be read for this, since their listed sizes decide.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sluicegate.console import human_bytes
from sluicegate.lake.layout import is_local, local_path
from sluicegate.spark import executors
from sluicegate.storage import filesystems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import BronzeTable

# Suffixes of files that are unpacked, with the most bytes that one byte can become where that is known.
# Not .lz4 and .snappy, whose frames are Hadoop's own: they are taken as they are.
GROWTH = {".gz": 1032, ".deflate": 1032, ".bz2": None, ".zst": None, ".xz": None, ".zip": None}

# Formats in which a line is a record, or may be; the others' records are bounded by their own readers.
OF_LINES = ("json", "csv", "text")
PACKABLE = (*OF_LINES, "xml")

BLOCK = 1 << 20

# Errors of unpacking a file that is damaged.
UNPACKING = (zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class FileFault(ValueError):
    """Raised for a file that cannot be read as the definition says, with the reason."""


class SizeLimits(NamedTuple):
    """Size limits of a definition.

    Attributes:
        record: bytes of a record.
        file: bytes of a decompressed file.
        whole: whether a file is held in memory as one.
        lines: whether a line is held in memory as one.
        separator: line separator, if the definition sets one.
    """

    record: int
    file: int
    whole: bool
    lines: bool
    separator: str = ""

    @classmethod
    def from_table(cls, table: BronzeTable) -> SizeLimits:
        """Take the limits from a table's definition."""
        options = {name.lower(): value for name, value in table.options.items()}
        several, text = (options.get(name, "").lower() == "true" for name in ("multiline", "wholetext"))
        whole = table.format == "binaryFile" or text or (table.format == "json" and several)
        lines = table.format in OF_LINES and not whole and not several
        return cls(table.maxRecordBytes, table.maxFileBytes, whole, lines, options.get("linesep", ""))

    def violation(self, size: int, longest: int = 0) -> str | None:
        """Return why a file is too large; None if it is not."""
        if size > self.file:
            return f"it is larger than maxFileBytes ({human_bytes(self.file)}) when decompressed"
        if self.whole and size > self.record:
            return f"it is one record, and larger than maxRecordBytes ({human_bytes(self.record)})"
        if self.lines and longest > self.record:
            return f"it has a line longer than maxRecordBytes ({human_bytes(self.record)})"
        return None

    def fits(self, path: str, size: int) -> bool | None:
        """Return whether a file is within the limits; None if only reading it can decide."""
        growth = GROWTH.get(os.path.splitext(path.lower())[1], 1)
        if growth is not None and size * growth <= min(self.record, self.file):
            return True
        if growth == 1 and (not self.lines or self.violation(size)):
            return self.violation(size) is None
        return None


def oversized_files(
    session: SparkSession, table: BronzeTable, paths: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, str]:
    """Return the files that are larger than the definition allows, each with the reason.

    Args:
        session: the Spark session; its executors read the files whose listed size does not decide.
        table: the table's definition.
        paths: the files.
        sizes: their sizes as listed; missing ones are looked up.
    """
    if table.format not in (*PACKABLE, "binaryFile"):
        return {}
    bounds = SizeLimits.from_table(table)
    too_large_files: dict[str, str] = {}
    unsure: list[str] = []
    for path in paths:
        if path in sizes:
            size = sizes[path]
        else:
            size = _size(path)
        fits = bounds.fits(path, size)
        if fits is None:
            unsure.append(path)
        elif not fits:
            too_large_files[path] = bounds.violation(size) or ""
    measured = executors.map_files(session, measure, unsure, *bounds, few=0)
    return too_large_files | {path: reason for path, reason in measured.items() if reason}


def _size(path: str) -> int:
    try:
        if is_local(path):
            return os.stat(local_path(path)).st_size
        filesystem, inner = filesystems.open_store(path)
        return int(filesystem.size(inner) or 0)
    except OSError:
        return 0  # gone, perhaps: the reader reports it


def measure(path: str, *limits: Any) -> str | None:
    """Return why a file is too large, read block by block up to the first exceeded limit; None if it is not.

    A file that cannot be unpacked is left to the reader: its error names what is broken. ``limits`` are those of
    ``SizeLimits``.
    """
    bounds = SizeLimits(*limits)
    size = line = 0
    try:
        with _open_file(path) as file:
            for block in blocks_of(file, path):
                size += len(block)
                longest, line = _line_lengths(block, line, bounds.separator)
                if reason := bounds.violation(size, longest):
                    return reason
    except (OSError, EOFError, ValueError, ImportError, *UNPACKING):
        return None
    return None


def _open_file(path: str) -> Any:
    if is_local(path):
        return open(local_path(path), "rb")
    return filesystems.reader(path)


def _line_lengths(block: bytes, begun: int, separator: str) -> tuple[int, int]:
    """Return the length of the longest line of a block and of its last line, in bytes.

    The first line already has ``begun`` bytes.
    """
    if separator:
        ends = block.split(separator.encode())
    else:
        ends = block.replace(b"\r", b"\n").split(b"\n")
    lengths = list(map(len, ends))
    lengths[0] += begun
    return max(lengths), lengths[-1]


def blocks_of(file: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the content of a file in blocks of bounded size, decompressed by its suffix as Hadoop does.

    Args:
        file: the file, opened.
        path: its path.
    """
    suffix = os.path.splitext(path.lower())[1]
    if suffix == ".deflate":
        yield from _inflate(file)
        return
    unpacked = file
    if suffix in OPENERS:
        unpacked = OPENERS[suffix](file)
    while block := unpacked.read(BLOCK):
        yield block


def _open_zstd(file: IO[bytes]) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _open_member(file: IO[bytes]) -> IO[bytes]:
    """Open the one file of a zip archive.

    Raises:
        FileFault: it has none, or several, or it cannot be unpacked.
    """
    try:
        archive = zipfile.ZipFile(file)
        names = [member.filename for member in archive.infolist() if not member.is_dir()]
        if len(names) == 1:
            return archive.open(names[0])
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # the second of one with a password
        raise FileFault(f"its archive cannot be unpacked: {error}") from error
    raise FileFault(f"its archive has {len(names):,} files, not one: land each of them by itself")


# What unpacks an opened file, by its suffix.
OPENERS: Mapping[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".zst": _open_zstd, ".zip": _open_member,
}  # fmt: skip


def _inflate(file: IO[bytes]) -> Iterator[bytes]:
    inflating, packed = zlib.decompressobj(), b""
    while not inflating.eof and (packed := inflating.unconsumed_tail or file.read(BLOCK)):
        yield inflating.decompress(packed, BLOCK)
