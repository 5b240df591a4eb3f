"""What the commands have in common: the options that stand everywhere, and JSON for programs."""

from __future__ import annotations

import json
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
