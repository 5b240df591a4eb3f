"""What the commands have in common: the options that stand everywhere, and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of the pipeline's folder.")]
LakeOption = Annotated[
    str | None, typer.Option("--lake", help="Root of the tables, path or URI. [env: SLUICEGATE_LAKE; default: ./lake]")
]
LandingOption = Annotated[
    str | None,
    typer.Option("--landing", help="Folder that files land in. [env: SLUICEGATE_LANDING; default: ./landing]"),
]
PipelinesOption = Annotated[
    str | None,
    typer.Option("--pipelines", help="Folder of definitions. [env: SLUICEGATE_PIPELINES; default: ./pipelines]"),
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master. [env: SLUICEGATE_MASTER; default: local[*]]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def load_pipeline(name: str, settings: Settings) -> Pipeline:
    """The definition that a command speaks of."""
    from sluicegate.definition import load

    return load(name, settings)


def show_json(facts: Any) -> None:
    """Prints facts for programs."""
    print(
        json.dumps(
            facts, default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value), indent=2
        )
    )


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Prints rows under headings; columns named in ``right`` are numbers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*[_text(value) for value in row])
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
