"""``sluicegate copy-into``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, show_json, show_table, with_settings
from sluicegate.settings import Settings


@with_settings("lake", "landing", "pipelines", "master")
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
        bool | None, typer.Option("--merge-schema/--no-merge-schema", help="New columns come in, or are an error.")
    ] = None,
    modified_after: Annotated[str | None, typer.Option(help="Only files modified after this time (UTC).")] = None,
    modified_before: Annotated[str | None, typer.Option(help="Only files modified before this time (UTC).")] = None,
    validate: Annotated[
        int | None, typer.Option("--validate", min=0, help="Write nothing; show so many records as they would be.")
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Copy chosen files into a bronze table, each of them once; what has been copied is left out.

    Example: sluicegate copy-into heart_rate recordings_bronze /mnt/archive --pattern '2024-*.json'
    """
    from sluicegate.definition import pipeline as definition_pipeline
    from sluicegate.jobs import copy_into as of
    from sluicegate.lake.layout import Lake
    from sluicegate.landing import copy as landing_copy
    from sluicegate.landing.copy_options import CopyOptions
    from sluicegate.run import submit

    definition = api.load(pipeline, settings)
    source = source if "://" in source else str(Path(source).absolute())
    how = CopyOptions(select, landing_copy.names(columns), format_, landing_copy.options(option or []), merge_schema)
    after, before = (landing_copy.moment(text) if text else None for text in (modified_after, modified_before))
    copy = landing_copy.Copy(source, tuple(files or ()), pattern, force, after, before, how)
    at = Lake(settings.lake, definition.name)
    found = copy.look(table, definition_pipeline.bronze_table(definition, table), at)
    work = found.new.num_rows or (validate is None and copy.unfinished(table, at))
    facts: dict[str, Any] = dict.fromkeys(of.RESULT, 0)
    if work:
        tell = (lambda _line: None) if as_json else (lambda line: print(line, flush=True))
        extra = copy.arguments(table, validate)
        done = submit.submit("copy_into", pipeline, settings, {"run_id": "command line"}, tell, extra).tables[0]
        facts = done.as_dict() if validate is not None else of.result(done)
    if as_json:
        show_json(facts)
    elif not work:
        print("nothing to copy: the ledger knows every such file; Spark was not started")
    elif validate is None:
        show_table(list(facts), [list(facts.values())], right=list(facts))
