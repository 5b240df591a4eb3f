"""Uniqueness hashes of silver rows: of the key, and of the columns of ``unique`` expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluicegate.spark_sql.identifiers import quote_name


@dataclass(frozen=True)
class Uniqueness:
    """Columns by which records bind one another: of those that share a hash, one wins.

    Attributes:
        keys: the table's keys.
        unique: columns of each ``unique`` expectation, by name.
    """

    keys: Sequence[str]
    unique: Mapping[str, Sequence[str]]

    @property
    def columns(self) -> set[str]:
        """Columns of all hashes."""
        return {column for columns in self._column_sets for column in columns}

    @property
    def _column_sets(self) -> list[Sequence[str]]:
        of_rules = [*self.unique.values()]
        if not self.keys:
            return of_rules
        return [self.keys, *of_rules]

    def is_in_each_hash(self, column: str) -> bool:
        """Return whether each hash includes this column, so that rows that share one share its value."""
        return bool(self._column_sets) and all(column in columns for columns in self._column_sets)

    @property
    def key(self) -> Column:
        """Hash of a row's key; NULL for a table without keys."""
        if not self.keys:
            return F.lit(None).cast("bigint")
        return _hash(self.keys)

    @property
    def hashes(self) -> Column:
        """Uniqueness hashes, one row for each; a NULL in a unique column gives none."""
        of_rules = [self._rule_hash(name, columns) for name, columns in self.unique.items()]
        if self.keys:
            of_rules.insert(0, self.key)
        return F.explode(F.array_compact(F.array(*of_rules)))

    @staticmethod
    def _rule_hash(name: str, columns: Sequence[str]) -> Column:
        missing = reduce(or_, [F.col(quote_name(column)).isNull() for column in columns])
        return F.when(~missing, F.xxhash64(F.lit(name), _hash(columns)))


def _hash(columns: Sequence[str]) -> Column:
    return F.xxhash64(*[F.col(quote_name(column)) for column in columns])
