"""Compare local files with the checksums that Hadoop wrote beside them, to detect changes by the disk.

Spark refuses a file that does not match its checksums; other readers accept it.
https://github.com/apache/hadoop/blob/trunk/hadoop-common-project/hadoop-common/src/main/java/org/apache/hadoop/fs/ChecksumFileSystem.java
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

# First bytes of a file of checksums; the number of bytes of which each is a checksum comes next.
MAGIC = b"crc\0"

# Checksums that are compared at a time.
AT_ONCE = 2048


def difference(file: Path) -> str:
    """Return how a file differs from its checksums; empty if it does not, or has none."""
    try:
        recorded = file.with_name(f".{file.name}.crc").read_bytes()
        with file.open("rb") as opened:
            if recorded[:4] != MAGIC:
                return ""
            (span,) = struct.unpack(">I", recorded[4:8])
            place = 0
            for first in range(8, len(recorded), 4 * AT_ONCE):
                sums = [checksum for (checksum,) in struct.iter_unpack(">I", recorded[first : first + 4 * AT_ONCE])]
                block = opened.read(span * len(sums))
                parts = range(0, len(block), span)
                if [zlib.crc32(block[part : part + span]) for part in parts] != sums:
                    return f"differs from what was written, from byte {place:,} on"
                place += len(block)
            if opened.read(1):
                return "is longer than what was written"
            return ""
    except (FileNotFoundError, struct.error):
        return ""
