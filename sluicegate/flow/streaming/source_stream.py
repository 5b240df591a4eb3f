"""Open availableNow streams over a Delta table, whose first batch is what a flow processes.

A flow's offset is in its target's log, so the checkpoint is a scratch folder: it tells where the batch ended, and is
thrown away. Where there is no stream, a query reads the same change feed (``spark/table_reader.py``), and a plan, which
starts no JVM, reads it by delta-rs (``monitor/estimate.py``).
https://docs.delta.io/latest/delta-streaming.html
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.flow import source_changes
from sluicegate.flow.batch import raise_readable
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.streaming import delivery
from sluicegate.flow.streaming.delivery import ExpectedRows, truncated_batch_error
from sluicegate.flow.streaming.foreach_batch import run_available
from sluicegate.flow.streaming.stream_checkpoint import end_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Error conditions for a source whose history cannot be read: a part of it was cleaned away, or another program changed
# the table's columns so that Delta reads no changes over that (``source_changes.other_columns`` sees most of these).
GAP = ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSION_NOT_FOUND", "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
       "DELTA_MISSING_CHANGE_DATA", "DELTA_CDC_START_VERSION_AFTER_LATEST", "DELTA_TRUNCATED_TRANSACTION_LOG",
       "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "FAILED_READ_FILE.FILE_NOT_EXIST", delivery.GONE,
       "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA", "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
       "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", "DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION")  # fmt: skip
# A file that is listed in a version of a table, and was cleaned away: a query that reads files by their list finds out.
NO_FILE = "[PATH_NOT_FOUND]"


def changes(session: SparkSession, flow: Flow, since: int, most_files: int | None = None) -> DataFrame:
    """Return a stream of the source's changes after a version.

    Rows of a source without a change feed are the added ones: Delta's stream distinguishes them from rewritten ones.

    Args:
        session: the session.
        flow: the flow.
        since: the version after which changes count.
        most_files: number of files in the first batch; by default all available ones.
    """
    limit = source_changes.STREAM
    if most_files is not None:
        limit = {"maxFilesPerTrigger": str(most_files)}
    reader = session.readStream.format("delta").options(**limit).option("startingVersion", since + 1)
    if not flow.has_foreign_source:
        reader = reader.option("readChangeFeed", "true")
    return reader.load(flow.source)


def all_rows(session: SparkSession, flow: Flow) -> DataFrame:
    """Return a stream that starts with all rows of the source."""
    return session.readStream.format("delta").options(**source_changes.STREAM).load(flow.source)


def take_first_batch(
    stream: DataFrame, flow: Flow, take: Callable[[DataFrame, Path], bool], *, stops: bool = False
) -> bool | None:
    """Run a stream until its first batch is processed; return the result of ``take``, or None without a batch.

    Args:
        stream: the stream.
        flow: the flow of the stream.
        take: called with the batch's rows, and the folder of the checkpoint.
        stops: whether to stop after that batch, though more is available.

    Raises:
        AccountingError: a second batch came, although the first should have everything.
        BaseException: the error of ``take``, or Spark's.
    """
    taken: list[bool] = []

    def on_batch(rows: DataFrame, number: int) -> None:
        if number == 0:
            taken.append(take(rows, Path(scratch)))
        elif not stops:
            raise truncated_batch_error(flow, f"batch {number} arrived although the first should have everything")

    with tempfile.TemporaryDirectory(prefix="sluicegate-", ignore_cleanup_errors=True) as scratch:
        _prepare_checkpoint(Path(scratch))
        writer = stream.writeStream.queryName(flow.stream_name)
        enough = None
        if stops:
            enough = (Path(scratch) / "commits" / "0").exists
        run_available(writer, on_batch, f"file://{scratch}", private=flow.private, enough=enough)
    if taken:
        return taken[0]
    return None


def _prepare_checkpoint(folder: Path) -> None:
    """Create what Spark would create in a new checkpoint before its first batch.

    For each folder and file that it creates on a local disk Hadoop starts a process, ``chmod``, and another one for the
    checksum of a file.
    """
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    for name in ("offsets", "commits"):
        (folder / name).mkdir()


def counted_changes(flow: Flow, part: Progress) -> ExpectedRows | None:
    """Count the changes after the offset by the source's log; None if it is incomplete, or another program's."""
    if flow.has_foreign_source:
        return None
    try:
        return delivery.expected_rows(flow.source, part.since, part.until, feed=True)
    except RuntimeError:
        return None
    except Exception as error:
        raise_readable(error, flow)


def is_gap(error: Exception) -> bool:
    """Return whether an error means that part of the source's history is gone."""
    return any(sign in str(error) for sign in GAP)


def is_file_gone(error: Exception) -> bool:
    """Return whether an error means that a listed data file was deleted."""
    return NO_FILE in str(error)


def end_of_all_rows(checkpoint: Path) -> int | None:
    """Return the version whose rows are the first batch of ``all_rows``; None if unknown."""
    return end_version((checkpoint / "offsets" / "0").read_text())


def demand_all(checkpoint: Path, flow: Flow, part: Progress, counted: ExpectedRows | None) -> tuple[ExpectedRows, int]:
    """Check that the first batch of ``changes`` has every change up to the offset to commit.

    Were Spark ever to deliver less, committing the offset would silently lose the rest. Spark writes where a batch
    ends before it runs it. Rows are counted later.

    Returns:
        the expected rows of the batch, and the version at its end.

    Raises:
        AccountingError: the batch ends too early, or in the middle of a version.
    """
    until = part.until
    expected = counted or delivery.expected_rows(flow.source, part.since, until, feed=not flow.has_foreign_source)

    def files(version: int) -> int:
        if version in expected.files:
            return expected.files[version]
        return delivery.expected_rows(flow.source, version - 1, version, feed=True).files[version]

    end = end_version((checkpoint / "offsets" / "0").read_text(), None if flow.has_foreign_source else files)
    if end is None:
        raise truncated_batch_error(flow, f"the changes up to version {until} end in the middle of a version")
    if end < until and not expected.is_empty_after(end):
        raise truncated_batch_error(flow, f"the changes up to version {until} end at version {end}")
    if flow.has_foreign_source and end > until:
        return delivery.expected_rows(flow.source, part.since, end, feed=False), end
    return expected, max(end, until)
