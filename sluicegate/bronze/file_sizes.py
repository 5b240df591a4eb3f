"""Sizes of unpacked files and of their longest lines, found without holding either in memory.

Data that is held in memory as a whole (a line, or a multi-line JSON file) is limited by ``maxRecordBytes`` of the
definition, and a decompressed file by ``maxFileBytes``: otherwise a few megabytes that expand to gigabytes would end
every run. Most files need not be read for this, since their listed sizes decide.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sluicegate.console import human_bytes
from sluicegate.landing.file_names import ARCHIVE_COMPANION
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

# Bytes at the end of a zip archive that say where its directory is, with a comment, and most bytes of a directory.
LONGEST_END = (1 << 16) + 22
LONGEST_DIRECTORY = 1 << 20

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
        unpacks: whether files are decompressed; otherwise a packed file is data as it is.
    """

    record: int
    file: int
    whole: bool
    lines: bool
    separator: str = ""
    unpacks: bool = True

    @classmethod
    def from_table(cls, table: BronzeTable) -> SizeLimits:
        """Take the limits from a table's definition."""
        is_binary, several = table.format == "binaryFile", table.has_option("multiline")
        whole = is_binary or table.has_option("wholetext") or (table.format == "json" and several)
        lines = table.format in OF_LINES and not whole and not several
        separator = table.options_by_lower_name.get("linesep", "")
        return cls(table.maxRecordBytes, table.maxFileBytes, whole, lines, separator, not is_binary)

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
        growth: int | None = 1
        if self.unpacks:
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
        size = sizes.get(path)
        if size is None:
            size = _size(path)
        fits = bounds.fits(path, size)
        if fits is None:
            unsure.append(path)
        elif not fits:
            too_large_files[path] = bounds.violation(size) or ""
    measured = executors.map_files(session, measure, unsure, *bounds, few=0)
    return too_large_files | {path: reason for path, reason in measured.items() if reason}


def _size(path: str) -> int:
    facts = None
    with suppress(OSError):  # gone, perhaps: the reader reports it
        facts = filesystems.file_facts(path)
    if facts is None:
        return 0
    return facts[0]


def measure(path: str, *limits: Any) -> str | None:
    """Return why a file is too large, read block by block up to the first exceeded limit; None if it is not.

    A file that cannot be unpacked is left to the reader: its error names what is broken. ``limits`` are those of
    ``SizeLimits``.
    """
    bounds = SizeLimits(*limits)
    size = line = 0
    try:
        with filesystems.reader(path) as file:
            for block in blocks_of(file, path):
                size += len(block)
                longest, line = _line_lengths(block, line, bounds.separator)
                if reason := bounds.violation(size, longest):
                    return reason
    except (OSError, EOFError, ValueError, ImportError, *UNPACKING):
        return None
    return None


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
        _demand_short_directory(file)
        archive = zipfile.ZipFile(file)
        names = [name for name in archive.namelist() if not (name.endswith("/") or ARCHIVE_COMPANION.search(name))]
        if len(names) == 1:
            return archive.open(names[0])
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # the second of one with a password
        raise FileFault(f"its archive cannot be unpacked: {error}") from error
    raise FileFault(f"its archive has {len(names):,} files, not one: land each of them by itself")


def _demand_short_directory(file: IO[bytes]) -> None:
    """Refuse a zip archive whose directory is long: for each entry of it Python makes an object, before any is read."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_END))
    about = file.read().rpartition(b"PK\5\6")[2]
    if int.from_bytes(about[8:12], "little") > LONGEST_DIRECTORY:
        raise FileFault("its archive has thousands of entries, not one: land each file by itself")


def _open_xz(file: IO[bytes]) -> IO[bytes]:
    """Open an .xz file, of which lzma.LZMAFile would leave out all behind a stream that begins no other one."""
    from _compression import DecompressReader

    return io.BufferedReader(DecompressReader(file, lzma.LZMADecompressor, format=lzma.FORMAT_XZ))


def _inflate(file: IO[bytes]) -> Iterator[bytes]:
    inflating, packed = zlib.decompressobj(), b""
    while not inflating.eof and (packed := inflating.unconsumed_tail or file.read(BLOCK)):
        yield inflating.decompress(packed, BLOCK)


# What unpacks an opened file, by its suffix.
OPENERS: Mapping[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open, ".bz2": bz2.BZ2File, ".xz": _open_xz, ".zst": _open_zstd, ".zip": _open_member,
}  # fmt: skip
