"""Paths of landed files for Spark's readers: Hadoop takes some characters of a name for something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluicegate.errors import SourceError, Where
from sluicegate.lake.layout import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

# Characters that make Hadoop take a path for a pattern, and those by which it may find other files, or none.
PATTERN = frozenset("{}[]*?\\,")

# Reader option by which no name is a pattern (DataSource.GLOB_PATHS_KEY of Spark).
LITERAL = {"__globPaths__": "false"}

# Reader options for names with a colon: Hadoop takes what is before it for the scheme of a URI where its local file
# system looks for checksums beside a file. This is the one without them.
WITHOUT_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

# Packed files that Spark would take for the text itself.
PACKED = (".zip", ".xz", ".7z", ".rar", ".tar", ".tgz", ".tar.gz", ".tar.bz2")


def demand_unpacked(table: str, form: str, paths: Sequence[str]) -> None:
    """Refuses packed files, of which Spark would read the packing.

    Raises:
        SourceError: there is one.
    """
    packed = [path for path in paths if path.lower().endswith(PACKED)]
    if packed and form in ("json", "csv", "xml", "text"):
        raise SourceError(
            f"{packed[0]} is packed in a way that Spark does not read",
            where=Where(table=table, file=packed[0]),
            cause="packed in a way that Spark does not read (it reads .gz, .bz2, .zst, .deflate, .snappy and .lz4)",
            hint="land it unpacked, or leave such files out with pathGlobFilter",
        )


def load(reader: DataFrameReader, form: str, paths: Sequence[str]) -> DataFrame:
    """Files as a reader has them, by their literal names."""
    if not any(map(is_odd, paths)):
        return reader.format(form).load(list(paths))
    checksums = WITHOUT_CHECKSUMS if any(is_local(path) and has_colon(path) for path in paths) else {}
    return reader.options(**LITERAL, **checksums).format(form).load(list(paths))


def has_colon(path: str) -> bool:
    """Whether a name in a path has a colon."""
    return ":" in path.partition("://")[2] if "://" in path else ":" in path


def is_odd(path: str) -> bool:
    """Whether Spark might take a path for a pattern, or for a URI, where it is handed on as a text."""
    return has_colon(path) or not PATTERN.isdisjoint(path)
