"""``sluicegate reload``, ``reset`` and ``replay``: re-read files, and re-evaluate records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, pass_settings, printer, show_json, show_preview
from sluicegate.console import say, warn
from sluicegate.errors import UserError
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.api.chosen import ReloadPreview
    from sluicegate.landing.chosen.reread import ResetPreview


@pass_settings("lake", "landing", "pipelines", "master", "target")
def reload(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    files: Annotated[list[str], typer.Option("--files", help="A file below the landing folder; repeatable.")] = NONE,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Pattern that names below it must match.")] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Read files of the archive that are not in the ledger.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Re-read chosen files; their rows replace the former rows of these files, in one commit for each ledger batch.

    Example: sluicegate reload heart_rate recordings_bronze --pattern '2024-05-*.json'
    """

    def confirm(preview: ReloadPreview) -> bool:
        warn(*preview.sentences())
        return True

    definition = api.load(pipeline, settings)
    tell = printer(as_json, quiet=True)
    reports = api.reload(definition, table, files=files, pattern=pattern, archived=archived, confirm=confirm, tell=tell)
    if not reports:
        show_json({"files": 0}) if as_json else say("no file matches; Spark was not started")
    elif as_json:
        show_json(reports[0].tables[0].as_dict())


@pass_settings("lake", "landing", "pipelines", "master", "target")
def reset(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a bronze table.")],
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Delete the rows of files that cannot be read again.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Rebuild a bronze table with its columns from its files, in one commit. It asks for confirmation.

    Example: sluicegate reset heart_rate recordings_bronze
    """

    def confirm(preview: ResetPreview) -> bool:
        show_preview(preview.sentences(drop_missing), as_json=as_json, dry_run=False)
        if not yes and not sys.stdin.isatty():
            raise UserError("a reset asks for confirmation, which requires a terminal", hint="add --yes")
        return yes or typer.confirm(f"rebuild {table}?", err=as_json)

    definition = api.load(pipeline, settings)
    tell = printer(as_json, quiet=True)
    reports = api.reset(definition, table, drop_missing=drop_missing, confirm=confirm, tell=tell)
    if not reports:
        raise typer.Exit(2)
    if as_json:
        show_json(reports[0].tables[0].as_dict())


@pass_settings("lake", "landing", "pipelines", "master", "target")
def replay(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a silver table.")],
    rule: Annotated[list[str], typer.Option("--rule", help="Only records that broke this rule; repeatable.")] = NONE,
    dropped: Annotated[bool, typer.Option("--dropped", help="Also records that rules dropped.")] = False,
    everything: Annotated[
        bool, typer.Option("--everything", help="All records, not only those in quarantine.")
    ] = False,
    validate: Annotated[bool, typer.Option("--validate", help="Show what would change, without writing.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Re-evaluate quarantined records by today's rules, transform and lookups, and update gold.

    Example: sluicegate replay heart_rate recordings_enriched --rule valid_heartrate
    """
    reports = api.replay(
        api.load(pipeline, settings), table, rules=rule, dropped=dropped, everything=everything,
        validate=validate, tell=printer(as_json, quiet=True),
    )  # fmt: skip
    if as_json:
        show_json([report.as_dict() for report in reports])
