"""Technical columns: row identity, provenance, and the change feed's."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.spark_sql import engine_columns
from sluicegate.spark_sql.engine_columns import working_column as working_column

# Columns of the engine; a query over whole tables does not see them.
ENGINE_COLUMNS = ("_chunk", "_pos", "_sequence", "_record_row", "_record_flow")

# Columns that Delta's change data feed adds.
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


IDENTITY = ("_chunk", "_pos")
# A quarantined record as it came, as JSON; and where rows are evaluated the record of a row, as a struct.
RECORD = "_record"
RECORD_STRUCT = working_column("record")

# Whether a record is a delete, of a table with ``apply_as_deletes``; NULL means false.
DELETES = working_column("deletes")

# Where a table has a sequence, its rows keep it in this column, so that a late, older record cannot win.
SEQUENCE = "_sequence"

# Number of a row within its record, from 1, in tables whose records give many rows. Not `_row`, which files have: so
# Fivetran calls the number of a line.
ROW = "_record_row"

# Flow that brought a record, in tables that several flows fill and those that read them row by row. Where such a table
# is itself read by a flow, the names of both, with / between.
FLOW = "_record_flow"


CORRUPT, RESCUED = "_corrupt_record", "_rescued_data"

# Columns that bronze adds after those of the data.
PROVENANCE = engine_columns.OF_BRONZE

# Names that a data column cannot have besides those that begin with ``PREFIX``: ours, and those of Spark's files and
# Delta's change feed.
RESERVED = frozenset({*engine_columns.RESERVED, "_metadata", *CHANGE_COLUMNS})


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved, in any case."""
    return name.lower() in RESERVED or engine_columns.is_working(name)


def data_columns(columns: Iterable[str]) -> list[str]:
    """Return the data columns of a table, without ``PROVENANCE`` and the numbers of rows and flows."""
    return [column for column in columns if column not in PROVENANCE and column not in (ROW, FLOW)]
