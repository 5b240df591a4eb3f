"""Technical columns: row identity, provenance, and the change feed's."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.sql.types import UNNAMED

# Columns of the engine; a query over whole tables does not see them.
ENGINE_COLUMNS = ("_chunk", "_pos", "_sequence")

# Columns that Delta's change data feed adds.
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


IDENTITY = ("_chunk", "_pos")
RECORD = "_record"


CORRUPT, RESCUED = "_corrupt_record", "_rescued_data"

# Columns that bronze adds after those of the data.
PROVENANCE = (RESCUED, CORRUPT, "receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos")

# Names that a data column cannot have: ours, and those of Spark's files and Delta's change feed.
RESERVED = frozenset({*PROVENANCE, UNNAMED, "_metadata", "_change_type", "_commit_version", "_commit_timestamp"})


def data_columns(columns: Iterable[str]) -> list[str]:
    """Columns of a bronze table without ``PROVENANCE``."""
    return [column for column in columns if column not in PROVENANCE]
