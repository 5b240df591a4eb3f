"""``sluicegate import``: convert Delta Live Tables source to a definition, as far as possible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.cli.options import NONE, JsonOption, pass_settings, show_json
from sluicegate.console import program, say
from sluicegate.errors import UserError
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.tools.migrate.create import Imported

PARTIAL = 3
"""Exit code of an import that left something out."""


@pass_settings("landing", "pipelines")
def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A .sql or .py file that declares tables.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the pipeline; the name of the file by default.")
    ] = None,
    values: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a setting that the source reads: spark.conf, a widget, ${NAME} in SQL; repeatable.",
        ),
    ] = NONE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if any part of the source was not imported, even a property.")
    ] = False,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Create a definition from Delta Live Tables source, SQL or Python, and list what was not imported.

    The exit code is 2 if the definition is invalid, 3 if a table, a rule or anything else that changes the meaning was
    not imported, and 4 if no table was: then nothing is written.

    Example: sluicegate import flights.sql --name flights
    """
    from sluicegate.tools.migrate.create import create

    imported = create(source, name, settings, _parse_values(values))
    if as_json:
        show_json(imported.facts())
        _exit(imported, strict)
        return
    _show(imported, source.name)
    _exit(imported, strict)


def _parse_values(values: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--set NAME=VALUE`` by name."""
    pairs = [value.partition("=") for value in values]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UserError(f"--set {name} has no value", hint="use --set NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _show(imported: Imported, source: str) -> None:
    """Print the tables of the new definition, and what was not imported.

    Raises:
        DefinitionError: the new definition is invalid.
    """
    from sluicegate.tools.migrate.create import by_effect

    say(f"wrote {imported.folder}")
    for layer in ("bronze", "silver", "gold"):
        if tables := getattr(imported.draft, layer):
            say(f"  {layer}: {', '.join(tables)}")
    if imported.draft.missing:
        say("not imported:")
        for table, line in imported.draft.missing.items():
            say(f"  line {line}: {table}")
    for effect, remarks in by_effect(imported.remarks).items():
        say(f"not imported from {source}, {effect}:")
        for remark in remarks:
            say(f"  {remark}")
    say(imported.summary())
    if imported.error:
        raise imported.error
    if imported.is_complete:
        say("pipeline.yaml is valid")
    say("next:", f"  {program()} plan {imported.name}")


def _exit(imported: Imported, strict: bool) -> None:
    """Exit with the code of the definition's error, or with ``PARTIAL`` if something was not imported."""
    if imported.error:
        raise typer.Exit(imported.error.exit_code)
    if not imported.is_complete or (strict and imported.remarks):
        raise typer.Exit(PARTIAL)
