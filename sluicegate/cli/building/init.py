"""``sluicegate init``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from sluicegate.cli.options import JsonOption, show_json
from sluicegate.console import program, say


def init(
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="Folder of the project.", show_default=False)] = ".",
    sources: Annotated[
        list[str] | None,
        typer.Option("--from", help="A file or a folder for its pipeline, as in `sluicegate new`; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--pipeline", help="Name of its pipeline; by default the folder's, or sales.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a project: settings, a pipeline with tests, a DAG file, a CI workflow. Existing files stay as they are.

    Without --from, the pipeline is a small sample.

    Example: sluicegate init shop --from orders.csv
    """
    from sluicegate.tools.project.new_project import create_project

    created = create_project(Path(folder), sources or (), name)
    if as_json:
        show_json(created.facts())
        return
    for file in created.written:
        say(f"wrote {file}")
    for file in created.existing:
        say(f"left {file} as it was")
    say("", "next:")
    if created.folder != Path.cwd():
        say(f"  cd {shlex.quote(folder)}")
    for command in created.commands(program(created.folder)):
        say(f"  {command}")
