"""Bronze: every record as it came. One chunk of the ledger is one commit, with the chunk's number as the mark.

A file that cannot be read fails alone: the others of its chunk go in, and the commit says which failed and why. It is
read again when it has landed anew under its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sluicegate import arrivals, copy_reader, fault, lake, marks, restaged
from sluicegate.copy_options import CopyOptions, of_chunks
from sluicegate.errors import QueryError, SchemaMismatch, SluicegateError, UserError
from sluicegate.flow import Batch
from sluicegate.landing import DROP, REPLACE, RESET, SKIP
from sluicegate.reader import Reader
from sluicegate.report import files, human_bytes, say
from sluicegate.schema import Schema, data_columns
from sluicegate.session import configured
from sluicegate.spark_errors import file_trouble, root_cause
from sluicegate.values import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from sluicegate.definition import BronzeTable

# JSON has fields whose names differ in nothing but case, and Spark would refuse the whole file for them.
CASE_SENSITIVE = {"spark.sql.caseSensitive": "true"}

# How files are read that no copy has brought.
AS_DEFINED = CopyOptions()


# The columns of which Delta keeps the least and greatest values of each file when it makes the table; for those of the
# data that costs a fifth of the time, and records as they came lie in the order of nothing but their arrival.
STATISTICS = "receipt_time,_file_modification_time,_chunk,_pos"

# A chunk with such entries makes the table anew.
ANEW = (RESET, DROP)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A row of the ledger.
Entry = dict[str, Any]

# Why a file could not be read, and whether to try it again though it has not changed.
Failure = tuple[str, bool]


def apply(batch: Batch, name: str, table: BronzeTable, at: lake.Lake) -> None:
    """Reads the chunks of the ledger that are new, oldest first, each into one commit.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.
        at: the lake.

    Raises:
        SchemaMismatch: a column has another type than the definition gives it, or a new one is not allowed.
    """
    newest = _newest_redone(batch)
    pending = list(_chunks(batch))
    copies = of_chunks(lake.delta_table(batch.flow.source), [number for number, _ in pending])
    places = restaged.Places(at, name)
    anew = {entry["path"]: number for number, entries in pending for entry in entries if entry["action"] in ANEW}
    # What a reset is about to read or drop need not be read before: most often that is what cannot be.
    pending = [(n, [entry for entry in entries if anew.get(entry["path"], n) <= n]) for n, entries in pending]
    left = Left.of(entry for _, entries in pending for entry in entries)
    for number, entries in pending:
        started = time.monotonic()
        copy = copies.get(number, AS_DEFINED)
        _Chunk(batch, name, copy.table(name, table), number, entries, number <= newest, places, copy).commit()
        taken = Left.of(entries)
        left = Left(left.files - taken.files, left.bytes - taken.bytes)
        batch.report.files += taken.files
        batch.report.bytes += taken.bytes
        if len(pending) > 1:
            rows = next(iter(lake.commits(lake.table_at(batch.flow.target), 1))).rows_written or 0
            pace = f"{rows:,} rows, {rows / max(time.monotonic() - started, 1e-3):,.0f} a second"
            rest = f"left are {left}" if left.files else "none is left"
            say(f"  bronze {name:<28} chunk {number}: {taken}, {pace}; {rest}")

    if not pending or pending[-1][0] < batch.progress.until:
        # The ledger's last commits entered no files (it was compacted, say): only the mark moves.
        schema = batch.session.read.format("delta").load(batch.flow.target).schema
        with batch.commit():
            batch.session.createDataFrame([], schema).write.format("delta").mode("append").save(batch.flow.target)


def preview(
    session: SparkSession,
    name: str,
    table: BronzeTable,
    target: str,
    paths: list[str],
    shown: int,
    copy: CopyOptions = AS_DEFINED,
    *,
    private: bool = False,
) -> dict[str, Any]:
    """What reading some files would give, without writing anything; ``private`` as in ``spark_errors``.

    Returns:
        ``rows``, ``corrupt`` and ``rescued`` as numbers of records, ``failed`` files with the reason, and the first
        records as ``sample``.
    """
    schema = _schema(session, name, table, target)
    with configured(session, CASE_SENSITIVE):
        damaged: dict[str, str] = {}
        try:
            counted = _look_at(_frame(session, schema(), paths, copy, strict=True, damaged=damaged), shown)
            failed: dict[str, Failure] = {}
        except Exception as error:
            failed = unreadable(lambda some: _frame(session, schema(), some, copy), paths, error, private=private)
            good = [path for path in paths if path not in failed]
            counted = _look_at(_frame(session, schema(), good, copy, damaged=damaged), shown)
    return {**counted, "failed": {path: why for path, (why, _) in failed.items()} | damaged}


def looked_at(
    session: SparkSession, name: str, table: BronzeTable, target: str, paths: list[str], copy: CopyOptions,
    *, private: bool = False,
) -> CopyOptions:  # fmt: skip
    """A copy with the fields of its files, once it is sure that what it says can be done with them.

    Raises:
        SchemaMismatch: its SELECT looks at a field that no file has, or there are other columns than may come.
        QueryError: Spark refuses its SELECT.
    """
    schema = _schema(session, name, table, target)
    with configured(session, CASE_SENSITIVE):
        try:
            if not copy.selects:
                _frame(session, schema(), paths, copy)
                return copy
            copy = replace(copy, fields=copy_reader.fields(Reader(session, schema()), paths))
            copy_reader.read(Reader(session, schema()), copy, [], strict=True)
        except (SchemaMismatch, QueryError):
            raise
        except Exception as error:
            # A file cannot be read: that is found again, and told of that file, when the others are.
            say(f"{name}: not all files can be read ({root_cause(error, private=private)})")
    return copy


def _look_at(frame: DataFrame, shown: int) -> dict[str, Any]:
    frame = frame.persist()  # else Spark would read only the columns that are counted, and find other records corrupt
    sums = frame.selectExpr("count(1) AS rows", "count(_corrupt_record) AS corrupt", "count(_rescued_data) AS rescued")
    return {**sums.collect()[0].asDict(), "sample": [row.asDict() for row in frame.limit(shown).collect()]}


def _frame(
    session: SparkSession,
    schema: Schema,
    paths: Sequence[str],
    copy: CopyOptions,
    *,
    strict: bool = False,
    damaged: dict[str, str] | None = None,
) -> DataFrame:
    """The records of some files; ``damaged`` gets those of which only a part is read, and why."""
    reader = Reader(session, schema, {} if damaged is None else damaged)
    if copy.selects and paths:
        return copy_reader.read(reader, copy, paths, strict=strict)
    return reader.read(paths) if paths else reader.nothing()


def _schema(session: SparkSession, name: str, table: BronzeTable, target: str) -> Callable[[], Schema]:
    """Makes what is known of a table's columns: anew for each attempt, since reading adds to it what is new."""
    there = lake.delta_table(target)
    known: dict[str, DataType] = {}
    if there is not None:
        schema: Any = session.read.format("delta").load(target).schema
        known = {f.name: f.dataType for f in schema if f.name in data_columns(schema.names)}
    return partial(Schema, name, table, known, lake.rows(there) == 0)


def unreadable(
    read: Callable[[Sequence[str]], DataFrame], paths: list[str], error: Exception, *, private: bool
) -> dict[str, Failure]:
    """The files that cannot be read, and why, of files that could not be read and written together.

    Raises:
        Exception: ``error``, if it is not the files: all can be read, or none can and Spark blames no file.
    """
    failed = {} if isinstance(error, (SchemaMismatch, QueryError)) else _bad_among(read, paths, private)
    if not failed or (len(failed) == len(paths) > 1 and not file_trouble(error)):
        raise error
    return failed


def _bad_among(read: Callable[[Sequence[str]], DataFrame], paths: list[str], private: bool) -> dict[str, Failure]:
    """The files that cannot be read, found by halving; reads them all again, so a passing trouble is no file's."""
    try:
        read(paths).write.format("noop").mode("overwrite").save()
    except (SchemaMismatch, QueryError):
        raise
    except (SluicegateError, PySparkException, Py4JError, OSError) as trouble:  # a mistake of ours is no file's
        if len(paths) == 1:
            return {paths[0]: (root_cause(trouble, private=private), _out_of_reach(paths[0]))}
        half = len(paths) // 2
        return _bad_among(read, paths[:half], private) | _bad_among(read, paths[half:], private)
    return {}


class Left(NamedTuple):
    """How many files of how many bytes are to be read."""

    files: int
    bytes: int

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Left:
        """Those of some entries of the ledger."""
        sizes = [entry["size"] for entry in entries if entry["action"] not in (SKIP, DROP)]
        return cls(len(sizes), sum(sizes))

    def __str__(self) -> str:
        return f"{files(self.files)}, {human_bytes(self.bytes)}"


def _chunks(batch: Batch) -> Iterator[tuple[int, list[Entry]]]:
    """The chunks in order, each with its files in order of arrival."""
    columns = [*map(F.col, ("path", "size", "action", "chunk")), F.unix_micros("modification_time").alias("micros")]
    rows: list[Entry] = [
        # Spark's own times lose their zone on the way into Python.
        {**row.asDict(), "modification_time": EPOCH + timedelta(microseconds=row["micros"])}
        for row in batch.rows.select(*columns).collect()
    ]
    rows.sort(key=lambda row: (row["chunk"], row["modification_time"], row["path"]))
    for chunk, entries in groupby(rows, key=lambda row: row["chunk"]):
        yield int(chunk), list(entries)


def _newest_redone(batch: Batch) -> int:
    """The newest chunk that has rows although it is to be read: a run went on in the middle of a RESTORE."""
    target = lake.delta_table(batch.flow.target) if batch.progress.restores else None
    newest = marks.newest_chunk(target, batch.progress.since) if target is not None else None
    return -1 if newest is None else newest


def _out_of_reach(path: str) -> bool:
    """Whether it is not a file's content that keeps it from being read: it is gone, or rights are lacking, or a way."""
    try:
        with fsspec.open(path, "rb", compression=None) as file:
            file.read(1)
    except OSError:
        return True
    return False


@dataclass
class _Chunk:
    """The files of one chunk on their way into one commit.

    Attributes:
        again: whether the table may have rows of this very chunk, which give way.
        places: where files lie that were taken away from landing.
    """

    batch: Batch
    name: str
    table: BronzeTable
    number: int
    entries: list[Entry]
    again: bool
    places: restaged.Places
    copy: CopyOptions = AS_DEFINED

    def commit(self) -> None:
        """Commits the records of all files that can be read, and the names of those that cannot."""
        self.anew = any(entry["action"] in ANEW for entry in self.entries)
        known = _schema(self.batch.session, self.name, self.table, self.batch.flow.target)
        self.schema = partial(Schema, self.name, self.table, {}, True) if self.anew else known
        read = [entry for entry in self.entries if entry["action"] not in (SKIP, DROP)]
        lost = self.places.find(read)
        paths = [entry["path"] for entry in read if entry["path"] not in lost]
        with configured(self.batch.session, CASE_SENSITIVE):
            try:
                self._write(paths, lost)
            except Exception as error:
                failed = lost | self._failed(paths, error)
                self._write([path for path in paths if path not in failed], failed)
        fault.point("bronze.after_commit")

    def _failed(self, paths: list[str], error: Exception) -> dict[str, Failure]:
        """The files that cannot be read, and why; all of them if it is what a copy says that cannot be done.

        Nobody can correct that any more, and later chunks must not wait for it: the next copy reads these files.
        """
        try:
            return unreadable(self._read, paths, error, private=self.batch.flow.private)
        except UserError as mistake:
            if not self.copy.facts:
                raise
            why = f"{mistake.message} ({mistake.cause})" if mistake.cause else mistake.message
            return dict.fromkeys(paths, (why, False))

    def _read(self, paths: Sequence[str]) -> DataFrame:
        return self._frame(paths, {})

    def _frame(self, paths: Sequence[str], damaged: dict[str, str]) -> DataFrame:
        places = [self.places.of(path) for path in paths]
        frame = _frame(self.batch.session, self.schema(), places, self.copy, damaged=damaged)
        return self.places.named(frame, paths).withColumn("_chunk", F.lit(self.number).cast("bigint"))

    def _write(self, paths: list[str], failed: dict[str, Failure]) -> None:
        damaged: dict[str, str] = {}
        frame = self._frame(paths, damaged)
        failed |= {path: (damaged[place], False) for path in paths if (place := self.places.of(path)) in damaged}
        giving_way = {e["path"] for e in self.entries if e["action"] in (REPLACE, *ANEW)} & {*paths, *self._dropped}
        former = self._former(giving_way)
        widened = self._widened(frame) if self.table.widens and not self.anew else []
        if self.anew:
            writer = self._with_kept(frame, former).write.mode("overwrite").option("overwriteSchema", "true")
        elif widened:
            writer = self._whole(frame, former, widened).write.mode("overwrite").option("overwriteSchema", "true")
        elif former or self.again:
            condition = f"_chunk = {self.number}" + (f" OR ({former})" if former else "")
            writer = frame.write.mode("overwrite").option("replaceWhere", condition).option("mergeSchema", "true")
        else:
            writer = frame.write.mode("append").option("mergeSchema", "true")
        writer = writer.format("delta").option("delta.dataSkippingStatsColumns", STATISTICS)
        size = sum(entry["size"] for entry in self.entries)
        facts = {"chunk": self.number, "files": len(self.entries), "bytes": size, "failed": failed,
                 "definition": self.table.fingerprint, "seen": self.batch.target_version()}  # fmt: skip
        fault.point("bronze.before_commit")
        with self.batch.commit(mark=self.number, **facts):
            writer.save(self.batch.flow.target)

    @property
    def _dropped(self) -> list[str]:
        return [entry["path"] for entry in self.entries if entry["action"] == DROP]

    def _widened(self, frame: DataFrame) -> list[str]:
        """The columns that have a wider type from this chunk on."""
        from pyspark.sql.types import AtomicType

        known = self.schema().known
        kinds = {field.name: field.dataType for field in frame.schema}
        return [name for name, kind in known.items() if isinstance(kind, AtomicType) and kinds.get(name, kind) != kind]

    def _whole(self, frame: DataFrame, former: str, widened: list[str]) -> DataFrame:
        """All records of the table, with these, in the wider types.

        Delta could widen a column without writing the table anew, but then only readers that know this feature could
        read it: delta-rs, and so ``sluicegate sql`` and much else, does not.
        """
        say(f"  bronze {self.name:<28} {', '.join(widened)} wider: the table is written anew")
        there = self._kept(former)
        kinds = {name: frame.schema[name].dataType for name in widened}
        return there.withColumns({n: F.col(quoted(n)).cast(k) for n, k in kinds.items()}).unionByName(
            frame, allowMissingColumns=True
        )

    def _former(self, paths: set[str]) -> str:
        """Which rows are of former versions of some files, as a condition; empty if none are in the table."""
        table, ledger = lake.delta_table(self.batch.flow.target), lake.delta_table(self.batch.flow.source)
        if table is None or ledger is None or not paths:
            return ""
        entered = pc.field("path").isin(sorted(paths)) & (pc.field("chunk") < self.number)
        chunks = sorted(set(lake.dataset(ledger).to_table(["chunk"], filter=entered)["chunk"].to_pylist()))
        rows = lake.dataset(table).to_table(["source_file"], filter=pc.field("_chunk").isin(chunks))
        names = rows["source_file"].unique().to_pylist()
        former = {name: lake.canonical(name) for name in names if lake.canonical(name or "") in paths}
        begun = arrivals.begun(ledger, set(former.values()), self.number) if former else {}
        parts = [f"(source_file = {literal(n)} AND _chunk >= {begun[p]})" for n, p in former.items() if p in begun]
        alone = [literal(name) for name, path in former.items() if path not in begun]
        if alone:
            parts.append(f"source_file IN ({', '.join(alone)})")
        return f"_chunk BETWEEN {min(chunks)} AND {max(chunks)} AND ({' OR '.join(parts)})" if parts else ""

    def _with_kept(self, frame: DataFrame, former: str) -> DataFrame:
        """New rows, and those of the table so far that do not give way to them, fitted into the new columns."""
        if lake.delta_table(self.batch.flow.target) is None:
            return frame
        rows = self._kept(former)
        return frame if rows.isEmpty() else restaged.union(frame, rows)  # no rows, no columns of theirs either

    def _kept(self, former: str) -> DataFrame:
        gone = f"_chunk <=> {self.number}" + (f" OR ({former})" if former else "")
        there = self.batch.session.read.format("delta").load(self.batch.flow.target)
        return there.where(f"NOT coalesce({gone}, false)")
