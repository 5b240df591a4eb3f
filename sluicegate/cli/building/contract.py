"""``sluicegate contract``: data contracts of ODCS out of a definition, and into one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluicegate import api
from sluicegate.cli.building.import_ import PARTIAL
from sluicegate.cli.options import JsonOption, show_json, with_settings
from sluicegate.console import program, say, warn
from sluicegate.errors import UserError
from sluicegate.settings import Settings


@with_settings("lake", "landing", "pipelines", "target")
def contract(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="export or import.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The pipeline to export, or the file to import.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Import: name of the pipeline; the contract's name by default.")
    ] = None,
    version: Annotated[str, typer.Option("--version", help="Export: version of the contract.")] = "1.0.0",
    table: Annotated[list[str] | None, typer.Option("--table", help="Export: only this table; repeatable.")] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Export a pipeline's data contract (ODCS 3.1), or generate a definition from one.

    An import lists what it did not import, and then exits with 3.

    Example: sluicegate contract export heart_rate --version 1.2.0
    """
    if action == "export":
        _export(subject, settings, version, table or [], as_json)
    elif action == "import":
        _import(Path(subject), settings, name, as_json)
    else:
        raise UserError(f"{action} is not an action on contracts", hint="use export or import")


def _export(pipeline: str, settings: Settings, version: str, only: list[str], as_json: bool) -> None:
    import yaml

    from sluicegate.tools.contract.export import contract as of

    document = of(api.load(pipeline, settings), version, only)
    for schema in document["schema"]:
        if "properties" not in schema:
            sentence = f"the types of the columns of {schema['name']} are not known before its first run"
            warn(f"warning: {sentence}, so the contract has none of them")
    if as_json:
        show_json(document)
    else:
        sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def _import(file: Path, settings: Settings, name: str | None, as_json: bool) -> None:
    from sluicegate.tools.contract.create import create

    imported = create(file, name, settings)
    if as_json:
        show_json(imported.facts())
    else:
        say(f"wrote {imported.folder}, with {', '.join(imported.tables)}")
        for remark in imported.remarks:
            say(f"  left: {remark}")
        say("next:", f"  {program()} plan {imported.name}")
    if imported.remarks:
        raise typer.Exit(PARTIAL)
