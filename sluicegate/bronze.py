"""Bronze: every record as it came. One chunk of the ledger is one append, with the chunk's number as the mark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate import fault, lake
from sluicegate.flow import Batch
from sluicegate.reader import Reader
from sluicegate.report import human_bytes, say
from sluicegate.schema import Schema, data_columns
from sluicegate.session import configured

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import DataType

    from sluicegate.definition import BronzeTable

# JSON has fields whose names differ in nothing but case, and Spark would refuse the whole file for them.
CASE_SENSITIVE = {"spark.sql.caseSensitive": "true"}


def apply(batch: Batch, name: str, table: BronzeTable) -> None:
    """Reads the chunks of the ledger that are new, oldest first, each into one commit.

    Args:
        batch: rows of the ledger.
        name: the bronze table.
        table: its definition.

    Raises:
        SourceError: files do not have the columns that the definition promises.
    """
    known = _known_columns(batch)
    pending = list(_chunks(batch))
    for done, (chunk, files) in enumerate(pending, start=1):
        size = sum(file["size"] for file in files)
        with configured(batch.session, CASE_SENSITIVE):
            frame = Reader(batch.session, Schema(name, table, known)).read([file["path"] for file in files])
            frame = frame.withColumn("_chunk", F.lit(chunk).cast("bigint"))
            fault.point("bronze.before_commit")
            with batch.commit(mark=chunk, chunk=chunk, files=len(files), bytes=size):
                frame.write.format("delta").mode("append").option("mergeSchema", "true").save(batch.flow.target)
        fault.point("bronze.after_commit")
        known = known | {f.name: f.dataType for f in frame.schema if f.name in data_columns(frame.columns)}
        batch.report.files += len(files)
        batch.report.bytes += size
        if len(pending) > 1:
            say(f"  bronze {name:<28} chunk {done} of {len(pending)}: {len(files):,} files, {human_bytes(size)}")

    if known and (not pending or pending[-1][0] < batch.progress.until):
        # The ledger's last commits entered no files (it was compacted, say): only the mark moves.
        schema = batch.session.read.format("delta").load(batch.flow.target).schema
        with batch.commit():
            batch.session.createDataFrame([], schema).write.format("delta").mode("append").save(batch.flow.target)


def _chunks(batch: Batch) -> Iterator[tuple[int, list[Row]]]:
    """The chunks in order, each with its files in order of arrival."""
    rows = batch.rows.select("path", "size", "modification_time", "chunk").collect()
    rows.sort(key=lambda row: (row["chunk"], row["modification_time"], row["path"]))
    for chunk, files in groupby(rows, key=lambda row: row["chunk"]):
        yield int(chunk), list(files)


def _known_columns(batch: Batch) -> dict[str, DataType]:
    """The data columns that the table has so far; a later file without one of them does not remove it."""
    if lake.delta_table(batch.flow.target) is None:
        return {}
    schema: Any = batch.session.read.format("delta").load(batch.flow.target).schema
    return {f.name: f.dataType for f in schema if f.name in data_columns(schema.names)}
