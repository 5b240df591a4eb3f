"""Read the footers of data files: row counts, and whether a column has any value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
from pyarrow.parquet import FileMetaData

from sluicegate.lake.layout import local_path
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import map_concurrently


def row_counts(uri: str, paths: Collection[str]) -> dict[str, int]:
    """Return the row counts of data files by path.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.

    Raises:
        FileNotFoundError: a file is missing.
    """
    return {path: int(footer.num_rows) for path, footer in read(uri, paths).items()}


def may_have_values(uri: str, paths: Collection[str], columns: Collection[str]) -> bool:
    """Return whether any of the columns may have a value in any of the data files.

    It may where a footer does not count NULLs, and where it does not have a column under its name: Delta's column
    mapping gives it another name in files.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.
        columns: top-level columns of atomic types.

    Raises:
        FileNotFoundError: a file is missing.
    """
    return not all(_has_only_nulls(footer, columns) for footer in read(uri, paths).values())


def _has_only_nulls(footer: FileMetaData, columns: Collection[str]) -> bool:
    indexes = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    if not indexes.keys() >= {*columns}:
        return False
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in columns:
            statistics = group.column(indexes[column]).statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count != group.num_rows:
                return False
    return True


def read(uri: str, paths: Collection[str]) -> dict[str, FileMetaData]:
    """Read the footers of data files by path.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.

    Raises:
        FileNotFoundError: a file is missing.
    """
    if not paths:
        return {}
    filesystem, folder = filesystems.open_store(uri)

    def footer(path: str) -> FileMetaData:
        opened, place = (filesystem, f"{folder}/{unquote(path)}")
        if urlparse(path).scheme or path.startswith("/"):  # of a table that was cloned from another
            opened, place = filesystems.open_store(local_path(path) if path.startswith("file:") else unquote(path))
        with opened.open(place, "rb") as file:
            return pq.read_metadata(file)

    ordered: Sequence[str] = sorted({*paths})
    return dict(zip(ordered, map_concurrently(footer, ordered), strict=True))
