"""``sluicegate plan``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.impact import show_impact
from sluicegate.cli.options import JsonOption, PipelineName, loaded, show_json, show_table, warn_of_owner, with_settings
from sluicegate.console import say, warn
from sluicegate.errors import StoreRefused, StoreUnreachable
from sluicegate.flow.model import AVAILABLE_NOW, ON_CONNECT, query_because
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline, SilverTable
    from sluicegate.flow.model import Progress
    from sluicegate.monitor.estimate import Plan
    from sluicegate.monitor.plan import TableWork
    from sluicegate.sql.refresh.strategy import RefreshStrategy


@with_settings("lake", "landing", "pipelines", "target")
def plan(
    pipeline: PipelineName,
    impact: Annotated[
        str | None,
        typer.Option("--impact", metavar="TABLE.COLUMN", help="Tell instead what depends on a column, in all layers."),
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Check the definition, and tell what each table reads and what a run would do. Nothing is written.

    Where landing or the lake cannot be reached it says so, tells the rest, and ends with 0: the definition is valid.

    Example: sluicegate plan heart_rate
    """
    from sluicegate.monitor import graph

    if impact is not None:
        definition = loaded(pipeline, settings)
        show_impact(definition, impact, as_json=as_json)
        return
    definition = api.load(pipeline, settings)
    waiting = api.plan(definition, partly=True)
    with suppress(StoreRefused, StoreUnreachable):  # which is said below
        warn_of_owner(definition)
    news, unknown = _with_news(definition, waiting), _unknown(definition, waiting)
    facts = [_planned(definition, waiting, work, news, unknown) for work in waiting.tables]
    own, params = definition.settings, {name: str(value) for name, value in definition.values.items()}
    if as_json:
        show_json({
            "pipeline": definition.name, "schedule": definition.schedule, "target": own.target or None,
            "params": params, "nothing": waiting.nothing, "reads": graph.reads(definition), "tables": facts,
            "complete": not waiting.problems, "remarks": [*waiting.remarks, *waiting.landing],
            "problems": {name: error.as_dict() for name, error in waiting.problems.items()},
        })  # fmt: skip
        return
    say(f"{definition.name}: {definition.description}".rstrip(": "))
    say(f"  the definition is valid; schedule: {definition.schedule or 'by hand only'}")
    if own.target:
        say(f"  target: {own.target}, tables in {own.lake}")
    if params:
        say(f"  parameters: {', '.join(f'{name} = {value}' for name, value in params.items())}")
    say("", "each table with what it reads:", *(f"  {line}" for line in graph.drawn(definition)), "")
    columns = ["layer", "table", "reads", "how", "a run would"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts])
    say("", waiting.sentence())
    if own.remote:
        say(f"queries read what is new, and no streams: {ON_CONNECT}")
    for stale in waiting.outdated.values():
        say(f"former definition: {stale}")
    for remark in waiting.remarks:
        say(f"former dialect: {remark}")
    for remark in waiting.landing:
        say(f"landing: {remark}")
    for said in dict.fromkeys(error.for_people() for error in waiting.problems.values()):
        warn(*f"warning: the plan is not complete: {said}".split("\n"))


def _with_news(definition: Pipeline, waiting: Plan) -> set[str]:
    """Tables that have work, or will have it once those that they read have done theirs."""
    found: set[str] = set()
    for work in waiting.tables:  # each after those that it reads
        if work.work or not found.isdisjoint(definition.reads(work.table)):
            found.add(work.table)
    return found


def _unknown(definition: Pipeline, waiting: Plan) -> dict[str, str]:
    """Tables that would follow one whose work could not be found out, each with that one's name."""
    found: dict[str, str] = {}
    for work in waiting.tables:  # each after those that it reads
        reads = definition.reads(work.table)
        sources = [found[read] for read in reads if read in found]
        sources += [one.table for one in waiting.tables if one.problem is not None and one.table in reads]
        if sources:
            found[work.table] = sources[0]
    return found


def _planned(
    definition: Pipeline, waiting: Plan, work: TableWork, news: set[str], unknown: dict[str, str]
) -> dict[str, Any]:
    would = _would(definition, waiting, work, news)
    if would == "do nothing" and work.table in unknown:
        would = f"not known: it follows {unknown[work.table]}"
    deleted = waiting.deleted.get(work.table, {})
    would += "".join(f"; delete the {count:,} rows of the flow {flow}" for flow, count in deleted.items())
    reads, how = _described(definition, work.layer, work.table, work.flow.refresh_strategy)
    if work.described is not None:
        would = f"set {work.described}" if would == "do nothing" else f"{would}; set {work.described}"
    rules = _rules(definition, work.table)
    how += f"; held to {', '.join(rules)}" if rules else ""
    remote = bool(definition.settings.remote)
    no_stream = work.flow.without_stream(remote=remote)
    how += f"; read by a query: {no_stream}" if no_stream and not remote else ""
    planned: dict[str, Any] = {
        "layer": work.layer, "table": work.table, "reads": reads, "how": how, "rules": rules,
        "trigger": query_because(no_stream) if no_stream else AVAILABLE_NOW, "a run would": would,
    }  # fmt: skip
    if stale := waiting.outdated.get(work.table):
        planned["former_definition"] = stale.facts()
    touched = waiting.touched.get(work.table)
    if touched is None:
        return planned
    return planned | {"a run would": f"{would}; {touched}", "touches": touched.facts()}


def _would(definition: Pipeline, waiting: Plan, work: TableWork, news: set[str]) -> str:
    """What a run would do with the rows of a table."""
    from sluicegate.console import files
    from sluicegate.definition import LAYERS

    if work.problem is not None:
        return f"not known: {work.problem.message}"
    now = work.progress
    before = LAYERS.index(work.layer)
    follows = waiting.layers and before > min(LAYERS.index(layer) for layer in waiting.layers)
    if work.files:
        would = f"read {files(work.files)}"
    elif work.skips:
        would = f"skip {files(work.skips)} that were there before"
    elif work.unknown and now.kind != "incremental":
        would = "ask the brokers, and read what is new"
    elif now.kind == "incremental":
        versions = f"take versions {now.since + 1} to {now.until}" if now.since < now.until else ""
        versions = _of_flows(now) if now.streams else versions
        would = "; ".join(filter(None, [versions, now.why]))
    elif now.command:
        would = f"refuse: {now.why}; `{now.command}` rebuilds it"
    elif now.kind == "whole":
        would = f"full refresh: {now.why}" if now.why else "create it"
    elif follows:
        would = "follow what the layer before writes"
    elif work.table in news:
        would = f"follow what {', '.join(read for read in definition.reads(work.table) if read in news)} writes"
    else:
        would = _waits(work)
    return would


def _waits(work: TableWork) -> str:
    """What a table waits for that has nothing to take in."""
    from sluicegate.console import files

    if work.settling:
        return f"wait: {files(work.settling)} still settling"
    return f"wait: {work.progress.why}" if work.progress.kind == "blocked" else "do nothing"


def _rules(definition: Pipeline, name: str) -> list[str]:
    """Names of the rules of a table; a de-identified copy has none of its own."""
    if name in definition.deidentified_tables:
        return []
    _, table = definition.table(name)
    return [*table.expectations, *table.expect_table]


def _described(definition: Pipeline, layer: str, name: str, strategy: RefreshStrategy | None) -> tuple[str, str]:
    if layer == "bronze":
        source = definition.bronze[name]
        if source.kafka is not None:
            by = f"its {source.kafka.value} records once, {source.kafka.maxRecordsPerBatch:,} a chunk"
            return source.path, f"kafka, {by}, from {source.kafka.starting_offsets} on"
        if not source.of_files:
            return source.path, "delta, its new rows; a full refresh when other rows or columns of it changed"
        return source.path, f"{source.format}, new files once, {source.maxFilesPerTrigger:,} a chunk"
    if strategy is not None:
        gold = definition.gold[name]
        lost = f"; not kept: its ORDER BY {lost}, which is none of its columns" if (lost := gold.ordering.lost) else ""
        return ", ".join(gold.reads), _strategy_text(strategy) + lost
    if of := definition.deidentified_tables.get(name):
        done = definition.silver[of].deidentified or {}
        return of, f"its rows, de-identified: {', '.join(f'{column} by {how}' for column, how in done.items())}"
    table = definition.silver[name]
    reads = f"new rows of {', '.join(table.streams)}"
    of_flows = [f"by the flows {', '.join(table.several)}"] if table.several else []
    if changes := table.changes:
        rows = f"{'each version' if changes.history else 'latest row'} for each {', '.join(changes.keys)}"
        how = [f"{rows} by {changes.sequence_by}", *_of_deletes(table), *of_flows]
        how += _joined(table) if table.several else []
        return reads if table.several else str(table.from_), "; ".join([*how, *_rescued(table)])
    of_a_record = "many rows of a record" if table.many else "a row for each record"
    how = [*([f"one row for each {', '.join(table.keys)}"] if table.keys else [])]
    how += [of_a_record] if table.many or not table.keys else []
    if table.keys and table.event_time not in table.keys:
        how.append("each batch reads the keys of the whole table, as no event_time among them says where to look")
    how += [f"by the Python function {maker.python}" for maker in table.makers.values() if maker.is_python]
    return reads, "; ".join([*how, *of_flows, *_joined(table), *_rescued(table)])


def _rescued(table: SilverTable) -> list[str]:
    """What the definition says of values that bronze rescued, where it is not what holds for every table."""
    if table.rescued == "keep":
        return ["a value that bronze rescued is NULL in a good row"]
    return ["a value that bronze rescued fails the run"] if table.rescued == "fail" else []


def _of_deletes(table: SilverTable) -> list[str]:
    """Rules that a delete is not held to, where there are any."""
    changes = table.apply_changes
    if changes is None or changes.apply_as_deletes is None:
        return []
    others = [name for name, rule in table.expectations.items() if not changes.binds_deletes(rule.columns)]
    return [f"deletes are not held to {', '.join(others)}, on more than keys and sequence"] if others else []


def _of_flows(now: Progress) -> str:
    """What each of several flows takes in."""
    its = [
        f"{name}: all of it" if one.whole else f"{name}: versions {one.since + 1} to {one.until}"
        for name, one in now.streams.items() if one.work
    ]  # fmt: skip
    return f"take {', '.join(its)}" if its else ""


def _strategy_text(found: RefreshStrategy) -> str:
    """How a gold table is kept up to date, why, and what would make it cheaper."""
    kind = {
        "partial": "incremental",
        "groups": "the affected groups are recomputed from all of their rows",
        "keys": "the affected rows are recomputed",
        "whole": "fully recomputed whenever a table that it reads changes, in one commit",
        "stream": "a streaming aggregation with a checkpoint",
    }[found.kind]
    proviso = "by its text: the first run checks it with Spark" if found.expected else ""
    return "; ".join(filter(None, [f"{kind}: {found.why}", proviso, found.cheaper and f"cheaper: {found.cheaper}"]))


def _joined(table: SilverTable) -> list[str]:
    """What a change of each lookup does."""
    found = []
    for name in [read for read in table.joined if table.several or read != table.stream]:
        its = [maker.query.join_keys.get(name, []) for maker in table.makers.values() if maker.query]
        if table.lookup_mode(name) == "as_of_run":
            found.append(f"joins {name} as of the run")
        elif table.can_follow(name):
            keys = " and ".join(dict.fromkeys(", ".join(one.columns) for join_keys in its for one in join_keys))
            found.append(f"joins {name}: a changed row there re-evaluates its records, by {keys}")
        else:
            python = any(maker.is_python for maker in table.makers.values())
            why = "Python says not which" if python else "no equality with a column of the stream says which"
            found.append(f"joins {name}: when it changes, all records are re-evaluated ({why} it affects)")
    return found
