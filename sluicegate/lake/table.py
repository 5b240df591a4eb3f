"""Handle on one Delta table, with its log and offsets as of when it was opened.

A step of a run (a plan, one table of a job) takes its handles from one ``Tables``, so that it reads each log once and
all its parts speak of the same version. Where the newest version is what counts (before a compare-and-set, after a
commit) it says ``refresh``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from deltalake import DeltaTable

from sluicegate.lake import layout, log, offsets, tables
from sluicegate.lake.commits import commit_identity


class Table:
    """Table that is opened on first use, and pinned to its newest version of that time.

    Args:
        uri: its address.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._identities: dict[int, str | None] = {}

    @cached_property
    def delta(self) -> DeltaTable | None:
        """Opened table; None if it does not exist.

        A writer moves it to the version of its write, and calls ``refresh``.

        Raises:
            NotADeltaTable: the address has files, but no Delta log.
        """
        return tables.delta_table(self.uri)

    def open(self) -> None:
        """Open the table now, where the order of opening matters."""
        _ = self.delta

    @property
    def version(self) -> int:
        """Version of the table; -1 if there is none."""
        if self.delta is None:
            return -1
        return int(self.delta.version())

    @cached_property
    def restores(self) -> offsets.RestoreHistory | None:
        """RESTORE history of the table, with our newest commit; None without a table."""
        if self.delta is None:
            return None
        return offsets.restore_history(self.delta)

    @cached_property
    def last_own_commit(self) -> log.Commit | None:
        """Newest commit of our runs; None without a table, or if the log has none."""
        return log.last_own_commit(self.delta)

    def offset(self, app_id: str) -> int | None:
        """Return the offset that a flow has committed; None before its first, or if there is no table."""
        return tables.txn_version(self.delta, app_id)

    def commit_identity(self, version: int) -> str | None:
        """Return the identity of the commit of a version; None if it is unknown.

        The identity is read once for each version.
        """
        if version < 0:
            return None
        if version not in self._identities:
            self._identities[version] = commit_identity.identity(self.uri, version)
        return self._identities[version]

    @property
    def rows(self) -> int:
        """Row count by the log; 0 without a table."""
        return tables.rows(self.delta)

    @cached_property
    def dataset(self) -> Any:
        """Table as Arrow reads it; describing many data files to Arrow takes as long as reading a few.

        Raises:
            LookupError: the table does not exist.
        """
        if self.delta is None:
            raise LookupError(f"no Delta table at {self.uri}")
        return tables.dataset(self.delta)

    def refresh(self) -> None:
        """Reopen the table at its newest version on next use.

        The table is reopened rather than updated: a table that was deleted and re-created has another ID and log.
        """
        for name in ("delta", "restores", "last_own_commit", "dataset"):
            self.__dict__.pop(name, None)
        self._identities.clear()


class Tables:
    """Handles of one step, one for each address; not thread-safe.

    Work that waits for other tables (the next table of a job) is a separate step with new handles.
    """

    def __init__(self) -> None:
        self._handles: dict[str, Table] = {}

    def __getitem__(self, uri: str) -> Table:
        return self._handles.setdefault(uri, Table(uri))

    def table_at(self, uri: str, version: int) -> DeltaTable | None:
        """Return a table as of a version, opened only if its handle has another one."""
        table = self[uri]
        if table.version == version:
            return table.delta
        return tables.delta_table(uri, version)

    def rows_at(self, uri: str, version: int) -> int:
        """Return the number of rows of a table as of a version."""
        return tables.rows(self.table_at(uri, version))

    def refresh(self, *uris: str) -> None:
        """Reopen the tables at some addresses, or all tables, on next use."""
        for uri in uris or tuple(self._handles):
            self[uri].refresh()


class _OfPoll(Table):
    def commit_identity(self, version: int) -> str | None:
        """Return None on an object store, where each is one more request; on a disk it takes under a millisecond."""
        if not layout.is_local(self.uri):
            return None
        return super().commit_identity(version)


class TablesOfPoll(Tables):
    """Handles of a poll that only learns every few seconds whether a job has work."""

    def __getitem__(self, uri: str) -> Table:
        return self._handles.setdefault(uri, _OfPoll(uri))
