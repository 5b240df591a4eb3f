"""Checks by sensors and triggers of what has arrived in landing, and of what waits for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sluicegate.definition import Pipeline
from sluicegate.errors import DamagedTable
from sluicegate.monitor.plan import Pending


class Arrived(NamedTuple):
    """What has arrived for a pipeline.

    Attributes:
        answer: for each bronze table with waiting files, or waiting versions of a source Delta table, its ``files``,
            ``bytes`` and ``versions``, and ``after``, the progress of its source, by which other files of the same
            number give another answer.
        settle_in: seconds in which all files that are settling have settled; None where none is.
    """

    answer: dict[str, Any]
    settle_in: float | None


class FilesWaiting(NamedTuple):
    """What waits for a run of a pipeline.

    Attributes:
        waiting: number of ``files`` and ``bytes``; None if a run would do nothing.
        sentence: the same in words.
        settle_in: as of ``Arrived``.
    """

    waiting: dict[str, int] | None
    sentence: str
    settle_in: float | None


def settle_seconds(pipeline: Pipeline) -> float:
    """Return the seconds until a file that landed now has settled for all tables of a pipeline."""
    return max((table.settleSeconds for table in pipeline.bronze.values()), default=0.0)


def find_arrived(pipeline: Pipeline) -> Arrived:
    """Find the bronze tables for which data has arrived; write nothing, start no Spark.

    Args:
        pipeline: its definition.

    Raises:
        UserError: see ``find_landed``.
        DamagedTable: a table cannot be read, which a run may repair.
    """
    from sluicegate.monitor.plan import pending

    waiting = pending(pipeline, pipeline.settings)
    answer = {
        work.table: {"files": work.files, "bytes": work.bytes, "versions": work.versions, "after": work.progress.until}
        for work in waiting.tables
        if work.files or work.versions
    }
    return Arrived(answer, _seconds_to_settle(pipeline, waiting))


def _seconds_to_settle(pipeline: Pipeline, waiting: Pending) -> float | None:
    """Return the seconds until all settling files have settled if nobody writes to them, None where none is."""
    return max((pipeline.bronze[work.table].settleSeconds for work in waiting.tables if work.settling), default=None)


def find_landed(pipeline: Pipeline, tables: Sequence[str]) -> FilesWaiting:
    """Check landing, ledger and offsets once, as the jobs do; write nothing, start no Spark.

    Args:
        pipeline: its definition.
        tables: names of bronze tables; none means all.

    Raises:
        UserError: a landing folder is missing, or something else lies where a table should be.
    """
    from sluicegate.launch.request import Request
    from sluicegate.monitor.plan import pending  # not above: parsing a DAG file needs neither pyarrow nor deltalake

    try:
        waiting = pending(pipeline, pipeline.settings).select_tables(
            Request.from_arguments(pipeline, tables=tables).includes
        )
    except DamagedTable as error:  # a run sets it aside, and how many files wait is known only then
        return FilesWaiting({"files": 0, "bytes": 0}, f"a table is damaged; a run may repair it: {error}", None)
    landed = None
    if not waiting.nothing:
        landed = {"files": waiting.files, "bytes": waiting.bytes}
    return FilesWaiting(landed, waiting.sentence(), _seconds_to_settle(pipeline, waiting))
