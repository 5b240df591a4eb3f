"""Bronze against its landed files: every record and value, read a second time by readers that are not the engine's.

A file that cannot be read a second time is named as not looked at, with the reason. Memory is bounded: rows are sorted
by file and record by DuckDB, which spills, and each file is read once, as a stream.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from shlex import quote
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sluicegate.console import files, ignore_line
from sluicegate.definition import BronzeTable, Pipeline
from sluicegate.errors import SluicegateError
from sluicegate.flow.verification.finding import Finding, FindingKind, FindingReason
from sluicegate.flow.verification.proofs import Proof, Proofs
from sluicegate.flow.verification.sample import EVERYTHING, Sample
from sluicegate.lake import layout, offsets, tables
from sluicegate.lake.table_description import LANDED
from sluicegate.landing import file_status, status_log
from sluicegate.landing.chosen.copy_options import CopyOptions, options_by_batch
from sluicegate.landing.file_states import FileStatus, LedgerAction
from sluicegate.landing.moves import moved_files
from sluicegate.private_folders import PrivateFolder
from sluicegate.settings import Settings
from sluicegate.storage import filesystems
from sluicegate.witness.comparison import Comparison
from sluicegate.witness.difference import Difference
from sluicegate.witness.proved_files import Entry, Key, ProvedFiles
from sluicegate.witness.records import READERS, FileReader, Unreadable, obstacle
from sluicegate.witness.rows_of_files import rows_of_files, split_by_file
from sluicegate.witness.table_columns import CORRUPT, RESCUED, BronzeColumns

# Columns of bronze that are not the data's.
OURS = ("receipt_time", "source_file", "_file_modification_time", "_chunk", "_pos", RESCUED, CORRUPT)

# When a file was changed, as its rows have it.
TIME = "_file_modification_time"

# Rows that are sorted in memory; more are sorted by DuckDB, on disk where its memory is not enough.
IN_MEMORY = 200_000
MEMORY = "1GB"

# Rows that are compared at a time.
BLOCK = 5_000

# Files named in a finding; all are counted.
SHOWN = 10

# Why a file is not compared that is not as it was.
CHANGED = "it has changed since it was read"


def findings(
    pipeline: Pipeline,
    settings: Settings,
    tell: Callable[[str], None] = ignore_line,
    only: Collection[str] = (),
    sample: Sample = EVERYTHING,
    proofs: Proofs | None = None,
) -> Iterator[Finding]:
    """Compare each bronze table with the files that it was read from, record by record and value by value.

    Args:
        pipeline: the definition.
        settings: locations of lake and landing.
        tell: called with a line before each table.
        only: names of the tables to compare; by default all.
        sample: the files whose values are compared.
        proofs: what former verifications proved; None if that is neither used nor recorded.
    """
    lake = layout.Lake(settings.lake, pipeline.name)
    proofs = proofs or Proofs(lake, keeps=False)
    for name, table in pipeline.bronze.items():
        if only and name not in only:
            continue
        bronze, ledger = tables.delta_table(lake.table("bronze", name)), tables.delta_table(lake.ledger(name))
        if bronze is None or (ledger is None and table.reads_files):
            continue
        if table.kafka is not None:
            yield Finding(FindingKind.UNSEEN, name, "the values of its records, as Kafka's topics are not read again")
        elif ledger is None or not table.reads_files:
            text = f"its values, as only the number of its rows is compared with {table.path}"
            yield Finding(FindingKind.UNSEEN, name, text)
        else:
            tell(f"  reading the files of {name} again")
            try:
                yield from _Table(lake, name, table, bronze, ledger, bool(pipeline.pii), sample, proofs).findings()
            except (DeltaError, pa.ArrowException, duckdb.Error) as error:
                reason = f"as the table cannot be read without Spark: {str(error).splitlines()[0]}"
                yield Finding(FindingKind.UNSEEN, name, f"its values, {reason}")


@dataclass
class _Result:
    """What came of the files of a table.

    Attributes:
        total: files that rows of the table are of.
        compared: those of them that were to be compared.
        files: files whose rows are what landed.
        proved: those of them of which each value was compared.
        records: their records.
        unseen: files that were not looked at, by the reason.
        unsaid: number of values that cannot be compared, by column.
        wrong: findings.
        readers: what has read the files.
    """

    total: int = 0
    compared: int = 0
    files: int = 0
    proved: set[Key] = field(default_factory=set)
    records: int = 0
    unseen: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unsaid: Counter[str] = field(default_factory=Counter)
    wrong: list[Finding] = field(default_factory=list)
    readers: set[str] = field(default_factory=set)

    def note_unseen(self, path: str, reason: str) -> None:
        """Note a file that was not looked at."""
        self.unseen[reason].append(path)


@dataclass
class _Table:
    """One bronze table of files."""

    lake: layout.Lake
    name: str
    table: BronzeTable
    bronze: DeltaTable
    ledger: DeltaTable
    private: bool
    sample: Sample
    proofs: Proofs

    def findings(self) -> Iterator[Finding]:
        statuses = file_status.statuses(self.lake, self.name)
        all_entries = self._entries(statuses)
        self._places = self._moved_paths(statuses)
        definition = [self.table.fingerprint, tables.table_id(self.ledger)]
        proved = ProvedFiles(self.proofs, self.name, definition, self.bronze, all_entries, self._places)
        entries = {
            (chunk, path): entry
            for (chunk, path), entry in all_entries.items()
            if (chunk, path) not in proved.keys and (self.sample.is_whole or self.sample.has(self.name, path))
        }
        copies = options_by_batch(self.ledger, sorted({entry["chunk"] for entry in entries.values()}))
        self._definitions = self._former_definitions()
        result = _Result(total=len(all_entries), compared=len(entries))
        for key, blocks in self._stored_rows({*entries}, whole=len(entries) == len(all_entries)):
            if key in entries:  # else rows of no file: that is a finding of its own
                self._compare_file(entries.pop(key), copies, blocks, result)
        for entry in entries.values():
            self._compare_file(entry, copies, iter(()), result)
        if result.wrong:
            self.proofs.forget("bronze", self.name)
        else:
            proved.keep(result.proved)
        yield from self._result_findings(result, proved.proof)

    def _entries(self, statuses: pa.Table) -> dict[Key, Entry]:
        """Return files that rows of the table are of, by ledger batch and path."""
        line = offsets.restore_history(self.bronze)
        offset = offsets.committed_offset(self.bronze, offsets.app_id("bronze", self.name, self.ledger), line).offset
        return {
            (entry["chunk"], entry["path"]): entry
            for entry in statuses.to_pylist()
            if entry["chunk"] <= (offset or 0)
            and (
                entry["state"] in (FileStatus.INGESTED, FileStatus.ARCHIVED)
                or (entry["state"] == FileStatus.FAILED and entry["rows"])
            )
        }

    def _former_definitions(self) -> set[tuple[int, str]]:
        """Return files that were read by another definition than today's."""
        read = status_log.read(self.lake, self.name, ["chunk", "path", "definition"])
        other = read.filter(pc.fill_null(pc.not_equal(read["definition"], self.table.fingerprint), False))
        return {(row["chunk"], row["path"]) for row in other.to_pylist()}

    def _moved_paths(self, statuses: pa.Table) -> dict[str, str]:
        """Return present paths of files that were read from a former landing folder, by the former path."""
        moved = set(statuses.filter(pc.equal(statuses["state"], FileStatus.MOVED))["path"].to_pylist())
        return {former: path for path, former in moved_files.aliases(self.ledger, moved).items()}

    # --- rows of the table -------------------------------------------------------------------------------------------

    def _stored_rows(self, entries: Collection[Key], *, whole: bool) -> Iterator[tuple[Key, Iterator[pa.RecordBatch]]]:
        """Yield rows of the table by ledger batch and file, in the order of their records.

        Args:
            entries: ledger batches and paths of the files.
            whole: whether rows of other files are wanted, too.
        """
        rows = tables.dataset(self.bronze)
        columns = [name for name in rows.schema.names if name != "receipt_time"]
        schema = pa.schema(list(map(rows.schema.field, columns)))
        few = tables.rows(self.bronze) <= IN_MEMORY
        if not whole:
            parts = rows_of_files(rows, columns, entries)
            rows = pa.RecordBatchReader.from_batches(schema, (part.cast(schema) for part in parts))
        elif few:
            rows = rows.to_table(columns)
        batches = chain.from_iterable(map(split_by_file, _sort_rows(rows, columns, in_memory=few)))
        for (chunk, path), group in groupby(batches, key=itemgetter(0)):
            yield (chunk, layout.to_ledger_path(path or "")), (batch for _, batch in group)

    @cached_property
    def _columns(self) -> BronzeColumns:
        schema = tables.dataset(self.bronze).schema
        fields = self.bronze.schema().fields
        landed = {field.name: str(field.metadata[LANDED]) for field in fields if LANDED in field.metadata}
        types = {field.name: field.type for field in schema if field.name not in OURS}
        for part in json.loads(self.bronze.schema().to_json())["fields"]:
            if part["name"] in types and '"variant"' in json.dumps(part["type"]):
                types[part["name"]] = pa.null()
        return BronzeColumns(
            types, landed, frozenset(self.table.partitionColumns), self.table.readerCaseSensitive, self.table.rescues,
            self.private,
        )  # fmt: skip

    # --- one file ----------------------------------------------------------------------------------------------------

    def _compare_file(
        self, entry: Entry, copies: Mapping[int, CopyOptions], batches: Iterator[pa.RecordBatch], result: _Result
    ) -> None:
        """Compare a file with its rows, or note why not."""
        table, obstructed = self._table_of(copies.get(entry["chunk"], CopyOptions()))
        if entry["state"] == FileStatus.FAILED:
            obstructed = obstructed or "it is damaged and was read only in part"
        place, obstacle_of_file = self._place(entry)
        if reason := obstructed or obstacle_of_file:
            self._note_unseen(entry, reason, batches, result)
            return
        path, reader = entry["path"], FileReader(table)
        times: list[str] = []
        comparison = Comparison(self._columns, path, csv=table.format == "csv")
        try:
            difference = comparison.run(
                reader.records(place), map(self._columns.plain_rows, _check_times(batches, entry, times))
            )
        except (Unreadable, OSError) as error:
            result.note_unseen(path, str(error).splitlines()[0])
            return
        result.unsaid.update(difference.unsaid)
        self._record_result(entry, difference, reader, result)
        if difference.has_differences:
            return
        if not times and not difference.unsaid.total():
            result.proved.add((entry["chunk"], path))
        self._note_times(path, times, result)

    def _table_of(self, copy: CopyOptions) -> tuple[BronzeTable, str]:
        """Definition by which files of a ledger batch were read, and why they are not read here; empty if they are.

        Args:
            copy: how ``copy-into`` brought the batch, if it did.
        """
        if copy.selects:
            return self.table, "copy-into read it with --select or --columns"
        table = self.table
        if copy.facts:
            table = copy.table(self.name, table)
        return table, obstacle(table)

    def _note_unseen(self, entry: Entry, reason: str, batches: Iterator[pa.RecordBatch], result: _Result) -> None:
        """Note why a file is not compared; the time of its rows still is."""
        times: list[str] = []
        deque(_check_times(batches, entry, times), maxlen=0)
        self._note_times(entry["path"], times, result)
        damage = ""
        if reason == CHANGED:
            damage = self._damage(entry)
        if damage:
            result.wrong.append(Finding(FindingKind.WRONG, self.name, f"{entry['path']}: {damage}"))
        else:
            result.note_unseen(entry["path"], reason)

    def _note_times(self, path: str, times: Sequence[str], result: _Result) -> None:
        if times:
            text = f"{path}: {times[0]} of its rows differs from the ledger"
            result.wrong.append(Finding(FindingKind.WRONG, self.name, text))

    def _record_result(self, entry: Entry, difference: Difference, reader: FileReader, result: _Result) -> None:
        path = entry["path"]
        if not difference.has_differences:
            result.files += 1
            result.readers.add(READERS[reader.table.format])
            result.records += difference.landed
        elif reader.wrapped and difference.landed != difference.stored:
            result.note_unseen(path, "its quotes are ambiguous")
        elif (entry["chunk"], path) in self._definitions:
            result.note_unseen(path, f"it was read by a former definition; by the present one, {difference}")
        else:
            reload = (
                f"sluicegate reload {self.lake.pipeline} {self.name} --files {quote(str(self._places.get(path, path)))}"
            )
            result.wrong.append(Finding(FindingKind.WRONG, self.name, f"{path}: {difference}", reload))

    def _place(self, entry: Entry) -> tuple[str, str]:
        """Return where a file lies as it was when it was read, or why it cannot be compared."""
        landed = str(self._places.get(entry["path"], entry["path"]))
        if entry["state"] == FileStatus.ARCHIVED and not entry["place"]:
            return "", "it was deleted after it was read"
        changed = False
        for place in filter(None, (entry["place"], landed)):
            try:
                facts = filesystems.file_facts(place)
            except (OSError, SluicegateError) as error:
                return "", f"it cannot be reached: {str(error).splitlines()[0]}"
            if facts is None:
                continue
            is_archived = place == entry["place"]
            if facts[0] == entry["size"] and (is_archived or facts[1] == entry["modification_time"]):
                return place, ""
            changed = changed or is_archived or not entry["place"]
        if changed:
            return "", CHANGED
        return "", "it is missing from the archive" if entry["place"] else "it is missing from landing"

    def _damage(self, entry: Entry) -> str:
        """Return what is wrong with a file that is not as it was read, if nobody who lands files has changed it."""
        place = str(entry["place"] or self._places.get(entry["path"], entry["path"]))
        facts = filesystems.file_facts(place)
        if facts is None or facts[0] == entry["size"]:
            return ""
        sizes = f"has {facts[0]:,} bytes, but had {entry['size']:,} when it was read"
        if entry["place"]:
            return f"its archived copy {place} {sizes}"
        if facts[1] == entry["modification_time"]:
            return f"it {sizes}, with the same modification time"
        return ""

    # --- what is told ------------------------------------------------------------------------------------------------

    def _result_findings(self, result: _Result, before: Proof | None) -> Iterator[Finding]:
        yield from result.wrong[:SHOWN]
        if len(result.wrong) > SHOWN:
            more = f"the rows of {files(len(result.wrong) - SHOWN)} more differ, too"
            yield Finding(FindingKind.WRONG, self.name, more, f"sluicegate reset {self.lake.pipeline} {self.name}")
        for reason, paths in result.unseen.items():
            which = paths[0]
            if len(paths) > 1:
                which = f"{files(len(paths))}, such as {paths[0]}"
            yield Finding(FindingKind.UNSEEN, self.name, f"{which}: {reason}")
        for column, count in (+result.unsaid).items():
            sentence = f"{count:,} values of {column}, which the second reader cannot determine"
            yield Finding(FindingKind.UNSEEN, self.name, sentence)
        if uncompared := result.total - result.compared:
            kind, cause = FindingReason.IN_WORDS, f"as {self.sample} is compared"
            if before is not None:
                kind, cause = FindingReason.PROVED_BEFORE, str(before)
            sentence = f"the values of {uncompared:,} of {files(result.total)}, {cause}"
            yield Finding(FindingKind.UNSEEN, self.name, sentence, reason=kind)
        if result.files and not result.wrong:
            yield Finding(FindingKind.PROVED, self.name, _proved_sentence(result), version=self.bronze.version())


def _proved_sentence(result: _Result) -> str:
    """Return what has been proved of a table, in words."""
    compared = files(result.files)
    if result.compared < result.total:
        compared = f"{result.files:,} of {files(result.total)}"
    readers = " and ".join(sorted(result.readers))
    sentence = f"each value of {result.records:,} records equals that of {compared}, read again by {readers}, "
    sentence += "except the times of receipt and of files"
    unsaid = result.unsaid.total()
    if unsaid:
        sentence += f", and {unsaid:,} {'value that is' if unsaid == 1 else 'values that are'} not compared"
    return sentence


def _check_times(batches: Iterator[pa.RecordBatch], entry: Entry, wrong: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield batches of a file's rows, of which it is noted if they have another time than the file, by the millisecond.

    A file that is read again from the archive may have another one there.
    """
    recorded = pa.scalar(entry["modification_time"], pa.timestamp("us", "UTC")).cast(pa.int64()).as_py() // 1000
    for batch in batches:
        times = pc.divide(batch.column(TIME).cast(pa.int64()), 1000)
        if entry["action"] == LedgerAction.READ and not pc.all(pc.equal(times, recorded), skip_nulls=False).as_py():
            wrong.append(TIME)
        yield batch


def _sort_rows(rows: Any, columns: list[str], *, in_memory: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows by ledger batch and file, in the order of their records."""
    order = ["source_file", "_chunk", "_pos"]
    if in_memory:
        if isinstance(rows, pa.Table):
            table = rows
        else:
            table = rows.read_all()
        yield from table.sort_by([(name, "ascending") for name in order]).combine_chunks().to_batches(BLOCK)
        return
    with PrivateFolder() as folder, duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = '{folder}'; SET TimeZone = 'UTC'")
        engine.register("bronze", rows)
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        sorted_rows = engine.sql(f"SELECT {quoted} FROM bronze ORDER BY {', '.join(order)}")
        yield from sorted_rows.to_arrow_reader(BLOCK)
