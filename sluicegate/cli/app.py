"""The command line. Each command prints tables for people and, with ``--json``, the same facts for programs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sluicegate.cli import completion, failures
from sluicegate.console import say
from sluicegate.processes import set_own_variable
from sluicegate.storage import store_errors

if TYPE_CHECKING:
    app: typer.Typer

_GROUPS = {
    "Start a project": {
        "init": ("building.init.init", "Start a project: settings, a pipeline with tests, a DAG, CI."),
        "new": ("building.new.new", "Create a pipeline for your own files, from their rows."),
        "import": ("building.import_.import_", "Convert Delta Live Tables source, SQL or Python."),
        "simulate": ("building.simulate.simulate", "Land sample files for a pipeline of this project."),
        "doctor": ("inspecting.doctor.doctor", "Check Python, Java, Spark, jars and folders."),
        "settings": ("inspecting.settings.settings", "Show each setting, and where its value is from."),
        "jars": ("running.jars.jars", "Download the pinned jars, and verify their checksums."),
    },
    "Check and run": {
        "plan": ("inspecting.plan.plan", "Check the definition, and show what a run would do."),
        "test": ("building.test.run_cases", "Run the cases in the pipeline's folder tests/."),
        "run": ("running.run.run", "Process new files through bronze, silver and gold."),
        "stop": ("running.stop.stop", "End the Spark that the last run left ready."),
    },
    "Look": {
        "status": ("inspecting.status.status", "Show rows, version, freshness and quarantine of each table."),
        "show": ("inspecting.show.show", "Show pipelines, tables, runs and quarantined rows as a page."),
        "sql": ("inspecting.sql.sql", "Query the tables, as of any version, without a JVM."),
        "files": ("inspecting.files.files", "Show the ledger: each landed file with its batch."),
        "schema": ("inspecting.files.schema", "Show how the columns of a bronze table changed."),
        "history": ("inspecting.history.history", "Show the event log: the rows of each commit."),
        "report": ("inspecting.report.report", "Write pages of a pipeline and one of its runs to a file."),
        "alerts": ("inspecting.alerts.alerts", "Check the limits of freshness, volume, backlog and rules."),
    },
    "Repair": {
        "replay": ("repairing.reload.replay", "Re-evaluate quarantined records by today's rules."),
        "discard": ("repairing.discard.discard", "Discard quarantined records with a note, or undo discards."),
        "copy-into": ("running.copy_into.copy_into", "Copy chosen files into a bronze table, each one once."),
        "reload": ("repairing.reload.reload", "Re-read chosen files; their rows replace the former rows."),
        "reset": ("repairing.reload.reset", "Rebuild a bronze table from its files."),
        "skip": ("repairing.skip.skip", "Enter files that another pipeline has read into the ledger."),
        "rename": ("repairing.rename.rename", "Rename a pipeline and its tables."),
    },
    "Operate": {
        "maintain": ("running.maintain.maintain", "Compact small files (OPTIMIZE), and delete old ones (VACUUM)."),
        "streams": ("running.streams.streams", "List the continuous runs, or stop them."),
        "catalog": ("running.catalog.catalog", "Register all tables of a pipeline in the catalog again."),
        "contract": ("building.contract.contract", "Export a pipeline's data contract, or begin with one."),
        "serve": ("running.serve.serve", "Run a Spark Connect server with the settings of the jobs."),
    },
    "Help": {
        "help": ("help.help_", "Explain an error code, or show the help of a command."),
        "completion": ("completion.completion", "Print the script that completes commands in a shell."),
    },
}
"""Commands in the order of a day's work: function below this package, and the line in the list of all."""

_COMMANDS = {name: command for commands in _GROUPS.values() for name, command in commands.items()}

# Objects that come to be before they are looked through for circles. Python's 700 would look through what modules are
# made of some hundred times while they are imported, and find nothing.
GARBAGE_AFTER = 200_000


def __getattr__(name: str) -> Any:
    """Make the command line with all commands on first use (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["app"] = command_line(_COMMANDS)
    return globals()["app"]


class _Groups(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one whole line for each command, below the heading of its group."""
        width = max(map(len, _COMMANDS))
        for heading, commands in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])


def command_line(names: Iterable[str]) -> typer.Typer:
    """Make the command line with some of the commands. Only their modules are imported."""
    application = typer.Typer(
        help="Process landed files through bronze, silver and gold Delta tables.", cls=_Groups, no_args_is_help=True,
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    application.callback(help=application.info.help)(common)
    for name in names:
        application.command(name, short_help=_COMMANDS[name][1])(_function(name))
    return application


def _function(name: str) -> Any:
    module, _, function = _COMMANDS[name][0].rpartition(".")
    return getattr(import_module(f"sluicegate.cli.{module}"), function)


def import_command() -> None:
    """Import the modules of the command that the arguments begin with; what fails is printed as one message."""
    gc.set_threshold(GARBAGE_AFTER)
    set_own_variable("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to find any, it reads the metadata of all distributions
    try:
        for name in _needed_commands():
            _function(name)
    except Exception as error:
        failures.end_with(error)


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
    import_command()
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
