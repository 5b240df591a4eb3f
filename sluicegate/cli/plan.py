"""``sluicegate plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, show_json, show_table, with_settings
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline, SilverTable
    from sluicegate.monitor.estimate import Plan
    from sluicegate.monitor.plan import TableWork
    from sluicegate.sql.refresh.strategy import RefreshStrategy


@with_settings("lake", "landing", "pipelines")
def plan(pipeline: PipelineName, *, settings: Settings, as_json: JsonOption = False) -> None:
    """Check the definition, and tell what each table reads and what a run would do. Nothing is written.

    Example: sluicegate plan heart_rate
    """
    from sluicegate.monitor import graph

    definition = api.load(pipeline, settings)
    waiting = api.plan(definition)
    news = _with_news(definition, waiting)
    facts = [_planned(definition, waiting, work, news) for work in waiting.tables]
    if as_json:
        show_json({
            "pipeline": definition.name, "schedule": definition.schedule, "nothing": waiting.nothing,
            "reads": graph.reads(definition), "tables": facts,
        })  # fmt: skip
        return
    print(f"{definition.name}: {definition.description}".rstrip(": "))
    print(f"  the definition is right; schedule: {definition.schedule or 'by hand only'}\n")
    print("each table with what it reads:")
    print("\n".join(f"  {line}" for line in graph.drawn(definition)), end="\n\n")
    columns = ["layer", "table", "reads", "how", "a run would"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts])
    print(f"\n{waiting.sentence()}")


def _with_news(definition: Pipeline, waiting: Plan) -> set[str]:
    """Tables that have work, or will have it once those that they read have done theirs."""
    found: set[str] = set()
    for work in waiting.tables:  # each after those that it reads
        if work.work or not found.isdisjoint(definition.reads(work.table)):
            found.add(work.table)
    return found


def _planned(definition: Pipeline, waiting: Plan, work: TableWork, news: set[str]) -> dict[str, Any]:
    from sluicegate.console import files
    from sluicegate.definition import LAYERS

    now = work.progress
    before = LAYERS.index(work.layer)
    follows = waiting.layers and before > min(LAYERS.index(layer) for layer in waiting.layers)
    if work.files:
        would = f"read {files(work.files)}"
    elif now.kind == "incremental":
        versions = f"take versions {now.since + 1} to {now.until}" if now.since < now.until else ""
        would = "; ".join(filter(None, [versions, now.why]))
    elif now.kind == "whole":
        would = f"make it again whole: {now.why}" if now.why else "make it"
    elif follows:
        would = "follow what the layer before writes"
    elif work.table in news:
        would = f"follow what {', '.join(read for read in definition.reads(work.table) if read in news)} writes"
    else:
        would = f"wait: {now.why}" if now.kind == "blocked" else "do nothing"
    reads, how = _described(definition, work.layer, work.table, work.flow.refresh_strategy)
    planned = {"layer": work.layer, "table": work.table, "reads": reads, "how": how, "a run would": would}
    touched = waiting.touched.get(work.table)
    if touched is None:
        return planned
    return planned | {"a run would": f"{would}; {touched}", "touches": touched.facts()}


def _described(definition: Pipeline, layer: str, name: str, strategy: RefreshStrategy | None) -> tuple[str, str]:
    if layer == "bronze":
        source = definition.bronze[name]
        if not source.of_files:
            return source.path, "delta, its new rows; made again whole when others of its rows or columns changed"
        return source.path, f"{source.format}, new files once, {source.maxFilesPerTrigger:,} a chunk"
    if strategy is not None:
        gold = definition.gold[name]
        lost = f"; not kept: its ORDER BY {lost}, which is none of its columns" if (lost := gold.ordering.lost) else ""
        return ", ".join(gold.reads), _strategy_text(strategy) + lost
    if of := definition.deidentified_tables.get(name):
        done = definition.silver[of].deidentified or {}
        return of, f"its rows, de-identified: {', '.join(f'{column} by {how}' for column, how in done.items())}"
    table = definition.silver[name]
    if changes := table.changes:
        rows = "each version" if changes.history else "latest row"
        return str(table.from_), f"{rows} for each {', '.join(changes.keys)} by {changes.sequence_by}"
    of_a_record = "many rows of a record" if table.many else "a row for each record"
    how = [*([f"one row for each {', '.join(table.keys)}"] if table.keys else [])]
    how += [of_a_record] if table.many or not table.keys else []
    if table.keys and table.event_time not in table.keys:
        how.append("each batch reads the keys of the whole table, as no event_time among them says where to look")
    how += [f"by the Python function {table.python}"] if table.is_python else []
    return f"new rows of {table.stream}", "; ".join([*how, *_joined(table)])


def _strategy_text(found: RefreshStrategy) -> str:
    """How a gold table is kept up to date, why, and what would make it cheaper."""
    kind = {
        "partial": "kept up to date by what changed",
        "groups": "the groups that changed are made again from all of their rows",
        "keys": "the rows that changes touch are made again",
        "whole": "made again whole whenever a table that it reads changes, in one commit",
        "stream": "a streaming aggregation with a checkpoint",
    }[found.kind]
    proviso = "so says its text: its first run asks Spark" if found.expected else ""
    return "; ".join(filter(None, [f"{kind}: {found.why}", proviso, found.cheaper and f"cheaper: {found.cheaper}"]))


def _joined(table: SilverTable) -> list[str]:
    """What a change of each lookup does."""
    join_keys = table.query.join_keys if table.query else {}
    found = []
    for name in [read for read in table.reads if read != table.stream]:
        if table.lookup_mode(name) == "as_of_run":
            found.append(f"joins {name} as of the run")
        elif name in join_keys:
            keys = " and ".join(", ".join(join_key.columns) for join_key in join_keys[name])
            found.append(f"joins {name}: the records of a row that changes there are judged again, by {keys}")
        else:
            why = "Python says not which" if table.is_python else "no equality with a column of the stream says which"
            found.append(f"joins {name}: when it changes, all records are judged again ({why} it touches)")
    return found
