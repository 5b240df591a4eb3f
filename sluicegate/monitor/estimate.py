"""Estimate of what a run would read and change for a gold table, from logs alone: no Spark, nothing written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from sqlglot import exp

from sluicegate.console import human_bytes, quantity
from sluicegate.definition import GoldTable, Pipeline
from sluicegate.errors import SluicegateError, StoreRefused, StoreUnreachable
from sluicegate.flow import refresh_cost, thresholds
from sluicegate.flow.flows import open_all_tables
from sluicegate.flow.model import Flow, Progress, ProgressKind, name_of
from sluicegate.flow.refresh_cost import RefreshCost, Technique, TechniqueChoice, Work
from sluicegate.lake import tables as lake_tables
from sluicegate.lake.commits import commit_stats
from sluicegate.lake.layout import Lake
from sluicegate.landing import former_dialect
from sluicegate.monitor import removed_flows
from sluicegate.monitor.outdated import Outdated, find_outdated
from sluicegate.monitor.plan import Pending, pending, pending_without_lake
from sluicegate.settings import Settings
from sluicegate.spark_sql.refresh.group_by import Grouped
from sluicegate.spark_sql.refresh.strategy import RefreshStrategy
from sluicegate.spark_sql.refresh.strategy_kind import BY_ROW_DELTAS, StrategyKind
from sluicegate.spark_sql.tokens import QuerySyntax, parse_sql
from sluicegate.storage.store_errors import translate_errors

# Changes of at most so many bytes are read to count the groups that they touch; it takes a second or so.
BYTES_COUNTED = 32_000_000

# How many times the present rows the tables have for which ``plan`` says what a run would do.
LARGER = 10


@dataclass(frozen=True)
class Touched:
    """Estimate for one gold table.

    Attributes:
        rows: rows of the source inserted, deleted or updated since the last run; None if its log no longer tells.
        reads: bytes of data that the run reads of the pipeline's tables.
        all_of: tables that are read whole; none if the change feed is enough.
        why: why they are read whole where the changes could be enough.
        groups: groups that it would touch; None where all are computed again, or nothing is known.
        exact: whether ``groups`` is exact; otherwise it is an upper bound.
        choice: technique that the run will probably take, with the seconds of each; None if it cannot be foreseen.
    """

    rows: int | None
    reads: int
    all_of: tuple[str, ...] = ()
    why: str = ""
    groups: int | None = None
    exact: bool = False
    choice: TechniqueChoice | None = None

    def facts(self) -> dict[str, Any]:
        """Return the estimate as JSON facts."""
        return {
            "rows_changed": self.rows, "bytes_read": self.reads, "reads_all_of": list(self.all_of),
            "groups": self.groups, "groups_exact": self.exact if self.groups is not None else None,
            "cost": self.choice.facts() if self.choice is not None else None,
        }  # fmt: skip

    def __str__(self) -> str:
        """Estimate in words."""
        parts = []
        if self.rows is not None:
            parts.append(f"{quantity(self.rows, 'row')} changed")
        if self.all_of:
            reason = self.why and f" ({self.why})"
            parts.append(f"reads all {human_bytes(self.reads)} of {', '.join(self.all_of)}{reason}")
        else:
            parts.append(f"reads {human_bytes(self.reads)} of changes")
        if self.groups is not None:
            parts.append(f"touches {'' if self.exact else 'at most '}{quantity(self.groups, 'group')}")
        if self.choice is not None:
            parts.append(f"takes {self.choice}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Plan(Pending):
    """What a run would do: what waits, and what it would read and touch for gold.

    Attributes:
        touched: the estimates of ``estimate_refreshes``, by the names of gold tables.
        outdated: the tables that have rows of a former definition, by name.
        remarks: what to tell besides of tables that a run would read in another way than before.
        landing: what to tell of landed files that are taken away.
        deleted: rows that a run deletes, by table and by the name of the flow that made them and is no more.
        larger: techniques of gold tables for ``LARGER`` times their rows, by name.
    """

    touched: Mapping[str, Touched] = field(default_factory=dict)
    outdated: Mapping[str, Outdated] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    landing: Sequence[str] = ()
    deleted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    larger: Mapping[str, TechniqueChoice] = field(default_factory=dict)

    @property
    def problems(self) -> dict[str, SluicegateError]:
        """Why it is not known what waits, by table."""
        return {work.table: work.problem for work in self.tables if work.problem is not None}


def plan(pipeline: Pipeline, settings: Settings, *, partly: bool = False) -> Plan:
    """Return what waits for a pipeline, with an estimate for each gold table that is behind.

    Args:
        pipeline: the definition.
        settings: where things are.
        partly: whether to go on where landing or the lake cannot be reached, and say so in ``problems``.

    Raises:
        LandingMissing: a landing folder, or the Delta table that a bronze table reads, does not exist.
        NotADeltaTable: there are files, but no table, where a table should be.
    """
    try:
        with translate_errors():
            lake = Lake(settings.lake, pipeline.name)
            opened = open_all_tables(pipeline, lake)
            waiting = pending(pipeline, settings, opened, partly=partly)
            former = find_outdated(pipeline, waiting, opened)
            remarks = former_dialect.remarks(pipeline, lake, opened)
            silver = [work for work in waiting.tables if work.layer == "silver"]
            deleted = {work.table: removed_flows.deleted_rows(work.flow, work.progress, opened) for work in silver}
            choices = {work.table: larger(pipeline.gold[work.table], work.flow)
                       for work in waiting.tables if work.layer == "gold"}  # fmt: skip
            return Plan(
                waiting.tables, estimate_refreshes(pipeline, waiting), former, remarks, _landing_remarks(pipeline),
                deleted, {name: choice for name, choice in choices.items() if choice is not None},
            )  # fmt: skip
    except (StoreRefused, StoreUnreachable) as error:
        if not partly:
            raise
        return Plan(pending_without_lake(pipeline, settings, error).tables)


def _landing_remarks(pipeline: Pipeline) -> list[str]:
    if all(table.cleanSource == "OFF" for table in pipeline.bronze.values()):
        return []
    from sluicegate.landing import readers  # which imports pyarrow: a plan with nothing to do goes without it

    return readers.remarks(pipeline)


def estimate_refreshes(pipeline: Pipeline, waiting: Pending) -> dict[str, Touched]:
    """Return the estimates for the gold tables that are behind, by name."""
    behind = (work for work in waiting.tables if work.layer == "gold" and work.progress.has_work)
    return {work.table: estimate_refresh(pipeline.gold[work.table], work.flow, work.progress) for work in behind}


def estimate_refresh(table: GoldTable, flow: Flow, flow_progress: Progress) -> Touched:
    """Return the estimate for a gold table that is behind."""
    news = None
    if flow_progress.since >= 0:
        news = commit_stats.change_volume(flow.source, flow_progress.since, flow_progress.until)
    if news is None:
        return Touched(None, *_source_size(flow, flow_progress))
    rows, strategy = news.rows, flow.refresh_strategy
    source = lake_tables.delta_table(flow.source, flow_progress.until)
    if flow_progress.kind == ProgressKind.FULL_REFRESH or strategy is None or source is None:
        return Touched(rows, *_source_size(flow, flow_progress))
    if strategy.kind == StrategyKind.FULL_RECOMPUTE:
        return Touched(rows, *_source_size(flow, flow_progress))
    if strategy.kind == StrategyKind.AFFECTED_KEYS or strategy.grouped is None:
        # Only Spark's plan of the query tells the touched rows.
        read_rows = sum(lake_tables.rows(lake_tables.delta_table(*v)) for v in _read_versions(flow, flow_progress))
        reason = "at most, for the rows of touched keys"
        if read_rows <= thresholds.SMALL and table.refresh != "incremental":
            reason = "as they are small"
        return Touched(rows, *_source_size(flow, flow_progress), reason)
    if flow.inputs:  # a row of one table may meet many of another, in any number of groups
        return Touched(rows, *_source_size(flow, flow_progress), "at most, as it joins them")
    all_rows = lake_tables.rows(source)
    choice = _choice(table, strategy, news, all_rows, lake_tables.delta_table(flow.target))
    reason = _full_read_reason(choice, table, all_rows)
    groups, exact = _groups(strategy.grouped, source, flow_progress, news, flow.target)
    if reason:
        return Touched(rows, *_source_size(flow, flow_progress), reason, groups, exact, choice)
    return Touched(rows, news.changed, (), "", groups, exact, choice)


def larger(table: GoldTable, flow: Flow) -> TechniqueChoice | None:
    """Return the technique for the last run's changes in ``LARGER`` times the rows; None if no run followed changes."""
    strategy, target = flow.refresh_strategy, lake_tables.delta_table(flow.target)
    if strategy is None or strategy.kind not in BY_ROW_DELTAS:
        return None
    cost = RefreshCost.from_table(target, strategy.kind)
    last = next((run for run in cost.runs if run.work.changed < run.work.all), None)
    if last is None:
        return None
    touched_rows = last.work.touched
    if last.technique == Technique.FULL_RECOMPUTE:  # of which only the number of changed rows is known
        touched_rows = min(touched_rows, last.work.changed)
    work = Work(last.work.changed, LARGER * last.work.all, LARGER * last.work.held, touched_rows)
    return cost.choose(_permitted_techniques(table, strategy, work.all, work.changed, state=True), work)


def _source_size(flow: Flow, flow_progress: Progress) -> tuple[int, tuple[str, ...]]:
    versions = dict(_read_versions(flow, flow_progress))
    return sum(commit_stats.size(*read) for read in versions.items()), tuple(map(name_of, versions))


def _read_versions(flow: Flow, flow_progress: Progress) -> list[tuple[str, int]]:
    """Return the tables that a run would read, each with its version."""
    lookups = ((flow.inputs[name], version) for name, version in flow_progress.versions.items())
    return [(flow.source, flow_progress.until), *lookups]


def _choice(
    table: GoldTable, strategy: RefreshStrategy, news: commit_stats.ChangeVolume, rows: int, target: DeltaTable | None
) -> TechniqueChoice:
    """Return the technique that the next run will probably take; it counts exactly, and looks at the state."""
    cost, target_rows = RefreshCost.from_table(target, strategy.kind), lake_tables.rows(target)
    changed = news.rows + news.updated
    permitted = _permitted_techniques(table, strategy, rows, changed, state=cost.has_state)
    rewritten = target_rows
    if strategy.grouped is not None and strategy.grouped.is_locatable:
        rewritten = min(changed, target_rows)
    return cost.choose(permitted, Work(changed, rows, target_rows, rewritten))


def _permitted_techniques(
    table: GoldTable, strategy: RefreshStrategy, rows: int, changed: int, *, state: bool
) -> list[Technique]:
    auto, small, few = table.refresh != "incremental", rows <= thresholds.SMALL, changed <= thresholds.FEW
    return refresh_cost.permitted_techniques(strategy, auto=auto, small=small, few=few, state=state)


def _full_read_reason(choice: TechniqueChoice, table: GoldTable, rows: int) -> str:
    """Return the reason why a run reads the whole source although its changes are known; empty if it does not."""
    if choice.technique == Technique.INCREMENTAL:
        return ""
    if rows <= thresholds.SMALL and table.refresh != "incremental":
        return "it is small"
    if choice.technique == Technique.AFFECTED_GROUPS:
        return "for the rows of the groups"
    return "which is faster"


def _groups(
    grouped: Grouped, source: DeltaTable, flow_progress: Progress, news: commit_stats.ChangeVolume, target: str
) -> tuple[int, bool]:
    """Return the number of groups that the changes touch, and whether it is exact."""
    if not news.rows + news.updated:  # as when the rules are others: nothing is there to be read
        return 0, True
    if grouped.one_row:
        return 1, True
    columns = _columns(grouped, source)
    if columns is not None and news.changed <= BYTES_COUNTED:
        count = _count_groups(source.table_uri, columns, flow_progress)
        if count is not None:
            return count, not grouped.where
    most = news.rows + news.updated  # a row that changed may have left a group for another
    gold = lake_tables.delta_table(target)
    if gold is not None and grouped.is_locatable and not grouped.having:
        # Each group is a row there, and each inserted or updated row begins at most one more.
        most = min(most, lake_tables.rows(gold) + news.inserted + news.updated)
    return most, False


def _count_groups(uri: str, columns: list[str], flow_progress: Progress) -> int | None:
    """Count the groups of the changed rows, before and after; None if delta-rs cannot read this change feed."""
    import pyarrow as pa

    try:
        table, first, last = lake_tables.table_at(uri), flow_progress.since + 1, flow_progress.until
        feed = table.load_cdf(starting_version=first, ending_version=last, columns=columns)
        rows = pa.RecordBatchReader.from_stream(feed).read_all()
        return rows.select(columns).group_by(columns).aggregate([]).num_rows if columns else None
    except (DeltaError, pa.ArrowException, OSError):
        return None


def _columns(grouped: Grouped, source: DeltaTable) -> list[str] | None:
    """Source columns of the GROUP BY; None if it groups by anything else, or by a type whose values Arrow and Spark
    compare differently (NaN, signed zeros) or that is nested."""
    fields = {field["name"].lower(): field for field in json.loads(source.schema().to_json())["fields"]}
    paths: list[str] = []
    for text in grouped.groups:
        try:
            node = parse_sql(f"SELECT {text}")
        except QuerySyntax:
            return None
        [column] = node.expressions
        if not isinstance(column, exp.Column) or len(column.parts) > 2:
            return None
        if column.table.lower() not in ("", grouped.alias.lower()):
            return None
        field = fields.get(column.name.lower())
        if field is None or not isinstance(field["type"], str) or field["type"] in ("float", "double", "variant"):
            return None
        paths.append(field["name"])
    return list(dict.fromkeys(paths))
