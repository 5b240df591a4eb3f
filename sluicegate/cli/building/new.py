"""``sluicegate new``: create a pipeline for the user's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluicegate.cli.options import NONE, JsonOption, pass_settings, show_json, show_table
from sluicegate.console import program, quantity, say
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from sluicegate.tools.scaffold.create import NewPipeline
    from sluicegate.tools.scaffold.table import NewTable


@pass_settings("landing", "pipelines")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline and of its folder.")],
    sources: Annotated[
        list[str], typer.Option("--from", help="A file or a folder of CSV, JSON or Parquet, or TABLE=FILE; repeatable.")
    ],
    more: Annotated[list[str], typer.Argument(metavar="[FILE]...", help="More files or folders.")] = NONE,
    land: Annotated[
        bool, typer.Option("--land", help="Copy the files to the landing folder of the new pipeline.")
    ] = False,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Override the guess whether CSV files have a header.")
    ] = None,
    *,
    settings: Settings,
    as_json: JsonOption = False,
) -> None:
    """Create a pipeline for your own files: read their rows, and guess types, keys and a first gold table.

    Example: sluicegate new sales --from orders.csv --land
    """
    from sluicegate.tools.scaffold.create import create

    created = create(name, [*sources, *more], settings, land, header)
    if as_json:
        show_json(created.facts())
    else:
        _show(created)


def _show(created: NewPipeline) -> None:
    for table in created.tables:
        files = quantity(len(table.files), f"{table.samples[0].format} file")
        say(f"{table.name}: {files}, {quantity(table.rows, 'row')} read")
        if table.unread:
            say(f"  types and keys are of these rows only: {table.unread}")
        rows = [
            [column.field, column.name, column.inferred_type.kind.lower(), column.inferred_type.remark]
            for column in table.columns
        ]
        show_table(["  field", "column", "type", "remark"], [[f"  {row[0]}", *row[1:]] for row in rows])
        for text in dict.fromkeys(text for sample in table.samples for text in sample.guessed):
            say(f"  {text} (a guess)")
        _show_guesses(table)
        if table.unusable_fields:
            count = len(table.unusable_fields)
            say(f"  omitted: {count:,} fields with duplicate names or names that SQL cannot express")
    say("", f"wrote {created.folder}: review and correct it")
    if created.landed:
        say(f"landed {quantity(len(created.landed), 'file')}")
    say("next:")
    for command in created.commands(program()):
        say(f"  {command}")


def _show_guesses(table: NewTable) -> None:
    from sluicegate.tools.scaffold.near_misses import sentences

    guess = table.guess
    guesses = {
        "keys": ", ".join(guess.keys) or "none: one row for each record",
        "sequence_by": guess.sequence_by,
        "event_time": guess.event_time,
        "pii": ", ".join(guess.pii),
    }
    for subject, value in guesses.items():
        if value:
            say(f"  {subject}: {value}{'' if subject == 'keys' and not guess.keys else ' (a guess)'}")
    missed = tuple(guess.missed.keys) if guess.missed else ()
    for names, reason in guess.no_keys.items():
        if names != missed:
            say(f"  no keys: {', '.join(names)}: {reason}")
    for sentence in sentences(table, examples=True):
        say(f"  near miss: {sentence}")
