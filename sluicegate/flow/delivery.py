"""Proof that a batch holds exactly the rows between two versions of its source, before anything is committed.

An offset that is committed although rows are missing loses them for good. So what a stream delivers is never taken on
trust: the source's own log says, action by action, how many rows the versions after the offset gave, and Spark counts
those that came in the first job that reads them all, by ``DataFrame.observe``; only what is to be written without such
a job is counted in one of its own.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-data-files
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.errors import AccountingError, Where
from sluicegate.lake import footers, log, tables
from sluicegate.schema.columns import CORRUPT, RESCUED
from sluicegate.spark import connect
from sluicegate.storage.concurrent import each

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
    """Expected rows of some versions of a table, by its log.

    Attributes:
        rows: rows that each version gives to a follower of the table; None where the log alone cannot tell.
        files: data files that each version gives them in.
        paths: paths of these files.
    """

    rows: dict[int, int | None] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    paths: Sequence[str] = ()

    @property
    def count(self) -> int | None:
        """Rows of all these versions; None where that is not known."""
        known = [count for count in self.rows.values() if count is not None]
        return sum(known) if len(known) == len(self.rows) else None

    def nothing_after(self, version: int) -> bool:
        """Whether the versions after one gave nothing to be delivered (an OPTIMIZE, new properties)."""
        return not any(count for at, count in self.files.items() if at > version)


def expected_rows(uri: str, since: int, until: int, *, feed: bool) -> ExpectedRows:
    """Counts the rows that the commits after ``since`` up to ``until`` give, by the table's log.

    Args:
        uri: the table.
        since: the version that is taken in already; -1 for none.
        until: the last version.
        feed: whether its change data feed is followed, or only the rows that are added.

    Raises:
        RuntimeError: with ``GONE`` in its message: the log, or a file that it names, was cleaned away.
    """
    versions = range(since + 1, until + 1)

    def of(version: int) -> tuple[list[_File], bool]:
        return _followed(log.actions(uri, version), feed=feed)

    try:
        found = dict(zip(versions, each(of, versions), strict=True))
        every = [file for files, _ in found.values() for file in files]
        counts = footers.row_counts(uri, [file.path for file in every if file.rows is None])
    except FileNotFoundError as error:
        raise RuntimeError(f"{GONE}: {error}") from error
    return ExpectedRows(
        {version: _rows(files, counts, restored=restored) for version, (files, restored) in found.items()},
        {version: len(files) for version, (files, _) in found.items()},
        [file.path for file in every],
    )


def rows_at(uri: str, version: int) -> int:
    """Rows that a table has as of a version, by its log's count for each file, or the file's own footer."""
    return all_rows(uri, tables.table_at(uri, version=version)).count or 0


def all_rows(uri: str, table: DeltaTable) -> ExpectedRows:
    """All rows that a table has as of its handle's version, counted as in ``rows_at``.

    Args:
        uri: its address.
        table: its handle.
    """
    counts = tables.statistics(table, "path", "num_records")
    known = list(zip(*(column.to_pylist() for column in counts.columns), strict=True))
    uncounted = footers.row_counts(uri, [path for path, rows in known if rows is None])
    rows = sum(uncounted[path] if rows is None else rows for path, rows in known) - _deleted(table)
    paths = [path for path, _ in known]
    return ExpectedRows({table.version(): rows}, {table.version(): len(paths)}, paths)


def _deleted(table: DeltaTable) -> int:
    """Rows in the files of a table that its deletion vectors delete."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return 0
    gone = 0
    for batch in table.deletion_vectors():
        stays = pa.record_batch(batch)["selection_vector"].flatten()
        gone += len(stays) - (pc.sum(stays).as_py() or 0)
    return gone


class _File(NamedTuple):
    """Data file or change file of a commit; ``rows`` is None if its writer did not count them."""

    path: str
    comes: bool
    rows: int | None
    deleted: int

    @classmethod
    def of(cls, kind: str, action: Action) -> _File:
        stats = action.get("stats")
        stats = json.loads(stats) if isinstance(stats, str) and stats else stats
        count = stats.get("numRecords") if isinstance(stats, dict) else None
        deleted = int((action.get("deletionVector") or {}).get("cardinality", 0))
        return cls(action["path"], kind != "remove", None if count is None else int(count), deleted)


def _followed(actions: Iterable[Action], *, feed: bool) -> tuple[list[_File], bool]:
    """Files of a commit that Delta gives to a follower of the table, and whether it was a RESTORE."""
    found: dict[str, list[_File]] = {"add": [], "remove": [], "cdc": []}
    info: Action = {}
    for action in actions:
        for kind, what in action.items():
            if kind == "cdc" or (kind in found and what.get("dataChange", True)):
                found[kind].append(_File.of(kind, what))
            info = what if kind == "commitInfo" else info
    if not feed:
        return found["add"], False
    metrics = info.get("operationMetrics") or {}
    if not found["cdc"] and info.get("operation") == "MERGE" and all(metrics.get(name) == "0" for name in UNMOVED):
        return [], False
    return found["cdc"] or [*found["add"], *found["remove"]], info.get("operation") == "RESTORE"


def _rows(files: Sequence[_File], counts: dict[str, int], *, restored: bool) -> int | None:
    """Rows of the files of a commit; None where deletions came and went in one file, and only Spark knows which."""
    changed = {file.path for file in files if file.comes} & {file.path for file in files if not file.comes}
    if changed and restored:
        return None
    total = 0
    for file in files:
        if file.path not in changed:
            total += (counts[file.path] if file.rows is None else file.rows) - file.deleted
        else:  # the same file with more deletions than before: these rows are what the commit changed
            total += file.deleted if file.comes else -file.deleted
    return total


class Delivery:
    """Rows of a batch, with the proof of their number.

    Args:
        frame: the rows, as Spark delivered them.
        flow: their flow.
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
            counted = F.count(F.coalesce(*self._doubtful)) if self._doubtful else F.lit(0).cast("bigint")
            self._observed = frame.observe(self._seen, F.count(F.lit(1)).alias("rows"), counted.alias("rescued"))

    @property
    def rows(self) -> DataFrame:
        """The rows, to be read; they are counted when they are."""
        self._taken = True
        return self._observed

    @property
    def read(self) -> int:
        """Their number by the log; 0 where it was not read."""
        return self._expected if self._logged is not None else 0

    @property
    def may_have_rescued(self) -> bool:
        """Whether records with rescued data, or such that were not parsed, may be among the rows.

        Before all of them have been read it is known by the footers of few data files, and true of many.
        """
        seen = self._of_the_first_job()
        if seen is None or seen["rows"] != self._expected:
            return self._doubted_by_footers
        return seen["rescued"] > 0

    @cached_property
    def _doubtful(self) -> list[str]:
        """Columns that have a value in a record with rescued data, or in one that was not parsed."""
        return [column for column in (RESCUED, CORRUPT) if column in self.frame.columns]

    @cached_property
    def _doubted_by_footers(self) -> bool:
        if not self._doubtful:
            return False
        paths = self._paths
        if not 0 < len(paths) <= FEW_FILES:
            return True
        try:
            return footers.may_have_values(self._flow.source, paths, self._doubtful)
        except FileNotFoundError:  # a data file that an OPTIMIZE has replaced
            return True

    @cached_property
    def _expected(self) -> int:
        found = self._logged.count if self._logged is not None else 0
        return self._by_batch() if found is None else found

    def _by_batch(self) -> int:
        """Expected number of rows as Spark counts it in a batch read of these versions' change feed."""
        versions = list(self._logged.rows) if self._logged is not None else []
        reader = self.frame.sparkSession.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", versions[0]).option("endingVersion", versions[-1])
        return reader.load(self._flow.source).count()

    @property
    def _paths(self) -> Sequence[str]:
        """Data files that have all of the rows; none where they are not known."""
        if self._logged is not None:
            return self._logged.paths
        return [] if self._table is None else [path for (path,) in tables.statistics_rows(self._table, "path")]

    def prove(self) -> None:
        """Checks that these are all rows, and no others; to be called before anything is written of them.

        Raises:
            AccountingError: Spark delivered fewer or more than the source's log has.
        """
        if self._proven or not self._taken:  # rows that nobody read are in no table
            return
        seen = self._of_the_first_job()
        came = None if seen is None else seen["rows"]
        if came is None or came != self._expected:
            # A first job may have looked at some rows only, or have counted those of a lost executor twice.
            came = self.frame.count()
        demand_same(self._flow, came, self._expected)
        self._proven = True

    def _of_the_first_job(self) -> dict[str, int] | None:
        """Counts of the first job that read them; None if there was none yet, or if Spark does not tell them."""
        if self._logged is None:
            return None
        if connect.is_remote(self.frame.sparkSession):
            return self._seen.get or None  # empty until a job of this client has ended that read them
        jvm = self._seen._jo
        if jvm is None or not jvm.future().isCompleted():
            return None
        # Adaptive execution drops what is below a stage without rows, and these counts with it.
        return self._seen.get if jvm.getRow().length() else None


def demand_same(flow: Flow, came: int, expected: int) -> None:
    """Refuses a batch with more or fewer rows than the log has.

    Raises:
        AccountingError: there are fewer or more.
    """
    if came != expected:
        raise AccountingError(
            f"Spark delivered {came:,} rows to {flow.table}, but the log of its source has {expected:,}",
            where=Where(table=flow.table, file=flow.source),
            hint="please report this: the run stopped before anything was written, so nothing is lost",
        )


def truncated(flow: Flow, how: str) -> AccountingError:
    """Error for a batch that ends before the changes that it is to hold do."""
    return AccountingError(
        f"Spark did not deliver all changes to {flow.table} in one batch: {how}",
        where=Where(table=flow.table, file=flow.source),
        hint="please report this: the run stopped before anything was written, so nothing is lost",
    )
