"""Deduplicate by key: decide which record wins, and which are set aside.

Two orders exist. Without a sequence the record that arrived first wins: a record that comes twice is one row. With
``sequence_by`` (and in ``apply_changes``) the greatest sequence wins, of equal ones the last arrival. Either way the
winner is a function of the records alone, not of the batches that they came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluicegate.schema.columns import FLOW, IDENTITY, ROW, SEQUENCE, working_column
from sluicegate.silver.expectations import DISPOSITION, Disposition
from sluicegate.spark_sql.identifiers import quote_name

# The order of arrival: the ledger batch, within it the files in order of discovery, within a file the position. Rows of
# one record follow each other by their numbers, where they have some.
ARRIVAL = ("_chunk", working_column("arrived"), "_pos")

# Place of the flow that brought a record among the flows of its table, where several fill it: those that stand first in
# the definition count as the first to arrive, so that it does not matter in which order the runs took their records in.
PLACE = working_column("place")

# Rank of a record among those of its key, and what decides of the stored row that has the key.
_RANK, _HELD_SEQUENCE, _HELD_PLACE = (
    working_column("rank"), working_column("held_sequence"), working_column("held_place"),
)  # fmt: skip


def arrival(row_id: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that give the order of arrival of a table's rows.

    Args:
        row_id: the columns that identify a row.
    """
    columns = [*ARRIVAL]
    if FLOW in row_id:
        columns.insert(0, PLACE)
    if ROW in row_id:
        columns.append(ROW)
    return tuple(columns)


def replaced_identity(row_id: Sequence[str]) -> tuple[str, ...]:
    """Return the identity columns of the row that a winner replaces; NULL if the key is new."""
    return tuple(working_column(f"replaced{column}") for column in row_id)


# Those of a row without a number, which rows with one have, too.
REPLACED = replaced_identity(IDENTITY)


@dataclass(frozen=True)
class Keyed:
    """Keys of a table, and the order that decides between records with one key.

    Attributes:
        keys: key columns; empty if every record is a row.
        sequenced: whether the greatest sequence wins instead of the first arrival.
        row_id: the columns that identify a row.
    """

    keys: tuple[str, ...]
    sequenced: bool
    row_id: tuple[str, ...] = IDENTITY

    def settle(self, evaluated: DataFrame, stored: DataFrame | None) -> DataFrame:
        """Set the disposition of good rows that lose against another record to ``duplicate``.

        Args:
            evaluated: rows with ``DISPOSITION``, the columns of ``arrival`` and, when sequenced, ``_sequence``.
            stored: the stored rows, which arrived before; None without any.

        Returns:
            ``evaluated`` with the final ``DISPOSITION`` and the columns of ``replaced_identity``.
        """
        kinds = {field.name: field.dataType.simpleString() for field in evaluated.schema}
        replaced_columns = zip(self.row_id, replaced_identity(self.row_id), strict=True)
        no_row = {name: F.lit(None).cast(kinds[column]) for column, name in replaced_columns}
        if not self.keys:
            return evaluated.withColumns(no_row)
        rank = F.row_number().over(Window.partitionBy(DISPOSITION, *self._columns(self.keys)).orderBy(*self._order()))
        ranked = evaluated.withColumn(_RANK, rank)
        beaten = F.col(_RANK) > 1
        if stored is None:
            ranked = ranked.withColumns(no_row)
        else:
            ranked = ranked.join(self._holders(stored), [*self.keys], "left")
            beaten = beaten | self._holder_wins()
        is_duplicate = (F.col(DISPOSITION) == Disposition.WRITTEN) & beaten
        disposition = F.when(is_duplicate, Disposition.DUPLICATE).otherwise(F.col(DISPOSITION))
        settled = ranked.withColumn(DISPOSITION, disposition)
        return settled.drop(_RANK, _HELD_SEQUENCE, _HELD_PLACE)

    def _order(self) -> list[Column]:
        order = arrival(self.row_id)
        if not self.sequenced:
            return list(map(F.col, order))
        return [F.col(SEQUENCE).desc_nulls_last(), *[F.col(column).desc() for column in order]]

    def _holders(self, stored: DataFrame) -> DataFrame:
        replaced_columns = zip(self.row_id, replaced_identity(self.row_id), strict=True)
        columns = [F.col(column).alias(name) for column, name in replaced_columns]
        if self.sequenced:
            columns.append(F.col(SEQUENCE).alias(_HELD_SEQUENCE))
        if self._has_several_flows:
            columns.append(F.col(PLACE).alias(_HELD_PLACE))
        return stored.select(*self._columns(self.keys), *columns)

    def _holder_wins(self) -> Column:
        """Return whether the stored row wins: with equal sequences, the later arrival wins.

        With several flows, the record of the earlier flow counts as the earlier one.
        """
        has_key = F.col(REPLACED[0]).isNotNull()
        if self.sequenced:
            wins = F.col(_HELD_SEQUENCE) > F.col(SEQUENCE)
            if self._has_several_flows:
                even = F.col(_HELD_SEQUENCE) == F.col(SEQUENCE)
                wins = wins | (even & (F.col(_HELD_PLACE) > F.col(PLACE)))
            return has_key & wins
        if self._has_several_flows:
            return has_key & (F.col(_HELD_PLACE) <= F.col(PLACE))
        return has_key

    @property
    def _has_several_flows(self) -> bool:
        """Whether the records come from several flows."""
        return FLOW in self.row_id

    @staticmethod
    def _columns(names: tuple[str, ...]) -> list[Column]:
        return [F.col(quote_name(name)) for name in names]
