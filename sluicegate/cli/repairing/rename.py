"""``sluicegate rename``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sluicegate.cli.options import JsonOption, pass_settings, show_json
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "target")
def rename(
    pipeline: Annotated[str, typer.Argument(metavar="OLD", help="Name of the pipeline.")],
    name: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Rename only the tables, where the definition is deployed separately.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Rename a pipeline: its definition and its tables, with ledger, offsets and history. Nothing is read again.

    If it is interrupted, the same command completes it. Until then no run starts under either name.

    Example: sluicegate rename heart_rate heartbeats
    """
    from sluicegate.maintenance import rename as of

    renamed = of.rename(pipeline, name, settings, tables_only=tables_only)
    if as_json:
        show_json({"former": pipeline, "name": name, **asdict(renamed)})
        return
    moved = [noun for noun, yes in (("tables", renamed.lake), ("definition", renamed.definition)) if yes]
    say(f"renamed {pipeline} to {name}: {' and '.join(moved) or 'nothing was left to rename'}")
    for remark in renamed.remarks:
        say(f"  {remark}")
