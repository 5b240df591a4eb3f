"""The graph of a pipeline as of a run: landing, tables by layer, lookups and quarantine, with what each took in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sluicegate.definition.table import LAYERS
from sluicegate.errors import SluicegateError
from sluicegate.monitor.views import batches, discarded, overview, runs, techniques
from sluicegate.monitor.views.batches import Balance, Batch
from sluicegate.monitor.views.overview import Backlog
from sluicegate.monitor.views.runs import DagRun, Run

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.monitor.views.source import Source


@dataclass(frozen=True)
class Node:
    """A landing folder, a table, a view or a quarantine.

    Attributes:
        name: its name; of a landing folder, the path in the definition.
        kind: ``landing``, ``bronze``, ``silver``, ``gold``, ``view`` or ``quarantine``.
        table: the table that it belongs to: its own, for landing the bronze table, for quarantine the silver table.
        state: ``up to date``, ``behind``, ``failed``, ``no table``, ``broken``, or of a folder whether files wait.
        sentence: what is the matter, in words.
        rows: rows in it now.
        version: its Delta version.
        changed: when the chosen run last changed it; else when any run did.
        balance: where the records are that the chosen run read; None if it did not touch the table.
        files: files that the run read (bronze).
        strategy: its refresh strategy, as planned (gold).
        because: why it has this one (gold).
        technique: how the run refreshed it (gold).
        differs: why the run refreshed it otherwise than planned, or made all of its rows again.
        step: state of the task that makes it, while the run is under way.
        seconds: seconds that the run took for it.
        rejected: rows for which its newest batch was refused.
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
    comment: str = ""

    @property
    def key(self) -> str:
        """What it is called among the nodes of the graph."""
        return self.table if self.kind in (*LAYERS, "view") else f"{self.kind}:{self.table}"


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
    """

    pipeline: str
    description: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    runs: tuple[Run, ...]
    run: Run | None
    backlog: Backlog


def graph(source: Source, pipeline: Pipeline, dag_runs: Sequence[DagRun], key: str | None = None) -> Graph:
    """The graph as of a run, by default the newest that changed something.

    Args:
        source: where things are.
        pipeline: the definition.
        dag_runs: its runs in Airflow; that of ``key`` with its tasks and seconds.
        key: key of the run.
    """
    last = runs.of_batches(batches.so_far(source, pipeline, runs.running(dag_runs)), dag_runs)
    run = runs.chosen(last, key)
    waiting = overview.backlog(source, pipeline)
    nodes = tuple(_nodes(source, pipeline, run, waiting))
    known = tuple(replace(one, batches=()) for one in last)
    return Graph(pipeline.name, pipeline.description, nodes, tuple(_edges(pipeline)), known, run, waiting)


def _nodes(source: Source, pipeline: Pipeline, run: Run | None, waiting: Backlog) -> Iterator[Node]:
    at = source.lake(pipeline)
    for name, table in pipeline.bronze.items():
        state = "behind" if name in waiting.behind else "up to date" if waiting.since else ""
        yield Node(place_of(table), "landing", name, state, files=_of(run, name).files)
    for name in pipeline.views:
        yield Node(name, "view", name)
    for layer in LAYERS:
        for name in [
            *pipeline.in_order(layer),
            *(n for n in pipeline.names(layer) if n in pipeline.deidentified_tables),
        ]:
            node = _node(source, pipeline, at.table(layer, name), layer, name)
            of_run = _of(run, name)
            behind = name in waiting.behind
            step = run.step(layer) if run is not None else ""
            state = node.state or ("running" if step == "running" else "behind" if behind else "up to date")
            yield _with_run(replace(node, state=state, step=step), of_run)
            if name in pipeline.silver and source.rows(at.quarantine(name)):
                rows = discarded.waiting(source, at, name)
                yield Node("quarantine", "quarantine", name, rows=rows, balance=of_run.balance)


def place_of(table: BronzeTable) -> str:
    """Where a bronze table reads from: a folder, a table, or topics."""
    if table.kafka is None:
        return table.path or ""
    return table.kafka.topic or table.kafka.topic_pattern or ", ".join(table.kafka.topics or ())


def _node(source: Source, pipeline: Pipeline, uri: str, layer: str, name: str) -> Node:
    comment = "" if name in pipeline.deidentified_tables else pipeline.table(name)[1].comment
    try:
        table = source.table(uri)
        if table is None:
            return Node(name, layer, name, "no table", "no run has made it yet", comment=comment)
        rejected = source.rows(f"{uri}_rejected")
        return Node(
            name, layer, name, "failed" if rejected else "",
            f"its newest batch was refused for {rejected:,} rows" if rejected else "",
            source.rows(uri), table.version(), rejected=rejected, comment=comment,
        )  # fmt: skip
    except SluicegateError as error:
        return Node(name, layer, name, "broken", error.message, comment=comment)


@dataclass(frozen=True)
class _OfRun:
    balance: Balance | None = None
    files: int = 0
    last: Batch | None = None
    seconds: float | None = None


def _of(run: Run | None, name: str) -> _OfRun:
    """What a run did for a table."""
    own = run.of(name) if run is not None else ()
    reported = run.dag_run.seconds.get(name) if run is not None and run.dag_run is not None else None
    if not own:
        return _OfRun(seconds=reported)
    took = [batch.seconds for batch in own if batch.seconds is not None]
    return _OfRun(
        batches.total(own), sum(batch.files for batch in own), own[-1],
        reported if reported is not None else sum(took) if took else None,
    )  # fmt: skip


def _with_run(node: Node, found: _OfRun) -> Node:
    if found.last is None:
        return node
    return replace(
        node, changed=found.last.time, balance=found.balance, files=found.files, seconds=found.seconds,
        technique=found.last.technique, strategy=found.last.strategy, because=found.last.because,
        differs=techniques.differs(found.last),
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
    """Tables whose rows a table is made of; the others that it reads are joined to these."""
    if name in pipeline.silver:
        return pipeline.silver[name].streams
    if name in pipeline.gold:
        return [*pipeline.names_in(name)[:1]]
    return pipeline.reads(name)
