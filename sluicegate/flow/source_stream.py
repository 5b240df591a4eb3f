"""AvailableNow streams over a Delta table, of which the first batch is what a flow takes in.

A flow's offset is in its target's log, so the checkpoint is a scratch folder: it tells where the batch ended, and is
thrown away.
https://docs.delta.io/latest/delta-streaming.html
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate.flow import delivery, source_changes
from sluicegate.flow.delivery import ExpectedRows, truncated
from sluicegate.flow.foreach_batch import run_available
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.stream_checkpoint import covered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def changes(session: SparkSession, flow: Flow, since: int, most_files: int | None = None) -> DataFrame:
    """Stream of the changes of a flow's source after a version.

    Rows of a source without a change feed are those that were added: Delta's stream tells them from rewritten ones.

    Args:
        session: the session.
        flow: the flow.
        since: the version.
        most_files: how many files the first batch has; by default all that is available.
    """
    limit = source_changes.STREAM if most_files is None else {"maxFilesPerTrigger": str(most_files)}
    reader = session.readStream.format("delta").options(**limit).option("startingVersion", since + 1)
    if not flow.foreign:
        reader = reader.option("readChangeFeed", "true")
    return reader.load(flow.source)


def all_rows(session: SparkSession, flow: Flow) -> DataFrame:
    """Stream that begins with all rows that a flow's source has now."""
    return session.readStream.format("delta").options(**source_changes.STREAM).load(flow.source)


def take_first_batch(
    stream: DataFrame, flow: Flow, take: Callable[[DataFrame, Path], bool], *, stops: bool = False
) -> bool | None:
    """Runs a stream until its first batch is taken; gives what ``take`` returned, or None if there was no batch.

    Args:
        stream: the stream.
        flow: the flow that it is for.
        take: called with the batch's rows, and the folder of the checkpoint.
        stops: whether to stop it then, though more is available.

    Raises:
        AccountingError: a second batch came, though the first was to hold everything.
        BaseException: whatever ``take`` raises, or Spark.
    """
    taken: list[bool] = []

    def on_batch(rows: DataFrame, number: int) -> None:
        if number == 0:
            taken.append(take(rows, Path(scratch)))
        elif not stops:
            raise truncated(flow, f"batch {number} came after the one that was to hold everything")

    with tempfile.TemporaryDirectory(prefix="sluicegate-", ignore_cleanup_errors=True) as scratch:
        writer = stream.writeStream.queryName(flow.stream_name)
        enough = (Path(scratch) / "commits" / "0").exists if stops else None
        run_available(writer, on_batch, f"file://{scratch}", private=flow.private, enough=enough)
    return taken[0] if taken else None


def end_of_all_rows(checkpoint: Path) -> int | None:
    """Version of which the first batch of ``all_rows`` has all rows; None if it is not known."""
    return covered((checkpoint / "offsets" / "0").read_text())


def demand_all(
    checkpoint: Path, flow: Flow, now: Progress, counted: ExpectedRows | None = None
) -> tuple[ExpectedRows, int]:
    """Checks that the first batch of ``changes`` ends after every change up to the offset that is to be committed.

    Were Spark ever to deliver less, committing the offset would silently lose the rest. Spark writes where a batch
    ends before it runs it. Rows are counted later.

    Returns:
        the expected rows of the batch, and the version that the batch ends at.

    Raises:
        AccountingError: the batch ends before, or in the middle of a version.
    """
    until = now.until
    expected = counted or delivery.expected_rows(flow.source, now.since, until, feed=not flow.foreign)

    def files(version: int) -> int:
        if version in expected.files:
            return expected.files[version]
        return delivery.expected_rows(flow.source, version - 1, version, feed=True).files[version]

    end = covered((checkpoint / "offsets" / "0").read_text(), None if flow.foreign else files)
    if end is None:
        raise truncated(flow, f"the changes up to version {until} end in the middle of a version")
    if end < until and not expected.nothing_after(end):
        raise truncated(flow, f"the changes up to version {until} end at version {end}")
    if flow.foreign and end > until:
        return delivery.expected_rows(flow.source, now.since, end, feed=False), end
    return expected, max(end, until)
