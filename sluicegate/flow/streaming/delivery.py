"""Prove that a batch has exactly the rows between two versions of its source, before any commit.

Committing an offset although rows are missing loses them for good. So the delivery of a stream is verified: the
source's log gives, action by action, the number of rows in the versions after the offset, and Spark counts the
delivered rows in the first job that reads all of them, by ``DataFrame.observe``; only writes without such a job need a
separate count. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-data-files
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.errors import AccountingError, Where
from sluicegate.lake import footers, log, tables
from sluicegate.schema.columns import CORRUPT, RESCUED
from sluicegate.spark import connect
from sluicegate.storage.concurrent import map_concurrently

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

    from sluicegate.flow.model import Flow

# Our error condition for a log, or a change file, that is needed to count rows and is no longer there.
GONE = "SLUICEGATE_HISTORY_GONE"

# Data files of a batch whose footers are read to know of rescued values before Spark reads the rows.
FEW_FILES = 64

# A MERGE with 0 in all three rewrote files without a change in them: Delta leaves them out of its change feed.
UNMOVED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")

Action = dict[str, Any]


@dataclass(frozen=True)
class ExpectedRows:
    """Expected row counts of versions of a table, by its log.

    Attributes:
        rows: rows that each version delivers to a reader of changes; None if the log alone does not show it.
        files: number of data files that each version delivers.
        paths: paths of these files.
    """

    rows: dict[int, int | None] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    paths: Sequence[str] = ()

    @property
    def count(self) -> int | None:
        """Rows of all these versions; None if unknown."""
        counts = [count for count in self.rows.values() if count is not None]
        if len(counts) == len(self.rows):
            return sum(counts)
        return None

    def is_empty_after(self, version: int) -> bool:
        """Return whether the versions after one deliver nothing (an OPTIMIZE, new properties)."""
        return not any(count for number, count in self.files.items() if number > version)


def expected_rows(uri: str, since: int, until: int, *, feed: bool) -> ExpectedRows:
    """Count the rows of the commits after ``since`` up to ``until``, by the log.

    Args:
        uri: the table.
        since: the version that was processed already; -1 for none.
        until: the last version.
        feed: whether to count the change data feed, or only added rows.

    Raises:
        RuntimeError: with ``GONE`` in its message: the log, or a file that it names, was cleaned away.
    """
    versions = range(since + 1, until + 1)

    def followed_files(version: int) -> _Followed:
        actions = log.actions(uri, version)
        if feed:
            return _Followed.from_feed(actions)
        return _Followed.from_added_files(actions)

    try:
        commits = dict(zip(versions, map_concurrently(followed_files, versions), strict=True))
        files = [file for commit in commits.values() for file in commit.files]
        counts = footers.row_counts(uri, [file.path for file in files if file.rows is None])
    except FileNotFoundError as error:
        raise RuntimeError(f"{GONE}: {error}") from error
    return ExpectedRows(
        {version: commit.rows(counts) for version, commit in commits.items()},
        {version: len(commit.files) for version, commit in commits.items()},
        [file.path for file in files],
    )


def rows_at(uri: str, version: int) -> int:
    """Count the rows of a table as of a version, by its log, or by footers of files without counts."""
    return all_rows(uri, tables.table_at(uri, version=version)).count or 0


def all_rows(uri: str, table: DeltaTable) -> ExpectedRows:
    """Count all rows of a table as of its handle's version, as ``rows_at`` does.

    Args:
        uri: address of the table.
        table: handle of the table.
    """
    counts = tables.statistics(table, "path", "num_records")
    files = list(zip(*(column.to_pylist() for column in counts.columns), strict=True))
    uncounted = footers.row_counts(uri, [path for path, rows in files if rows is None])
    rows = sum(uncounted[path] if rows is None else rows for path, rows in files) - _count_deleted_rows(table)
    paths = [path for path, _ in files]
    return ExpectedRows({table.version(): rows}, {table.version(): len(paths)}, paths)


def _count_deleted_rows(table: DeltaTable) -> int:
    """Count the rows that deletion vectors delete."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return 0
    deleted = 0
    for batch in table.deletion_vectors():
        stays = pa.record_batch(batch)["selection_vector"].flatten()
        deleted += len(stays) - (pc.sum(stays).as_py() or 0)
    return deleted


class _File(NamedTuple):
    """Data file or change file of a commit; ``rows`` is None if its writer did not count them."""

    path: str
    comes: bool
    rows: int | None
    deleted: int

    @classmethod
    def from_action(cls, kind: str, action: Action) -> _File:
        stats = action.get("stats")
        if isinstance(stats, str) and stats:
            stats = json.loads(stats)
        count = None
        if isinstance(stats, dict):
            count = stats.get("numRecords")
        deleted = int((action.get("deletionVector") or {}).get("cardinality", 0))
        return cls(action["path"], kind != "remove", None if count is None else int(count), deleted)

    def all_rows(self, counts: Mapping[str, int]) -> int:
        """Return the number of rows that its deletion vector does not delete."""
        if self.rows is None:
            return counts[self.path] - self.deleted
        return self.rows - self.deleted


@dataclass(frozen=True)
class _Followed:
    """Files of a commit that Delta delivers to a reader of changes.

    Attributes:
        files: the files.
        restored: whether the commit was a RESTORE.
    """

    files: Sequence[_File]
    restored: bool = False

    @classmethod
    def from_added_files(cls, actions: Iterable[Action]) -> _Followed:
        """Return the files of a commit for a reader of added rows."""
        return cls([_File.from_action("add", action["add"]) for action in actions if _brings_rows("add", action)])

    @classmethod
    def from_feed(cls, actions: Iterable[Action]) -> _Followed:
        """Return the files of a commit for a reader of the change feed: change files, or data files without any."""
        files: dict[str, list[_File]] = {"add": [], "remove": [], "cdc": []}
        info: Action = {}
        for action in actions:
            info = action.get("commitInfo", info)
            for kind in files:
                if _brings_rows(kind, action):
                    files[kind].append(_File.from_action(kind, action[kind]))
        if files["cdc"]:
            return cls(files["cdc"], info.get("operation") == "RESTORE")
        if info.get("operation") == "MERGE" and _moved_no_row(info):
            return cls([])
        return cls([*files["add"], *files["remove"]], info.get("operation") == "RESTORE")

    def rows(self, counts: Mapping[str, int]) -> int | None:
        """Count the rows; None if deletions changed within one file, and only Spark knows which rows.

        Args:
            counts: row counts of files whose writer did not count them, by path.
        """
        removed = {file.path for file in self.files if not file.comes}
        changed = {file.path for file in self.files if file.comes and file.path in removed}
        if changed and self.restored:
            return None
        total = sum(file.all_rows(counts) for file in self.files if file.path not in changed)
        # The same file with more deletions than before: these rows are what the commit changed.
        for file in self.files:
            if file.path in changed:
                if file.comes:
                    total += file.deleted
                else:
                    total += -file.deleted
        return total


def _brings_rows(kind: str, action: Action) -> bool:
    """Return whether an action has a kind, and a file that a reader of changes gets."""
    return kind in action and (kind == "cdc" or bool(action[kind].get("dataChange", True)))


def _moved_no_row(info: Action) -> bool:
    """Return whether a MERGE inserted, updated and deleted nothing."""
    metrics = info.get("operationMetrics") or {}
    return all(metrics.get(name) == "0" for name in UNMOVED)


class Delivery:
    """Rows of a batch, with a proof of their number.

    Args:
        frame: the rows as Spark delivered them.
        flow: flow of the rows.
        expected: the expected rows; None where no stream delivered them, but all rows of one version are read, or
            none.
        table: the source as of the version of which all rows are read; None where others are.
    """

    def __init__(
        self, frame: DataFrame, flow: Flow, expected: ExpectedRows | None = None, *, table: DeltaTable | None = None
    ) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self.frame, self._flow, self._logged, self._table = frame, flow, expected, table
        self._taken, self._proven = False, expected is None
        self._seen = Observation()
        self._observed = frame
        if expected is not None:
            if self._doubtful_columns:
                counted = F.count(F.coalesce(*self._doubtful_columns))
            else:
                counted = F.lit(0).cast("bigint")
            self._observed = frame.observe(self._seen, F.count(F.lit(1)).alias("rows"), counted.alias("rescued"))

    @property
    def rows(self) -> DataFrame:
        """Rows of the batch, which are counted as they are read."""
        self._taken = True
        return self._observed

    @property
    def read(self) -> int:
        """Row count by the log; 0 if it was not read."""
        if self._logged is not None:
            return self._expected_count
        return 0

    @property
    def may_have_rescued(self) -> bool:
        """Whether the rows may include records with rescued data, or that could not be parsed.

        Before all rows are read, it is known from the footers of few data files, and assumed for many.
        """
        counts = self._first_job_counts()
        if counts is None or counts["rows"] != self._expected_count:
            return self._footers_have_doubtful_values
        return counts["rescued"] > 0

    @cached_property
    def _doubtful_columns(self) -> list[str]:
        """Columns that have a value in records with rescued data or parse errors."""
        return [column for column in (RESCUED, CORRUPT) if column in self.frame.columns]

    @cached_property
    def _footers_have_doubtful_values(self) -> bool:
        if not self._doubtful_columns:
            return False
        paths = self._paths
        if not 0 < len(paths) <= FEW_FILES:
            return True
        try:
            return footers.may_have_values(self._flow.source, paths, self._doubtful_columns)
        except FileNotFoundError:  # a data file that an OPTIMIZE has replaced
            return True

    @cached_property
    def _expected_count(self) -> int:
        count = self._logged.count if self._logged is not None else 0
        return self._count_by_batch_read() if count is None else count

    def _count_by_batch_read(self) -> int:
        """Count the expected rows by a batch read of the change feed in Spark."""
        versions = []
        if self._logged is not None:
            versions = list(self._logged.rows)
        reader = self.frame.sparkSession.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", versions[0]).option("endingVersion", versions[-1])
        return reader.load(self._flow.source).count()

    @property
    def _paths(self) -> Sequence[str]:
        """Data files with all of the rows; none if unknown."""
        if self._logged is not None:
            return self._logged.paths
        if self._table is None:
            return []
        return [path for (path,) in tables.statistics_rows(self._table, "path")]

    def prove(self) -> None:
        """Check that the rows are complete, before anything is written of them.

        Raises:
            AccountingError: Spark delivered fewer or more rows than the source's log has.
        """
        if self._proven or not self._taken:  # rows that nobody read are in no table
            return
        counts = self._first_job_counts()
        if counts is None or counts["rows"] != self._expected_count:
            # A first job may have looked at some rows only, or have counted those of a lost executor twice.
            demand_same(self._flow, self.frame.count(), self._expected_count)
        self._proven = True

    def _first_job_counts(self) -> dict[str, int] | None:
        """Return the counts of the first job that read the rows; None without one, or if Spark does not report them."""
        if self._logged is None:
            return None
        if connect.is_remote(self.frame.sparkSession):
            return self._seen.get or None  # empty until a job of this client has ended that read them
        jvm = self._seen._jo
        if jvm is None or not jvm.future().isCompleted():
            return None
        # Adaptive execution drops what is below a stage without rows, and these counts with it.
        if jvm.getRow().length():
            return self._seen.get
        return None


def demand_same(flow: Flow, delivered: int, expected: int) -> None:
    """Refuse a batch with more or fewer rows than the log has.

    Raises:
        AccountingError: the numbers differ.
    """
    if delivered != expected:
        raise AccountingError(
            f"Spark delivered {delivered:,} rows to {flow.table}, but the log of its source has {expected:,}",
            where=Where(table=flow.table, file=flow.source),
            hint="please report this: the run stopped before anything was written, so nothing is lost",
        )


def truncated_batch_error(flow: Flow, end: str) -> AccountingError:
    """Return the error for a batch that ends before its last change."""
    return AccountingError(
        f"Spark did not deliver all changes to {flow.table} in one batch: {end}",
        where=Where(table=flow.table, file=flow.source),
        hint="please report this: the run stopped before anything was written, so nothing is lost",
    )
