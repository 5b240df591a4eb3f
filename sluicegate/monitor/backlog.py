"""Backlog: the tables that are behind their source, and which of them a run should have brought up to date.

A backlog is no fault. Read by delta-rs, from offsets and logs, without Spark; only ``unread`` lists landing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.console import files
from sluicegate.flow import flows
from sluicegate.flow.finding import Finding
from sluicegate.flow.model import Flow, Progress, name_of
from sluicegate.flow.progress import progress
from sluicegate.lake import layout, log, tables
from sluicegate.lake.table import Table, Tables
from sluicegate.landing import discovery, moved_files
from sluicegate.landing import ledger as landing_ledger

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
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

    def missed(self) -> Iterator[tuple[str, log.Commit]]:
        """Commits of the source and of the lookups that it has not taken in, each with its table's name."""
        for uri, (since, until) in self.now.spans(self.flow).items():
            table = tables.delta_table(uri) if since < until else None
            if table is None:
                continue
            for commit in log.commits(table, table.version() - since):
                if since < commit.version <= until:
                    yield name_of(uri), commit

    def finding(self, pipeline: str) -> Finding:
        """Finding of kind ``behind`` for a verification."""
        return Finding("behind", self.table, self.what, f"sluicegate run {pipeline}")


def waiting(pipeline: Pipeline, settings: Settings) -> list[Waiting]:
    """Tables that are behind their sources; files that landed and are not in the ledger do not count."""
    at = layout.Lake(settings.lake, pipeline.name)
    found, opened = [], flows.all_opened(pipeline, at)
    for layer in layout.LAYERS:
        for flow in flows.flows(pipeline, at, layer, opened).values():
            now = progress(flow, opened)
            if now.waits or (now.kind == "blocked" and any(opened[uri].rows for uri in flow.sources)):
                found.append(Waiting(flow, now, *_what(flow, now, opened)))
    return found


def findings(pipeline: Pipeline, settings: Settings) -> list[Finding]:
    """Backlog as findings of a verification."""
    return [one.finding(pipeline.name) for one in waiting(pipeline, settings)]


def overdue(found: list[Waiting], began: datetime, own: Callable[[str, log.Commit], bool]) -> list[Waiting]:
    """Tables of a backlog that a run over everything should have brought up to date.

    What other runs committed meanwhile is left to them; what was there when the run began, or is the run's own, was
    due. A ledger batch of files is due in any case: only the job that enters it reads it, unless that job was killed.

    Args:
        found: the tables that are behind.
        began: when the run began.
        own: whether a commit of a table, by its name, is that run's.
    """

    def due(one: Waiting) -> bool:
        if one.now.kind == "blocked":
            return False
        if one.flow.layer == "bronze" and not one.flow.foreign:
            return True
        before = began.timestamp() * 1000
        return any(commit.timestamp < before or own(table, commit) for table, commit in one.missed())

    return [one for one in found if due(one)]


def unread(pipeline: Pipeline, settings: Settings, began: datetime) -> dict[str, str]:
    """Bronze tables with files that landed before a run which entered none: by name, how many, in words."""
    at = layout.Lake(settings.lake, pipeline.name)
    found = {}
    for name, table in pipeline.bronze.items():
        ledger = tables.delta_table(at.ledger(name)) if table.of_files else None
        last = next(log.commits(ledger, 1), None) if ledger is not None else None
        if not table.of_files or (last is not None and last.timestamp >= began.timestamp() * 1000):
            continue
        times = discovery.discover(name, table, at).new["modification_time"]
        count = sum(time < began for time in times.to_pylist())
        if count:
            found[name] = f"{files(count)} that landed before it are not read"
    return found


def _what(flow: Flow, now: Progress, opened: Tables) -> tuple[str, int]:
    """What waits for a table, in words, and how much."""
    if flow.streams:
        return _what_of_streams(flow, now, opened)
    source, name = opened[flow.source], name_of(flow.source)
    if flow.layer == "bronze" and not flow.foreign:
        count = _entered(source, max(now.since, 0))
        if flow.of_topics:
            return f"{count:,} {'range waits' if count == 1 else 'ranges wait'} that its ledger has", count
        return f"{files(count)} of its ledger {'waits' if count == 1 else 'wait'}", count
    first = opened[flow.target].delta is None
    count = _records(source, now, first=first) if now.since < now.until or first else 0
    rows = f"{count:,} {'row' if count == 1 else 'rows'} of {name} {'waits' if count == 1 else 'wait'}"
    why = f" ({now.why})" if now.why else ""
    if first:
        return f"it does not exist, and {rows}{why}", count
    return rows + why if count else f"it is behind {name}{why}", count


def _what_of_streams(flow: Flow, now: Progress, opened: Tables) -> tuple[str, int]:
    """What waits for a table that several flows fill: the rows of each of their sources."""
    first, waiting, all_ = opened[flow.target].delta is None, [], 0
    for name, one in now.streams.items():
        source = opened[flow.streams[name]]
        if one.work or first or now.kind == "whole":
            at = Progress("incremental", one.since, one.until)
            count = _records(source, at, first=first or one.whole or now.kind == "whole")
            all_ += count
            waiting += [f"{count:,} {'row' if count == 1 else 'rows'} of {name_of(source.uri)}"] if count else []
    rows = f"{' and '.join(waiting)} wait" if waiting else "it is behind"
    return f"{'it does not exist, and ' if first else ''}{rows}{f' ({now.why})' if now.why else ''}", all_


def _records(source: Table, now: Progress, *, first: bool) -> int:
    """Rows of the source that the target has not taken in, as the source's log counts what was written."""
    if source.delta is None or now.since < 0 or first:
        return source.rows
    found = log.commits(source.delta, source.version - now.since)
    return sum(commit.rows_written or 0 for commit in found if commit.version > now.since)


def _entered(ledger: Table, offset: int) -> int:
    """Files of chunks that bronze has not passed."""
    if ledger.delta is None:
        return 0
    entries = tables.above(ledger.delta, "chunk", offset).to_table(["action"])
    return int(
        pc.sum(pc.invert(pc.is_in(entries["action"], pa.array([landing_ledger.SKIP, moved_files.MOVED])))).as_py() or 0
    )
