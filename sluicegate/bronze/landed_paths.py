"""Escape paths of landed files for Spark's readers: Hadoop interprets some characters of a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from sluicegate.errors import SourceError, Where
from sluicegate.lake.layout import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

# Characters that make Hadoop take a path for a pattern, and those by which it may find other files, or none.
GLOB = frozenset("{}[]*?\\")
PATTERN = GLOB | {","}

# Reader option by which no name is a pattern (DataSource.GLOB_PATHS_KEY of Spark). Of several paths, one that has such
# characters would stand for all of them.
LITERAL = {"__globPaths__": "false"}

# Reader options for names with a colon: Hadoop takes what is before it for the scheme of a URI where its local file
# system looks for checksums beside a file. This is the one without them.
WITHOUT_CHECKSUMS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}

# Characters of a path that Java encodes in a URI: control characters, blanks of all scripts, and some of ASCII.
_ENCODED = re.compile(r"""[\x00-\x20"%<>\\^`{|}\[\]#?\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]""")

# Packed files that are unpacked before Spark reads them, and others that it would take for the text itself.
UNPACKED = (".zip", ".xz")
PACKED = (".7z", ".rar", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".txz")


def demand_unpacked(table: str, form: str, paths: Sequence[str]) -> None:
    """Refuse compressed files that Spark would read as they are.

    Raises:
        SourceError: a file has an unsupported compression.
    """
    packed = [path for path in paths if path.lower().endswith(PACKED)]
    if packed and form in ("json", "csv", "xml", "text"):
        raise SourceError(
            f"{packed[0]} has a compression that Spark cannot read",
            where=Where(table=table, file=packed[0]),
            cause="unsupported compression: .gz, .bz2, .zst, .xz, .zip, .deflate, .snappy and .lz4 are supported",
            hint="land it uncompressed, or exclude such files with pathGlobFilter",
        )


def is_packed(path: str) -> bool:
    """Return whether a file is packed in a way that Spark cannot read, so that it is unpacked before."""
    return path.lower().endswith(UNPACKED)


def separate_paths(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield paths in groups that can be read together: a name with a colon cannot be escaped."""
    colons = [path for path in paths if has_colon(path)]
    both = [path for path in colons if not GLOB.isdisjoint(path)]
    yield from filter(None, ([path for path in paths if not has_colon(path)], [p for p in colons if p not in both]))
    yield from ([path] for path in both)


def load(reader: DataFrameReader, form: str, paths: Sequence[str]) -> DataFrame:
    """Load the files of one group of ``separate_paths`` by their literal names."""
    if not any(map(has_colon, paths)):
        return reader.format(form).load(list(map(escape_glob, paths)))
    checksums = {}
    if any(map(is_local, paths)):
        checksums = WITHOUT_CHECKSUMS
    return reader.options(**LITERAL, **checksums).format(form).load(list(paths))


def has_colon(path: str) -> bool:
    """Return whether a name in a path has a colon."""
    if "://" in path:
        return ":" in path.partition("://")[2]
    return ":" in path


def spark_uri(path: str) -> str:
    """Return the URI that Spark has for a file in ``_metadata.file_path``.

    It is Java's of a path: ``/a b`` is ``file:/a%20b``, and letters of other scripts stay as they are
    (``java.net.URI.quote``).

    Args:
        path: the file's path, as in the ledger.
    """
    encoded = _ENCODED.sub(lambda characters: quote(characters[0], safe=""), path)
    if path.startswith("/"):
        return f"file:{encoded}"
    return encoded


def is_odd(path: str) -> bool:
    """Return whether Spark may read a path as a pattern or a URI."""
    return has_colon(path) or not PATTERN.isdisjoint(path)


def escape_glob(path: str) -> str:
    """Escape a path so that Hadoop takes it literally: landed files may have any name."""
    return "".join(f"\\{char}" if char in GLOB else char for char in path)
