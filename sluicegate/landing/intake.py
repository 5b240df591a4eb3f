"""Entry of discovered files into the ledger, by compare-and-set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from sluicegate.lake import compaction, layout, tables
from sluicegate.landing import folders as landing_folders
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.discovery import Discovery, FileFinder, discover
from sluicegate.storage.filesystems import FILES

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable


# Another run may enter files between our discovery and our commit; each time we discover again.
ATTEMPTS = 20


def enter(name: str, table: BronzeTable, at: layout.Lake, finder: FileFinder | None = None) -> Discovery:
    """Enter all newly landed files into the ledger, one commit per ledger batch, and return what was discovered.

    Args:
        name: the bronze table's name.
        table: its definition.
        at: the lake that has its ledger.
        finder: how to find the files; by default ``discover``.

    Each commit is a compare-and-set on the version that discovery read: of two concurrent runs one wins and the other
    discovers again, so no file is entered twice (delta-rs would let both appends succeed). Before it the ledger is
    compacted once it has many small files; else there would be one for every batch there has been.

    Raises:
        LandingMissing: the folder does not exist.
        CommitFailedError: other runs won the compare-and-set ``ATTEMPTS`` times in a row.
    """
    uri = at.ledger(name)
    for attempt in range(ATTEMPTS):
        ledger = tables.delta_table(uri)  # before discovery: the commit fails if another run enters files meanwhile
        found = (finder or discover)(name, table, at)
        first = ledger is None and not table.includeExistingFiles
        if not found.new.num_rows and not found.moved.num_rows and not first:
            return found
        try:
            if ledger is None:
                ledger = landing_ledger._create(uri, _baseline(name, table, at), found.folders)
                found = found if table.includeExistingFiles else (finder or discover)(name, table, at)
            folders = found.folders or landing_folders.recorded_folders(ledger)
            compaction.put_together(ledger, "chunk", facts={landing_folders.KEY: folders} if folders else {})
            if found.moved.num_rows:
                landing_ledger._append(ledger, found.moved, {}, None, folders)
            limits = (found.new.num_rows, None) if found.whole else (table.maxFilesPerTrigger, table.maxBytesPerTrigger)
            for chunk in landing_ledger.chunks(found.new, *limits):
                landing_ledger._append(ledger, chunk, found.how, found.command, folders)
            return found
        except CommitFailedError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _baseline(name: str, table: BronzeTable, at: layout.Lake) -> pa.Table:
    """SKIP entries of a new ledger: the files there before it, unless ``includeExistingFiles`` reads them."""
    found = (
        landing_ledger.to(landing_ledger.SKIP, FILES.empty_table())
        if table.includeExistingFiles
        else discover(name, table, at).new
    )
    return landing_ledger._stamped(found, 0)
