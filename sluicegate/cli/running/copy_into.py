"""``sluicegate copy-into``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, pass_settings, printer, show_json, show_table
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "master", "target")
def copy_into(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    source: Annotated[str, typer.Argument(help="Folder or file to copy, path or URI.")],
    files: Annotated[list[str], typer.Option("--files", help="A file below the folder; repeatable.")] = NONE,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Pattern that names below it must match.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Copy files again that are already in the ledger.")] = False,
    select: Annotated[
        str | None,
        typer.Option(
            "--select", help="SELECT over the files' fields, for example SELECT CAST(a AS INT) AS id FROM source."
        ),
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="Column names by position, for example a,b.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Format of the files; the table's format by default.")
    ] = None,
    option: Annotated[
        list[str], typer.Option("--option", help="Option of Spark's reader, for example header=true; repeatable.")
    ] = NONE,
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", help="Dialect of CSV files: rfc4180 or spark; the table's dialect by default."),
    ] = None,
    merge_schema: Annotated[
        bool | None, typer.Option("--merge-schema/--no-merge-schema", help="Add new columns, or reject them.")
    ] = None,
    modified_after: Annotated[str | None, typer.Option(help="Only files modified after this time (UTC).")] = None,
    modified_before: Annotated[str | None, typer.Option(help="Only files modified before this time (UTC).")] = None,
    validate: Annotated[
        int | None,
        typer.Option("--validate", min=0, help="Write nothing; show this many records as they would be stored."),
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Copy chosen files into a bronze table, each one once; files that were copied before are skipped.

    Example: sluicegate copy-into heart_rate recordings_bronze /mnt/archive --pattern '2024-*.json'
    """
    from sluicegate.jobs import copy_into as of
    from sluicegate.landing.chosen import copy as landing_copy

    definition = api.load(pipeline, settings)
    names, reader = landing_copy.parse_names(columns), landing_copy.parse_options(option)
    after, before = (landing_copy.parse_moment(text) if text else None for text in (modified_after, modified_before))
    reports = api.copy_into(
        definition, table, source, files=files, pattern=pattern, force=force, modified_after=after,
        modified_before=before, select=select, columns=names, format=format_, options=reader,
        dialect=dialect, merge_schema=merge_schema, validate=validate, tell=printer(as_json, quiet=True),
    )  # fmt: skip
    facts: dict[str, Any] = dict.fromkeys(of.RESULT, 0)
    for report in reports:
        if validate is None:
            facts = of.result(report.tables[0])
        else:
            facts = report.tables[0].as_dict()
    if as_json:
        show_json(facts)
    elif not reports:
        say("nothing to copy: all matching files are in the ledger; Spark was not started")
    elif validate is None:
        show_table(list(facts), [list(facts.values())], right=list(facts))
