"""Bronze: every record as it came. One ledger batch is one commit, with the batch's number as the offset.

A file that cannot be read fails alone: the others of its ledger batch are ingested, and the commit names the failed
files and reasons. A failed file is read again when it lands again under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.bronze import record_rules, reread_rows
from sluicegate.bronze.ledger_batches import Amount, Entry, Pace, chunks, newest_reread_batch, read_entries
from sluicegate.bronze.reader import Reader
from sluicegate.bronze.records import records as records_of_files
from sluicegate.bronze.records import schema_factory
from sluicegate.bronze.text import csv_files, decoded_files, xml_content
from sluicegate.bronze.text.decoded_files import DecodedFiles
from sluicegate.bronze.unreadable_files import Failure, find_unreadable
from sluicegate.console import files, say
from sluicegate.definition import BronzeTable
from sluicegate.errors import ExpectationFailed, UserError
from sluicegate.flow.batch import Batch
from sluicegate.frames import row_bytes, small_writes
from sluicegate.lake import layout, log, tables
from sluicegate.landing import file_status, folders, former_dialect
from sluicegate.landing.chosen.copy_options import CopyOptions, options_by_batch
from sluicegate.landing.file_states import LedgerAction
from sluicegate.schema.evolution import Schema
from sluicegate.schema.landed import landed_names, record_landed_names
from sluicegate.schema.typed_values import fit_value
from sluicegate.spark import executors, table_features, table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.types import types_agree

# JSON has fields whose names differ in nothing but case, and Spark would refuse the whole file for them.
CASE_SENSITIVE = {"spark.sql.caseSensitive": "true"}
# And bytes that are no text would fail the whole ledger batch, in words that name no file.
READING = {**CASE_SENSITIVE, "spark.sql.legacy.codingErrorAction": "true"}

# Options of files that no copy has brought.
AS_DEFINED = CopyOptions()

# Columns with min/max statistics, set when the table is made; for those of the data they cost a fifth of the time, and
# records as they came lie in the order of nothing but their arrival.
OPTIONS = {"delta.dataSkippingStatsColumns": "receipt_time,_file_modification_time,_chunk,_pos"}

# Files of text up to this size in all are few records; with these ends to their names they are not compressed.
SMALL_BYTES = 1024 * 1024
TEXT = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt")

# A ledger batch with such entries rewrites the table.
REREAD = (LedgerAction.RESET, LedgerAction.DROP)

# Newer ledger batches of which a file is read to know whether trouble with a whole batch is of the machines.
WITNESSES = 3


def apply(batch: Batch, name: str, table: BronzeTable, at: layout.Lake) -> None:
    """Read the new ledger batches, oldest first, each into one commit.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.
        at: the lake.

    Raises:
        SchemaMismatch: a column's type differs from the definition, or a new column is not allowed.
        ExpectationFailed: records of a ledger batch break a rule that fails the run; that batch and later ones wait.
    """
    newest = newest_reread_batch(batch)
    pending = _drop_reread_files(list(chunks(batch)))
    copies = options_by_batch(batch.opened[batch.flow.source].delta, [number for number, _ in pending])
    places = reread_rows.ArchivedLocations(at, name, folders.home(at, name, table.path, batch.opened).folder)
    if pending and (remark := former_dialect.remark(at.pipeline, name, table, batch.opened[batch.flow.target])):
        batch.report.warnings.append(remark)
    pace = Pace(name, [entries for _, entries in pending])
    for place, (number, entries) in enumerate(pending, 1):
        copy = copies.get(number, AS_DEFINED)
        newer = [read_entries(later)[:1] for _, later in pending[place : place + WITNESSES]]
        witnesses = [entry["path"] for first in newer for entry in first]
        with decoded_files.open_copies(batch.session, batch.flow.target) as decoded:
            definition, rewrites = copy.table(name, table), number <= newest
            Chunk(batch, name, definition, number, entries, rewrites, places, copy, witnesses, decoded).commit()
        amount = Amount.from_entries(entries)
        batch.report.files += amount.files
        batch.report.bytes += amount.bytes
        pace.report_batch(number, amount, lambda: _rows_of_last_commit(batch.flow.target))

    if not pending or pending[-1][0] < batch.progress.until:
        # The ledger's last commits entered no files (it was compacted, say): only the offset moves.
        with batch.commit(**former_dialect.facts(table)):
            small_writes.commit_only(batch.session, batch.flow.target)


def _drop_reread_files(batches: Sequence[tuple[int, list[Entry]]]) -> list[tuple[int, list[Entry]]]:
    """Drop files from ledger batches that a later batch rereads or drops: most of them cannot be read."""
    reread_by = {entry["path"]: number for number, entries in batches for entry in entries if entry["action"] in REREAD}

    def due_entries(entries: list[Entry], number: int) -> list[Entry]:
        return [entry for entry in entries if reread_by.get(entry["path"], number) <= number]

    return [(number, due_entries(entries, number)) for number, entries in batches]


def _rows_of_last_commit(uri: str) -> int:
    return next(iter(log.commits(tables.table_at(uri), 1))).rows_written or 0


class _Write(NamedTuple):
    """Way in which a ledger batch is written.

    Attributes:
        writer: writer that replaces other rows; None to append.
        rows: returns the table's rows after the write; None if it only appends.
    """

    writer: DataFrameWriter | None
    rows: Callable[[], DataFrame] | None


@dataclass
class Chunk:
    """Ledger batch on its way into one commit.

    Attributes:
        rewrites: whether the table may have rows of this ledger batch, which are replaced.
        places: locations of files that were moved out of landing.
        newer: a few files of later ledger batches.
        decoded: copies of files that Spark would misread; None for sources without files.
    """

    batch: Batch
    name: str
    table: BronzeTable
    number: int
    entries: list[Entry]
    rewrites: bool
    places: reread_rows.ArchivedLocations
    copy: CopyOptions = AS_DEFINED
    newer: Sequence[str] = ()
    decoded: DecodedFiles | None = None

    def commit(self) -> None:
        """Commit the records of all files that can be read, and the names of those that cannot."""
        self.rereads = any(entry["action"] in REREAD for entry in self.entries)
        self.schema = schema_factory(self.name, self.table, self.batch.flow.target)
        if self.rereads:
            self.schema = partial(Schema, self.name, self.table, {}, True)
        read = read_entries(self.entries)
        lost = self.places.find(read)
        paths = [entry["path"] for entry in read if entry["path"] not in lost]
        with override_settings(self.batch.session, READING):
            self._write_readable(paths, lost)
            # What is read again may differ again. Each time there are fewer files, so this ends.
            while differing := self._differing_files():
                say(f"  bronze {self.name:<28} {files(len(differing))} have more or fewer records than declared")
                self.rewrites, failed = True, self.failed | differing
                self._write([path for path in paths if path not in failed], failed, fenced=False)
        self.checked.count()
        _faults.point("bronze.after_commit")

    def _write_readable(self, paths: list[str], lost: dict[str, Failure]) -> None:
        """Write the readable files, after a check of all of them where bytes may have been replaced."""
        try:
            self._write(paths, lost)
        except ExpectationFailed:  # its files can be read
            raise
        except Exception as error:
            if self.decoded is not None and self.decoded.is_doubted(error, self.table):
                self._write_readable(paths, lost)
                return
            failed = lost | self._failures(paths, error)
            self._write([path for path in paths if path not in failed], failed)

    def _failures(self, paths: list[str], error: Exception) -> dict[str, Failure]:
        """Return the unreadable files with the reason.

        If the options of a copy cannot be applied, these are all files.

        The options can no longer be corrected, and later batches must not wait: the next copy reads these files.
        """
        try:
            private = self.batch.flow.private
            return find_unreadable(
                self._read, paths, error, private=private, tried=self._retried_files, others=self.newer
            )
        except UserError as mistake:
            if not self.copy.facts:
                raise
            reason = mistake.message
            if mistake.cause:
                reason = f"{mistake.message} ({mistake.cause})"
            return dict.fromkeys(paths, (reason, False))

    def _retried_files(self) -> set[str]:
        """Return the files that are retried because an earlier ledger batch could not read them."""
        retries = file_status.failed_files(self.places.lake, self.name, self.table.fingerprint)
        return {path for path in self._paths_of(LedgerAction.REPLACE) if retries.get(path)}

    def _paths_of(self, *actions: str) -> list[str]:
        """Return the files that were entered with the given actions."""
        return [entry["path"] for entry in self.entries if entry["action"] in actions]

    def _read(self, paths: Sequence[str]) -> DataFrame:
        return self._frame(paths, {})

    def _frame(self, paths: Sequence[str], damaged: dict[str, str], records: dict[str, int] | None = None) -> DataFrame:
        places = list(map(self.places.location, paths))
        sizes = {self.places.location(entry["path"]): entry["size"] for entry in self.entries}
        schema, counts = self.schema(), records
        if counts is None:
            counts = {}
        reader = Reader(self.batch.session, schema, damaged, sizes, counts, self.decoded)
        frame = records_of_files(reader, self.copy, places)
        self.collisions, self.padded = schema.collisions, schema.padded_headers
        return self.places.restore_names(frame, paths).withColumn("_chunk", F.lit(self.number).cast("bigint"))

    def _differing_files(self) -> dict[str, Failure]:
        """Return the files whose row count differs from the manifest, as when they change while they are read.

        Rows are counted by file only if their total differs from the manifest.
        """
        table = tables.table_at(self.batch.flow.target)
        if self.table.format == "xml":
            return self._uninterpreted_files(file_status.rows_of(table, self.number))
        only = not self.rereads and self.manifest.keys() == self.read
        if not self.manifest or (only and next(log.commits(table, 1)).rows_written == sum(self.manifest.values())):
            return {}
        counted, differing = file_status.rows_of(table, self.number), {}
        for path, records in self.manifest.items():
            rows = counted.get(path, 0)
            if rows != records:
                reason = f"it declares {records:,} records, but {rows:,} were read"
                differing[path] = (f"{reason}: the next run retries it", True)
        return differing

    def _uninterpreted_files(self, rows: Mapping[str, int]) -> dict[str, Failure]:
        """Return XML files that gave no record although they have content."""
        empty = list(map(self.places.location, sorted(self.read - rows.keys() - self.failed.keys())))
        row_tag = next((value for name, value in self.table.options.items() if name.lower() == "rowtag"), "ROW")
        reasons = executors.map_files(self.batch.session, xml_content.uninterpreted_reason, empty, row_tag)
        by_path = {path: reasons.get(self.places.location(path)) for path in sorted(self.read)}
        return {path: (reason, False) for path, reason in by_path.items() if reason}

    def _write(self, paths: list[str], failed: dict[str, Failure], *, fenced: bool = True) -> None:
        damaged: dict[str, str] = {}
        records: dict[str, int] = {}
        frame = self._frame(paths, damaged, records)
        self.manifest = {path: records[place] for path in paths if (place := self.places.location(path)) in records}
        self.read, self.failed = set(paths), failed
        failed |= {path: (damaged[place], False) for path in paths if (place := self.places.location(path)) in damaged}
        few = self._has_few_records(sum(entry["size"] for entry in self.entries))
        with record_rules.checked_records(self.batch, self.table, frame, few=few) as self.checked:
            self._commit(self.checked, failed, fenced=fenced, few=few)

    def _commit(self, checked: record_rules.Checked, failed: dict[str, Failure], *, fenced: bool, few: bool) -> None:
        """Commit records in place of those that their files gave before."""
        frame = checked.records
        write = self._plan_write(frame)
        checked.demand_table(write.rows)
        table_features.enable_local_times(frame, self.batch.flow.target)
        facts = {"chunk": self.number, "files": len(self.entries), **self.amount, "failed": failed}
        if self.collisions:
            facts["collisions"] = self.collisions
        facts |= {"manifest": self.manifest, "definition": self.table.fingerprint,
                  "seen": self.batch.target_version(), **former_dialect.facts(self.table), **checked.facts}  # fmt: skip
        self.batch.report.warnings += csv_files.padding_warnings(self.padded)
        for field, column in self.collisions.items():
            say(f"  bronze {self.name:<28} field {field} is rescued: column {column} has the values of another field")
        _faults.point("bronze.before_commit")
        with self.batch.commit(offset=self.number, fenced=fenced, **facts):
            if write.writer is None:
                rows, target = self.batch.add_comments(frame), self.batch.flow.target
                small_writes.append(rows, target, few=few, constants=self._constants, **OPTIONS)
            else:
                write.writer.format("delta").mode("overwrite").options(**OPTIONS).save(self.batch.flow.target)

    @property
    def _constants(self) -> dict[str, Any]:
        """Columns with one value in all records; none if rules have read them, and may have judged that value."""
        if self.table.has_rules:
            return {}
        return {"receipt_time": datetime.now(UTC), "_chunk": self.number}

    def _plan_write(self, frame: DataFrame) -> _Write:
        """Decide how records are written: appended, in place of former ones, or with the whole table."""
        renewed = {*self._paths_of(LedgerAction.REPLACE, *REREAD)}
        former, widened = self._former_rows(renewed & {*self.read, *self._paths_of(LedgerAction.DROP)}), []
        if self.table.widens and not self.rereads:
            widened = self._widened_columns(frame)
        if self.rereads:
            return self._rewrite(self._add_retained(frame, former))
        if widened:
            return self._rewrite(self._whole_table(frame, former, widened))
        condition = self._replaced_condition(former)
        if not condition:
            return _Write(None, None)
        rows = self._retained_rows(former).unionByName(frame, allowMissingColumns=True)
        writer = self.batch.add_comments(frame).write.option("replaceWhere", condition).option("mergeSchema", "true")
        return _Write(writer, lambda: rows)

    def _rewrite(self, rows: DataFrame) -> _Write:
        return _Write(self.batch.add_comments(rows).write.option("overwriteSchema", "true"), lambda: rows)

    @property
    def amount(self) -> dict[str, Any]:
        """Volume of the batch, for the commit."""
        return {"bytes": sum(entry["size"] for entry in self.entries)}

    def _has_few_records(self, size: int) -> bool:
        """Return whether the records are certainly few and small.

        In other formats a small file may have much data, and an expression may enlarge a small value.
        """
        text = self.table.format in ("json", "csv") and all(path.endswith(TEXT) for path in self.read)
        text = text and not self.copy.selects
        # An empty record has two bytes in its file, and in each column an offset and a bit.
        columns = len(self.schema().known) + len(self.schema().expected_types)
        return text and size <= SMALL_BYTES and size * columns * 5 // 2 <= row_bytes.MOST_BYTES

    def _widened_columns(self, frame: DataFrame) -> list[str]:
        """Return the columns whose type this ledger batch widens."""
        stored = self.schema().known
        kinds = {field.name: field.dataType for field in frame.schema}
        return [name for name, kind in stored.items() if not types_agree(kinds.get(name, kind), kind)]

    def _whole_table(self, frame: DataFrame, former: reread_rows.Former | None, widened: list[str]) -> DataFrame:
        """Return all records of the table, with the new ones, in the wider types.

        Delta could widen a column without rewriting the table, but then only readers with this feature could read it;
        delta-rs, and so ``sluicegate sql``, cannot.
        """
        say(f"  bronze {self.name:<28} rewriting the table to widen {', '.join(widened)}")
        stored = self._retained_rows(former)
        kinds = {name: (stored.schema[name].dataType, frame.schema[name].dataType) for name in widened}
        cast = stored.withColumns(
            {name: fit_value(F.col(quote_name(name)), *both).value for name, both in kinds.items()}
        )
        whole = cast.unionByName(frame, allowMissingColumns=True)
        return record_landed_names(whole, landed_names(stored.schema) | landed_names(frame.schema))

    def _former_rows(self, paths: set[str]) -> reread_rows.Former | None:
        """Return the rows that the files gave when they were read before."""
        ledger = self.batch.opened[self.batch.flow.source].delta
        entries = {entry["path"]: entry for entry in self.entries if entry["path"] in paths}
        archived = self.places.landed_facts(paths)
        return reread_rows.Former.from_ledger(ledger, paths, self.number, entries, archived)

    def _replaced_condition(self, former: reread_rows.Former | None) -> str:
        """Return the predicate of the rows that this ledger batch replaces; empty if none."""
        table, of_files = tables.delta_table(self.batch.flow.target), ""
        if former and table:
            of_files = former.condition(table)
        of_batch = f"_chunk = {self.number}"
        if of_files:
            return f"{of_batch} OR ({of_files})"
        if self.rewrites:
            return of_batch
        return ""

    def _add_retained(self, frame: DataFrame, former: reread_rows.Former | None) -> DataFrame:
        """Return the new rows with the stored rows that they do not replace, fitted to the new columns."""
        if tables.delta_table(self.batch.flow.target) is None:
            return frame
        rows = self._retained_rows(former)
        if rows.isEmpty():
            return frame  # no rows, no columns of theirs either
        options = {name.lower(): value for name, value in self.table.options.items()}
        both = reread_rows.union(frame, rows, options)
        return record_landed_names(both, landed_names(rows.schema) | landed_names(frame.schema))

    def _retained_rows(self, former: reread_rows.Former | None) -> DataFrame:
        stored = table_reader.read(self.batch.session, self.batch.flow.target)
        of_other_batches = stored.where(f"NOT (_chunk <=> {self.number})")
        if not former:
            return of_other_batches
        return former.retained_rows(of_other_batches)
