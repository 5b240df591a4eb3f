"""``sluicegate plan``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli import optional_packages
from sluicegate.cli.inspecting.impact import show_impact
from sluicegate.cli.options import (
    JsonOption,
    PipelineName,
    load_definition,
    pass_settings,
    show_json,
    show_table,
    warn_of_owner,
)
from sluicegate.console import say, warn
from sluicegate.errors import StoreRefused, StoreUnreachable
from sluicegate.flow.model import AVAILABLE_NOW, ON_CONNECT, ProgressKind, query_trigger
from sluicegate.lake.layout import LAYERS
from sluicegate.settings import Settings
from sluicegate.spark_sql.refresh.strategy_kind import StrategyKind

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline, SilverTable
    from sluicegate.definition.tables.apply_changes import ApplyChanges, ApplyChangesFromSnapshot
    from sluicegate.flow.model import Progress
    from sluicegate.monitor.estimate import Plan
    from sluicegate.monitor.plan import TableWork
    from sluicegate.spark_sql.refresh.strategy import RefreshStrategy


# How rescued values are handled, where the definition changes the default.
_RESCUED_TEXTS = {
    "keep": ("values that bronze rescued become NULL",),
    "fail": ("values that bronze rescued fail the run",),
}


@pass_settings("lake", "landing", "pipelines", "target")
@optional_packages.absent()
def plan(
    pipeline: PipelineName,
    impact: Annotated[
        str | None,
        typer.Option(
            "--impact", metavar="TABLE.COLUMN", help="List what depends on a column in all layers, instead of the plan."
        ),
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Check the definition, and show what each table reads and what a run would do. Nothing is written.

    If landing or the lake cannot be reached, a warning says so, the rest is shown, and the exit code is 0.

    Example: sluicegate plan heart_rate
    """
    if impact is not None:
        definition = load_definition(pipeline, settings)
        show_impact(definition, impact, as_json=as_json)
        return
    definition = api.load(pipeline, settings)
    waiting = api.plan(definition, partly=True)
    with suppress(StoreRefused, StoreUnreachable):  # which is said below
        warn_of_owner(definition)
    news, unknown = _tables_with_work(definition, waiting), _unknown_tables(definition, waiting)
    facts = [_table_facts(definition, waiting, work, news, unknown) for work in waiting.tables]
    if as_json:
        show_json(_as_json(definition, waiting, facts))
    else:
        _show(definition, waiting, facts)


def _as_json(definition: Pipeline, waiting: Plan, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    from sluicegate.monitor import graph

    return {
        "pipeline": definition.name, "schedule": definition.schedule, "target": definition.settings.target or None,
        "params": _params(definition), "nothing": waiting.nothing, "reads": graph.reads(definition), "tables": facts,
        "complete": not waiting.problems, "remarks": [*waiting.remarks, *waiting.landing],
        "unchecked": definition.unchecked,
        "problems": {name: error.as_dict() for name, error in waiting.problems.items()},
    }  # fmt: skip


def _params(definition: Pipeline) -> dict[str, str]:
    return {name: str(value) for name, value in definition.values.items()}


def _show(definition: Pipeline, waiting: Plan, facts: Sequence[Mapping[str, Any]]) -> None:
    from sluicegate.monitor import graph

    _show_header(definition)
    say("", "each table with what it reads:", *(f"  {line}" for line in graph.graph_lines(definition)), "")
    columns = ["layer", "table", "reads", "how", "a run would"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts])
    say("", *_unchecked_texts(definition.unchecked), waiting.sentence())
    if definition.settings.remote:
        say(f"new rows are read by queries instead of streams: {ON_CONNECT}")
    for stale in waiting.outdated.values():
        say(f"former definition: {stale}")
    for remark in waiting.remarks:
        say(f"former dialect: {remark}")
    for remark in waiting.landing:
        say(f"landing: {remark}")
    for problem in dict.fromkeys(error.for_people() for error in waiting.problems.values()):
        warn(*f"warning: the plan is incomplete: {problem}".split("\n"))


def _unchecked_texts(unchecked: Mapping[str, str]) -> Iterator[str]:
    """Describe which queries only a run can check completely, those of one reason together."""
    for reason in dict.fromkeys(unchecked.values()):
        names = [name for name, of_name in unchecked.items() if of_name == reason]
        yield f"only a run checks all of {', '.join(names)}: {reason}"


def _show_header(definition: Pipeline) -> None:
    settings, params = definition.settings, _params(definition)
    say(f"{definition.name}: {definition.description}".rstrip(": "))
    say(f"  the definition is valid; schedule: {definition.schedule or 'by hand only'}")
    if settings.target:
        say(f"  target: {settings.target}, tables in {settings.lake}")
    if params:
        say(f"  parameters: {', '.join(f'{name} = {value}' for name, value in params.items())}")


def _tables_with_work(definition: Pipeline, waiting: Plan) -> set[str]:
    """Return the tables that have work of their own, or that read a table with work."""
    tables: set[str] = set()
    for work in waiting.tables:  # each after those that it reads
        if work.work or not tables.isdisjoint(definition.reads(work.table)):
            tables.add(work.table)
    return tables


def _unknown_tables(definition: Pipeline, waiting: Plan) -> dict[str, str]:
    """Return the tables downstream of one whose work is unknown, each with the name of that table."""
    unreadable = [work.table for work in waiting.tables if work.problem is not None]
    origins: dict[str, str] = {}
    for work in waiting.tables:  # each after those that it reads
        reads = definition.reads(work.table)
        sources = [origins[read] for read in reads if read in origins]
        sources += [table for table in unreadable if table in reads]
        if sources:
            origins[work.table] = sources[0]
    return origins


def _table_facts(
    definition: Pipeline, waiting: Plan, work: TableWork, news: set[str], unknown: dict[str, str]
) -> dict[str, Any]:
    would = _planned_work(definition, waiting, work, news)
    if would == "do nothing" and work.table in unknown:
        would = f"unknown: it depends on {unknown[work.table]}"
    deleted = waiting.deleted.get(work.table, {})
    would += "".join(f"; delete the {count:,} rows of the flow {flow}" for flow, count in deleted.items())
    reads, manner = _describe_table(definition, work.layer, work.table, work.flow.refresh_strategy)
    if work.described is not None:
        would = f"set {work.described}" if would == "do nothing" else f"{would}; set {work.described}"
    if larger := waiting.larger.get(work.table):
        manner += f"; with ten times the rows: {larger}"
    rules = _rules(definition, work.table)
    if rules:
        manner += f"; rules: {', '.join(rules)}"
    remote = bool(definition.settings.remote)
    no_stream = work.flow.why_without_stream(remote=remote)
    if no_stream and not remote:
        manner += f"; read by a query: {no_stream}"
    planned: dict[str, Any] = {
        "layer": work.layer, "table": work.table, "reads": reads, "how": manner, "rules": rules,
        "trigger": query_trigger(no_stream) if no_stream else AVAILABLE_NOW, "a run would": would,
    }  # fmt: skip
    if stale := waiting.outdated.get(work.table):
        planned["former_definition"] = stale.facts()
    touched = waiting.touched.get(work.table)
    if touched is None:
        return planned
    return planned | {"a run would": f"{would}; {touched}", "touches": touched.facts()}


def _planned_work(definition: Pipeline, waiting: Plan, work: TableWork, news: set[str]) -> str:
    """Describe what a run would do with the rows of a table."""
    from sluicegate.console import files

    progress = work.progress
    if work.problem is not None:
        return f"unknown: {work.problem.message}"
    if work.files:
        return f"read {files(work.files)}"
    if work.skips:
        return f"skip {files(work.skips)} that existed before its first run"
    if work.unknown and progress.kind != ProgressKind.INCREMENTAL:
        return "query the brokers and read new records"
    if progress.kind == ProgressKind.INCREMENTAL:
        return "; ".join(filter(None, [_version_texts(progress), progress.why]))
    if progress.command:
        return f"fail: {progress.why}; `{progress.command}` rebuilds the table"
    if progress.kind == ProgressKind.FULL_REFRESH:
        return f"full refresh: {progress.why}" if progress.why else "create it"
    if set(waiting.layers) & set(LAYERS[: LAYERS.index(work.layer)]):
        return "process the output of the previous layer"
    if work.table in news:
        return f"process the output of {', '.join(read for read in definition.reads(work.table) if read in news)}"
    return _waiting_reason(work)


def _version_texts(progress: Progress) -> str:
    """Describe the source versions that a table would process, by flow if it has flows; empty for none."""
    if progress.streams:
        return _flow_texts(progress)
    if progress.since < progress.until:
        return f"process versions {progress.since + 1} to {progress.until}"
    return ""


def _waiting_reason(work: TableWork) -> str:
    """Describe why a table without new input waits."""
    from sluicegate.console import files

    if work.settling:
        return f"wait: {files(work.settling)} still settling"
    if work.progress.kind == ProgressKind.BLOCKED:
        return f"wait: {work.progress.why}"
    return "do nothing"


def _rules(definition: Pipeline, name: str) -> list[str]:
    """Return the names of a table's rules; a de-identified copy has none of its own."""
    if name in definition.deidentified_tables:
        return []
    _, table = definition.table(name)
    return [*table.expectations, *table.expect_table]


def _describe_table(definition: Pipeline, layer: str, name: str, strategy: RefreshStrategy | None) -> tuple[str, str]:
    """Describe what a table reads, and how."""
    if layer == "bronze":
        return definition.bronze[name].path, _bronze_text(definition.bronze[name])
    if strategy is not None:
        gold = definition.gold[name]
        text = _strategy_text(strategy)
        if len(gold.reads) > 1 and (strategy.expected or strategy.kind in ("partial", "groups")):
            text += f"; follows {gold.reads[0]}"  # of affected keys, Spark's plan tells
        if gold.ordering.lost:
            text += f"; its ORDER BY {gold.ordering.lost} is ignored, because that is not one of its columns"
        return ", ".join(gold.reads), text
    original = definition.deidentified_tables.get(name)
    if original:
        treatments = (definition.silver[original].deidentified or {}).items()
        return (
            original,
            f"its rows, de-identified: {', '.join(f'{column} by {treatment}' for column, treatment in treatments)}",
        )
    table = definition.silver[name]
    reads, texts = f"new rows of {', '.join(table.streams)}", _record_texts(table)
    if table.changes is not None:
        texts = _changes_texts(table, table.changes)
        if not table.flows_or_branches:
            reads = str(table.from_)
    return reads, "; ".join(texts)


def _bronze_text(table: BronzeTable) -> str:
    if table.kafka is not None:
        records = f"new {table.kafka.value} records once, {table.kafka.maxRecordsPerBatch:,} per batch"
        return f"kafka, {records}, from the {table.kafka.starting_offsets} offsets"
    if not table.reads_files:
        return "delta, new rows; full refresh when existing rows or columns changed"
    return f"{table.format}, new files once, {table.maxFilesPerTrigger:,} per batch"


def _changes_texts(table: SilverTable, changes: ApplyChanges | ApplyChangesFromSnapshot) -> Iterator[str]:
    """Describe a table that apply_changes fills."""
    rows = "each version" if changes.has_history else "latest row"
    yield f"{rows} for each {', '.join(changes.keys)} by {changes.sequence_by}"
    yield from _delete_texts(table)
    if table.flows_or_branches:
        yield f"by the flows {', '.join(table.flows_or_branches)}"
        yield from _lookup_texts(table)
    yield from _RESCUED_TEXTS.get(table.rescued, ())


def _record_texts(table: SilverTable) -> Iterator[str]:
    """Describe a table of records."""
    if table.keys:
        yield f"one row for each {', '.join(table.keys)}"
    if table.gives_many_rows:
        yield "several rows for each record"
    elif not table.keys:
        yield "one row for each record"
    if table.keys and table.event_time not in table.keys:
        yield "each batch reads the keys of the whole table, because they include no event_time to prune by"
    for maker in table.makers.values():
        if maker.is_python:
            yield f"by the Python function {maker.python}"
    if table.flows_or_branches:
        yield f"by the flows {', '.join(table.flows_or_branches)}"
    yield from _lookup_texts(table)
    yield from _RESCUED_TEXTS.get(table.rescued, ())


def _delete_texts(table: SilverTable) -> list[str]:
    """Describe the rules that are not applied to deletes, if there are any."""
    changes = table.apply_changes
    if changes is None or changes.apply_as_deletes is None:
        return []
    rules = [name for name, rule in table.expectations.items() if not changes.binds_deletes(rule.columns)]
    if rules:
        return [f"deletes are not checked by {', '.join(rules)}, which read more than keys and sequence"]
    return []


def _flow_texts(state: Progress) -> str:
    """Describe what each of several flows would process."""
    texts = [
        f"{name}: all rows" if stream.is_whole else f"{name}: versions {stream.since + 1} to {stream.until}"
        for name, stream in state.streams.items() if stream.has_work
    ]  # fmt: skip
    if texts:
        return f"process {', '.join(texts)}"
    return ""


def _strategy_text(strategy: RefreshStrategy) -> str:
    """Describe how a gold table is kept up to date, why, and what would make it cheaper."""
    kind = {
        StrategyKind.INCREMENTAL: "incremental",
        StrategyKind.AFFECTED_GROUPS: "the affected groups are recomputed from all of their rows",
        StrategyKind.AFFECTED_KEYS: "the affected rows are recomputed",
        StrategyKind.FULL_RECOMPUTE: "fully recomputed in one commit whenever a table that it reads changes",
        StrategyKind.STREAM: "a streaming aggregation with a checkpoint",
    }[strategy.kind]
    proviso = ""
    if strategy.expected:
        proviso = "predicted from its SQL: the first run checks it with Spark"
    return "; ".join(
        filter(None, [f"{kind}: {strategy.why}", proviso, strategy.cheaper and f"cheaper: {strategy.cheaper}"])
    )


def _lookup_texts(table: SilverTable) -> list[str]:
    """Describe the effect of a change in each lookup."""
    texts = []
    for name in [read for read in table.lookup_tables if table.flows_or_branches or read != table.stream]:
        join_keys_of_flows = [maker.query.join_keys.get(name, []) for maker in table.makers.values() if maker.query]
        if table.lookup_mode(name) == "as_of_run":
            texts.append(f"joins {name} as of the run")
        elif table.can_follow(name):
            keys = " and ".join(
                dict.fromkeys(", ".join(join_key.columns) for join_keys in join_keys_of_flows for join_key in join_keys)
            )
            texts.append(f"joins {name}: a changed row re-evaluates the records that join to it, by {keys}")
        else:
            python = any(maker.is_python for maker in table.makers.values())
            reason = "no join key with a column of the stream"
            if python:
                reason = "Python code has no known join key"
            texts.append(f"joins {name}: when it changes, all records are re-evaluated ({reason})")
    return texts
