"""Backlog: the tables that are behind their source, and which of them a run should have brought up to date.

A backlog is no fault. Read by delta-rs, from offsets and logs, without Spark; only ``unread_files`` lists landing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.console import files, inflect, quantity
from sluicegate.definition import Pipeline
from sluicegate.flow import flows
from sluicegate.flow.model import Flow, Progress, ProgressKind, name_of
from sluicegate.flow.progress import progress
from sluicegate.flow.verification.finding import Finding, FindingKind
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.landing import discovery
from sluicegate.landing.file_states import LedgerAction
from sluicegate.settings import Settings


@dataclass(frozen=True)
class Waiting:
    """Backlog of one table.

    Attributes:
        flow: the table's flow.
        now: its progress: offsets, and the versions to take in.
        what: what waits, as a part of a sentence.
        count: how much: files of bronze (ranges of offsets for Kafka), rows of others.
    """

    flow: Flow
    now: Progress
    what: str
    count: int = 0

    @property
    def table(self) -> str:
        """Name of the table."""
        return self.flow.table

    def missed_commits(self) -> Iterator[tuple[str, log.Commit]]:
        """Yield the commits of the source and of the lookups that it has not taken in, each with its table's name."""
        for uri, (since, until) in self.now.unprocessed_versions(self.flow).items():
            if since < until and (table := tables.delta_table(uri)) is not None:
                commits = log.commits(table, table.version() - since)
                yield from ((name_of(uri), commit) for commit in commits if since < commit.version <= until)

    def finding(self, pipeline: str) -> Finding:
        """Return the finding of kind ``behind`` for a verification."""
        return Finding(FindingKind.BEHIND, self.table, self.what, f"sluicegate run {pipeline}")


def waiting_tables(pipeline: Pipeline, settings: Settings) -> list[Waiting]:
    """Return the tables that are behind their sources; files that landed and are not in the ledger do not count."""
    lake = layout.Lake(settings.lake, pipeline.name)
    behind, opened = [], flows.open_all_tables(pipeline, lake)
    for layer in layout.LAYERS:
        for flow in flows.flows(pipeline, lake, layer, opened).values():
            flow_progress = progress(flow, opened)
            blocked = flow_progress.kind == ProgressKind.BLOCKED and any(opened[uri].rows for uri in flow.sources)
            if flow_progress.has_waiting_changes or blocked:
                behind.append(Waiting(flow, flow_progress, *_describe_waiting(flow, flow_progress, opened)))
    return behind


def findings(pipeline: Pipeline, settings: Settings) -> list[Finding]:
    """Return the backlog as findings of a verification."""
    return [wait.finding(pipeline.name) for wait in waiting_tables(pipeline, settings)]


def overdue_tables(waits: list[Waiting], began: datetime, is_own: Callable[[str, log.Commit], bool]) -> list[Waiting]:
    """Return the tables of a backlog that a run over everything should have brought up to date.

    What other runs committed meanwhile is left to them; what was there when the run began, or is the run's own, was
    due. A ledger batch of files is due in any case: only the job that enters it reads it, unless that job was killed.

    Args:
        waits: the tables that are behind.
        began: when the run began.
        is_own: whether a commit of a table, by its name, is that run's.
    """

    def is_due(wait: Waiting) -> bool:
        if wait.now.kind == ProgressKind.BLOCKED:
            return False
        if wait.flow.layer == "bronze" and not wait.flow.has_foreign_source:
            return True
        before = began.timestamp() * 1000
        return any(commit.timestamp < before or is_own(table, commit) for table, commit in wait.missed_commits())

    return [wait for wait in waits if is_due(wait)]


def unread_files(pipeline: Pipeline, settings: Settings, began: datetime) -> dict[str, str]:
    """Bronze tables with files that landed before a run which entered none: by name, how many, in words."""
    lake = layout.Lake(settings.lake, pipeline.name)
    counts = {}
    for name, table in pipeline.bronze.items():
        if not table.reads_files:
            continue
        ledger, began_ms = tables.delta_table(lake.ledger(name)), began.timestamp() * 1000
        if ledger is not None and any(commit.timestamp >= began_ms for commit in log.commits(ledger, 1)):
            continue
        times = discovery.discover(name, table, lake).new["modification_time"]
        count = sum(time < began for time in times.to_pylist())
        if count:
            counts[name] = f"{files(count)} that landed before it are not read"
    return counts


def _describe_waiting(flow: Flow, flow_progress: Progress, opened: Tables) -> tuple[str, int]:
    """Return what waits for a table, in words, and how much."""
    if flow.streams:
        return _describe_streams(flow, flow_progress, opened)
    source, name = opened[flow.source], name_of(flow.source)
    if flow.layer == "bronze" and not flow.has_foreign_source:
        count = _entered_files(source, max(flow_progress.since, 0))
        wait = inflect(count, "waits", "wait")
        if flow.policy.of_topics:
            return f"{quantity(count, 'range')} {wait} that its ledger has", count
        return f"{files(count)} of its ledger {wait}", count
    first = opened[flow.target].delta is None
    count = 0
    if flow_progress.since < flow_progress.until or first:
        count = _records(source, flow_progress, first=first)
    rows = f"{quantity(count, 'row')} of {name} {inflect(count, 'waits', 'wait')}"
    if first:
        sentence = f"it does not exist, and {rows}"
    elif count:
        sentence = rows
    else:
        sentence = f"it is behind {name}"
    return _add_reason(sentence, flow_progress), count


def _describe_streams(flow: Flow, flow_progress: Progress, opened: Tables) -> tuple[str, int]:
    """Return what waits for a table that several flows fill: the rows of each of their sources."""
    first, waiting, all_ = opened[flow.target].delta is None, [], 0
    whole = first or flow_progress.kind == ProgressKind.FULL_REFRESH
    for name, stream in flow_progress.streams.items():
        source = opened[flow.streams[name]]
        if stream.has_work or whole:
            of_stream = Progress(ProgressKind.INCREMENTAL, stream.since, stream.until)
            count = _records(source, of_stream, first=whole or stream.is_whole)
            all_ += count
            if count:
                waiting.append(f"{quantity(count, 'row')} of {name_of(source.uri)}")
    sentence = "it is behind"
    if waiting:
        sentence = f"{' and '.join(waiting)} wait"
    if first:
        sentence = f"it does not exist, and {sentence}"
    return _add_reason(sentence, flow_progress), all_


def _add_reason(sentence: str, flow_progress: Progress) -> str:
    if flow_progress.why:
        return f"{sentence} ({flow_progress.why})"
    return sentence


def _records(source: Table, flow_progress: Progress, *, first: bool) -> int:
    """Count the rows of the source that the target has not taken in, as the source's log counts what was written."""
    if source.delta is None or flow_progress.since < 0 or first:
        return source.rows
    commits = log.commits(source.delta, source.version - flow_progress.since)
    return sum(commit.rows_written or 0 for commit in commits if commit.version > flow_progress.since)


def _entered_files(ledger: Table, offset: int) -> int:
    """Return the number of files in chunks that bronze has not passed."""
    if ledger.delta is None:
        return 0
    entries = tables.rows_above(ledger.delta, "chunk", offset).to_table(["action"])
    unread = pc.is_in(entries["action"], pa.array([LedgerAction.SKIP, LedgerAction.MOVED]))
    return int(entries.num_rows - (pc.sum(unread).as_py() or 0))
