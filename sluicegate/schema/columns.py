"""Columns with a meaning of their own: those by which a row is known, and those that bronze adds."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.sql.types import UNNAMED

# Columns by which we know a row; a query over whole tables does not see them.
ENGINE_COLUMNS = ("_chunk", "_pos", "_sequence")

# Columns that Delta's change data feed adds.
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


IDENTITY = ("_chunk", "_pos")
RECORD = "_record"


CORRUPT, RESCUED = "_corrupt_record", "_rescued_data"

# Every bronze table ends with these columns, which are ours.
PROVENANCE = (RESCUED, CORRUPT, "receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos")

# Names that a data column cannot have: ours, and those of Spark's files and Delta's change feed.
RESERVED = frozenset({*PROVENANCE, UNNAMED, "_metadata", "_change_type", "_commit_version", "_commit_timestamp"})


def data_columns(columns: Iterable[str]) -> list[str]:
    """The columns of a bronze table that came with the data."""
    return [column for column in columns if column not in PROVENANCE]
