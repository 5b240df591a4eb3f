"""Arrivals: generations of a file name that is used again for other content.

A ledger entry with action *read* begins an arrival; *replace* and *reset* renew it, and *drop* ends it. So when
``export.csv`` lands each day and is moved away once it is read, reading today's again does not touch yesterday's rows.
An earlier arrival is read again from the archive, and has an entry of its own then, under its address there.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.lake import tables
from sluicegate.landing.file_states import UNREAD, LedgerAction
from sluicegate.storage.listings import FILES

# First and last ledger batch of a range.
Batches = tuple[int, int]


@dataclass(frozen=True)
class Arrival:
    """One arrival of a path.

    Attributes:
        facts: size and modification time of the file, by the newest entry.
        batches: ledger batches in which the path is this arrival.
        read: whether the file was to be read, and its rows were not dropped since.
        entries: the entries, oldest first.
    """

    facts: tuple[int, datetime]
    batches: Batches
    read: bool
    entries: tuple[Mapping[str, Any], ...]


def _facts(entry: Mapping[str, Any]) -> tuple[int, datetime]:
    return entry["size"], entry["modification_time"]


def group_arrivals(entries: Iterable[Mapping[str, Any]]) -> list[Arrival]:
    """Return arrivals of one path, oldest first, by its entries in the order of their ledger batches."""
    arrivals: list[Arrival] = []
    for entry in entries:
        read = entry["action"] not in UNREAD
        if arrivals and entry["action"] != LedgerAction.READ:
            last = arrivals.pop()
            batches, entries_so_far = last.batches, (*last.entries, entry)
        else:
            if arrivals:
                arrivals[-1] = replace(arrivals[-1], batches=(arrivals[-1].batches[0], entry["chunk"] - 1))
            batches, entries_so_far = (entry["chunk"], sys.maxsize), (entry,)
        arrivals.append(Arrival(_facts(entry), batches, read, entries_so_far))
    return arrivals


def arrivals_by_path(ledger: DeltaTable, paths: Collection[str], before: int = sys.maxsize) -> dict[str, list[Arrival]]:
    """Return the arrivals of paths in the ledger batches before ``before``."""
    if not paths:
        return {}
    mine = pc.field("path").isin(pa.array(sorted(paths), pa.string())) & (pc.field("chunk") < before)
    entries: dict[str, list[dict[str, Any]]] = {}
    columns = [*FILES.names, "action", "chunk"]
    for entry in tables.filter_rows(tables.dataset(ledger), mine, columns).sort_by("chunk").to_pylist():
        entries.setdefault(entry["path"], []).append(entry)
    return {path: group_arrivals(those) for path, those in entries.items()}


def replaced_batches(
    ledger: DeltaTable, paths: Collection[str], chunk: int, files: Mapping[str, Mapping[str, Any]]
) -> dict[str, Batches]:
    """Return the ledger batches whose rows are replaced when a path is read again.

    Paths that arrived once are left out. Of a file with the facts of the last entry, the last reading is renewed. If it
    was overwritten, all readings of the former content are replaced: a forced copy may have read it more than once.

    Args:
        ledger: the ledger.
        paths: the paths.
        chunk: the ledger batch of the new reading, which replaces earlier ones.
        files: the files to read, with size and time, as far as they are known.
    """
    addresses = pa.array(sorted(paths), pa.string())
    reading = (pc.field("action") == LedgerAction.READ) & (pc.field("chunk") < chunk) & pc.field("path").isin(addresses)
    readings = tables.dataset(ledger).to_table(["path"], filter=reading)
    counted = readings.group_by("path").aggregate([([], "count_all")])
    several = counted.filter(pc.field("count_all") > 1)["path"].to_pylist()
    replacements = {}
    for path, entries_of_path in arrivals_by_path(ledger, several, chunk).items():
        begun, *former = reversed(entries_of_path)
        if path in files and _facts(files[path]) != begun.facts:
            for earlier in former:
                if earlier.facts != begun.facts:
                    break
                begun = earlier
        replacements[path] = (begun.batches[0], chunk - 1)
    return replacements
