"""The graph of a pipeline as of a run: landing, tables by layer, lookups and quarantine, with what each took in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sluicegate.console import files
from sluicegate.dashboard import batches, discarded, overview, runs, techniques
from sluicegate.dashboard.batches import Balance, CommittedBatch
from sluicegate.dashboard.overview import PipelineBacklog
from sluicegate.dashboard.runs import DagRun, PipelineRun
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.monitor import status
from sluicegate.monitor.plan import Pending, TableState, TableWork

if TYPE_CHECKING:
    from sluicegate.dashboard.source import Source
    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.monitor.status import TableFacts

    Tables = Mapping[tuple[str, str], tuple["Node", TableFacts | None]]


@dataclass(frozen=True)
class Node:
    """A landing folder, a table, a view or a quarantine.

    Attributes:
        name: its name; of a landing folder, the path in the definition.
        kind: ``landing``, ``bronze``, ``silver``, ``gold``, ``view`` or ``quarantine``.
        table: the table that it belongs to: its own, for landing the bronze table, for quarantine the silver table.
        state: as ``sluicegate status`` has it, where ``waits`` stands for what it waits for, which the sentence says;
            or ``running``, ``failed``, ``no table`` or ``broken``; of a folder whether files wait.
        sentence: what is the matter, in words.
        rows: rows in it now; None in a graph of the past.
        version: its Delta version.
        changed: when the chosen run last changed it; of one that it did not touch, when any run did, or None in a graph
            of the past.
        balance: where the records are that the chosen run read; None if it did not touch the table.
        files: files that the run read (bronze).
        strategy: its refresh strategy, as planned (gold).
        because: why it has this one (gold).
        technique: how the run refreshed it (gold).
        differs: why the run refreshed it otherwise than planned, or made all of its rows again.
        step: state of the task that makes it, while the run is under way.
        seconds: seconds that the run took for it.
        rejected: rows for which its newest batch was refused.
        failed: files that the run could not read (bronze).
    """

    name: str
    kind: str
    table: str
    state: str = ""
    sentence: str = ""
    rows: int | None = None
    version: int | None = None
    changed: datetime | None = None
    balance: Balance | None = None
    files: int = 0
    strategy: str = ""
    because: str = ""
    technique: str = ""
    differs: str = ""
    step: str = ""
    seconds: float | None = None
    rejected: int = 0
    failed: int = 0
    comment: str = ""

    @property
    def key(self) -> str:
        """What it is called among the nodes of the graph."""
        if self.kind in (*LAYERS, "view"):
            return self.table
        return f"{self.kind}:{self.table}"


@dataclass(frozen=True)
class Edge:
    """What flows from one node to another: ``stream``, ``lookup`` or ``quarantine``."""

    source: str
    target: str
    kind: str


@dataclass(frozen=True)
class Graph:
    """A pipeline as of a run.

    Attributes:
        pipeline: its name.
        description: what it is for.
        nodes: its nodes, by layer and in the order in which they are made.
        edges: what flows between them.
        runs: its runs to choose from, newest first, without their batches.
        run: the chosen one, with its batches; None if there is none.
        backlog: what waits now.
        past: whether the chosen run is an earlier one that has ended, so that what the tables have now is left out.
    """

    pipeline: str
    description: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    runs: tuple[PipelineRun, ...]
    run: PipelineRun | None
    backlog: PipelineBacklog
    past: bool = False


def graph(source: Source, pipeline: Pipeline, dag_runs: Sequence[DagRun], key: str | None = None) -> Graph:
    """Return the graph as of a run, by default the newest that changed something.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        dag_runs: its runs in Airflow, that of ``key`` with its tasks and durations.
        key: key of the run.
    """
    source.open_together(source.lake(pipeline).table(layer, name) for layer in LAYERS for name in pipeline.names(layer))
    until = source.deadline()
    overview.pending_work(source, pipeline, 0.0)  # it is listed while the tables are looked at
    last = runs.group_batches(batches.newest_batches(source, pipeline), dag_runs)
    run = runs.choose_run(last, key)
    tables = {place: _node(source, pipeline, *place) for place in _ordered_tables(pipeline)}
    waiting = overview.pending_work(source, pipeline, until)
    nodes = tuple(_nodes(source, pipeline, tables, run, waiting.value))
    past = run is not None and not run.is_running and run is not runs.choose_run(last, None)
    if past:
        nodes = tuple(map(_as_run_left, nodes))
    last_runs = tuple(replace(last_run, batches=()) for last_run in last)
    backlog = overview.backlog_from_answer(waiting)
    return Graph(pipeline.name, pipeline.description, nodes, tuple(_edges(pipeline)), last_runs, run, backlog, past)


def _as_run_left(node: Node) -> Node:
    """Remove the present state of a table from its node: later runs may have changed it."""
    state = ""
    if node.balance is not None:
        state = "written"
    elif node.kind in LAYERS:
        state = _STEP_STATES.get(node.step, "unchanged")
    changed = node.changed if node.balance is not None else None
    return replace(node, state=state, sentence="", rows=None, version=None, changed=changed, rejected=0)


# States of a table that a run did not change, by those of the task that makes it.
_STEP_STATES = {"failed": "failed", "upstream_failed": "not run", "skipped": "skipped"}


def _ordered_tables(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield layer and name of each table, in the order in which a run writes them."""
    for layer in LAYERS:
        copies = (name for name in pipeline.names(layer) if name in pipeline.deidentified_tables)
        yield from ((layer, name) for name in (*pipeline.in_order(layer), *copies))


def _nodes(
    source: Source, pipeline: Pipeline, tables: Tables, run: PipelineRun | None, waiting: Pending | None
) -> Iterator[Node]:
    lake = source.lake(pipeline)
    works = {work.table: work for work in (waiting.tables if waiting is not None else ())}
    for name, table in pipeline.bronze.items():
        of_run = _table_run(run, name)
        state = _folder_state(works.get(name))
        yield Node(place_of(table), "landing", name, state, files=of_run.files, failed=of_run.failed)
    for name in pipeline.views:
        yield Node(name, "view", name)
    for (layer, name), (node, has) in tables.items():
        of_run = _table_run(run, name)
        step = ""
        if run is not None:
            step = run.step(layer)
        yield _add_run(_add_state(replace(node, step=step), works.get(name)), of_run)
        if has is not None and has.quarantined:
            rows = discarded.waiting_rows(source, lake, name)
            yield Node("quarantine", "quarantine", name, rows=rows, balance=of_run.balance)


def _folder_state(work: TableWork | None) -> str:
    if work is None:
        return ""
    if work.state == TableState.UNASKED:
        return TableState.UNASKED
    if work.waits:
        return TableState.BEHIND
    return TableState.UP_TO_DATE


def _add_state(node: Node, work: TableWork | None) -> Node:
    """Add the worst state of its table to a node, which is up to date while landing is being listed."""
    if node.state:
        return node
    if node.step == "running":
        return replace(node, state="running")
    if work is not None and work.failed:
        return replace(node, state="failed files", sentence=f"{files(work.failed)} could not be read")
    if work is not None and work.state == TableState.BLOCKED:
        return replace(node, state="waits", sentence=work.progress.why)
    return replace(node, state=work.state if work is not None else TableState.UP_TO_DATE)


def place_of(table: BronzeTable) -> str:
    """Return the folder, table or topics that a bronze table reads."""
    if table.kafka is None:
        return table.path or ""
    return table.kafka.topic or table.kafka.topic_pattern or ", ".join(table.kafka.topics or ())


def _node(source: Source, pipeline: Pipeline, layer: str, name: str) -> tuple[Node, TableFacts | None]:
    """Return the node of a table with its problems, and its facts, which are None if it cannot be read."""
    comment = ""
    if name not in pipeline.deidentified_tables:
        comment = pipeline.table(name)[1].comment
    try:
        has = status.facts(source.table_handles(), source.lake(pipeline), layer, name)
    except SluicegateError as error:
        return Node(name, layer, name, "broken", error.message, comment=comment), None
    if has.version is None:
        return Node(name, layer, name, "no table", "not created yet", comment=comment), has
    refused = ""
    if has.rejected:
        refused = f"its newest batch was refused for {has.rejected:,} rows"
    return Node(
        name, layer, name, "failed" if refused else "", refused, has.rows, has.version, has.changed,
        rejected=has.rejected, comment=comment,
    ), has  # fmt: skip


@dataclass(frozen=True)
class _OfRun:
    balance: Balance | None = None
    files: int = 0
    failed: int = 0
    last: CommittedBatch | None = None
    seconds: float | None = None


def _table_run(run: PipelineRun | None, name: str) -> _OfRun:
    """Return the part of a run that concerns one table."""
    if run is None:
        return _OfRun()
    commits, seconds = run.table_batches(name), run.table_seconds(name)
    if not commits:
        return _OfRun(seconds=seconds)
    files_read, failed = sum(batch.files for batch in commits), sum(batch.failed for batch in commits)
    return _OfRun(batches.total_balance(commits), files_read, failed, commits[-1], seconds)


def _add_run(node: Node, of_run: _OfRun) -> Node:
    if of_run.last is None:
        return node
    return replace(
        node, changed=of_run.last.time, balance=of_run.balance, files=of_run.files, seconds=of_run.seconds,
        technique=of_run.last.technique, strategy=of_run.last.strategy, because=of_run.last.because,
        differs=techniques.difference_reason(of_run.last),
    )  # fmt: skip


def _edges(pipeline: Pipeline) -> Iterator[Edge]:
    for name in pipeline.bronze:
        yield Edge(f"landing:{name}", name, "stream")
    for layer in ("silver", "gold"):
        for name in pipeline.names(layer):
            streams = _streams(pipeline, name)
            for read in pipeline.names_in(name):
                yield Edge(read, name, "stream" if read in streams else "lookup")
    for name in pipeline.views:
        yield from (Edge(read, name, "stream") for read in pipeline.names_in(name))
    for name in pipeline.silver:
        yield Edge(name, f"quarantine:{name}", "quarantine")


def _streams(pipeline: Pipeline, name: str) -> list[str]:
    """List the tables that a table streams, without those that it only joins."""
    if name in pipeline.silver:
        return pipeline.silver[name].streams
    if name in pipeline.gold:
        return [*pipeline.names_in(name)[:1]]
    return pipeline.reads(name)
