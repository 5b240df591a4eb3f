"""Names of columns that are the engine's own, so that no field that lands, and no query, can have them.

Columns that are stored are part of the lake's layout: people and older lakes rely on their names. All others, which
stand beside a user's columns while rows are evaluated, begin with ``PREFIX``.
"""

from __future__ import annotations

# Beginning of the names of columns that are never stored.
PREFIX = "_sluicegate_"

# Columns of bronze besides those of the data.
OF_BRONZE = (
    "_rescued_data", "_corrupt_record", "receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos",
)  # fmt: skip

# Columns that silver and its side tables have besides these: the sequence, the number of a row within its record, the
# flow that brought it, a quarantined record as it came, the rules that it broke, when it was quarantined or rejected,
# and a row that the query of a rule gave.
OF_SILVER = (
    "_sequence", "_record_row", "_record_flow", "_record", "_failed_expectations", "_quarantined_at", "_rejected_at",
    "_found",
)  # fmt: skip

RESERVED = (*OF_BRONZE, *OF_SILVER)
"""Names of the engine's stored columns."""


def is_reserved(name: str) -> bool:
    """Return whether no column of a user may have a name, in whatever case."""
    return name.lower() in RESERVED or is_working(name)


def is_working(name: str) -> bool:
    """Return whether a name is one of columns that are never stored, in whatever case."""
    return name.lower().startswith(PREFIX)


def working_column(name: str) -> str:
    """Return the name of a column of the evaluation beside a user's columns, which is never stored."""
    return f"{PREFIX}{name}"
