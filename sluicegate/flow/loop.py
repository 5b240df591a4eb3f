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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.bronze import delta_source
from sluicegate.errors import SluicegateError, UserError, Where
from sluicegate.flow import delivery
from sluicegate.flow.delivery import Delivery, Told, cut_short
from sluicegate.flow.foreach_batch import run_available
from sluicegate.flow.progress import Flow, Progress, name_of, progress
from sluicegate.flow.report import TableReport
from sluicegate.flow.stream_checkpoint import covered
from sluicegate.lake import offsets, tables
from sluicegate.spark.session import configured
from sluicegate.spark.spark_errors import raise_readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sluicegate.flow.selection import Choice

# Columns by which we know a row; a query does not see those of its lookups.
ENGINE_COLUMNS = tables.ENGINE_COLUMNS

# How Spark says that a part of the source's history is gone: log files or change files that were cleaned away.
GAP = ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSION_NOT_FOUND", "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
       "DELTA_MISSING_CHANGE_DATA", "DELTA_CDC_START_VERSION_AFTER_LATEST", "DELTA_TRUNCATED_TRANSACTION_LOG",
       "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "FAILED_READ_FILE.FILE_NOT_EXIST", delivery.GONE)  # fmt: skip


@dataclass
class Batch:
    """What a layer is given: rows to apply, and the means to commit what it makes of them.

    Attributes:
        delivery: the rows, and the proof that they are all.
        read: number of these rows, as the source's own log counts them; 0 where the source is foreign and ``whole``.
        whole: whether the target is to be replaced by what these rows give.
        again: whether records are among the batch's that may have been applied before.
        progress: the marks.
        flow: the flow.
        report: for the layer to fill in.
        facts: who runs this, for the commit's metadata.
        choice: records that a person chose to apply again; None without.
    """

    delivery: Delivery
    read: int
    whole: bool
    again: bool
    progress: Progress
    flow: Flow
    report: TableReport
    facts: Mapping[str, Any]
    choice: Choice | None = None

    @property
    def rows(self) -> DataFrame:
        """The rows that the source gained after the mark, or all of its rows when ``whole``; with the source's columns.

        When ``again``, rows of any change after the mark, gone ones too. Of a flow that is ``signed`` all changes, with
        Delta's columns of a change, unless ``whole``.
        """
        return self.delivery.rows

    @property
    def session(self) -> SparkSession:
        """The batch's own session: what is set on it does not leak to other streams."""
        return self.delivery.frame.sparkSession

    def pinned(self, name: str, version: int | None = None) -> DataFrame:
        """Another input, at the version that the batch is computed with (a lazy Delta read is not pinned by itself).

        Args:
            name: its name.
            version: another version of it.
        """
        return self._read(self.flow.inputs[name], self.progress.versions[name] if version is None else version)

    def pinned_source(self) -> DataFrame:
        """All rows of the source as of the batch's end."""
        return self._read(self.flow.source, self.progress.until)

    def records(self) -> DataFrame:
        """All rows of the source as of the batch's end, with the columns by which we know them."""
        return _as_of(self.session, self.flow.source, self.progress.until)

    def of_everything(self) -> Batch:
        """The same batch over all rows of the source, to replace the target."""
        count = tables.rows(tables.delta_table(self.flow.source, self.progress.until))
        everything = Delivery(self.records(), self.flow)
        return replace(self, delivery=everything, read=count, whole=True, again=False)

    def changes_of(self, name: str, since: int | None = None) -> DataFrame:
        """What another input gained and lost, row by row, with Delta's columns of a change.

        Args:
            name: its name.
            since: after which version; by default, since the last batch.
        """
        reader = self.session.read.format("delta").option("readChangeFeed", "true")
        first = (self.progress.changed[name] if since is None else since) + 1
        until = self.progress.versions[name]
        return reader.option("startingVersion", first).option("endingVersion", until).load(self.flow.inputs[name])

    def _read(self, uri: str, version: int) -> DataFrame:
        # A query over whole tables speaks of their data: `SELECT *` must not bring identities of other records.
        return _as_of(self.session, uri, version).drop(*ENGINE_COLUMNS)

    @contextmanager
    def commit(self, *, mark: int | None = None, fenced: bool = True, **facts: Any) -> Iterator[None]:
        """Within it, each Delta write carries the mark and the facts; a batch that lacks rows enters it not.

        Args:
            mark: the mark to set; by default the batch's end. Where the target has that mark already (a rebuild from
                an unchanged source) none is written, since Delta skips a write whose mark is not higher.
            fenced: whether to set a mark at all. Not where a write must happen even if one with this mark did.
            facts: what this commit should say besides (rows by disposition, …).

        Raises:
            AccountingError: Spark delivered other rows to the batch than the source's log tells of.
        """
        self.delivery.prove()
        mark = self.progress.until if mark is None else mark
        ours = {**self.describe(), "until": mark, **facts}
        settings = {"commitInfo.userMetadata": json.dumps({tables.METADATA: ours}, default=str)}
        # What a commit says counts where no row changes, too: which versions were read, and that a batch is closed.
        settings["skipRecordingEmptyCommits"] = "false"
        if fenced and mark > self.progress.since:
            settings |= {"write.txnAppId": self.progress.app_id, "write.txnVersion": str(mark)}
        with configured(self.session, {f"spark.databricks.delta.{key}": value for key, value in settings.items()}):
            yield

    def target_version(self) -> int:
        """Version of the target now; -1 before the first.

        Raises:
            SluicegateError: it was restored since the marks were read, so that they say more than its rows.
        """
        target = tables.delta_table(self.flow.target)
        if target is None:
            return -1
        if offsets.lineage(target).facts() != list(self.progress.restores):
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
            **({"key": self.flow.key} if self.flow.key else {}), **(self.choice.facts() if self.choice else {}),
            **({"restores": self.progress.restores} if self.progress.restores else {}), **self.facts,
        }  # fmt: skip


def run(
    session: SparkSession,
    flow: Flow,
    apply: Callable[[Batch], None],
    facts: Mapping[str, Any],
    choice: Choice | None = None,
    *,
    anew: bool = False,
) -> TableReport:
    """Brings a flow's target up to its source, by a stream over the changes or by a rebuild.

    Args:
        session: the Spark session.
        flow: the flow.
        apply: what the layer does with one batch.
        facts: who runs this, for every commit.
        choice: records that are to be applied again in the same batch.
        anew: whether to make the target again whole, even if nothing calls for it.

    Raises:
        SluicegateError: whatever ``apply`` raises, with its class (Spark would lose it).
        QueryError: Spark refuses the query.
        UserError: a choice is only to be validated, and there is no table yet to compare with.
    """
    now = progress(flow)
    if choice is not None and now.kind == "idle":
        now = replace(now, kind="incremental")
    now = now.anew() if anew else now
    if choice is not None and choice.validate and now.kind == "whole":
        raise UserError(
            f"{flow.table} is to be made whole by the next run, so there is nothing to compare with",
            where=Where(table=flow.table),
            cause=now.why or "it has not been filled yet",
            hint="run the pipeline first",
        )
    report = TableReport(flow.table, flow.layer, state=now.kind, why=now.why)
    if not now.work:
        return report
    started = time.monotonic()
    loop = _Loop(session, flow, apply, facts, report, choice)
    if now.kind == "incremental" and (gap := loop.follow(now)):
        now = replace(now, kind="whole", why=gap)
    if now.kind == "whole":
        loop.rebuild(now)
    report.state = _state(now, choice)
    report.why = now.why
    report.seconds = time.monotonic() - started
    target = tables.delta_table(flow.target)
    report.version, report.total = (target.version() if target else None), tables.rows(target)
    return report


def _state(done: Progress, choice: Choice | None) -> str:
    if done.kind == "whole":
        return "rebuilt" if done.since >= 0 or done.why else "written"
    if choice is not None and choice.validate:
        return "validated"
    return "again" if done.again or choice is not None else "written"


@dataclass
class _Loop:
    session: SparkSession
    flow: Flow
    apply: Callable[[Batch], None]
    facts: Mapping[str, Any]
    report: TableReport
    choice: Choice | None

    def follow(self, now: Progress) -> str:
        """Applies the changes after the mark, and what else is to be applied again, in one batch.

        Returns:
            why these changes cannot be had, so that the target must be made again; empty if they were applied.
        """
        if now.since < now.until:
            return self.stream(now)
        try:
            self._apply(self._no_rows(now), now)
        except Exception as error:
            if any(sign in str(error) for sign in GAP):
                return "the history of a table that it reads is gone"
            raise_readable(error, self.flow)
        return ""

    def stream(self, now: Progress) -> str:
        """Runs an availableNow stream over the changes after the mark; its one batch is applied.

        Returns:
            why these changes cannot be had, so that the target must be made again; empty if they were applied.
        """
        applied: list[int] = []

        def take(rows: DataFrame, batch_id: int) -> None:
            if applied:
                raise cut_short(self.flow, f"batch {batch_id} came after the one that was to hold everything")
            applied.append(batch_id)
            told, end = _demand_all(Path(scratch), batch_id, self.flow, now)
            if self.flow.foreign:
                # Rows of a feed say which commit they are of; without one, all that came is taken in.
                delta_source.demand_additive(self.flow, now.until, end)
                self._apply(rows, replace(now, until=end), told)
            else:
                self._apply(self._of_feed(rows, now), now, told)

        with tempfile.TemporaryDirectory(prefix="sluicegate-", ignore_cleanup_errors=True) as scratch:
            how = dict(delta_source.STREAM) if self.flow.foreign else {"readChangeFeed": "true", **delta_source.STREAM}
            starting = self.session.readStream.format("delta").option("startingVersion", now.since + 1)
            changes = starting.options(**how).load(self.flow.source)
            try:
                run_available(changes.writeStream, take, f"file://{scratch}", private=self.flow.private)
            except Exception as error:
                if any(sign in str(error) for sign in GAP) and self.flow.rebuildable:
                    return "the source's history is gone"
                if self.flow.foreign and any(sign in str(error) for sign in delta_source.REWRITTEN):
                    # The snapshot is of before that; what it changed is the next run's.
                    return f"{name_of(self.flow.source)} was changed while it was read"
                raise_readable(error, self.flow)
        if not applied:  # commits without any change in them, an OPTIMIZE for instance: only the mark moves
            told = delivery.told(self.flow.source, now.since, now.until, feed=not self.flow.foreign)
            self._apply(self._of_feed(self.session.createDataFrame([], changes.schema), now), now, told)
        return ""

    def _no_rows(self, now: Progress) -> DataFrame:
        from pyspark.sql.functions import lit

        rows = _as_of(self.session, self.flow.source, now.until).limit(0)
        types = ("string", "bigint", "timestamp") if self.flow.signed else ()
        of_feed = {c: lit(None).cast(kind) for c, kind in zip(tables.CHANGE_COLUMNS, types, strict=False)}
        return rows.withColumns(of_feed) if of_feed else rows

    def _of_feed(self, rows: DataFrame, now: Progress) -> DataFrame:
        # Another program may have committed to the source since the marks were read: that is the next run's.
        ours = rows.where(f"_commit_version <= {now.until}")
        return ours if self.flow.signed else ours.drop(*tables.CHANGE_COLUMNS)

    def rebuild(self, now: Progress) -> None:
        """Makes the target again from the source as of ``until``."""
        try:
            self._apply(_as_of(self.session, self.flow.source, now.until), now)
        except Exception as error:
            raise_readable(error, self.flow)

    def _apply(self, rows: DataFrame, now: Progress, told: Told | None = None) -> None:
        whole = now.kind == "whole"
        choice = None if whole else self.choice
        again = not whole and (now.again or choice is not None)
        given = Delivery(rows, self.flow, told)
        # What others write of their rows need not be so, and is not there in every commit.
        counted = whole and not self.flow.foreign
        read = tables.rows(tables.delta_table(self.flow.source, now.until)) if counted else given.read
        self.apply(Batch(given, read, whole, again, now, self.flow, self.report, self.facts, choice))


def _as_of(session: SparkSession, uri: str, version: int) -> DataFrame:
    return session.read.format("delta").option("versionAsOf", version).load(uri)


def _demand_all(checkpoint: Path, batch_id: int, flow: Flow, now: Progress) -> tuple[Told, int]:
    """Makes sure that the batch ends behind every change up to the mark that it is going to set.

    The stream has no limit, so Spark delivers all at once; were it ever to deliver less, setting the mark would lose
    the rest in silence. Spark writes where a batch ends before it runs it. Whether all rows are there is counted later.

    Returns:
        what the source's log tells of the rows of the batch, and the version that the batch ends at.

    Raises:
        AccountingError: the batch ends before, or in the middle of a version.
    """
    until = now.until
    told = delivery.told(flow.source, now.since, until, feed=not flow.foreign)

    def files(version: int) -> int:
        if version in told.files:
            return told.files[version]
        return delivery.told(flow.source, version - 1, version, feed=True).files[version]

    end = covered((checkpoint / "offsets" / str(batch_id)).read_text(), None if flow.foreign else files)
    if end is None:
        raise cut_short(flow, f"the changes up to version {until} end in the middle of a version")
    if end < until and not told.nothing_after(end):
        raise cut_short(flow, f"the changes up to version {until} end at version {end}")
    if flow.foreign and end > until:
        return delivery.told(flow.source, now.since, end, feed=False), end
    return told, max(end, until)
