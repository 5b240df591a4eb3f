"""``sluicegate import``: a source of Delta Live Tables becomes a definition, as far as that goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluicegate.cli_options import JsonOption, LandingOption, PipelinesOption, show_json
from sluicegate.settings import Settings


def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A .sql or .py file that declares tables.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the pipeline; that of the file if not given.")
    ] = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a definition of a source of Delta Live Tables, SQL or Python, and say what of it is left.

    Example: sluicegate import flights.sql --name flights
    """
    from sluicegate.imports.pipeline import create

    made = create(source, name, Settings.of(None, landing, pipelines))
    if as_json:
        show_json(made.facts())
        if made.error:
            raise typer.Exit(made.error.exit_code)
        return
    print(f"wrote {made.folder}")
    for layer in ("bronze", "silver", "gold"):
        if tables := getattr(made.made, layer):
            print(f"  {layer}: {', '.join(tables)}")
    print(f"left of {source.name}, by its lines:" if made.left else f"all of {source.name} was taken over")
    for one in made.left:
        print(f"  {one}")
    if made.error:
        raise made.error
    print(f"the definition is right\nnext:\n  sluicegate plan {made.name}")
