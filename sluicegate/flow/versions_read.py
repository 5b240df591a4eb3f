"""Record the inputs of a proved table: each table read, its version and commit.

A version alone does not name a commit (see ``flow.histories``), and of two commits with one identity each may have
rows of its own. So changes of a table that came after what was proved are known only if it still has the log entry of
that version, and was not restored since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sluicegate.lake import tables
from sluicegate.lake.commits import commit_identity
from sluicegate.lake.table import Table, Tables


@dataclass(frozen=True)
class VersionRead:
    """Version of a table that another table was built from.

    Attributes:
        table_id: ID of the table; a re-created table has another.
        version: the version.
        entry: digest of its log entry; None if the log no longer has it.
        restores: each RESTORE of the table up to now.
    """

    table_id: str
    version: int
    entry: str | None
    restores: list[list[int | None]]

    @classmethod
    def from_table(cls, table: Table, version: int) -> VersionRead | None:
        """Return a version of a table; None if the table does not exist."""
        if table.delta is None or table.restores is None:
            return None
        return cls(tables.table_id(table.delta), version, _entry(table, version), table.restores.facts())

    def continues_to(self, later: VersionRead, table: Table) -> bool:
        """Return whether a table continues from this version to a later one, so that its change feed is complete."""
        if self == later:
            return True
        if (self.table_id, self.restores) != (later.table_id, later.restores) or self.version > later.version:
            return False
        return self.entry is not None and _entry(table, self.version) == self.entry

    def as_dict(self) -> dict[str, Any]:
        """Return the version as JSON can store it."""
        return asdict(self)


def _entry(table: Table, version: int) -> str | None:
    """Digest of the log entry of a version; None before the first one."""
    if version < 0:
        return None
    return commit_identity.entry_digest(table.uri, version)


def versions_read(opened: Tables, places: Mapping[str, tuple[str, int]]) -> dict[str, VersionRead]:
    """Return the versions read of existing tables, by name.

    Args:
        opened: the handles of the tables.
        places: address and version of each table, by name.
    """
    versions = {name: VersionRead.from_table(opened[uri], version) for name, (uri, version) in places.items()}
    return {name: version for name, version in versions.items() if version is not None}
