"""What the commands share: options for paths and Spark, confirmation, and output as tables or JSON."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sluicegate import api
from sluicegate.cli import narrow
from sluicegate.console import ignore_line, say, warn
from sluicegate.errors import UserError
from sluicegate.escapes import escape_text
from sluicegate.lake.exclusion import target_owner
from sluicegate.lake.layout import Lake
from sluicegate.settings import SERVER, Settings, resolve_settings
from sluicegate.storage import aws
from sluicegate.storage.store_errors import translate_errors

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline

Place = Literal["lake", "landing", "pipelines", "master", "target"]
"""A field of ``Settings`` that a command line can say."""


def _pipelines(begun: str) -> list[str]:
    """Return the pipeline names with a prefix, for shell completion."""
    from sluicegate import definition

    return [name for name in definition.names(Settings.of().pipelines) if name.startswith(begun)]


PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Name of the pipeline's folder.", autocompletion=_pipelines)
]
NONE: list[str] = []
"""Default of arguments and options that may be repeated; never changed."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
WATCHED_EVERY = 2.0
"""Seconds after which what is watched is shown once more."""

PLACES: dict[Place, Any] = {
    "lake": typer.Option("--lake", help="Root of the tables, path or URI. [env: SLUICEGATE_LAKE; default: ./lake]"),
    "landing": typer.Option(
        "--landing", help="Folder that files land in. [env: SLUICEGATE_LANDING; default: ./landing]"
    ),
    "pipelines": typer.Option(
        "--pipelines", help="Folder of definitions. [env: SLUICEGATE_PIPELINES; default: ./pipelines]"
    ),
    "master": typer.Option("--master", help="Spark master. [env: SLUICEGATE_MASTER; default: local[*]]"),
    "target": typer.Option(
        "--target", help="Target of the pipeline, if it has targets. [env: SLUICEGATE_TARGET; default: none]"
    ),
}
REMOTE = typer.Option(
    "--remote",
    metavar="URL",
    help="Spark Connect server to use instead of a master: sc://HOST:PORT. [env: SPARK_REMOTE]",
)


def pass_settings(*places: Place) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the path options to a command, and pass it the resolved ``Settings``.

    The help lists the options in the place of the parameter ``settings``, in the given order. A path without an option
    comes from the environment or the project's file. A command with ``--master`` also has ``--remote``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run_with_settings(**values: Any) -> None:
            values_of_places: dict[str, str | None] = {place: values.pop(place) for place in places}
            if "master" in places:
                values_of_places["master"] = _master(values_of_places["master"], values.pop("remote"))
            resolved = resolve_settings(values_of_places)
            resolved.export()
            command(settings=Settings.from_resolved(values_of_places, resolved), **values)

        # Typer reads types from the signature, and could not resolve their names in this module.
        parameters = _expand_parameters(inspect.signature(command, eval_str=True).parameters, places)
        run_with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run_with_settings.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {
            "return": None
        }
        return run_with_settings

    return decorate


def _expand_parameters(parameters: Mapping[str, inspect.Parameter], places: Sequence[Place]) -> list[inspect.Parameter]:
    """Return the parameters of a command, with the path options in place of ``settings``."""
    options = [
        inspect.Parameter(
            place, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, PLACES[place]]
        )
        for place in places
    ]
    if "master" in places:
        remote = Annotated[str | None, REMOTE]
        options.append(inspect.Parameter("remote", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=remote))
    return [
        expanded
        for name, parameter in parameters.items()
        for expanded in (options if name == "settings" else [parameter])
    ]


def _master(master: str | None, remote: str | None) -> str | None:
    """Return the Spark master or the server address of a command line.

    Raises:
        UserError: both are set, or ``--remote`` is not the address of a server.
    """
    if remote is None:
        return master
    if master is not None:
        raise UserError("--master and --remote exclude each other", hint="set one of them")
    if not remote.startswith(SERVER):
        raise UserError(
            f"{remote} is not the address of a Spark Connect server",
            hint=f"it starts with {SERVER}, for example {SERVER}localhost:15002",
        )
    return remote


@aws.brief_requests()
@translate_errors()
def load_definition(name: str, settings: Settings) -> Pipeline:
    """Load a definition to read its tables; warn on stderr if they belong to another target.

    Raises:
        SluicegateError: see ``api.load``.
    """
    definition = api.load(name, settings)
    warn_of_owner(definition)
    return definition


@aws.brief_requests()
@translate_errors()
def warn_of_owner(definition: Pipeline) -> None:
    """Warn on stderr if the tables of a pipeline are those of another target."""
    in_use = definition.settings
    if warning := target_owner.warning(Lake(in_use.lake, definition.name), in_use.target, definition.targets):
        warn(f"warning: {warning}")


def printer(as_json: bool, *, quiet: bool = False) -> Callable[[str], None]:
    """Return the function that prints a job's output: to stderr if stdout is for JSON, or nowhere if ``quiet``, too."""
    if as_json and quiet:
        return ignore_line
    if as_json:
        return warn
    return say


def show_preview(lines: Iterable[str], *, as_json: bool, dry_run: bool) -> None:
    """Print a preview: on stderr if stdout has JSON, and not at all in a dry run, whose JSON contains it."""
    if not as_json:
        say(*lines)
    elif not dry_run:
        warn(*lines)


def ask(question: str, command: str, *, on_stderr: bool) -> None:
    """Ask for confirmation on the terminal; exit with code 2 unless the answer is yes.

    Args:
        question: the question to confirm.
        command: name of the action, for the error.
        on_stderr: whether to ask on stderr, because stdout is for JSON.

    Raises:
        UserError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UserError(f"{command} asks for confirmation, which requires a terminal", hint="add --yes")
    if not typer.confirm(question, err=on_stderr):
        raise typer.Exit(2)


def show_json(facts: Any) -> None:
    text = json.dumps(
        facts, default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value), indent=2
    )
    say(*text.split("\n"))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Print rows under headings; columns named in ``right`` are numbers.

    On a terminal that is too narrow, columns of zeros are named below the table; if that does not do, rows are printed
    one below the other.
    """
    cells = [list(map(escape_text, columns)), *(list(map(_text, row)) for row in rows)]
    table: list[Sequence[str]] = list(zip(*cells, strict=True))
    if not sys.stdout.isatty():
        _print_table(table, [None] * len(table), right, 200)
        return
    width = shutil.get_terminal_size().columns
    empty: list[Sequence[str]] = []
    if narrow.fit_widths(table, width) is None:
        filled, empty = narrow.split_empty(table, right)
        table = filled or empty
    widths = narrow.fit_widths(table, width)
    if widths is None:
        say(*narrow.records(table))
    else:
        _print_table(table, widths, right, width)
    if empty and table is not empty:
        say("", f"nothing or 0 in: {', '.join(column[0] for column in empty)}")


def _print_table(
    columns: Sequence[Sequence[str]], widths: Sequence[int | None], right: Sequence[str], width: int
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for (heading, *_), least in zip(columns, widths, strict=True):
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold", width=least)
    for row in list(zip(*columns, strict=True))[1:]:
        table.add_row(*row)
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def repeat_display(show: Callable[[], None], seconds: float = WATCHED_EVERY) -> None:
    """Repeat a display until Ctrl-C; on a terminal each one replaces the last.

    Args:
        show: prints the display once.
        seconds: pause between two displays.
    """
    with suppress(KeyboardInterrupt):
        while True:
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[2J")
            show()
            say("", f"{datetime.now(UTC):%H:%M:%S} UTC, Ctrl-C ends it")
            time.sleep(seconds)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape_text(str(value))
