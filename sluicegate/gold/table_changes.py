"""Changes of a gold table: by its keys where no two rows have the same, and else by whole rows, each counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sluicegate.frames import small_writes
from sluicegate.frames.merge import OP, bring, difference, exchange, merge_by, merge_rows, merged
from sluicegate.frames.record_ids import materialize
from sluicegate.sql.identifiers import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class TableChanges:
    """Rows by which a table changes.

    Attributes:
        uri: the table.
        rows: the rows with ``OP``, materialized.
        keys: columns by which they are the table's rows; all where rows are counted.
        counted: whether several rows may be the same by ``keys``.
        few: whether they are few.
    """

    uri: str
    rows: DataFrame
    keys: Sequence[str]
    counted: bool
    few: bool

    @classmethod
    def by_key(cls, uri: str, made: DataFrame, held: DataFrame, keys: Sequence[str], *, few: bool) -> TableChanges:
        """Changes that give a table some rows instead of others, with keys that are unique among either."""
        return cls(uri, materialize(difference(made, held, keys), few=few), keys, counted=False, few=few)

    @classmethod
    def replacing(cls, uri: str, made: DataFrame, held: DataFrame, keys: Sequence[str], *, few: bool) -> TableChanges:
        """Changes that give a table some rows instead of others, whether or not their keys are unique.

        Args:
            uri: the table.
            made: expected rows, materialized.
            held: the rows of the table with these keys, materialized.
            keys: the columns of the key.
            few: whether they are few.
        """
        if _are_unique(made, keys) and _are_unique(held, keys):
            return cls.by_key(uri, made, held, keys, few=few)
        return cls(uri, materialize(exchange(made, held), few=few), made.columns, counted=True, few=few)

    @property
    def comes(self) -> DataFrame:
        """Rows that the table does not have yet, or not as they are."""
        return self.rows.where(F.col(OP) != "delete").drop(OP)

    def merged(self, held: DataFrame) -> DataFrame:
        """Rows that the table will have; nothing is written."""
        return merged(held, self.rows, self.keys)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows each operation has."""
        if self._brought is not None:
            return self._brought.counts
        return dict(self.rows.groupBy(OP).count().collect())

    def write(self, near: Callable[[str], Column] | None) -> None:
        """Writes them, in the one commit that the session is set for; without any only the commit.

        Args:
            near: predicate for the rows of the table that may go, as of ``merge_by``. The commit quotes it.
        """
        if not self.counts:
            small_writes.commit_only(self.rows.sparkSession, self.uri)
        elif not self.counted:
            merge_by(self.uri, self.rows, self.keys, few=self.few, brought=self._brought, near=near)
        elif "delete" not in self.counts:
            small_writes.append(self.comes, self.uri, few=self.few)
        else:
            merge_rows(self.uri, self.rows, few=self.few, near=near)

    @cached_property
    def _brought(self) -> small_writes.Changes | None:
        return None if self.counted else bring(self.uri, self.rows, self.keys, few=self.few)


def _are_unique(rows: DataFrame, keys: Sequence[str]) -> bool:
    return rows.groupBy(*map(quoted, keys)).count().where("count > 1").isEmpty()
