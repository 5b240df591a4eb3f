"""Compute changes of a gold table: by keys if these are unique, else by whole rows with counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.flow import thresholds
from sluicegate.frames import small_writes
from sluicegate.frames.difference.merge import (
    OP,
    collect_changes,
    difference,
    exchange,
    merge_by_keys,
    merge_rows,
    merged_rows,
)
from sluicegate.frames.difference.same_rows import keys_of_differing_rows, rows_with_keys
from sluicegate.frames.difference.value_equality import is_plain
from sluicegate.frames.record_ids import materialize
from sluicegate.spark_sql.engine_columns import working_column
from sluicegate.spark_sql.identifiers import quote_name

_ROWS = working_column("rows")


@dataclass(frozen=True)
class TableChanges:
    """Rows by which a table changes.

    Attributes:
        uri: the table.
        rows: the rows with ``OP``, materialized.
        keys: columns that identify the table's rows; all columns if rows are counted.
        counted: whether several rows may have the same ``keys``.
        few: whether the rows are few.
    """

    uri: str
    rows: DataFrame
    keys: Sequence[str]
    counted: bool
    few: bool

    @classmethod
    def compare_by_key(
        cls, uri: str, expected: DataFrame, former: DataFrame, keys: Sequence[str], *, few: bool
    ) -> TableChanges:
        """Return the changes that replace some rows of a table, with keys that are unique on both sides."""
        return cls(uri, materialize(difference(expected, former, keys), few=few), keys, counted=False, few=few)

    @classmethod
    def compare_some(
        cls, uri: str, expected: DataFrame, former: DataFrame, keys: Sequence[str], *, few: bool
    ) -> TableChanges:
        """Return the changes that replace some rows of a table, whether or not keys are unique.

        Args:
            uri: the table.
            expected: expected rows, materialized.
            former: the rows of the table with these keys, materialized.
            keys: the columns of the key.
            few: whether the rows are few.
        """
        if _are_unique(expected, keys) and _are_unique(former, keys):
            return cls.compare_by_key(uri, expected, former, keys, few=few)
        return cls._exchange_rows(uri, expected, former, few=few)

    @classmethod
    def compare_all(
        cls, uri: str, expected: DataFrame, former: DataFrame, keys: Sequence[str], *, few: bool
    ) -> TableChanges | None:
        """Return the changes that replace all rows of a table, without those that do not differ.

        Args:
            uri: the table.
            expected: all expected rows, materialized, with the columns of the table.
            former: all rows of the table.
            keys: columns that identify rows, unique or not; none if only all columns together do.
            few: whether the rows are few.

        Returns:
            None if replacing the table costs less than a merge: no row stays, or most of many rows change.
        """
        count = expected.count()
        if not few:
            columns = keys or expected.columns
            differing = materialize(keys_of_differing_rows(expected, former, columns), few=False)
            differences = differing.count()
            if differences > thresholds.SMALL and differences > count // 2:
                return None
            few = differences <= thresholds.FEW
            expected = rows_with_keys(expected, differing, columns, few=few)
            former = rows_with_keys(former, differing, columns, few=few)
        expected, former = materialize(expected, few=few), materialize(former, few=few)
        if keys:
            return cls.compare_some(uri, expected, former, keys, few=few)
        if few and all(is_plain(field.dataType) for field in expected.schema):
            changes = cls.compare_some(uri, expected, former, expected.columns, few=few)
        else:
            changes = cls._exchange_rows(uri, expected, former, few=few)
        # An insert for each expected row, beside other changes: no row of the table stays.
        if changes.counts.keys() != {"insert"} and changes.counts.get("insert", 0) == count > 0:
            return None
        return changes

    @classmethod
    def _exchange_rows(cls, uri: str, expected: DataFrame, former: DataFrame, *, few: bool) -> TableChanges:
        return cls(uri, materialize(exchange(expected, former), few=few), expected.columns, counted=True, few=few)

    @property
    def upserted_rows(self) -> DataFrame:
        """Rows that the table lacks, or has with other values."""
        return self.rows.where(F.col(OP) != "delete").drop(OP)

    def merged_rows(self, rows: DataFrame) -> DataFrame:
        """Return the table's rows after the changes; nothing is written."""
        return merged_rows(rows, self.rows, self.keys)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Number of rows by operation."""
        if self._collected_changes is not None:
            return self._collected_changes.counts
        return dict(self.rows.groupBy(OP).count().collect())

    def write(self, near: Callable[[str], Column] | None) -> None:
        """Write the changes in the session's one commit, which is made also without any.

        Args:
            near: predicate for the table's rows that may be deleted, as in ``merge_by_keys``. The commit quotes it.
        """
        if not self.counts:
            small_writes.commit_only(self.rows.sparkSession, self.uri)
        elif not self.counted:
            merge_by_keys(self.uri, self.rows, self.keys, few=self.few, brought=self._collected_changes, near=near)
        elif "delete" not in self.counts:
            small_writes.append(self.upserted_rows, self.uri, few=self.few)
        else:
            merge_rows(self.uri, self.rows, few=self.few, near=near)

    @cached_property
    def _collected_changes(self) -> small_writes.Changes | None:
        if self.counted:
            return None
        return collect_changes(self.uri, self.rows, self.keys, few=self.few)


def _are_unique(rows: DataFrame, keys: Sequence[str]) -> bool:
    """Return whether keys are unique, whatever the names of the key columns."""
    return rows.groupBy(*map(quote_name, keys)).agg(F.count(F.lit(1)).alias(_ROWS)).where(F.col(_ROWS) > 1).isEmpty()
