"""Policies of the kinds of tables: what a run does about changes of the tables that a flow reads.

A table of each kind has a policy of its own class. What a policy does not say has the answer of ``Policy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from sluicegate.flow.definitions.definition_changes import StoredRows
    from sluicegate.flow.source_changes import SourceChanges
    from sluicegate.spark_sql.refresh.strategy import RefreshStrategy


@dataclass(frozen=True)
class Policy:
    """Table that processes added rows, and is refreshed in full after any other change.

    Attributes:
        rebuildable: whether a full refresh from the source is possible.
        foreign: whether the source is a table of other programs': it may have no change data feed, and change in any
            way (see bronze/delta_source.py).
        by_record: whether the target's rows have the identity of their record.
        forgets: whether former versions of the target are deleted when its definition or key changes.
        followed: the inputs whose changes identify the affected records, which are reprocessed.
    """

    rebuildable: ClassVar[bool] = True
    foreign: ClassVar[bool] = False
    by_record: ClassVar[bool] = False
    forgets: ClassVar[bool] = False
    followed: frozenset[str] = frozenset()

    def why_full_refresh(self, changes: SourceChanges) -> str:
        """Return the reason if the changes of the source cannot be followed; empty if they can."""
        return changes.why_revised

    @property
    def of_topics(self) -> bool:
        """Whether the source is a ledger of ranges of offsets, and not of files."""
        return False

    @property
    def row_deltas(self) -> bool:
        """Whether the target processes row deltas: former rows as well as current ones."""
        return False

    @property
    def refresh_strategy(self) -> RefreshStrategy | None:
        """Refresh strategy of the target, if it is a gold table."""
        return None

    @property
    def as_of_run(self) -> frozenset[str]:
        """Inputs whose changes affect only later records, and quarantined ones if ``retries``."""
        return frozenset()

    @property
    def retries(self) -> bool:
        """Whether the target reprocesses quarantined records when an input ``as_of_run`` changes."""
        return False

    @property
    def many(self) -> bool:
        """Whether a record may give many rows, each with its number within it."""
        return False

    @property
    def batch_bytes(self) -> int | None:
        """Maximum bytes of the source's files in a batch; None for no limit."""
        return None

    @property
    def stored(self) -> StoredRows | None:
        """What the definition says of the rows that it stores, if it is a silver table."""
        return None

    @property
    def any_case(self) -> frozenset[str]:
        """URIs of the sources whose fields go by their names in any case; see ``readerCaseSensitive``."""
        return frozenset()


@dataclass(frozen=True)
class LedgerPolicy(Policy):
    """Bronze table of its ledger's files, some of which may be gone, so no full refresh is possible."""

    rebuildable: ClassVar[bool] = False
    of_topics: bool = False


@dataclass(frozen=True)
class ForeignTablePolicy(Policy):
    """Bronze table that follows another program's Delta table."""

    foreign: ClassVar[bool] = True

    def why_full_refresh(self, changes: SourceChanges) -> str:
        """Return the reason if a commit did more than add rows, by its actions, as operations are unknown."""
        return changes.why_rewritten


@dataclass(frozen=True)
class QueryPolicy(Policy):
    """Gold table: the result of its query.

    Attributes:
        added: whether only new rows can be processed; any other change of the source requires a full refresh.
        row_deltas: see ``Policy``; any change of the source can then be followed.
        refresh_strategy: see ``Policy``.
    """

    added: bool = False
    row_deltas: bool = False
    refresh_strategy: RefreshStrategy | None = None

    def why_full_refresh(self, changes: SourceChanges) -> str:
        """Return the reason: an overwrite or changed columns with row deltas; else a commit beyond added rows."""
        if self.added:
            return changes.why_rewritten
        if self.row_deltas:
            return changes.why_overwritten or changes.why_other_columns
        return changes.why_revised


@dataclass(frozen=True)
class RecordPolicy(Policy):
    """Silver table, which knows the record of each row and reprocesses changed records."""

    by_record: ClassVar[bool] = True
    as_of_run: frozenset[str] = frozenset()
    retries: bool = False
    many: bool = False
    batch_bytes: int | None = None
    stored: StoredRows | None = None
    any_case: frozenset[str] = frozenset()

    def why_full_refresh(self, changes: SourceChanges) -> str:
        """Return the reason: an overwrite or other columns, for which Delta has no change feed."""
        return changes.why_overwritten or changes.why_other_columns


@dataclass(frozen=True)
class CopyPolicy(RecordPolicy):
    """De-identified copy of a silver table.

    Attributes:
        treated: columns that the source must have, in lower case.
        makes: columns that each flow of the source returns, in lower case; None if only its data shows them.
    """

    forgets: ClassVar[bool] = True
    treated: frozenset[str] = frozenset()
    makes: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
