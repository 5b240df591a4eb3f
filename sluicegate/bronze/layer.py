"""Bronze: every record as it came. One ledger batch is one commit, with the batch's number as the offset.

A file that cannot be read fails alone: the others of its ledger batch go in, and the commit says which failed and why.
It is read again when it lands again under its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate import _faults
from sluicegate.bronze import copy_reader, record_rules, reread_rows
from sluicegate.bronze.ledger_batches import Entry, Left, chunks, newest_redone, read_of
from sluicegate.bronze.reader import Reader
from sluicegate.bronze.text import csv_files, decoded_files, xml_content
from sluicegate.bronze.text.decoded_files import DecodedFiles
from sluicegate.bronze.unreadable_files import Failure, unreadable
from sluicegate.console import files, say, time_left
from sluicegate.definition.kafka import COLUMNS
from sluicegate.errors import ExpectationFailed, UserError
from sluicegate.flow.batch import Batch
from sluicegate.frames import row_bytes, small_writes
from sluicegate.lake import layout, log, tables
from sluicegate.landing import file_status, folders, former_dialect
from sluicegate.landing.copy_options import CopyOptions, of_chunks
from sluicegate.landing.ledger import DROP, REPLACE, RESET
from sluicegate.schema.columns import data_columns
from sluicegate.schema.evolution import Schema
from sluicegate.schema.landed import landed_names, with_landed
from sluicegate.schema.typed_values import fitted
from sluicegate.spark import executors, table_features, table_reader
from sluicegate.spark.session import configured
from sluicegate.sql.identifiers import quoted
from sluicegate.sql.types import agree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from sluicegate.definition import BronzeTable


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
REREAD = (RESET, DROP)

# Newer ledger batches of which a file is read to know whether trouble with a whole batch is of the machines.
WITNESSES = 3


def apply(batch: Batch, name: str, table: BronzeTable, at: layout.Lake) -> None:
    """Reads the new ledger batches, oldest first, each into one commit.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.
        at: the lake.

    Raises:
        SchemaMismatch: a column has another type than the definition gives it, or a new one is not allowed.
        ExpectationFailed: records of a ledger batch break a rule that fails the run; it and those after it wait.
    """
    newest = newest_redone(batch)
    pending = list(chunks(batch))
    copies = of_chunks(batch.opened[batch.flow.source].delta, [number for number, _ in pending])
    places = reread_rows.Places(at, name, folders.home(at, name, table.path, batch.opened).folder)
    reread_by = {entry["path"]: number for number, entries in pending for entry in entries if entry["action"] in REREAD}
    # What a reset is about to read or drop need not be read before: most often it is what cannot be read.
    pending = [(n, [entry for entry in entries if reread_by.get(entry["path"], n) <= n]) for n, entries in pending]
    remark = former_dialect.remark(at.pipeline, name, table, batch.opened[batch.flow.target]) if pending else ""
    batch.report.warnings += [remark] if remark else []
    left = whole = Left.of(entry for _, entries in pending for entry in entries)
    began = time.monotonic()
    for at_chunk, (number, entries) in enumerate(pending, 1):
        started = time.monotonic()
        copy = copies.get(number, AS_DEFINED)
        newer = [one["path"] for _, others in pending[at_chunk : at_chunk + WITNESSES] for one in read_of(others)[:1]]
        with decoded_files.opened(batch.session, batch.flow.target) as decoded:
            definition, rewrites = copy.table(name, table), number <= newest
            Chunk(batch, name, definition, number, entries, rewrites, places, copy, newer, decoded).commit()
        taken = Left.of(entries)
        left = Left(left.files - taken.files, left.bytes - taken.bytes)
        batch.report.files += taken.files
        batch.report.bytes += taken.bytes
        if len(pending) > 1:
            rows = next(iter(log.commits(tables.table_at(batch.flow.target), 1))).rows_written or 0
            pace = f"{rows:,} rows, {rows / max(time.monotonic() - started, 1e-3):,.0f} a second"
            rest = f"left are {left}" if left.files else "none is left"
            rest += time_left(time.monotonic() - began, whole.bytes - left.bytes, left.bytes)
            say(f"  bronze {name:<28} chunk {number}: {taken}, {pace}; {rest}")

    if not pending or pending[-1][0] < batch.progress.until:
        # The ledger's last commits entered no files (it was compacted, say): only the offset moves.
        with batch.commit(**former_dialect.facts(table)):
            small_writes.commit_only(batch.session, batch.flow.target)


def _frame(
    session: SparkSession,
    schema: Schema,
    paths: Sequence[str],
    copy: CopyOptions,
    *,
    strict: bool = False,
    damaged: dict[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
    records: dict[str, int] | None = None,
    decoded: DecodedFiles | None = None,
) -> DataFrame:
    """Records of some files.

    ``damaged`` gets files of which a part or nothing is read, and why; ``records`` the counts for the manifest.
    """
    about = {} if damaged is None else damaged, sizes or {}, {} if records is None else records
    reader = Reader(session, schema, *about, decoded)
    if copy.selects and paths:
        frame = copy_reader.read(reader, copy, paths, strict=strict)
    else:
        frame = reader.read(paths) if paths else reader.nothing()
    return with_landed(frame, schema.landed)


def _schema(name: str, table: BronzeTable, target: str) -> Callable[[], Schema]:
    """Factory of the schema as stored: a new one for each attempt, since reading adds new columns to it."""
    there = tables.delta_table(target)
    known: dict[str, DataType] = {}
    landed: dict[str, str] = {}
    if there is not None:
        schema = table_reader.schema(there)
        of_source = COLUMNS if table.kafka is not None else ()
        known = {f.name: f.dataType for f in schema if f.name in data_columns(schema.names) and f.name not in of_source}
        landed = landed_names(schema)
    first = tables.rows(there) == 0
    return lambda: Schema(name, table, known, first, dict(landed))


@dataclass
class Chunk:
    """Ledger batch on its way into one commit.

    Attributes:
        rewrites: whether the table may have rows of this very ledger batch, which are replaced.
        places: locations of files that were taken away from landing.
        newer: a few files of later ledger batches.
        decoded: copies of files that Spark would not read right; None for what is no file.
    """

    batch: Batch
    name: str
    table: BronzeTable
    number: int
    entries: list[Entry]
    rewrites: bool
    places: reread_rows.Places
    copy: CopyOptions = AS_DEFINED
    newer: Sequence[str] = ()
    decoded: DecodedFiles | None = None

    def commit(self) -> None:
        """Commits the records of all files that can be read, and the names of those that cannot."""
        self.rereads = any(entry["action"] in REREAD for entry in self.entries)
        known = _schema(self.name, self.table, self.batch.flow.target)
        self.schema = partial(Schema, self.name, self.table, {}, True) if self.rereads else known
        read = read_of(self.entries)
        lost = self.places.find(read)
        paths = [entry["path"] for entry in read if entry["path"] not in lost]
        with configured(self.batch.session, READING):
            self._write_readable(paths, lost)
            # What is read again may differ again. Each time there are fewer files, so this ends.
            while differing := self._differing():
                say(f"  bronze {self.name:<28} {files(len(differing))} gave other numbers of records than they have")
                self.rewrites, failed = True, self.failed | differing
                self._write([path for path in paths if path not in failed], failed, fenced=False)
        self.checked.count()
        _faults.point("bronze.after_commit")

    def _write_readable(self, paths: list[str], lost: dict[str, Failure]) -> None:
        """Writes the files that can be read; all are looked through first where bytes may have been replaced."""
        try:
            self._write(paths, lost)
        except ExpectationFailed:  # its files can be read
            raise
        except Exception as error:
            if self.decoded is not None and self.decoded.is_doubted(error, self.table):
                self._write_readable(paths, lost)
                return
            failed = lost | self._failed(paths, error)
            self._write([path for path in paths if path not in failed], failed)

    def _failed(self, paths: list[str], error: Exception) -> dict[str, Failure]:
        """Files that cannot be read, with the reason; all of them if the options of a copy cannot be applied.

        Nobody can correct these any more, and later ledger batches must not wait: the next copy reads these files.
        """
        try:
            private = self.batch.flow.private
            return unreadable(self._read, paths, error, private=private, tried=self._tried, others=self.newer)
        except UserError as mistake:
            if not self.copy.facts:
                raise
            why = f"{mistake.message} ({mistake.cause})" if mistake.cause else mistake.message
            return dict.fromkeys(paths, (why, False))

    def _tried(self) -> set[str]:
        """Files that are read because an earlier ledger batch could not read them."""
        retries = file_status.failed(self.places.at, self.name, self.table.fingerprint)
        return {e["path"] for e in self.entries if e["action"] == REPLACE and retries.get(e["path"])}

    def _read(self, paths: Sequence[str]) -> DataFrame:
        return self._frame(paths, {})

    def _frame(self, paths: Sequence[str], damaged: dict[str, str], records: dict[str, int] | None = None) -> DataFrame:
        places = [self.places.of(path) for path in paths]
        sizes = {self.places.of(entry["path"]): entry["size"] for entry in self.entries}
        schema = self.schema()
        frame = _frame(self.batch.session, schema, places, self.copy, damaged=damaged, sizes=sizes, records=records,
                       decoded=self.decoded)  # fmt: skip
        self.collisions, self.padded = schema.collisions, schema.padded
        return self.places.named(frame, paths).withColumn("_chunk", F.lit(self.number).cast("bigint"))

    def _differing(self) -> dict[str, Failure]:
        """Files whose number of rows is not that of the manifest, as of one that changes while it is read.

        Rows are counted by file only if their total is not that of the manifest.
        """
        table = tables.table_at(self.batch.flow.target)
        if self.table.format == "xml":
            return self._uninterpreted(file_status.rows_of(table, self.number))
        only = not self.rereads and self.manifest.keys() == self.read
        if not self.manifest or (only and next(log.commits(table, 1)).rows_written == sum(self.manifest.values())):
            return {}
        counted = file_status.rows_of(table, self.number)
        said = {path: (records, counted.get(path, 0)) for path, records in self.manifest.items()}
        why = "it says that it has {:,} records, and {:,} were read: it is tried again by the next run"
        return {path: (why.format(*both), True) for path, both in said.items() if both[0] != both[1]}

    def _uninterpreted(self, rows: Mapping[str, int]) -> dict[str, Failure]:
        """XML files of which no record was made, though they have content."""
        empty = [self.places.of(path) for path in sorted(self.read - rows.keys() - self.failed.keys())]
        row_tag = next((value for name, value in self.table.options.items() if name.lower() == "rowtag"), "ROW")
        reasons = executors.each(self.batch.session, xml_content.uninterpreted, empty, row_tag)
        return {path: (why, False) for path in sorted(self.read) if (why := reasons.get(self.places.of(path)))}

    def _write(self, paths: list[str], failed: dict[str, Failure], *, fenced: bool = True) -> None:
        damaged: dict[str, str] = {}
        records: dict[str, int] = {}
        frame = self._frame(paths, damaged, records)
        self.manifest = {path: records[place] for path in paths if (place := self.places.of(path)) in records}
        self.read, self.failed = set(paths), failed
        failed |= {path: (damaged[place], False) for path in paths if (place := self.places.of(path)) in damaged}
        few = self._few(sum(entry["size"] for entry in self.entries))
        with record_rules.checked(self.batch, self.table, frame, few=few) as self.checked:
            self._commit(self.checked, failed, fenced=fenced, few=few)

    def _commit(self, checked: record_rules.Checked, failed: dict[str, Failure], *, fenced: bool, few: bool) -> None:
        """Commits records, in the place of those that their files gave before."""
        frame = checked.records
        superseded = {e["path"] for e in self.entries if e["action"] in (REPLACE, *REREAD)} & {
            *self.read,
            *self._dropped,
        }
        former = self._former(superseded)
        widened = self._widened(frame) if self.table.widens and not self.rereads else []
        writer, whole = None, None
        if self.rereads or widened:
            whole = self._with_retained(frame, former) if self.rereads else self._whole(frame, former, widened)
            writer = self.batch.described(whole).write.option("overwriteSchema", "true")
        elif condition := self._replaced(former):
            whole = self._retained(former).unionByName(frame, allowMissingColumns=True)
            writer = self.batch.described(frame).write.option("replaceWhere", condition).option("mergeSchema", "true")
        checked.demand_table(None if whole is None else lambda: whole)
        table_features.enable_local_times(frame, self.batch.flow.target)
        facts = {"chunk": self.number, "files": len(self.entries), **self.amount, "failed": failed,
                 **({"collisions": self.collisions} if self.collisions else {}),
                 "manifest": self.manifest, "definition": self.table.fingerprint,
                 "seen": self.batch.target_version(), **former_dialect.facts(self.table), **checked.facts}  # fmt: skip
        self.batch.report.warnings += csv_files.padded_names(self.padded)
        for field, column in self.collisions.items():
            say(f"  bronze {self.name:<28} the field {field} is rescued: {column} has the values of another field")
        _faults.point("bronze.before_commit")
        with self.batch.commit(offset=self.number, fenced=fenced, **facts):
            if writer is None:
                small_writes.append(self.batch.described(frame), self.batch.flow.target, few=few, **OPTIONS)
            else:
                writer.format("delta").mode("overwrite").options(**OPTIONS).save(self.batch.flow.target)

    @property
    def amount(self) -> dict[str, Any]:
        """How much it is, for the commit."""
        return {"bytes": sum(entry["size"] for entry in self.entries)}

    def _few(self, size: int) -> bool:
        """Whether the records are certain to be few, and small.

        Of other formats, a small file may hold very much, and an expression may make much of a small value.
        """
        text = self.table.format in ("json", "csv") and all(path.endswith(TEXT) for path in self.read)
        text = text and not self.copy.selects
        # An empty record has two bytes in its file, and in each column an offset and a bit.
        columns = len(self.schema().known) + len(self.schema().wanted)
        return text and size <= SMALL_BYTES and size * columns * 5 // 2 <= row_bytes.MOST_BYTES

    @property
    def _dropped(self) -> list[str]:
        return [entry["path"] for entry in self.entries if entry["action"] == DROP]

    def _widened(self, frame: DataFrame) -> list[str]:
        """Columns that have a wider type from this ledger batch on."""
        known = self.schema().known
        kinds = {field.name: field.dataType for field in frame.schema}
        return [name for name, kind in known.items() if not agree(kinds.get(name, kind), kind)]

    def _whole(self, frame: DataFrame, former: reread_rows.Former | None, widened: list[str]) -> DataFrame:
        """All records of the table, with these, in the wider types.

        Delta could widen a column without rewriting the table, but then only readers that know this feature could
        read it: delta-rs, and so ``sluicegate sql`` and much else, does not.
        """
        say(f"  bronze {self.name:<28} {', '.join(widened)} wider: the table is rewritten")
        there = self._retained(former)
        kinds = {name: (there.schema[name].dataType, frame.schema[name].dataType) for name in widened}
        cast = there.withColumns({n: fitted(F.col(quoted(n)), *both).value for n, both in kinds.items()})
        whole = cast.unionByName(frame, allowMissingColumns=True)
        return with_landed(whole, landed_names(there.schema) | landed_names(frame.schema))

    def _former(self, paths: set[str]) -> reread_rows.Former | None:
        """The rows that some files gave when they were read before."""
        ledger = self.batch.opened[self.batch.flow.source].delta
        entries = {entry["path"]: entry for entry in self.entries if entry["path"] in paths}
        archived = self.places.landed_at(paths)
        return reread_rows.Former.of(ledger, paths, self.number, entries, archived)

    def _replaced(self, former: reread_rows.Former | None) -> str:
        """Predicate of the rows that this ledger batch replaces; empty if there are none."""
        table = tables.delta_table(self.batch.flow.target)
        gone = former.condition(table) if former and table else ""
        own = [f"_chunk = {self.number}"] if gone or self.rewrites else []
        return " OR ".join([*own, *([f"({gone})"] if gone else [])])

    def _with_retained(self, frame: DataFrame, former: reread_rows.Former | None) -> DataFrame:
        """New rows, and the stored ones that they do not replace, fitted into the new columns."""
        if tables.delta_table(self.batch.flow.target) is None:
            return frame
        rows = self._retained(former)
        if rows.isEmpty():
            return frame  # no rows, no columns of theirs either
        options = {name.lower(): value for name, value in self.table.options.items()}
        both = reread_rows.union(frame, rows, options)
        return with_landed(both, landed_names(rows.schema) | landed_names(frame.schema))

    def _retained(self, former: reread_rows.Former | None) -> DataFrame:
        there = table_reader.read(self.batch.session, self.batch.flow.target)
        there = there.where(f"NOT (_chunk <=> {self.number})")
        return former.staying(there) if former else there
