"""The command line. Each command prints tables for people and, with ``--json``, the same facts for programs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.cli import completion, failures
from sluicegate.console import say
from sluicegate.processes import set_own_variable
from sluicegate.storage import store_errors

if TYPE_CHECKING:
    app: typer.Typer

_COMMANDS = {
    "run": "running.run.run",
    "plan": "inspecting.plan.plan",
    "status": "inspecting.status.status",
    "show": "inspecting.show.show",
    "alerts": "inspecting.alerts.alerts",
    "settings": "inspecting.settings.settings",
    "test": "building.test.run_cases",
    "files": "inspecting.files.files",
    "schema": "inspecting.files.schema",
    "history": "inspecting.history.history",
    "report": "inspecting.report.report",
    "copy-into": "running.copy_into.copy_into",
    "reload": "repairing.reload.reload",
    "reset": "repairing.reload.reset",
    "replay": "repairing.reload.replay",
    "discard": "repairing.discard.discard",
    "skip": "repairing.skip.skip",
    "streams": "running.streams.streams",
    "stop": "running.stop.stop",
    "maintain": "running.maintain.maintain",
    "rename": "repairing.rename.rename",
    "catalog": "running.catalog.catalog",
    "jars": "running.jars.jars",
    "serve": "running.serve.serve",
    "sql": "inspecting.sql.sql",
    "doctor": "inspecting.doctor.doctor",
    "init": "building.init.init",
    "new": "building.new.new",
    "import": "building.import_.import_",
    "contract": "building.contract.contract",
    "simulate": "building.simulate.simulate",
    "completion": "completion.completion",
    "help": "help.help_",
}
"""Function of each command, below this package, in the order of the help."""

# Objects that come to be before they are looked through for circles. Python's 700 would look through what modules are
# made of some hundred times while they are imported, and find nothing.
GARBAGE_AFTER = 200_000


def __getattr__(name: str) -> Any:
    """Make the command line with all commands on first use (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = command_line(_COMMANDS)
    return globals()["app"]


def command_line(names: Iterable[str]) -> typer.Typer:
    """Make the command line with some of the commands. Only their modules are imported."""
    application = typer.Typer(
        help="Process landed files through bronze, silver and gold Delta tables.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback(help=application.info.help)(common)
    for name in names:
        application.command(name)(_function(name))
    return application


def _function(name: str) -> Any:
    module, _, function = _COMMANDS[name].rpartition(".")
    return getattr(import_module(f"sluicegate.cli.{module}"), function)


def import_command() -> None:
    """Import the modules of the command that the arguments begin with."""
    for name in _needed_commands():
        _function(name)


def _version(requested: bool) -> None:
    if requested:
        import sluicegate

        say(f"sluicegate {sluicegate.__version__}")
        raise typer.Exit


def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options before a command."""


def main() -> None:
    """Run a command, and end with its exit code; whatever fails is printed as one message (see ``failures``)."""
    gc.set_threshold(GARBAGE_AFTER)
    set_own_variable("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to find any, it reads the metadata of all distributions
    if completion.VARIABLE in os.environ:  # a shell asks what may come next
        completion.prepare()
    try:
        _run_command()
    except Exception as error:
        failures.end_with(error)
    finally:
        if "duckdb" not in sys.modules:  # which counts what is left of it at the end, and complains of each object
            gc.freeze()  # the process ends, and need not be looked through for circles once more before it does


@store_errors.translate_errors()
def _run_command() -> None:
    try:
        command_line(_needed_commands())()
    finally:
        sys.stdout.flush()  # a full disk is told of here, not by Python at its end


def _needed_commands() -> Iterable[str]:
    """Return the command that the arguments begin with; all where help, completion or a hint may name others."""
    begins_with = sys.argv[1:2]
    if completion.VARIABLE in os.environ or begins_with == ["help"] or not _COMMANDS.keys() & set(begins_with):
        return _COMMANDS
    return begins_with


if __name__ == "__main__":
    main()
