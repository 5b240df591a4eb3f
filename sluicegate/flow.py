"""The one loop that every layer runs: mark, availableNow stream, batch, commit with the new mark.

How far a flow has come is written in its *target's own Delta log*: each commit carries a transaction id
(``txnAppId``) and ``txnVersion`` = the version of the source that the batch ends at. Rows and mark change in one
atomic commit, so there is nothing else that could be lost or disagree: the stream's checkpoint is a scratch folder.
Delta's documentation: https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluicegate import delta_source, lake, marks
from sluicegate.errors import SluicegateError, Where
from sluicegate.report import TableReport
from sluicegate.session import configured
from sluicegate.spark_errors import readable

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

# Columns that Delta's change data feed adds.
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

# Columns by which we know a row; a query does not see those of its lookups.
ENGINE_COLUMNS = ("_chunk", "_pos", "_sequence")

# Commits that only add rows, or none. After any other (DELETE, UPDATE, MERGE, RESTORE…) rows of the source that were
# applied already have changed, and the target is made again.
ADDITIVE = {"WRITE", "STREAMING UPDATE", "CREATE TABLE", "ADD COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
            "CHANGE COLUMN", "UPDATE SCHEMA", "OPTIMIZE", "VACUUM START", "VACUUM END", "CLUSTER BY"}  # fmt: skip

# How Spark says that a part of the source's history is gone: log files or change files that were cleaned away.
GAP = ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSION_NOT_FOUND", "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
       "DELTA_MISSING_CHANGE_DATA", "DELTA_CDC_START_VERSION_AFTER_LATEST", "DELTA_TRUNCATED_TRANSACTION_LOG",
       "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "FAILED_READ_FILE.FILE_NOT_EXIST")  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """One way into one table.

    Attributes:
        layer: bronze, silver or gold.
        table: name of the table it fills.
        source: URI of the Delta table whose changes it follows.
        target: URI of the table it fills.
        inputs: the other tables it reads, name to URI; when one of them changes, the target is made again.
        fingerprint: of what computes the table; the target is made again when it differs. Empty: not looked at.
        rebuildable: whether the target can be made again from the source (bronze cannot: files may be gone).
        foreign: whether the source is a table of other programs': it may have no change data feed, and change in any
            way (see delta_source.py).
    """

    layer: str
    table: str
    source: str
    target: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    rebuildable: bool = True
    foreign: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a flow has come, and what is to be done.

    Attributes:
        kind: ``idle``; ``blocked``: a table that it needs does not exist yet; ``incremental``: take the changes after
            ``since`` up to ``until``; ``whole``: make the target again from the source as of ``until``.
        since: the mark: version of the source that the target has taken in; -1 before the first.
        until: version of the source now.
        versions: version of each other input now; the batch reads exactly these.
        stamps: table id and version of each other input, as they are recorded.
        app_id: under which the mark is kept; it has the source's table id in it, so a source that was deleted and
            made again is not mistaken for the one that the mark speaks of, and the epoch (see marks.py).
        seen: version of the target when its marks were read; -1 before the first.
        restores: each RESTORE of the target, as its commits are to tell them.
        why: reason of a rebuild or of waiting.
    """

    kind: Literal["idle", "blocked", "incremental", "whole"]
    since: int = -1
    until: int = -1
    versions: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)
    app_id: str = ""
    seen: int = -1
    restores: Sequence[Sequence[int | None]] = ()
    why: str = ""

    @property
    def work(self) -> bool:
        """Whether a run would do anything."""
        return self.kind in ("incremental", "whole")


def progress(flow: Flow) -> Progress:
    """Reads the marks. No Spark; some 10 ms.

    Raises:
        NotADeltaTable: there are files, but no table, at one of the addresses.
        LandingMissing: the source is a table of other programs', and is not there.
        SluicegateError: the source is older than what was taken from it, or is another table than the one that the
            target was filled from and the target cannot be made again from it.
    """
    source, target = lake.delta_table(flow.source), lake.delta_table(flow.target)
    if source is None and flow.foreign:
        raise delta_source.missing(flow)
    if source is None:
        return Progress("blocked", why=f"{_name(flow.source)} has no rows yet")
    versions: dict[str, int] = {}
    stamps: dict[str, str] = {}
    for name, uri in flow.inputs.items():
        table = lake.delta_table(uri)
        if table is None:
            return Progress("blocked", why=f"it joins {name}, which has no rows yet")
        versions[name] = table.version()
        stamps[name] = f"{lake.table_id(table)}@{table.version()}"
    past = marks.lineage(target) if target is not None else None
    app_id = marks.app_id(flow.layer, flow.table, source)
    reached = marks.reach(target, app_id, None if flow.rebuildable else past)
    mark, until = reached.mark, source.version()
    since = -1 if mark is None else mark
    why = _why_whole(flow, source, past, mark, stamps) if past is not None else ""
    _demand_a_way(flow, mark, until, why)
    kind: Literal["idle", "incremental", "whole"]
    if flow.rebuildable:
        # The first time, too: what the source once was and is no more does not belong into the target.
        kind = "whole" if why or mark is None else "idle" if since == until else "incremental"
    else:  # the first version of a ledger is made without files
        kind = "idle" if until in (0, since) else "incremental"
        if past is not None and past.news:
            why = f"it was restored in version {past.restores[-1].at}: what it lacks since is read again"
    seen, restores = (target.version(), past.facts()) if target is not None and past is not None else (-1, [])
    return Progress(kind, since, until, versions, stamps, reached.app_id, seen, restores, why)


def _demand_a_way(flow: Flow, mark: int | None, until: int, why: str) -> None:
    if mark is not None and mark > until:
        # Delta keeps the higher of two marks, so later changes of the source would be taken for known.
        raise SluicegateError(
            f"{flow.table} cannot go on: {_name(flow.source)} is older than what was taken from it",
            where=Where(table=flow.table, file=flow.source),
            hint=f"move {flow.target} away: it is made again from what {_name(flow.source)} holds now",
        )
    if why and not flow.rebuildable:
        raise SluicegateError(
            f"{flow.table} cannot go on: {why}",
            where=Where(table=flow.table, file=flow.source),
            hint="restore the ledger, or move the table away to read all landed files again",
        )


def _why_whole(flow: Flow, source: DeltaTable, past: marks.Lineage, mark: int | None, stamps: Mapping[str, str]) -> str:
    """Why the target must be made again from the source; empty when the changes since the mark are enough."""
    name, last = _name(flow.source), past.ours
    if flow.rebuildable and past.news and last is not None:
        return f"it was restored in version {past.restores[-1].at}"
    if flow.foreign:
        return delta_source.why_whole(flow, source, last, mark)
    if mark is None:
        return f"{name} is not the table that it was filled from"
    if not flow.rebuildable:
        return ""
    if last is None or last.ours is None:
        return "its log no longer tells what it was made from"
    if flow.fingerprint and last.ours.get("fingerprint") != flow.fingerprint:
        return "its definition changed"
    changed = [n for n, stamp in stamps.items() if last.ours.get("inputs", {}).get(n) != stamp]
    return f"{', '.join(changed)} changed" if changed else _rewritten(name, source, mark)


def _rewritten(name: str, source: DeltaTable, mark: int) -> str:
    """What the source's commits after the mark did besides adding rows; empty if nothing."""
    for commit in lake.commits(source, source.version() - mark) if mark < source.version() else ():
        if commit.version > mark and (commit.operation not in ADDITIVE or commit.overwrites):
            return f"{name} was changed by {commit.operation} in version {commit.version}"
    return ""


def _name(uri: str) -> str:
    return uri.rstrip("/").rsplit("/", 1)[-1]


@dataclass
class Batch:
    """What a layer is given: rows to apply, and the means to commit what it makes of them.

    Attributes:
        rows: rows that the source gained after the mark, or all of its rows when ``whole``; with the source's columns.
        read: number of these rows, as the source's own log counts them; 0 where the source is foreign.
        whole: whether the target is to be replaced by what these rows give.
        progress: the marks.
        flow: the flow.
        report: for the layer to fill in.
        facts: who runs this, for the commit's metadata.
    """

    rows: DataFrame
    read: int
    whole: bool
    progress: Progress
    flow: Flow
    report: TableReport
    facts: Mapping[str, Any]

    @property
    def session(self) -> SparkSession:
        """The batch's own session: what is set on it does not leak to other streams."""
        return self.rows.sparkSession

    def pinned(self, name: str) -> DataFrame:
        """Another input, at the version that the batch is computed with (a lazy Delta read is not pinned by itself)."""
        return self._read(self.flow.inputs[name], self.progress.versions[name])

    def pinned_source(self) -> DataFrame:
        """All rows of the source as of the batch's end."""
        return self._read(self.flow.source, self.progress.until)

    def _read(self, uri: str, version: int) -> DataFrame:
        # A query over whole tables speaks of their data: `SELECT *` must not bring identities of other records.
        return self.session.read.format("delta").option("versionAsOf", version).load(uri).drop(*ENGINE_COLUMNS)

    @contextmanager
    def commit(self, *, mark: int | None = None, fenced: bool = True, **facts: Any) -> Iterator[None]:
        """Within it, each Delta write carries the mark and the facts.

        Args:
            mark: the mark to set; by default the batch's end. Where the target has that mark already (a rebuild from
                an unchanged source) none is written, since Delta skips a write whose mark is not higher.
            fenced: whether to set a mark at all. Not where a write must happen even if one with this mark did.
            facts: what this commit should say besides (rows by disposition, …).
        """
        mark = self.progress.until if mark is None else mark
        ours = {**self.describe(), "until": mark, **facts}
        settings = {"commitInfo.userMetadata": json.dumps({lake.METADATA: ours}, default=str)}
        if fenced and mark > self.progress.since:
            settings |= {"write.txnAppId": self.progress.app_id, "write.txnVersion": str(mark)}
        with configured(self.session, {f"spark.databricks.delta.{key}": value for key, value in settings.items()}):
            yield

    def target_version(self) -> int:
        """Version of the target now; -1 before the first.

        Raises:
            SluicegateError: it was restored since the marks were read, so that they say more than its rows.
        """
        target = lake.delta_table(self.flow.target)
        if target is None:
            return -1
        if marks.lineage(target).facts() != list(self.progress.restores):
            raise SluicegateError(
                f"{self.flow.table} was restored while it was being filled",
                where=Where(table=self.flow.table, file=self.flow.target),
                hint="run again: the next run brings back what is missing",
            )
        return target.version()

    def describe(self) -> dict[str, Any]:
        """What every commit of this batch says."""
        return {
            "layer": self.flow.layer, "table": self.flow.table, "mode": "whole" if self.whole else "incremental",
            "since": self.progress.since, "until": self.progress.until, "inputs": dict(self.progress.stamps),
            "fingerprint": self.flow.fingerprint, "why": self.progress.why, "seen": self.progress.seen,
            **({"restores": self.progress.restores} if self.progress.restores else {}), **self.facts,
        }  # fmt: skip


def run(session: SparkSession, flow: Flow, apply: Callable[[Batch], None], facts: Mapping[str, Any]) -> TableReport:
    """Brings a flow's target up to its source, by a stream over the changes or by a rebuild.

    Raises:
        SluicegateError: whatever ``apply`` raises, with its class (Spark would lose it).
        QueryError: Spark refuses the query.
    """
    now = progress(flow)
    report = TableReport(flow.table, flow.layer, why=now.why)
    if not now.work:
        return report
    started = time.monotonic()
    loop = _Loop(session, flow, apply, facts, report)
    if now.kind == "incremental" and (gap := loop.stream(now)):
        now = replace(now, kind="whole", why=gap)
    if now.kind == "whole":
        loop.rebuild(now)
    report.state = "rebuilt" if now.kind == "whole" and (now.since >= 0 or now.why) else "written"
    report.why = now.why
    report.seconds = time.monotonic() - started
    target = lake.delta_table(flow.target)
    report.version, report.total = (target.version() if target else None), lake.rows(target)
    return report


@dataclass
class _Loop:
    session: SparkSession
    flow: Flow
    apply: Callable[[Batch], None]
    facts: Mapping[str, Any]
    report: TableReport

    def stream(self, now: Progress) -> str:
        """Runs an availableNow stream over the changes after the mark; its one batch is applied.

        Returns:
            why these changes cannot be had, so that the target must be made again; empty if they were applied.
        """
        failure: list[BaseException] = []
        applied: list[int] = []

        def on_batch(rows: DataFrame, batch_id: int) -> None:
            try:
                end = _demand_all(Path(scratch), batch_id, now)
                if self.flow.foreign:
                    # Rows of a feed say which commit they are of; without one, all that came is taken in.
                    delta_source.demand_additive(self.flow, now.until, end)
                self._apply(rows, replace(now, until=end) if self.flow.foreign else now)
                applied.append(batch_id)
            except BaseException as error:  # carried around Spark, which would make a text of it
                failure.append(error)
                # Py4J answers the JVM only for an Exception: any other would leave the stream waiting for ever.
                raise RuntimeError("the batch failed") from error

        with tempfile.TemporaryDirectory(prefix="sluicegate-", ignore_cleanup_errors=True) as scratch:
            how = delta_source.STREAM if self.flow.foreign else {"readChangeFeed": "true"}
            starting = self.session.readStream.format("delta").option("startingVersion", now.since + 1)
            changes = starting.options(**how).load(self.flow.source)
            query = (
                changes.writeStream.foreachBatch(on_batch)
                .option("checkpointLocation", f"file://{scratch}")
                .trigger(availableNow=True)
            )
            try:
                query.start().awaitTermination()
            except Exception as error:
                if any(sign in str(error) for sign in GAP) and self.flow.rebuildable:
                    return "the source's history is gone"
                if self.flow.foreign and any(sign in f"{error} {failure}" for sign in delta_source.REWRITTEN):
                    # The snapshot is of before that; what it changed is the next run's.
                    return f"{_name(self.flow.source)} was changed while it was read"
                raise readable(failure[0] if failure else error, self.flow.layer, self.flow.table) from error
        if not applied:  # commits without any change in them, an OPTIMIZE for instance: only the mark moves
            self._apply(self.session.createDataFrame([], changes.schema), now)
        return ""

    def rebuild(self, now: Progress) -> None:
        """Makes the target again from the source as of ``until``."""
        rows = self.session.read.format("delta").option("versionAsOf", now.until).load(self.flow.source)
        try:
            self._apply(rows, now)
        except Exception as error:
            raise readable(error, self.flow.layer, self.flow.table) from error

    def _apply(self, rows: DataFrame, now: Progress) -> None:
        whole = now.kind == "whole"
        if not (whole or self.flow.foreign):
            # Another program may have committed to the source since the marks were read: that is the next run's.
            rows = rows.where(f"_commit_version <= {now.until}").drop(*CHANGE_COLUMNS)
        # What others write of their rows need not be so, and is not there in every commit.
        read = 0 if self.flow.foreign else _rows_between(self.flow.source, now.since, now.until, whole=whole)
        self.apply(Batch(rows, read, whole, now, self.flow, self.report, self.facts))


def _rows_between(source: str, since: int, until: int, *, whole: bool) -> int:
    """Rows that the source's own log says it gained after ``since``, or has as of ``until``."""
    if whole or since < 0:
        return lake.rows(lake.delta_table(source, until))
    table = lake.delta_table(source)  # delta-rs numbers the history of an older version wrongly
    between = lake.commits(table, table.version() - since) if table else ()
    return sum(commit.rows_written or 0 for commit in between if since < commit.version <= until)


def _demand_all(checkpoint: Path, batch_id: int, now: Progress) -> int:
    """Makes sure that the batch holds every change up to the mark that it is going to set; returns where it ends.

    The stream has no limit, so Spark delivers all at once; were it ever to deliver less, setting the mark would lose
    the rest in silence. Spark writes where a batch ends before it runs it.
    """
    ends = json.loads((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2])
    # Version v with index -1 (the base) means: everything before v, nothing of v yet.
    covered = int(ends["reservoirVersion"]) - (1 if int(ends["index"]) < 0 else 0)
    if covered < now.until:
        raise SluicegateError(
            f"Spark cut the changes up to version {now.until} short at version {covered}",
            hint="please report this: the run stopped before anything was written, so nothing is lost",
        )
    return covered
