"""One batch: the rows for a layer, inputs at pinned versions, and the commit with the offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from sluicegate.errors import SluicegateError, Where
from sluicegate.flow import histories
from sluicegate.flow.model import Flow, Progress
from sluicegate.flow.several import several_progress
from sluicegate.flow.streaming.delivery import Delivery
from sluicegate.flow.table_report import TableReport
from sluicegate.lake import offsets, tables
from sluicegate.lake.commits.commit_info import BatchMode, CommitInfo, Fact
from sluicegate.lake.commits.small_commits import Facts
from sluicegate.lake.table import Tables
from sluicegate.schema.column_metadata import set_metadata
from sluicegate.schema.columns import ENGINE_COLUMNS
from sluicegate.spark import commit_settings, table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark.spark_errors import translate_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

    from sluicegate.flow.selection import Choice


@dataclass
class Batch:
    """Unit of work of a layer: rows to apply, and the means to commit their result.

    Attributes:
        delivery: the rows, with the proof that they are complete.
        read: number of these rows by the source's log; 0 if the source is foreign and ``whole``.
        whole: whether the result of these rows replaces the target.
        reprocesses: whether some of the records may have been processed before.
        progress: the offsets.
        flow: the flow.
        report: report that the layer fills in.
        facts: facts on the run for the commit's metadata.
        choice: records that a person chose to reprocess; None without.
        opened: the handles by which offsets were read, at the versions of the batch, or with fences after these.
        replaces_table: whether a new table replaces the target, without former versions.
        commits_read: identities of the commits read; see ``histories.facts``.
    """

    delivery: Delivery
    read: int
    whole: bool
    reprocesses: bool
    progress: Progress
    flow: Flow
    report: TableReport
    facts: Mapping[str, Any]
    choice: Choice | None = None
    opened: Tables = field(default_factory=Tables)
    replaces_table: bool = False
    commits_read: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> DataFrame:
        """New rows of the source after the offset, or all of its rows if ``whole``; with the source's columns.

        With ``reprocesses``, rows of any change after the offset, including deleted ones. For a flow with
        ``row_deltas``, all changes with Delta's columns of a change, unless ``whole``.
        """
        return self.delivery.rows

    @property
    def session(self) -> SparkSession:
        """Session of this batch; its settings do not affect other streams."""
        return self.delivery.frame.sparkSession

    def pinned_input(self, name: str, version: int | None = None) -> DataFrame:
        """Return another input at the version of the batch; a lazy Delta read is not pinned by itself.

        Args:
            name: name of the input.
            version: another version than the batch's.
        """
        return self._read(self.flow.inputs[name], self.progress.versions[name] if version is None else version)

    def pinned_source(self) -> DataFrame:
        """Return all rows of the source as of the end of the batch."""
        return self._read(self.flow.source, self.progress.until)

    def records(self) -> DataFrame:
        """Return all rows of the source as of the end of the batch, with the engine's columns."""
        return self._records_at(self.flow.source, self.progress.until)

    @property
    def rows_by_flow(self) -> Mapping[str, DataFrame]:
        """Rows of each flow by name, with the columns of its source; empty if one flow fills the table."""
        return {}

    @property
    def counts_by_flow(self) -> Mapping[str, int]:
        """Row count of each flow by name; empty if one flow fills the table."""
        return {}

    @property
    def may_have_rescued(self) -> bool:
        """Whether the rows may include records with rescued data, or that could not be parsed."""
        return self.delivery.may_have_rescued

    def prove(self) -> None:
        """Check that the rows are complete by the source's log; see ``Delivery.prove``."""
        self.delivery.prove()

    def widen_to_all_rows(self) -> Batch:
        """Return this batch over all rows of the source, to replace the target."""
        count = self.opened.rows_at(self.flow.source, self.progress.until)
        everything = Delivery(
            self.records(), self.flow, table=self.opened.table_at(self.flow.source, self.progress.until)
        )
        return replace(self, delivery=everything, read=count, whole=True, reprocesses=False, choice=None)

    def changes_of(self, name: str, since: int | None = None) -> DataFrame:
        """Return the change feed of another input since a version, with Delta's columns of a change.

        Args:
            name: name of the input.
            since: version after which changes count; by default that of the last batch.
        """
        first = (self.progress.changed[name] if since is None else since) + 1
        return table_reader.changes(self.session, self.flow.inputs[name], first, self.progress.versions[name])

    def add_comments(self, rows: DataFrame) -> DataFrame:
        """Add the target's column comments to rows, so that a write that sets columns keeps them."""
        comments = {name.lower(): text for name, text in self.flow.description.columns.items()}

        def metadata(field: StructField) -> dict[str, Any] | None:
            text = comments.get(field.name.lower())
            if text is None:
                return None
            return {**field.metadata, "comment": text}

        if comments:
            return set_metadata(rows, metadata)
        return rows

    def _read(self, uri: str, version: int) -> DataFrame:
        # A query over whole tables speaks of their data: `SELECT *` must not bring identities of other records.
        return table_reader.read(self.session, uri, version, self.opened[uri].delta).drop(*ENGINE_COLUMNS)

    def _records_at(self, uri: str, version: int) -> DataFrame:
        """Read rows of a source as of a version, with its present columns: later ones are NULL."""
        return table_reader.records(self.session, uri, version, self.opened[uri].delta)

    @contextmanager
    def commit(self, *, offset: int | None = None, fenced: bool = True, **facts: Any) -> Iterator[None]:
        """Put the offset and the facts into each Delta write within the block; a batch that lacks rows is refused.

        Args:
            offset: the offset to commit; by default the batch's end. Where the target has it already (a full refresh
                from an unchanged source) none is written, since Delta skips a write whose ``txnVersion`` is not higher.
            fenced: whether to commit an offset at all; not if the write must happen even if this offset exists.
            facts: further metadata of this commit (rows by disposition, …).

        Raises:
            AccountingError: Spark delivered more or fewer rows to the batch than the source's log has.
        """
        self.prove()
        if offset is None:
            offset = self.progress.until
        info = self.describe().with_facts({CommitInfo.until.key: offset, **self._commits_read(offset), **facts})
        app_id = None
        if fenced and offset > self.progress.since:
            app_id = self.progress.app_id
        settings = Facts(info.user_metadata(), app_id, offset, private=self.flow.private)
        with override_settings(self.session, commit_settings.settings(settings)):
            yield

    def target_version(self) -> int:
        """Return the present version of the target; -1 before the first.

        Raises:
            SluicegateError: the target was restored since the offsets were read, which are ahead of its rows now.
        """
        # Opened anew on purpose: whether somebody has restored it since can only be seen in what it is now.
        target = tables.delta_table(self.flow.target)
        if target is None:
            return -1
        if offsets.restore_history(target).facts() != list(self.progress.restores):
            raise SluicegateError(
                f"{self.flow.table} was restored while it was being filled",
                where=Where(table=self.flow.table, file=self.flow.target),
                hint="run again: the next run restores the missing rows",
            )
        return target.version()

    def demand_not_overtaken(self) -> None:
        """Check before a write that no other run committed: Delta detects only commits since the write began.

        Raises:
            SluicegateError: the target changed since the offsets were read.
        """
        if self.target_version() != self.progress.seen:
            raise overtaken_error(self.flow.table, self.flow.target)

    def describe(self) -> CommitInfo:
        """Return what every commit of this batch says of itself."""
        flow, progress = self.flow, self.progress
        mode = BatchMode.INCREMENTAL
        if self.whole:
            mode = BatchMode.FULL_REFRESH
        info = CommitInfo.of({
            CommitInfo.layer: flow.layer, CommitInfo.table: flow.table, CommitInfo.mode: mode,
            CommitInfo.since: progress.since, CommitInfo.until: progress.until,
            CommitInfo.inputs: dict(progress.stamps), **self._sources(), CommitInfo.fingerprint: flow.fingerprint,
            CommitInfo.why: progress.why, CommitInfo.seen: progress.seen,
        })  # fmt: skip
        if_true: dict[Fact[Any], Any] = {
            CommitInfo.numbered: flow.policy.many or progress.of_many, CommitInfo.by_flow: progress.of_flows,
            CommitInfo.rules: flow.rules, CommitInfo.key: flow.key,
        }  # fmt: skip
        info = info.with_facts({fact.key: value for fact, value in if_true.items() if value})
        if self.choice:
            info = info.with_facts(self.choice.facts())
        if progress.restores:
            info = info.with_facts({CommitInfo.restores.key: progress.restores})
        return info.with_facts(self.facts)

    def _commits_read(self, offset: int) -> dict[str, Any]:
        """Return the identities of the commits read up to an offset, which may precede the batch's end."""
        if self.flow.streams or offset == self.progress.until:
            if self.commits_read:
                return {CommitInfo.commits.key: self.commits_read}
            return {}
        return {CommitInfo.commits.key: histories.facts(self.flow, replace(self.progress, until=offset), self.opened)}

    def _sources(self) -> dict[Fact[Any], Any]:
        """Return the source's ID, or the ID and offset of each flow's source."""
        if self.flow.streams:
            return {CommitInfo.streams: several_progress.facts(self.progress.streams)}
        source = self.opened[self.flow.source].delta
        if source:
            return {CommitInfo.source_id: tables.table_id(source)}
        return {}


def overtaken_error(table: str, uri: str) -> SluicegateError:
    """Return the error for a run that finds another run's commit in its target."""
    return SluicegateError(
        f"{table} was changed by another run while it was being filled",
        where=Where(table=table, file=uri),
        hint="run again: the next run repairs the unfinished batch",
    )


def raise_readable(error: BaseException, flow: Flow) -> NoReturn:
    """Raise an error of filling a table in readable form; see ``translate_error``.

    A trace shows Spark's error as its cause, unless that may quote personal data.
    """
    cause = None
    if not flow.private:
        cause = error
    raise translate_error(error, flow.layer, flow.table, private=flow.private) from cause
