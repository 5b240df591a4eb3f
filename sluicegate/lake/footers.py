"""Footers of the data files of a table: rows, and whether a column has a value anywhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from sluicegate.lake.layout import local_path
from sluicegate.storage import filesystems
from sluicegate.storage.concurrent import each

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


def row_counts(uri: str, paths: Collection[str]) -> dict[str, int]:
    """Rows of data files, by their paths.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.

    Raises:
        FileNotFoundError: one is gone.
    """
    return {path: int(footer.num_rows) for path, footer in read(uri, paths).items()}


def may_have_values(uri: str, paths: Collection[str], columns: Collection[str]) -> bool:
    """Whether some column may have a value in some data file.

    It may where a footer does not count NULLs, and where it does not have a column under its name: Delta's column
    mapping gives it another name in files.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.
        columns: top-level columns of atomic types.

    Raises:
        FileNotFoundError: a file is gone.
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
    """Footers of data files, by their paths.

    Args:
        uri: the table.
        paths: paths of data files as its log has them.

    Raises:
        FileNotFoundError: one is gone.
    """
    if not paths:
        return {}
    filesystem, folder = filesystems.opened(uri)

    def footer(path: str) -> FileMetaData:
        opened, place = (filesystem, f"{folder}/{unquote(path)}")
        if urlparse(path).scheme or path.startswith("/"):  # of a table that was cloned from another
            opened, place = filesystems.opened(local_path(path) if path.startswith("file:") else unquote(path))
        with opened.open(place, "rb") as file:
            return pq.read_metadata(file)

    ordered: Sequence[str] = sorted({*paths})
    return dict(zip(ordered, each(footer, ordered), strict=True))
