"""The command line. Each command shows a table to people and, with ``--json``, the same facts to programs."""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Annotated

import typer

from sluicegate.cli import completion, help
from sluicegate.cli.building import contract, import_, new, simulate, test
from sluicegate.cli.inspecting import alerts, files, history, plan, report, show, sql, status
from sluicegate.cli.repairing import discard, reload, rename, skip
from sluicegate.cli.running import catalog, copy_into, jars, maintain, run, serve, stop, streams
from sluicegate.console import say, warn
from sluicegate.errors import SluicegateError
from sluicegate.storage import store_errors

app = typer.Typer(
    help="Process landed files through bronze, silver and gold Delta tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        import sluicegate

        say(f"sluicegate {sluicegate.__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle the options before a command."""


# Objects that come to be before they are looked through for circles. Python's 700 would look through what modules are
# made of some hundred times while they are imported, and find nothing.
GARBAGE_AFTER = 50_000


def main() -> None:
    """Entry point: errors of ours become a sentence and an exit code, everything else stays a trace."""
    gc.set_threshold(GARBAGE_AFTER)
    if completion.VARIABLE in os.environ:  # a shell asks what may come next
        completion.prepare()
    try:
        with store_errors.translated():
            app()
    except SluicegateError as error:
        if "--json" in sys.argv:
            say(json.dumps({"error": error.as_dict()}, default=str))
        else:
            warn(*error.for_people().split("\n"), f"  more: sluicegate help {error.code}")
        sys.exit(error.exit_code)
    finally:
        if "duckdb" not in sys.modules:  # which counts what is left of it at the end, and complains of each object
            gc.freeze()  # the process ends, and need not be looked through for circles once more before it does


app.command()(run.run)
app.command()(plan.plan)
app.command()(status.status)
app.command()(show.show)
app.command()(alerts.alerts)
app.command("test")(test.run_cases)
app.command()(files.files)
app.command()(files.schema)
app.command()(history.history)
app.command()(report.report)


app.command("copy-into")(copy_into.copy_into)
app.command()(reload.reload)
app.command()(reload.reset)
app.command()(reload.replay)
app.command()(discard.discard)
app.command()(skip.skip)
app.command()(streams.streams)
app.command()(stop.stop)
app.command()(maintain.maintain)
app.command()(rename.rename)
app.command()(catalog.catalog)
app.command()(jars.jars)
app.command()(serve.serve)


app.command()(sql.sql)
app.command()(new.new)
app.command("import")(import_.import_)
app.command()(contract.contract)
app.command()(simulate.simulate)
app.command()(completion.completion)
app.command("help")(help.help_)

if __name__ == "__main__":
    main()
