"""One run: what was requested, its steps, where its records are, and how it compares with runs before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate.dashboard import batches, runs, techniques
from sluicegate.dashboard.batches import Balance, CommittedBatch
from sluicegate.dashboard.runs import DagRun, PipelineRun
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import PipelineMissing, UserError

UNUSUAL = 0.3
"""Share by which the rows of a table differ from the usual number, above which the page says so."""


@dataclass(frozen=True)
class TableOfRun:
    """A table that a run changed.

    Attributes:
        layer: its layer.
        table: its name.
        balance: where the records are that the run read for it.
        batches: its commits.
        seconds: seconds that it took.
        usual: rows that the runs before wrote, as their median.
        before: where the records are that the last run before it that changed a table read for this one.
        differs: why its last batch was made otherwise than its refresh strategy says (gold), or why all of its rows
            were made again.
    """

    layer: str
    table: str
    balance: Balance
    batches: tuple[CommittedBatch, ...]
    seconds: float | None
    usual: float | None
    before: Balance | None = None
    differs: str = ""

    @property
    def unusual(self) -> float | None:
        """By which share its rows differ from the usual number; None if that is little, or not known."""
        if not self.usual:
            return None
        more = self.balance.written - self.usual
        if abs(more) > UNUSUAL * self.usual:
            return more / self.usual
        return None


@dataclass(frozen=True)
class RunDetails:
    """One run.

    Attributes:
        pipeline: its pipeline.
        run: the run, with its tasks.
        tables: the tables that it changed, in the order of their layers.
        before: key of the run before it.
        after: key of the run after it.
        compared: the last run before it that changed a table, which it is shown beside.
        until: seconds from the beginning of the run to the last commit of each layer that it changed, without its wait
            for files.
    """

    pipeline: str
    run: PipelineRun
    tables: tuple[TableOfRun, ...]
    before: str | None
    after: str | None
    compared: PipelineRun | None
    until: Mapping[str, float]


def run_details(source: Source, pipeline: Pipeline, dag_runs: Sequence[DagRun], key: str) -> RunDetails:
    """Return one run with its tables and tasks.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        dag_runs: runs in Airflow, that of ``key`` with its tasks and durations.
        key: key of the run.

    Raises:
        PipelineMissing: unknown run.
    """
    all_runs = runs.group_batches(batches.newest_batches(source, pipeline), dag_runs)
    run = runs.choose_run(all_runs, key)
    if run is None:
        raise PipelineMissing("unknown run")
    place = all_runs.index(run)
    compared = next((earlier for earlier in all_runs[place + 1 :] if earlier.batches), None)
    names = dict.fromkeys((batch.layer, batch.table) for batch in run.batches)
    order = sorted(names, key=lambda name: LAYERS.index(name[0]))
    tables = tuple(_table(all_runs, run, compared, layer, table) for layer, table in order)
    before = None
    if place + 1 < len(all_runs):
        before = all_runs[place + 1].key
    last = {batch.layer: batch.time for batch in run.batches}
    until: dict[str, float] = {layer: run.seconds_until(last[layer]) or 0.0 for layer in LAYERS if layer in last}
    after = all_runs[place - 1].key if place else None
    return RunDetails(pipeline.name, run, tables, before, after, compared, until)


def find_run(source: Source, pipeline: Pipeline, run: str | None) -> RunDetails:
    """Find a run among the commits by its key or id.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        run: key or id of the run.

    Raises:
        UserError: unknown run among the last ones.
    """
    all_runs = runs.group_batches(batches.newest_batches(source, pipeline))
    match = next((candidate for candidate in all_runs if run in (candidate.key, candidate.run_id)), None)
    if match is None:
        newest = ", ".join(candidate.key for candidate in all_runs[:3]) or "none"
        raise UserError(f"unknown run {run} among the last runs of {pipeline.name}", hint=f"its last runs: {newest}")
    return run_details(source, pipeline, (), match.key)


def _table(
    all_runs: Sequence[PipelineRun], run: PipelineRun, compared: PipelineRun | None, layer: str, table: str
) -> TableOfRun:
    of_table = run.table_batches(table)
    before = None
    if compared is not None and compared.table_batches(table):
        before = compared.balance(table)
    usual_rows = runs.usual_rows(all_runs, run, table)
    reason = techniques.difference_reason(of_table[-1])
    return TableOfRun(
        layer, table, batches.total_balance(of_table), of_table, run.table_seconds(table), usual_rows, before, reason
    )
