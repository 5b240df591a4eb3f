"""Changes of a silver table and its side tables by reprocessed records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TableChange:
    """Rows to write to one of the three tables, with ``OP``, and their number by kind."""

    uri: str
    rows: DataFrame
    counts: Counter[str]

    @property
    def comes(self) -> int:
        """Number of inserted or updated rows."""
        return self.counts["insert"] + self.counts["update"]

    @property
    def leaves(self) -> int:
        """Number of deleted rows."""
        return self.counts["delete"]


@dataclass(frozen=True)
class SilverChanges:
    """Changes of the silver table and of its side tables."""

    table: TableChange
    quarantine: TableChange
    set_aside: TableChange

    @property
    def of_side_tables(self) -> tuple[TableChange, TableChange]:
        """Changes of the side tables, in the order of deletions."""
        return self.quarantine, self.set_aside

    @property
    def any(self) -> bool:
        """Whether a table changes."""
        return any(change.comes or change.leaves for change in (self.table, self.quarantine, self.set_aside))
