"""The command line. Each command shows a table to people and, with ``--json``, the same facts to programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.cli import catalog, history, import_, jars, maintain, new, reload, simulate, status, streams, test
from sluicegate.cli import files as cli_files
from sluicegate.cli.options import (
    JsonOption,
    LakeOption,
    LandingOption,
    MasterOption,
    PipelineName,
    PipelinesOption,
    load_pipeline,
    show_json,
    show_table,
)
from sluicegate.errors import DefinitionError, SluicegateError, UserError
from sluicegate.settings import Settings
from sluicegate.storage import store_errors

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline, SilverTable
    from sluicegate.monitor.estimate import Touched
    from sluicegate.monitor.plan import Pending, TableWork
    from sluicegate.sql.refresh.strategy import Upkeep

app = typer.Typer(
    help="Carries landed files through bronze, silver and gold Delta tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Entry point: errors of ours become a sentence and an exit code, everything else stays a trace."""
    try:
        try:
            app()
        except Exception as raised:
            of_store = store_errors.readable(raised)
            if of_store is None:
                raise
            raise of_store from raised
    except SluicegateError as error:
        if "--json" in sys.argv:
            print(json.dumps({"error": error.as_dict()}, default=str))
        else:
            print(error.for_people(), file=sys.stderr)
        sys.exit(error.exit_code)


@app.command()
def run(
    pipeline: PipelineName,
    layer: Annotated[str | None, typer.Option("--layer", help="Only this layer: bronze, silver or gold.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Make again the interval that begins at this event time (UTC)."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="End of the interval, which does not belong to it.")] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Go on until Ctrl-C, in one Spark.")] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="Time between two looks for work, as 4s; 10 seconds if not given.")
    ] = None,
    full_refresh: Annotated[
        str | None,
        typer.Option(
            "--full-refresh", help="Make these tables again whole, as a,b, and what follows them; not files'."
        ),
    ] = None,
    lake: LakeOption = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take what has landed through bronze, silver and gold: the spark-submit jobs in order, without Airflow.

    Example: sluicegate run heart_rate --from 2024-03-01 --to 2024-03-02
    """
    from sluicegate.run import pipeline as of
    from sluicegate.run.request import Request

    settings = Settings.of(lake, landing, pipelines, master)
    if continuous and not (since or until or full_refresh):
        return streams.run_continuously(pipeline, settings, layer, every, as_json)
    if continuous or every:
        raise UserError("--continuous goes with --every, and not with an interval or a full refresh")
    tell: Callable[[str], None] = (
        (lambda line: print(line, file=sys.stderr, flush=True)) if as_json else (lambda line: print(line, flush=True))
    )
    definition = load_pipeline(pipeline, settings)
    mode = "full-refresh" if full_refresh else "interval" if since or until else "incremental"
    tables = [name.strip() for name in (full_refresh or "").split(",") if name.strip()]
    asked = Request.of(definition, mode, since, until, tables)
    if mode == "full-refresh":
        reports = of.refresh(definition, settings, layer, tell, asked)
    else:
        reports = of.run(definition, settings, layer, tell, asked.interval)
    if as_json:
        show_json([report.as_dict() for report in reports])


@app.command()
def plan(
    pipeline: PipelineName,
    lake: LakeOption = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the definition, and tell what each table reads and what a run would do. Nothing is written.

    Example: sluicegate plan heart_rate
    """
    from sluicegate.monitor.estimate import foresee
    from sluicegate.monitor.plan import pending

    settings = Settings.of(lake, landing, pipelines)
    definition = load_pipeline(pipeline, settings)
    waiting = pending(definition, settings)
    touches = foresee(definition, waiting)
    facts = [_planned(definition, waiting, work, touches.get(work.table)) for work in waiting.tables]
    if as_json:
        show_json(
            {"pipeline": definition.name, "schedule": definition.schedule, "nothing": waiting.nothing, "tables": facts}
        )
        return
    print(f"{definition.name}: {definition.description}".rstrip(": "))
    print(f"  the definition is right; schedule: {definition.schedule or 'by hand only'}\n")
    columns = ["layer", "table", "reads", "how", "a run would"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts])
    print(f"\n{waiting.sentence()}")


def _planned(definition: Pipeline, waiting: Pending, work: TableWork, touched: Touched | None) -> dict[str, Any]:
    from sluicegate.definition import LAYERS
    from sluicegate.flow.report import files

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
    else:
        would = f"wait: {now.why}" if now.kind == "blocked" else "do nothing"
    reads, how = _described(definition, work.layer, work.table, work.flow.upkeep)
    planned = {"layer": work.layer, "table": work.table, "reads": reads, "how": how, "a run would": would}
    if touched is None:
        return planned
    return planned | {"a run would": f"{would}; {touched}", "touches": touched.facts()}


def _described(definition: Pipeline, layer: str, name: str, upkeep: Upkeep | None) -> tuple[str, str]:
    if layer == "bronze":
        source = definition.bronze[name]
        if not source.of_files:
            return source.path, "delta, its new rows; made again whole when others of its rows or columns changed"
        return source.path, f"{source.format}, new files once, {source.maxFilesPerTrigger:,} a chunk"
    if upkeep is not None:
        gold = definition.gold[name]
        lost = f"; not kept: its ORDER BY {lost}, which is none of its columns" if (lost := gold.ordering.lost) else ""
        return ", ".join(gold.reads), _kept(upkeep) + lost
    if of := definition.deidentified_tables.get(name):
        done = definition.silver[of].deidentified or {}
        return of, f"its rows, de-identified: {', '.join(f'{column} by {how}' for column, how in done.items())}"
    table = definition.silver[name]
    if changes := table.changes:
        rows = "each version" if changes.history else "latest row"
        return str(table.from_), f"{rows} for each {', '.join(changes.keys)} by {changes.sequence_by}"
    how = [f"one row for each {', '.join(table.keys)}" if table.keys else "a row for each record"]
    if table.keys and table.event_time not in table.keys:
        how.append("each batch reads the keys of the whole table, as no event_time among them says where to look")
    how += [f"by the Python function {table.python}"] if table.is_python else []
    return f"new rows of {table.stream}", "; ".join([*how, *_joined(table)])


def _kept(found: Upkeep) -> str:
    """How a gold table is kept up to date, why, and what would make it cheaper."""
    way = {
        "partial": "kept up to date by what changed",
        "groups": "the groups that changed are made again from all of their rows",
        "whole": "made again whole whenever silver changes, in one commit",
        "stream": "a streaming aggregation with a checkpoint",
    }[found.way]
    asked = "so says its text: its first run asks Spark" if found.expected else ""
    return "; ".join(filter(None, [f"{way}: {found.why}", asked, found.cheaper and f"cheaper: {found.cheaper}"]))


def _joined(table: SilverTable) -> list[str]:
    """What a change of each lookup does."""
    ties = table.query.ties if table.query else {}
    found = []
    for name in [read for read in table.reads if read != table.stream]:
        if table.lookup_mode(name) == "as_of_run":
            found.append(f"joins {name} as of the run")
        elif name in ties:
            keys = " and ".join(", ".join(tie.columns) for tie in ties[name])
            found.append(f"joins {name}: the records of a row that changes there are judged again, by {keys}")
        else:
            why = "Python says not which" if table.is_python else "no equality with a column of the stream says which"
            found.append(f"joins {name}: when it changes, all records are judged again ({why} it touches)")
    return found


app.command()(status.status)
app.command("test")(test.run_cases)
app.command()(cli_files.files)
app.command()(cli_files.schema)
app.command()(history.history)


@app.command("copy-into")
def copy_into(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    source: Annotated[str, typer.Argument(help="Folder or file to copy, path or URI.")],
    files: Annotated[list[str] | None, typer.Option("--files", help="A file below the folder; repeatable.")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Pattern that names below it must match.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Copy files again that the ledger knows.")] = False,
    select: Annotated[
        str | None,
        typer.Option("--select", help="SELECT over the files' fields: SELECT CAST(a AS INT) AS id FROM source."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Names of the columns in order, as a,b: by position.")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="Format of the files, if not the table's.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="Option of Spark's reader, as header=true; repeatable.")
    ] = None,
    merge_schema: Annotated[
        bool | None,
        typer.Option("--merge-schema/--no-merge-schema", help="New columns come in, or are an error."),
    ] = None,
    modified_after: Annotated[str | None, typer.Option(help="Only files modified after this time (UTC).")] = None,
    modified_before: Annotated[str | None, typer.Option(help="Only files modified before this time (UTC).")] = None,
    validate: Annotated[
        int | None, typer.Option("--validate", min=0, help="Write nothing; show so many records as they would be.")
    ] = None,
    lake: LakeOption = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy chosen files into a bronze table, each of them once; what has been copied is left out.

    Example: sluicegate copy-into heart_rate recordings_bronze /mnt/archive --pattern '2024-*.json'
    """
    from sluicegate.jobs import copy_into as of
    from sluicegate.lake.tables import Lake
    from sluicegate.landing.copy_options import CopyOptions
    from sluicegate.run import pipeline as run_pipeline

    settings = Settings.of(lake, landing, pipelines, master)
    definition = load_pipeline(pipeline, settings)
    source = source if "://" in source else str(Path(source).absolute())
    how = CopyOptions(select, of.names(columns), format_, of.options(option or []), merge_schema)
    after, before = (of.moment(text) if text else None for text in (modified_after, modified_before))
    copy = of.Copy(source, tuple(files or ()), pattern, force, after, before, how)
    at = Lake(settings.lake, definition.name)
    found = copy.look(table, of.bronze_table(definition, table), at)
    work = found.new.num_rows or (validate is None and copy.unfinished(table, at))
    facts: dict[str, Any] = dict.fromkeys(of.RESULT, 0)
    if work:
        tell = (lambda _line: None) if as_json else (lambda line: print(line, flush=True))
        extra = copy.arguments(table, validate)
        done = run_pipeline.submit("copy_into", pipeline, settings, {"run_id": "command line"}, tell, extra).tables[0]
        facts = done.as_dict() if validate is not None else of.result(done)
    if as_json:
        show_json(facts)
    elif not work:
        print("nothing to copy: the ledger knows every such file; Spark was not started")
    elif validate is None:
        show_table(list(facts), [list(facts.values())], right=list(facts))


app.command()(reload.reload)
app.command()(reload.reset)
app.command()(reload.replay)
app.command()(streams.streams)
app.command()(maintain.maintain)
app.command()(catalog.catalog)
app.command()(jars.jars)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT in Spark's SQL over pipeline.table or database.table.")],
    lake: LakeOption = None,
    pipelines: PipelinesOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most so many rows.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Ask the tables, as of any version, without a JVM.

    Example: sluicegate sql "SELECT * FROM heart_rate.daily_patient_avg ORDER BY date LIMIT 5"
    """
    from sluicegate.tools.sqlshell import shell

    settings = Settings.of(lake, None, pipelines)
    result = shell.query(query, _readable_definitions(settings), settings)
    if as_json:
        show_json(result.to_pylist())
        return
    shown = result.slice(0, limit).to_pylist()
    show_table(result.column_names, [list(row.values()) for row in shown])
    more = f", the first {limit:,} of them shown" if result.num_rows > limit else ""
    print(f"\n{result.num_rows:,} {'row' if result.num_rows == 1 else 'rows'}{more}")


def _readable_definitions(settings: Settings) -> dict[str, Pipeline]:
    """All pipelines but those with mistakes, of which a line tells: they keep nobody from the tables of others."""
    from sluicegate import definition

    known = {}
    for name in definition.names(settings.pipelines):
        try:
            known[name] = definition.load(name, settings)
        except DefinitionError as error:
            print(f"warning: the tables of {name} are not known here: {error.message}", file=sys.stderr)
    return known


app.command()(new.new)
app.command("import")(import_.import_)
app.command()(simulate.simulate)

if __name__ == "__main__":
    main()
