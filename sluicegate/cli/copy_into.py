"""``sluicegate copy-into``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, printer, show_json, show_table, with_settings
from sluicegate.console import say
from sluicegate.settings import Settings


@with_settings("lake", "landing", "pipelines", "master", "target")
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
    dialect: Annotated[
        str | None, typer.Option("--dialect", help="Dialect of CSV files, if not the table's: rfc4180 or spark.")
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
    """Copy chosen files into a bronze table, each of them once; files that were copied before are skipped.

    Example: sluicegate copy-into heart_rate recordings_bronze /mnt/archive --pattern '2024-*.json'
    """
    from sluicegate.jobs import copy_into as of
    from sluicegate.landing import copy as landing_copy

    definition = api.load(pipeline, settings)
    names, reader = landing_copy.names(columns), landing_copy.options(option or [])
    after, before = (landing_copy.moment(text) if text else None for text in (modified_after, modified_before))
    reports = api.copy_into(
        definition, table, source, files=files or (), pattern=pattern, force=force, modified_after=after,
        modified_before=before, select=select, columns=names, format=format_, options=reader,
        dialect=dialect, merge_schema=merge_schema, validate=validate, tell=printer(as_json, quiet=True),
    )  # fmt: skip
    facts: dict[str, Any] = dict.fromkeys(of.RESULT, 0)
    for report in reports:
        facts = of.result(report.tables[0]) if validate is None else report.tables[0].as_dict()
    if as_json:
        show_json(facts)
    elif not reports:
        say("nothing to copy: the ledger knows every such file; Spark was not started")
    elif validate is None:
        show_table(list(facts), [list(facts.values())], right=list(facts))
