"""Verification of bronze against its ledger: each file has a status, and as many rows as that says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from shlex import quote
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sluicegate.console import files
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, offsets, tables
from sluicegate.landing import file_status
from sluicegate.landing.file_states import FileStatus
from sluicegate.landing.moves import moved_files

# What is on record of the rows of each file, and the column that such rows have.
COUNTED = {"corrupt": "_corrupt_record", "rescued": "_rescued_data"}


def findings(lake: layout.Lake, name: str, limit: int | None) -> Iterator[Finding]:
    """Compare a bronze table with the files of its ledger; give what does not hold.

    Args:
        lake: the lake.
        name: the table.
        limit: a table of more rows is not read, only its row count must add up. None: it is read.
    """
    ledger, bronze = tables.delta_table(lake.ledger(name)), tables.delta_table(lake.table("bronze", name))
    if ledger is None:
        return
    if bronze is None:
        yield from deleted_table_findings(lake, name, "files")
        return
    entries = committed_entries(lake, name, ledger, bronze)
    unrecorded = file_status.unrecorded_batches(lake, name)
    if unrecorded:
        count = sum(entry["chunk"] in unrecorded for entry in entries)
        text = f"the status of {files(count)} is not recorded yet, because a run ended right after its commit"
        yield Finding(FindingKind.BEHIND, name, text, f"sluicegate run {lake.pipeline}")
    if limit is not None and tables.rows(bronze) > limit:
        if not unrecorded:
            yield from _row_count_findings(lake, name, entries, tables.rows(bronze))
        return
    yield from _FileComparison.from_tables(lake, name, ledger, bronze, entries, unrecorded).findings()


def committed_entries(lake: layout.Lake, name: str, ledger: DeltaTable, bronze: DeltaTable) -> list[dict[str, Any]]:
    """Return the entries of a ledger up to the offset of its bronze table, with what became of each."""
    line = offsets.restore_history(bronze)
    offset = offsets.committed_offset(bronze, offsets.app_id("bronze", name, ledger), line).offset or 0
    return [entry for entry in file_status.statuses(lake, name).to_pylist() if entry["chunk"] <= offset]


def deleted_table_findings(lake: layout.Lake, name: str, entries: str) -> Iterator[Finding]:
    """Tell that a bronze table has been deleted, though entries of its ledger, files or ranges, were read into it."""
    ingested = tables.rows(tables.delta_table(lake.file_status(name)))
    if ingested:
        text = f"the table no longer exists, but {ingested:,} {entries} were read; a run reads them again"
        yield Finding(FindingKind.WRONG, name, text, f"sluicegate run {lake.pipeline}")


def _row_count_findings(lake: layout.Lake, name: str, entries: list[dict[str, Any]], rows: int) -> Iterator[Finding]:
    """Compare a bronze table's number of rows with the sum over its files."""
    recorded = sum(_rows_of(entry) or 0 for entry in entries)
    if recorded != rows:
        text = f"its files have {recorded:,} rows on record, but the table has {rows:,}"
        yield Finding(FindingKind.WRONG, name, text, f"sluicegate reset {lake.pipeline} {name}")


@dataclass(frozen=True)
class _FileComparison:
    """Each file's rows in bronze beside its own record count and the rows on record for it.

    Attributes:
        lake: the lake.
        name: the bronze table.
        bronze: its opened table.
        entries: entries of the ledger up to its offset.
        manifests: record counts by the files' own manifests, by ledger batch and path.
        unrecorded: ledger batches whose file status is not on record yet.
        present_names: present names of files of a former landing folder.
    """

    lake: layout.Lake
    name: str
    bronze: DeltaTable
    entries: Sequence[Mapping[str, Any]]
    manifests: Mapping[tuple[int, str], int]
    unrecorded: Set[int]
    present_names: Mapping[str, str]

    @classmethod
    def from_tables(
        cls,
        lake: layout.Lake,
        name: str,
        ledger: DeltaTable,
        bronze: DeltaTable,
        entries: Sequence[Mapping[str, Any]],
        unrecorded: Set[int],
    ) -> _FileComparison:
        manifests = file_status.manifests(bronze, ledger, name)
        moved = {entry["path"] for entry in entries if entry["state"] == FileStatus.MOVED}
        present_names = {former: path for path, former in moved_files.aliases(ledger, moved).items()}
        return cls(lake, name, bronze, entries, manifests, unrecorded, present_names)

    def findings(self) -> Iterator[Finding]:
        reset = f"sluicegate reset {self.lake.pipeline} {self.name}"
        columns = {column: pc.field(column) for column in ("_chunk", "_pos", "source_file")}
        columns |= {count: pc.field(column).is_valid().cast(pa.int64()) for count, column in COUNTED.items()}
        rows = tables.dataset(self.bronze).to_table(columns)
        identities = rows.group_by(["_chunk", "_pos"]).aggregate([([], "count_all")])
        doubled = rows.num_rows - identities.num_rows
        if doubled:
            yield Finding(FindingKind.WRONG, self.name, f"{doubled:,} records have a duplicate record id", reset)
        sums: list[Any] = [([], "count_all"), *((count, "sum") for count in COUNTED)]
        counts_by_file = {
            (group["_chunk"], layout.to_ledger_path(group["source_file"] or "")): group
            for group in rows.group_by(["_chunk", "source_file"]).aggregate(sums).to_pylist()
        }
        for entry in self.entries:
            counts = counts_by_file.pop((entry["chunk"], entry["path"]), {})
            for text in self._differences(entry, counts):
                yield Finding(FindingKind.WRONG, self.name, text, self._reload(entry["path"]))
        for _, path in counts_by_file:
            text = f"rows of {path} are in the table, but the file is not in the ledger"
            yield Finding(FindingKind.WRONG, self.name, text, reset)

    def _differences(self, entry: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[str]:
        """Yield what differs between a file and its rows in the table.

        Args:
            entry: the file in the ledger.
            counts: number of its rows in the table, and how many of them are corrupt or rescued.
        """
        rows = counts.get("count_all", 0)
        difference = self._difference_in_rows(entry, rows)
        if difference:
            yield difference
        elif rows and entry["chunk"] not in self.unrecorded:
            yield from _count_differences(entry, counts)

    def _difference_in_rows(self, entry: Mapping[str, Any], rows: int) -> str:
        """Return how the number of rows of a file differs; empty if it does not."""
        path = entry["path"]
        in_manifest = self.manifests.get((entry["chunk"], path), rows)
        recorded = _rows_of(entry)
        if recorded is None and entry["chunk"] in self.unrecorded:
            recorded = in_manifest  # what the next run puts on record
        if recorded is None:
            return f"no status is recorded for {path}"
        if entry["state"] in (FileStatus.INGESTED, FileStatus.ARCHIVED) and in_manifest != rows:
            return f"{path} has {in_manifest:,} records, but the table has {rows:,} of them"
        if recorded != rows:
            return f"{path} has {recorded} rows on record, but the table has {rows} of them"
        return ""

    def _reload(self, path: str) -> str:
        """Return the command that reads a file again, by the name that it has now."""
        return f"sluicegate reload {self.lake.pipeline} {self.name} --files {quote(self.present_names.get(path, path))}"


def _count_differences(entry: Mapping[str, Any], counts: Mapping[str, int]) -> Iterator[str]:
    """Compare how many rows of a file are on record as corrupt or rescued with those in the table."""
    for count in COUNTED:
        rows = counts[f"{count}_sum"]
        if entry[count] != rows:
            yield f"{entry['path']} has {entry[count]:,} {count} rows on record, but the table has {rows:,} of them"


def _rows_of(entry: Mapping[str, Any]) -> int | None:
    """Return the number of rows that a file gave and that are still its own; None if nothing is on record."""
    if entry["state"] in (FileStatus.REPLACED, FileStatus.SKIPPED, FileStatus.MOVED):
        return 0
    rows: int | None = entry["rows"]
    return rows
