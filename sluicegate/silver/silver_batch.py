"""A batch of a silver table: the definition, by which columns records and rows are known, and what is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from deltalake import DeltaTable
from pyspark.sql import Column

from sluicegate.definition import SilverTable
from sluicegate.errors import UserError, Where
from sluicegate.flow.batch import Batch
from sluicegate.lake import tables as lake_tables
from sluicegate.schema.columns import FLOW, IDENTITY, ROW
from sluicegate.silver.expectations import unique_rules
from sluicegate.silver.uniqueness import Uniqueness


@dataclass
class SilverBatch:
    """A batch of a silver table, before any of its records is evaluated.

    Attributes:
        batch: the batch, for its session and its pinned lookups.
        name: the silver table.
        table: its definition.
        outputs: the columns that the transform makes; filled in when it has been applied.
        remarks: what people are told of the batch, in this order.
        keys: columns of the key.
        sequence_by: the column that orders rows of one key; None if they are ordered by their arrival alone.
        unique: columns of each expectation ``unique``, by its name.
        uniqueness: hashes of the key and of these columns.
        many: whether a record may give many rows.
        record_id: columns by which a record is known, with the flow that brought it where there are several. A record
            that is a row of a table with ``rows: many`` has its number there.
        row_id: columns by which a row is known: those of its record, and where that gives many its number in it.
    """

    batch: Batch
    name: str
    table: SilverTable
    outputs: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.remarks: dict[str, None] = {}
        # The columns by which its rows are ordered come from its changes, where it has them.
        ordered_by = self.table.changes or self.table
        self.keys, self.sequence_by = tuple(ordered_by.keys), ordered_by.sequence_by
        self.unique = unique_rules(self.table)
        self.uniqueness = Uniqueness(self.keys, self.unique)
        self.many = self.table.gives_many_rows
        self.record_id = self._record_id()
        self.row_id = self.record_id
        if self.many:
            self.row_id = (*self.record_id, ROW)

    def _record_id(self) -> tuple[str, ...]:
        progress, record_id = self.batch.progress, [*IDENTITY]
        if progress.of_many and self.many:
            raise UserError(
                f"a record of {self.table.stream} gives many rows, but {self.name} expects one row for each record",
                where=Where(table=self.name),
                hint=f"run {self.table.stream} first: its definition now gives one row for each record",
            )
        if progress.of_flows:
            record_id.append(FLOW)
        if progress.of_many:
            record_id.append(ROW)
        return tuple(record_id)

    @cached_property
    def target(self) -> DeltaTable | None:
        """The table as the batch finds it; None before the first."""
        return lake_tables.delta_table(self.batch.flow.target)

    @property
    def stored_columns(self) -> list[str]:
        """The columns that the table has before the batch."""
        if self.target is None:
            return []
        return [field.name for field in self.target.schema().fields]

    @property
    def key(self) -> Column:
        """Hash of a row's key; NULL for a table without keys."""
        return self.uniqueness.key

    @property
    def uniqueness_hashes(self) -> Column:
        """Uniqueness hashes, one row for each: of the key, and of the columns of each expectation ``unique``."""
        return self.uniqueness.hashes

    @property
    def bound_columns(self) -> set[str]:
        """Columns of the uniqueness hashes."""
        return self.uniqueness.columns
