"""Entry of discovered files into the ledger, by compare-and-set."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from sluicegate.console import files
from sluicegate.definition import BronzeTable
from sluicegate.lake import layout
from sluicegate.lake.commits import compaction
from sluicegate.lake.commits.commit_info import LedgerFacts
from sluicegate.lake.table import Tables
from sluicegate.landing import folders as landing_folders
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.discovery import Discovery, FileFinder, discover
from sluicegate.landing.file_names import relative_names
from sluicegate.landing.file_states import LedgerAction
from sluicegate.storage.listings import FILES

# Another run may enter files between our discovery and our commit; each time we discover again.
ATTEMPTS = 20


def enter(
    name: str, table: BronzeTable, lake: layout.Lake, finder: FileFinder | None = None, opened: Tables | None = None
) -> Discovery:
    """Enter all newly landed files into the ledger, a commit a chunk, and return what was found.

    Args:
        name: the bronze table's name.
        table: its definition.
        lake: the lake that has its ledger.
        finder: function that finds the files, by default ``discover``.
        opened: table handles of the calling step; that of the ledger then has the new entries.

    Each commit is a compare-and-set on the version that discovery read: of two concurrent runs one wins and the other
    discovers again, so no file is entered twice (delta-rs would let both appends succeed). Before it the ledger is
    compacted once it has many small files; else there would be one for every batch there has been.

    Raises:
        LandingMissing: the folder does not exist.
        CommitFailedError: other runs won the compare-and-set ``ATTEMPTS`` times in a row.
    """
    uri = lake.ledger(name)
    opened = opened or Tables()
    finder = finder or partial(discover, opened=opened)
    for attempt in range(ATTEMPTS):
        if attempt:  # on purpose: another run has committed, and what it did is what the next look has to go by
            opened.refresh()
        ledger = opened[uri].delta  # before the look: of what it does not have yet, the commit would fail
        discovered = finder(name, table, lake)
        first = ledger is None and not table.includeExistingFiles
        if not (discovered.new.num_rows or discovered.copied or discovered.moved.num_rows or first):
            return discovered
        try:
            if ledger is None:
                baseline = _baseline(name, table, lake)
                ledger = landing_ledger._create(uri, baseline, discovered.folders)
                opened.refresh(uri)  # on purpose: it is there now, and what it has from the start is not new
                if not table.includeExistingFiles:
                    discovered = _add_baseline_remark(baseline, finder(name, table, lake))
                discovered = _add_partition_remark(table, discovered)
            _append(ledger, table, discovered)
            opened.refresh(uri)  # on purpose: the next reader of the handle is to see what was entered
            return discovered
        except CommitFailedError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _add_baseline_remark(baseline: pa.Table, discovered: Discovery) -> Discovery:
    """Add a remark on the files that landed before the table was created."""
    if not baseline.num_rows:
        return discovered
    skipped = (
        f"{files(baseline.num_rows)} skipped that landed before the table was created: includeExistingFiles is false"
    )
    return replace(discovered, remarks=(*discovered.remarks, skipped))


def _add_partition_remark(table: BronzeTable, discovered: Discovery) -> Discovery:
    """Add a remark on folders such as ``day=2026-01-01`` that do not become a column."""
    if not discovered.folders:
        return discovered
    names = relative_names(discovered.new, discovered.folders[0])
    folders = pc.unique(pc.replace_substring_regex(names, "[^/]*$", "")).to_pylist()
    columns = {column for folder in folders for column in re.findall(r"(?:^|/)(\w+)=", folder)}
    columns -= {*table.partitionColumns}
    if not columns:
        return discovered
    of_paths = (
        f"folders name {', '.join(sorted(columns))}, which is in no column: partitionColumns makes columns of them"
    )
    return replace(discovered, remarks=(*discovered.remarks, of_paths))


def _append(ledger: DeltaTable, table: BronzeTable, discovered: Discovery) -> None:
    """Enter the files of a discovery, a commit for each ledger batch."""
    folders = discovered.folders or landing_folders.recorded_folders(ledger)
    compaction.compact_newest(ledger, "chunk", facts={LedgerFacts.folders.key: folders} if folders else {})
    if discovered.moved.num_rows:
        landing_ledger._append(ledger, discovered.moved, {}, None, folders)
    sizes = (table.maxFilesPerTrigger, table.maxBytesPerTrigger)
    limits = (discovered.new.num_rows, None) if discovered.whole else sizes
    for chunk in landing_ledger.chunks(discovered.new, *limits):
        landing_ledger._append(ledger, chunk, discovered.copy_options, discovered.command, folders)
    for options, those in discovered.copied:
        for chunk in landing_ledger.chunks(those, *sizes):
            landing_ledger._append(ledger, chunk, options, None, folders)


def _baseline(name: str, table: BronzeTable, lake: layout.Lake) -> pa.Table:
    """SKIP entries of a new ledger: the files there before it, unless ``includeExistingFiles`` reads them."""
    entries = landing_ledger.add_action(LedgerAction.SKIP, FILES.empty_table())
    if not table.includeExistingFiles:
        entries = discover(name, table, lake).new
    return landing_ledger.stamp_rows(entries, 0)
