"""The commands that read files again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, show_json, with_settings
from sluicegate.errors import UserError
from sluicegate.settings import Settings


@with_settings("lake", "landing", "pipelines", "master")
def reload(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    files: Annotated[
        list[str] | None, typer.Option("--files", help="A file below the landing folder; repeatable.")
    ] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Pattern that names below it must match.")] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Read chosen files again; their rows replace those that they gave before, in one commit a chunk.

    Example: sluicegate reload heart_rate recordings_bronze --pattern '2024-05-*.json'
    """
    from sluicegate.definition.pipeline import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.landing import reread

    definition = api.load(pipeline, settings)
    chosen = reread.chosen(files, pattern)
    subject = (table, bronze_table(definition, table), Lake(settings.lake, definition.name))
    found = chosen.look(*subject)
    missing = chosen.missing(*subject)
    if missing:
        gone = f"{len(missing):,} matching files cannot be read again, and their rows stay: {', '.join(missing[:5])}"
        print(gone, file=sys.stderr)
    if not found.new.num_rows:
        show_json({"files": 0}) if as_json else print("no file matches; Spark was not started")
        return
    _read_again("reload", pipeline, settings, chosen.arguments(table), as_json)


@with_settings("lake", "landing", "pipelines", "master")
def reset(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Give up the rows of files that cannot be read again.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Make a bronze table anew, columns and all, from its files, in one commit. It shows what it will do, and asks.

    Example: sluicegate reset heart_rate recordings_bronze
    """
    from sluicegate.definition.pipeline import bronze_table
    from sluicegate.lake.layout import Lake
    from sluicegate.landing import reread

    definition = api.load(pipeline, settings)
    before = reread.preview(table, bronze_table(definition, table), Lake(settings.lake, definition.name))
    for line in before.sentences(drop_missing):
        print(line, file=sys.stderr if as_json else sys.stdout)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("a reset asks first, and there is no terminal", hint="add --yes")
        if not typer.confirm(f"make {table} anew?", err=as_json):
            raise typer.Exit(2)
    _read_again("reset", pipeline, settings, reread.Reset(drop_missing).arguments(table), as_json)


@with_settings("lake", "landing", "pipelines", "master")
def replay(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a silver table.")],
    rule: Annotated[
        list[str] | None, typer.Option("--rule", help="Only records that broke this rule; repeatable.")
    ] = None,
    dropped: Annotated[bool, typer.Option("--dropped", help="Those that rules dropped, too.")] = False,
    everything: Annotated[bool, typer.Option("--everything", help="All records, not just the quarantine's.")] = False,
    validate: Annotated[bool, typer.Option("--validate", help="Write nothing, and tell what would change.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Judge quarantined records again, by today's rules, transform and lookups; gold follows.

    Example: sluicegate replay heart_rate recordings_enriched --rule valid_heartrate
    """
    from sluicegate.flow.selection import Replay
    from sluicegate.jobs import replay as of
    from sluicegate.run import pipeline as run_pipeline
    from sluicegate.run import submit

    definition = api.load(pipeline, settings)
    chosen = Replay(table, tuple(rule or ()), dropped, everything, validate)
    of.demand(definition, chosen)
    tell = (lambda _line: None) if as_json else (lambda line: print(line, flush=True))
    reports = [submit.submit("replay", pipeline, settings, submit.RUN_INFO, tell, chosen.arguments())]
    reports += [] if validate else run_pipeline.follow(definition, settings, tell)
    if as_json:
        show_json([report.as_dict() for report in reports])


def _read_again(action: str, pipeline: str, settings: Settings, extra: Sequence[str], as_json: bool) -> None:
    from sluicegate.run import submit

    tell = (lambda _line: None) if as_json else (lambda line: print(line, flush=True))
    done = submit.submit(action, pipeline, settings, {"run_id": "command line"}, tell, extra).tables[0]
    if as_json:
        show_json(done.as_dict())
