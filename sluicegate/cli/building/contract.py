"""``sluicegate contract``: export a definition as an ODCS data contract, and import one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluicegate import api
from sluicegate.cli.building.import_ import PARTIAL
from sluicegate.cli.options import NONE, JsonOption, pass_settings, show_json
from sluicegate.console import program, say, warn
from sluicegate.errors import UserError
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "target")
def contract(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="export or import.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The pipeline to export, or the file to import.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Import: name of the pipeline; the contract's name by default.")
    ] = None,
    version: Annotated[str, typer.Option("--version", help="Export: version of the contract.")] = "1.0.0",
    table: Annotated[list[str], typer.Option("--table", help="Export: only this table; repeatable.")] = NONE,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Export a pipeline's data contract (ODCS 3.1), or generate a definition from one.

    An import exits with code 3 if it lists anything as not imported.

    Example: sluicegate contract export heart_rate --version 1.2.0
    """
    if action == "export":
        _export(subject, settings, version, table, as_json)
    elif action == "import":
        _import(Path(subject), settings, name, as_json)
    else:
        raise UserError(f"invalid action {action}", hint="use export or import")


def _export(pipeline: str, settings: Settings, version: str, only: list[str], as_json: bool) -> None:
    import yaml

    from sluicegate.tools.contract.export import contract as of

    document = of(api.load(pipeline, settings), version, only)
    for schema in document["schema"]:
        if "properties" not in schema:
            sentence = f"the column types of {schema['name']} are unknown until its first run"
            warn(f"warning: {sentence}, so the contract omits its columns")
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
            say(f"  not imported: {remark}")
        say("next:", f"  {program()} plan {imported.name}")
    if imported.remarks:
        raise typer.Exit(PARTIAL)
