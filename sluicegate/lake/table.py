"""A handle on one Delta table: its address, and the table, its log and its offsets as they were when it was opened.

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
    """One table, which is opened when it is first asked for and pinned to the version that was its newest then.

    Args:
        uri: its address.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._identities: dict[int, str | None] = {}

    @cached_property
    def delta(self) -> DeltaTable | None:
        """The table as delta-rs has it; None if there is none.

        Who writes by it moves it on to the version of that write, and says ``refresh``.

        Raises:
            NotADeltaTable: there are files at the address, but no Delta log among them.
        """
        return tables.delta_table(self.uri)

    def open(self) -> None:
        """Opens it now, where the order in which tables are opened matters."""
        _ = self.delta

    @property
    def version(self) -> int:
        """Version of the table; -1 if there is none."""
        if self.delta is None:
            return -1
        return int(self.delta.version())

    @cached_property
    def restores(self) -> offsets.Lineage | None:
        """Its RESTORE history, with the newest commit of ours; None if there is no table."""
        if self.delta is None:
            return None
        return offsets.lineage(self.delta)

    @cached_property
    def last_commit_of_ours(self) -> log.Commit | None:
        """The newest commit that a run of ours made; None if there is no table, or none of ours in its log."""
        return log.last_commit_of_ours(self.delta)

    def offset(self, app_id: str) -> int | None:
        """The offset that a flow has committed; None before its first, or if there is no table."""
        return tables.txn_version(self.delta, app_id)

    def commit_identity(self, version: int) -> str | None:
        """Identity of the commit of a version; None if it cannot be told (any more).

        It is read once for each version.
        """
        if version < 0:
            return None
        if version not in self._identities:
            self._identities[version] = commit_identity.identity(self.uri, version)
        return self._identities[version]

    @property
    def rows(self) -> int:
        """Number of its rows, as its log has it; 0 if there is no table."""
        return tables.rows(self.delta)

    @cached_property
    def dataset(self) -> Any:
        """The table as Arrow reads it: to describe many data files to Arrow takes as long as reading a few.

        Raises:
            LookupError: there is no table.
        """
        if self.delta is None:
            raise LookupError(f"no Delta table at {self.uri}")
        return tables.dataset(self.delta)

    def refresh(self) -> None:
        """Forgets what was read, so that the table is opened at its newest version when it is next asked for.

        It is opened anew rather than moved on: a table that was deleted and made again has another id, and a log of
        its own.
        """
        for name in ("delta", "restores", "last_commit_of_ours", "dataset"):
            self.__dict__.pop(name, None)
        self._identities.clear()


class Tables:
    """The handles of one step, one for each address; not for several threads at a time.

    What waits for other tables to be filled (the next table of a job) is a step of its own, with new handles.
    """

    def __init__(self) -> None:
        self._handles: dict[str, Table] = {}

    def __getitem__(self, uri: str) -> Table:
        return self._handles.setdefault(uri, Table(uri))

    def at(self, uri: str, version: int) -> DeltaTable | None:
        """A table as of a version; it is only opened for that if its handle has another one."""
        table = self[uri]
        if table.version == version:
            return table.delta
        return tables.delta_table(uri, version)

    def rows_at(self, uri: str, version: int) -> int:
        """Number of rows of a table as of a version."""
        return tables.rows(self.at(uri, version))

    def refresh(self, *uris: str) -> None:
        """Forgets what was read of the tables at some addresses, or of all tables if none is named."""
        for uri in uris or tuple(self._handles):
            self[uri].refresh()


class _OfPoll(Table):
    def commit_identity(self, version: int) -> str | None:
        """None on an object store, where each would be one more request; on a disk it takes less than a millisecond."""
        if not layout.is_local(self.uri):
            return None
        return super().commit_identity(version)


class TablesOfPoll(Tables):
    """The handles of a look that is repeated every few seconds only to learn whether there is work for a job."""

    def __getitem__(self, uri: str) -> Table:
        return self._handles.setdefault(uri, _OfPoll(uri))
