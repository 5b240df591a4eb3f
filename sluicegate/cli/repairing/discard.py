"""``sluicegate discard``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate import api
from sluicegate.cli.options import NONE, JsonOption, PipelineName, ask, pass_settings, printer, show_json, show_preview
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.launch.discard import Chosen


@pass_settings("lake", "pipelines", "target")
def discard(
    pipeline: PipelineName,
    table: Annotated[str, typer.Argument(help="Name of a silver table.")],
    rule: Annotated[list[str], typer.Option("--rule", help="Only records that broke this rule; repeatable.")] = NONE,
    note: Annotated[
        str | None,
        typer.Option("--note", help="Reason, at most 500 characters. It is stored, so do not write personal data."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo discards: return their records to quarantine.")] = False,
    only: Annotated[str | None, typer.Option("--id", help="With --undo: only this discard, by its id.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without writing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Discard quarantined records with a note, or undo discards. Asks for confirmation.

    A discarded record stays in quarantine, but no longer counts as waiting, and a replay skips it. Spark is not
    started.

    Example: sluicegate discard heart_rate recordings_enriched --rule valid_heartrate --note "sensor test of 2 March"
    """
    confirmed: list[Chosen] = []

    def confirm(chosen: Chosen) -> bool:
        confirmed.append(chosen)
        show_preview(chosen.sentences(), as_json=as_json, dry_run=dry_run)
        if dry_run or not (chosen.records or chosen.discards):
            return False
        if not yes:
            ask("undo these discards?" if undo else "discard these records?", "a discard", on_stderr=as_json)
        return True

    definition = api.load(pipeline, settings)
    written = api.discard(
        definition, table, note=note or "", rules=rule, undo=undo, only=only or "", confirm=confirm,
        tell=printer(as_json, quiet=True),
    )  # fmt: skip
    if as_json:
        show_json(confirmed[0].facts() | {"written": written})
