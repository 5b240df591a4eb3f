"""Bronze: every record as it came. One chunk of the ledger is one commit, with the chunk's number as the mark.

A file that cannot be read fails alone: the others of its chunk go in, and the commit says which failed and why. It is
read again when it has landed anew under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow.compute as pc
from pyspark.sql import functions as F

from sluicegate import fault, lake
from sluicegate.errors import SchemaMismatch
from sluicegate.flow import Batch
from sluicegate.landing import REPLACE, SKIP
from sluicegate.reader import Reader, literal
from sluicegate.report import files, human_bytes, say
from sluicegate.schema import Schema, data_columns
from sluicegate.session import configured
from sluicegate.spark_errors import file_trouble, root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from sluicegate.definition import BronzeTable

# JSON has fields whose names differ in nothing but case, and Spark would refuse the whole file for them.
CASE_SENSITIVE = {"spark.sql.caseSensitive": "true"}


# Why a file could not be read, and whether to try it again though it has not changed.
Failure = tuple[str, bool]


def apply(batch: Batch, name: str, table: BronzeTable) -> None:
    """Reads the chunks of the ledger that are new, oldest first, each into one commit.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.

    Raises:
        SchemaMismatch: a column has another type than the definition gives it, or a new one is not allowed.
    """
    pending = list(_chunks(batch))
    for done, (number, entries) in enumerate(pending, start=1):
        _Chunk(batch, name, table, number, entries).commit()
        read = [entry for entry in entries if entry["action"] != SKIP]
        size = sum(entry["size"] for entry in read)
        batch.report.files += len(read)
        batch.report.bytes += size
        if len(pending) > 1:
            say(f"  bronze {name:<28} chunk {done} of {len(pending)}: {files(len(read))}, {human_bytes(size)}")

    if not pending or pending[-1][0] < batch.progress.until:
        # The ledger's last commits entered no files (it was compacted, say): only the mark moves.
        schema = batch.session.read.format("delta").load(batch.flow.target).schema
        with batch.commit():
            batch.session.createDataFrame([], schema).write.format("delta").mode("append").save(batch.flow.target)


def preview(
    session: SparkSession, name: str, table: BronzeTable, target: str, paths: list[str], shown: int
) -> dict[str, Any]:
    """What reading some files would give, without writing anything.

    Returns:
        ``rows``, ``corrupt`` and ``rescued`` as numbers of records, ``failed`` files with the reason, and the first
        records as ``sample``.
    """
    schema = _schema(session, name, table, target)
    with configured(session, CASE_SENSITIVE):
        try:
            counted = _look_at(_frame(session, schema(), paths), shown)
            failed: dict[str, Failure] = {}
        except Exception as error:
            failed = unreadable(lambda some: _frame(session, schema(), some), paths, error)
            counted = _look_at(_frame(session, schema(), [path for path in paths if path not in failed]), shown)
    return {**counted, "failed": {path: why for path, (why, _) in failed.items()}}


def _look_at(frame: DataFrame, shown: int) -> dict[str, Any]:
    frame = frame.persist()  # else Spark would read only the columns that are counted, and find other records corrupt
    sums = frame.selectExpr("count(1) AS rows", "count(_corrupt_record) AS corrupt", "count(_rescued_data) AS rescued")
    return {**sums.collect()[0].asDict(), "sample": [row.asDict() for row in frame.limit(shown).collect()]}


def _frame(session: SparkSession, schema: Schema, paths: Sequence[str]) -> DataFrame:
    return Reader(session, schema).read(paths) if paths else Reader(session, schema).nothing()


def _schema(session: SparkSession, name: str, table: BronzeTable, target: str) -> Callable[[], Schema]:
    """Makes what is known of a table's columns: anew for each attempt, since reading adds to it what is new."""
    there = lake.delta_table(target)
    known: dict[str, DataType] = {}
    if there is not None:
        schema: Any = session.read.format("delta").load(target).schema
        known = {f.name: f.dataType for f in schema if f.name in data_columns(schema.names)}
    return partial(Schema, name, table, known, lake.rows(there) == 0)


def unreadable(read: Callable[[Sequence[str]], DataFrame], paths: list[str], error: Exception) -> dict[str, Failure]:
    """The files that cannot be read, and why, of files that could not be read and written together.

    Raises:
        Exception: ``error``, if it is not the files: all can be read, or none can and Spark blames no file.
    """
    failed = {} if isinstance(error, SchemaMismatch) else _bad_among(read, paths)
    if not failed or (len(failed) == len(paths) > 1 and not file_trouble(error)):
        raise error
    return failed


def _bad_among(read: Callable[[Sequence[str]], DataFrame], paths: list[str]) -> dict[str, Failure]:
    """The files that cannot be read, found by halving; reads them all again, so a passing trouble is no file's."""
    try:
        read(paths).write.format("noop").mode("overwrite").save()
    except SchemaMismatch:
        raise
    except Exception as trouble:
        if len(paths) == 1:
            return {paths[0]: (root_cause(trouble), _out_of_reach(paths[0]))}
        half = len(paths) // 2
        return _bad_among(read, paths[:half]) | _bad_among(read, paths[half:])
    return {}


def _chunks(batch: Batch) -> Iterator[tuple[int, list[Row]]]:
    """The chunks in order, each with its files in order of arrival."""
    rows = batch.rows.select("path", "size", "modification_time", "action", "chunk").collect()
    rows.sort(key=lambda row: (row["chunk"], row["modification_time"], row["path"]))
    for chunk, entries in groupby(rows, key=lambda row: row["chunk"]):
        yield int(chunk), list(entries)


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
    """The files of one chunk on their way into one commit."""

    batch: Batch
    name: str
    table: BronzeTable
    number: int
    entries: list[Row]

    def commit(self) -> None:
        """Commits the records of all files that can be read, and the names of those that cannot."""
        self.schema = _schema(self.batch.session, self.name, self.table, self.batch.flow.target)
        paths = [entry["path"] for entry in self.entries if entry["action"] != SKIP]
        with configured(self.batch.session, CASE_SENSITIVE):
            try:
                self._write(paths, {})
            except Exception as error:
                failed = unreadable(self._read, paths, error)
                self._write([path for path in paths if path not in failed], failed)
        fault.point("bronze.after_commit")

    def _read(self, paths: Sequence[str]) -> DataFrame:
        frame = _frame(self.batch.session, self.schema(), paths)
        return frame.withColumn("_chunk", F.lit(self.number).cast("bigint"))

    def _write(self, paths: list[str], failed: dict[str, Failure]) -> None:
        writer = self._read(paths).write.format("delta").option("mergeSchema", "true")
        replaced = self._replaced({e["path"] for e in self.entries if e["action"] == REPLACE} - failed.keys())
        if replaced:
            writer = writer.mode("overwrite").option("replaceWhere", f"_chunk = {self.number} OR {replaced}")
        else:
            writer = writer.mode("append")
        size = sum(entry["size"] for entry in self.entries)
        facts = {"chunk": self.number, "files": len(self.entries), "bytes": size, "failed": failed,
                 "definition": self.table.fingerprint}  # fmt: skip
        fault.point("bronze.before_commit")
        with self.batch.commit(mark=self.number, **facts):
            writer.save(self.batch.flow.target)

    def _replaced(self, paths: set[str]) -> str:
        """Which rows are of former versions of some files, as a condition; empty if none are in the table."""
        table = lake.delta_table(self.batch.flow.target)
        if table is None or not paths:
            return ""
        rows = lake.dataset(table).to_table(["source_file"], filter=pc.field("_chunk") < self.number)
        names = rows["source_file"].unique().to_pylist()
        former = [name for name in names if lake.canonical(name) in paths]
        return f"source_file IN ({', '.join(map(literal, former))})" if former else ""
