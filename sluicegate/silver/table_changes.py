"""Changes of a silver table and its side tables by reprocessed records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TableChange:
    """Rows to write to one of the three tables, with ``OP``, and their number by kind."""

    uri: str
    rows: DataFrame
    counts: Counter[str]

    @property
    def upsert_count(self) -> int:
        """Number of inserted or updated rows."""
        return self.counts["insert"] + self.counts["update"]

    @property
    def delete_count(self) -> int:
        """Number of deleted rows."""
        return self.counts["delete"]


@dataclass(frozen=True)
class SilverChanges:
    """Changes of the silver table and of its side tables."""

    table: TableChange
    quarantine: TableChange
    set_aside: TableChange

    @property
    def side_table_changes(self) -> tuple[TableChange, TableChange]:
        """Changes of the side tables, in the order of deletions."""
        return self.quarantine, self.set_aside

    @property
    def has_changes(self) -> bool:
        """Whether a table changes."""
        return any(part.upsert_count or part.delete_count for part in (self.table, self.quarantine, self.set_aside))
